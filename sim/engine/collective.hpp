#pragma once
// All-reduce algorithms as phases of messages, and how long they take on an otherwise idle network.

#include <vector>

#include "sim/engine/max_min_flows.hpp"
#include "sim/engine/network.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

/// Messages that start together. Every edge carries `size` bytes `repeat` times, one message after the other, and the
/// phase ends when the last has arrived: it takes, with the rate that max-min sharing gives each edge,
///   repeat * max over edges of (hops * latency + size / rate)
/// `hops` > 1 where a message is passed on in pieces so small that only latencies add up (pipelined trees).
struct CollectivePhase {
  std::vector<PathIndex> edges;
  std::int64_t parts = 1;  // size = ceil(payload / parts)
  std::int64_t repeat = 1;
  int hops = 1;
};

using CollectivePlan = std::vector<CollectivePhase>;

/// p ranks, n bytes, one-way latency a, bandwidth b of every NIC, one GPU per machine on one switch:
/// - ring: 2 (p - 1) (a + n / (p b)). Patarasuk and Yuan, J. Parallel Distrib. Comput. 69(2), 2009.
/// - tree: 2 (d a + c n / b). One binary tree, pipelined; d = floor(log2 p), c = most children of a node.
/// - double_binary_tree: 2 (d a + n / b), p > 2. Two trees with half of the bytes each, a leaf in one is an inner node
/// in
///   the other; d = most hops to a root. Sanders, Speck and Traff, Parallel Computing 35(12), 2009.
/// - star: 2 (a + (p - 1) n / b). All to rank 0 and back.
/// - clique: 2 (a + (p - 1) n / (p b)). Every rank adds up one part.
/// - hierarchical: 2 (g - 1) (a' + n / (g b')) + 2 (m - 1) (a + n / (m b)), m machines of g GPUs with a' and b' inside.
///   Ring reduce-scatter inside each machine, for each of its GPUs a ring over the machines with n / g, ring all-gather
///   inside; the g rings share a NIC.
/// - binary_tree_star: star inside each machine, tree over the first GPUs of the machines.
///
/// `gpus` lists the ranks. Throws std::invalid_argument if hierarchical machines have different numbers of GPUs.
CollectivePlan plan_all_reduce(CollectiveAlgorithm algorithm, const std::vector<Endpoint>& gpus, Network& network);

Bytes message_size(const CollectivePhase& phase, Bytes payload);

/// Duration of a plan when nothing else uses the network, from one solution of each phase's sharing, which scales with
/// the payload because all messages of a phase are equally long. Valid while capacities do not change and no other flow
/// shares a link.
class CollectiveTimer {
 public:
  CollectiveTimer(const CollectivePlan& plan, const Network& network);

  Seconds duration(Bytes payload) const;
  /// [edges of the phase] time for one byte.
  const std::vector<double>& seconds_per_byte(std::size_t phase) const { return per_byte_[phase]; }

 private:
  const CollectivePlan& plan_;
  std::vector<std::vector<double>> per_byte_;  // [phases][edges]
  /// [phases] edges that can be the last for some payload: latency and time per byte, neither below another's.
  std::vector<std::vector<std::pair<double, double>>> slowest_;
};

}  // namespace rehearse
