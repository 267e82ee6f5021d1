#pragma once
// The report of many runs of one job: distributions, the money, one run in detail.

#include <optional>
#include <string>

#include "sim/app/output/document.hpp"
#include "sim/plan/monte_carlo.hpp"

namespace rehearse {

/// What the terminal shows.
Table monte_carlo_table(const Scenario& scenario, const MonteCarlo& result, std::optional<Seconds> deadline);

/// What rules of Control gained over the fixed plan with so many times the scenario's batch, with intervals of 95 %.
Table control_table(const ControlGain& gain, int times);

/// events.csv: what happened in MonteCarlo::sample, decisions of rules with their reasons.
std::string events_csv(const Scenario& scenario, const MonteCarlo& result);

/// report.html
std::string monte_carlo_report(const Scenario& scenario, const MonteCarlo& result, std::optional<Seconds> deadline);

}  // namespace rehearse
