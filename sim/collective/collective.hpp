#pragma once
// Collectives as phases of messages, and how long they take on an otherwise idle network.

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platforms/collective_algorithm.hpp"
#include "platforms/messaging.hpp"
#include "platforms/profile.hpp"
#include "platforms/topology.hpp"
#include "sim/base/collective_kind.hpp"
#include "sim/resources/max_min_flows.hpp"
#include "sim/resources/network.hpp"
#include "sim/resources/rate_pulses.hpp"

namespace rehearse {

/// How often data are passed on over links of each kind. Fractions are means: a part that goes round a ring crosses
/// each of its edges equally often, and the time of all rounds is the sum over its way.
struct LinkSteps {
  double nvlink = 0, pcie = 0, network = 0;

  friend LinkSteps operator+(const LinkSteps& a, const LinkSteps& b) {
    return {a.nvlink + b.nvlink, a.pcie + b.pcie, a.network + b.network};
  }
  friend LinkSteps operator*(const LinkSteps& steps, double factor) {
    return {steps.nvlink * factor, steps.pcie * factor, steps.network * factor};
  }
  Seconds time(const CollectiveProtocol& protocol) const {
    return protocol.nvlink_step * nvlink + protocol.pcie_step * pcie + protocol.network_step * network;
  }
};

/// Messages of rounds. Every edge carries `size` bytes `repeat` times, one message after the other, and the
/// phase ends when the last has arrived: it takes, with the rate that max-min sharing gives each edge,
///   repeat * (max over edges of (hops * latency + size / rate) + fill)
/// `hops` > 1 where a message is passed on in pieces (pipelined trees): latencies add up, and besides them what the first piece
/// takes over the way (CollectiveTimer::besides()), if the protocol states how large its pieces are. The latency is the
/// edge's own; or, where every part goes round all edges, their mean: one machine of a ring of machines of eight GPUs waits for
/// the network in one of eight steps.
struct CollectivePhase {
  std::vector<PathIndex> edges;
  std::vector<int> times;  // [edges] messages at once, as one; empty: one of each
  /// Of a pipelined tree, those towards the root, which are all that is busy until the first piece has come there.
  std::vector<PathIndex> edges_up;
  std::int64_t parts = 1;  // size = messaging.on_wire(ceil(pieces * payload / parts))
  std::int64_t pieces = 1;
  std::int64_t repeat = 1;
  std::int64_t sections = 1;  // of as many messages each, of which all have arrived at a rank before it begins the next
  /// No rank begins a round before all have ended the one before. Otherwise each goes on when its own messages have arrived.
  bool waits_for_all = false;
  int hops = 1;
  LinkSteps steps{};                    // that a message takes part in, one after another
  std::optional<Seconds> mean_latency;  // of the edges of rings
  Messaging messaging{};                // where any of its messages leaves a machine
};

using CollectivePlan = std::vector<CollectivePhase>;

/// On the way of one of the phase's messages, without the software of those that pass it on.
Seconds latency_of(const CollectivePhase& phase, PathIndex edge, const Network& network);

/// p ranks, n bytes, one-way latency a, bandwidth b of every NIC, one GPU per machine on one switch:
/// - ring: 2 (p - 1) (a + n / (p b)). Patarasuk and Yuan, J. Parallel Distrib. Comput. 69(2), 2009.
/// - binary_tree: 2 (d a + c n / b). One binary tree, pipelined; d = floor(log2 p), c = most children of a node.
/// - flat_double_binary_tree: 2 (d a + n / b), p > 2. Two trees with half of the bytes each, a leaf in one is an inner
///   node in the other; d = most hops to a root. Sanders, Speck and Traff, Parallel Computing 35(12), 2009.
/// - star: 2 (a + (p - 1) n / b). All to rank 0 and back.
/// - clique: 2 (a + (p - 1) n / (p b)). Every rank adds up one part.
/// - hierarchical: 2 (g - 1) (a' + n / (g b')) + 2 (m - 1) (a + n / (m b)), m machines of g GPUs with a' and b' inside.
///   Ring reduce-scatter inside each machine, for each of its GPUs a ring over the machines with n / g, ring all-gather
///   inside; the g rings share a NIC.
/// - binary_tree_star: star inside each machine, tree over the first GPUs of the machines.
/// - tree, NCCL's Tree: 2 ((g - 1) a' + d a) + n / b, m > 1 machines of g GPUs. A chain inside each machine, double
///   binary trees of depth d between their heads, one pair of trees for each NIC; sums go up while results come down,
///   in pieces: NCCL, src/graph/trees.cc and connect.cc. Every machine sends and receives n for two machines, at most 2 n.
/// - nvls (NVLink SHARP): a + (1 + 1 / p) n / b. The switch adds up what it reads from all GPUs and copies what one
///   writes to all of them; each GPU does it for one part. Its port sends the n bytes that the others read and the
///   n / p that it writes, and receives as many. One machine with an NVSwitch that
///   reduces.
///
/// Machines of an NVLink domain count as one, with all their GPUs and NICs. The trees over all GPUs ("flat") are those of
/// textbooks; nobody runs them on machines of several GPUs.
///
/// `gpus` lists the ranks; rings inside a machine go over the NVLinks, or once around the GPUs in their order. Throws
/// std::invalid_argument if hierarchical machines have different numbers of GPUs, and for a choice of one (is_choice()).
CollectivePlan plan_all_reduce(CollectiveAlgorithm algorithm, const std::vector<Endpoint>& gpus, Network& network,
                               bool is_in_gpu_order = false);

/// A collective of one kind; all-reduces by `algorithm`, of the others each has one schedule. p, n, a and b as above:
/// - reduce-scatter, all-gather: (p - 1) (a + n / (p b)). Half of the ring each. Or, `by_trees` and with each of them alone on its
///   machine, NCCL's PAT: ceil(log2 p) a + (p - 1) n / (p b). Trees of all roots at once: in each round all send to the one so far
///   from them, of gathers from half of the ranks down to one, what is for it and those behind it. Source: NCCL 2.23 release notes;
///   Jeaugey, PAT: a new algorithm for all-gather and reduce-scatter operations at scale, arXiv 2506.20252.
/// - all-to-all: a + (p - 1) n / (p b). Every rank sends to every other one at once, as NCCL's grouped sends do. Software passes
///   log2 p steps: what its start takes grows so with p (calibration/data/aiconfigurator-kernels).
/// - shift: a + n / b. Every rank sends to the next one of `gpus`, the last one to the first.
/// - broadcast: (m - 1) a + n / b, m machines. A chain along the ring from the first of `gpus`, in pieces, as NCCL's.
CollectivePlan plan_collective(CollectiveKind kind, CollectiveAlgorithm algorithm, const std::vector<Endpoint>& gpus,
                               Network& network, bool is_in_gpu_order = false, bool by_trees = false);

/// Edges of a plan, and messages, of which an edge carries one or more.
struct CollectiveSize {
  double edges = 0, messages = 0;
};
CollectiveSize plan_size(const CollectivePlan& plan);

/// What there is to know of an algorithm besides the word for it (platforms/collective_algorithm.hpp).
struct AllReduceAlgorithm {
  std::string title;  // "ring all-reduce"
  /// Phases without edges are left out; without any the algorithm does not work among these GPUs.
  std::function<CollectivePlan(const std::vector<Endpoint>& gpus, Network& network, bool is_in_gpu_order)> plan;
  /// Ranks with which it is one of those among which the fastest is looked for, at most.
  std::size_t most_ranks = std::numeric_limits<std::size_t>::max();
};

/// What was registered for the word.
const AllReduceAlgorithm& all_reduce_algorithm(CollectiveAlgorithm algorithm);

/// From now on scenarios and profiles may ask for it by the word. To be called before any other thread runs. Throws
/// std::invalid_argument if there is the word.
CollectiveAlgorithm register_all_reduce(const std::string& word, AllReduceAlgorithm algorithm);

/// Messages of the edge at once.
inline int times_of(const CollectivePhase& phase, std::size_t edge) {
  return phase.times.empty() ? 1 : phase.times[edge];
}

/// Those that its messages may wait for, in order.
std::vector<int> binding_links(const CollectivePhase& phase, const Network& network);

/// Bytes of one message: messaging.on_wire(ceil(pieces * payload / parts)).
Bytes message_size(const CollectivePhase& phase, Bytes payload);

/// Whether all phases are the same again if machines are counted a block further in their circles. Then keep_folded() leaves what
/// starts at machines that stand for others.
bool repeats_in_blocks(const CollectivePlan& plan, const Network& network, const MachineFold& fold);
void keep_folded(CollectivePlan& plan, const Network& network);

/// How the messages of a plan share links that nothing else uses.
struct CollectiveSharing {
  /// Rate over a watched link, while the messages' shares from `begin` to `end` cross it.
  struct LinkShare {
    int link = 0;
    double begin = 0, end = 0;  // seconds for a byte
    double rate = 0;
  };

