#pragma once
// Which parameter server holds which variable.

#include <vector>

#include "sim/engine/scenario.hpp"
#include "workloads/operator_graph.hpp"

namespace rehearse {

/// [variables] index of the server, 0 .. servers-1.
/// kRoundRobin: one by one in creation order, trainable or not, as TensorFlow's replica_device_setter does by default.
/// kGreedyByBytes: in creation order, each to the server with the fewest bytes so far, the first of equals.
std::vector<int> place_variables(const std::vector<Variable>& variables, int servers, Placement placement);

}  // namespace rehearse
