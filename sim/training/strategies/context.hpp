#pragma once
// A part of all-reduces: workers that have the same samples, of which each computes some positions (ContextSplit in
// workloads/graph_builder.hpp).

#include <string>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

StrategyKeys context_keys();

/// The split of the positions, for which the scenario's workloads are built anew; `tensor` has been read. Throws InputError at the
/// key, with the nearest degree that would do, if the model cannot be split so.
ContextSplit read_context(const JsonReader& json, Scenario& scenario, Json& effective);

/// "context parallel over 4 workers by a ring".
std::string title_of(const ContextSplit& split);

}  // namespace rehearse
