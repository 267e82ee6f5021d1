#pragma once
// A part of all-reduces: workers that each have some of the experts of a mixture (ExpertSplit in workloads/graph_builder.hpp).

#include <string>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

StrategyKeys expert_keys();

/// The split of the experts, for which the scenario's workloads are built anew; tensor, context and stages have been read, and
/// `stages` is how many of these there are. Throws InputError at the key, with the nearest degree that would do.
ExpertSplit read_experts(const JsonReader& json, Scenario& scenario, int stages, Json& effective);

/// Splits over more workers that would do.
std::vector<ExpertSplit> more_experts(const Scenario& scenario, int stages);

/// "experts over 8 workers".
std::string title_of(const ExpertSplit& split);

}  // namespace rehearse
