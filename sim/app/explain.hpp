#pragma once
// Where the numbers of a simulation come from, as text: for `simulate --explain` and `--dry-run`.

#include <string>

#include "sim/app/estimate.hpp"
#include "sim/base/json.hpp"
#include "sim/job/simulate.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Every machine, link, model count, the strategy and calibrated value with its source.
std::string explain(const Scenario& scenario);

/// What a run would take: GPU memory, messages, an estimate of the run's own duration, `interval` included (the
/// simulations for its interval), and money.
std::string describe_dry_run(const Scenario& scenario, const SimulateOptions& options, const ExpectedRun& run,
                             Seconds interval);
/// The same for `--json`, with the parts of GPU memory of each group: as add_gpu_memory() does, and "groups".
Json dry_run_json(const Scenario& scenario, const SimulateOptions& options, const ExpectedRun& run, Seconds interval);

}  // namespace rehearse
