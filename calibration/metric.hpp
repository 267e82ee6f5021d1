#pragma once
// The numbers that a study can compare with measurements.

#include <string>

#include "sim/engine/scenario.hpp"

namespace rehearse {

/// The number that the scenario has under `metric`: a key of summary.json, from a simulation, which can be done once in
/// a process, or
/// - collective_time_s: one all-reduce of all gradients (sim/engine/collective_time.hpp)
/// Throws InputError if there is none.
double simulated_metric(const Scenario& scenario, const std::string& metric);

}  // namespace rehearse