  CollectiveSharing(const CollectivePlan& plan, const Network& network, const std::vector<int>& watched);

  Bytes burst{};                               // of each message of the first round passes at once
  std::vector<std::vector<LinkShare>> shares;  // [phases]
  std::vector<std::vector<double>> per_byte;   // [phases][edges]
  /// [phases] whether all messages that a link holds up leave it together, so that each has one rate to its end.
  std::vector<bool> has_constant_rates;
  /// [phases] for a byte that is passed on when it has arrived: over all links of the way (LinkSteps), each with the rate
  /// that it has without the messages of the other direction, less one byte's time in a full pipeline. 0 where messages
  /// are not passed on in pieces.
  std::vector<double> fill_per_byte;
  /// [phases] edges that can be the last for some payload: latency and time per byte, neither below another's.
  std::vector<std::vector<std::pair<double, double>>> slowest;
};

/// Duration of a plan when nothing else uses the network, from one solution of each phase's sharing, which scales with
/// the payload because all messages of a phase are equally long. Valid while capacities do not change and no other flow
/// shares a link.
class CollectiveTimer {
 public:
  /// `plan` must outlive the timer. `watched` links are those of which add_rates() will tell.
  CollectiveTimer(const CollectivePlan& plan, const Network& network, const CollectiveProtocol& protocol = {},
                  const std::vector<int>& watched = {});
  /// With what is known of the plan's sharing: protocols of one plan differ in nothing of it.
  CollectiveTimer(const CollectivePlan& plan, std::shared_ptr<const CollectiveSharing> sharing,
                  const CollectiveProtocol& protocol);

