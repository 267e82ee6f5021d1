#pragma once
// Where the numbers of a simulation come from, as text: for `simulate --explain` and `--dry-run`.

#include <string>

#include "sim/engine/scenario.hpp"

namespace rehearse {

/// Every machine, link, model count and calibrated value with its source.
std::string explain(const Scenario& scenario);

/// What a run would take: GPU memory, messages, simulated events, and an estimate of the run's own duration.
std::string describe_dry_run(const Scenario& scenario);

/// Real time that a simulation of this scenario takes, roughly.
Seconds expected_duration(const Scenario& scenario);

}  // namespace rehearse
