#pragma once
// Which parameter server holds what.

#include <span>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// [sizes] index of the server, 0 .. servers-1, for things of these sizes in creation order.
/// kRoundRobin, kSharded: one by one, as TensorFlow's replica_device_setter does by default for variables, trainable or
/// not; a sharded variable comes as one piece per server.
/// kGreedyByBytes: each to the server with the fewest bytes so far, the first of equals.
std::vector<int> place_on_servers(std::span<const Bytes> sizes, int servers, Placement placement);

}  // namespace rehearse