  /// All links having been idle.
  Seconds duration(Bytes payload) const;
  /// Time of one of the messages that every edge of the phase carries one after another: until the last has arrived.
  Seconds round(std::size_t phase, Bytes payload) const;
  /// Of a message of this size, what it takes besides latency, steps and its bytes in a full pipeline: min(piece, size) *
  /// fill_per_byte, and `network_step` of each link between machines once more if its receiver fetches it.
  Seconds besides(std::size_t phase, Bytes size) const;
  /// Of one of the edge's messages that took `transfer` to leave: until it has arrived, after its last byte has left. The way, and
  /// the software of those that pass it on, of which a share is over by then (CollectiveProtocol::overlap).
  Seconds latency(std::size_t phase, PathIndex edge, Seconds transfer, Bytes payload, const Network& network) const;
  /// The rates of watched links while the phase's messages cross them, if the first ones start at `start`. Nothing
  /// crosses a link while a message has left it and has not arrived.
  void rates(std::size_t phase, Bytes payload, Seconds start,
             const std::function<void(int link, const RatePulses&)>& on_rate) const;
  /// [edges of the phase] time for one byte.
  const std::vector<double>& seconds_per_byte(std::size_t phase) const { return sharing_->per_byte[phase]; }
  bool has_constant_rates(std::size_t phase) const { return sharing_->has_constant_rates[phase]; }

 private:
  double time_of_message(std::size_t phase, Bytes size) const;

  const CollectivePlan& plan_;
  std::shared_ptr<const CollectiveSharing> sharing_;
  std::vector<double> step_;  // [phases] of `latency`, what the software takes
  double overlap_ = 0;        // CollectiveProtocol::overlap
  Bytes piece_{};             // CollectiveProtocol::piece
  std::optional<Bytes> fetched_above_;
  std::vector<Seconds> fetch_;  // [phases]
};

}  // namespace rehearse
