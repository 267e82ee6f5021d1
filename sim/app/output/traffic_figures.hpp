#pragma once
// The figures of the study of training traffic (CNSM 2021): matrices, rates over time, flow sizes, duration against loss.

#include <vector>

#include "sim/app/output/document.hpp"
#include "sim/app/traffic_runs.hpp"

namespace rehearse {

/// A section for each figure that the runs are enough for, with a picture for each setting, of all its models. Runs with
/// lost packets count for the last one alone.
std::vector<Section> figures_of_runs(const std::vector<TrafficOfRun>& runs);

}  // namespace rehearse
