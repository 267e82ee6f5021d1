#pragma once
// What a study can compare with measurements of a recorded job: its trace, replayed on the machines of a scenario.

#include <filesystem>
#include <string>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Whether `metric` is one of these, means over the steps of the first trace:
///   replayed_step_s                      from one step to the next
///   replayed_after_first_collective_s    from the end of a step's first collective, where all ranks are together, to
///                                        the step's end
bool is_replayed(const std::string& metric);

/// The number of such a metric from a trace, or a folder of traces, by replay_on(): one trace stands for all workers.
/// Throws InputError, also if there is no step, or none with a collective.
double replayed_metric(const Scenario& scenario, const std::string& metric, const std::filesystem::path& traces);

}  // namespace rehearse
