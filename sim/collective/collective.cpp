#include "sim/collective/collective.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace rehearse {

namespace {

using Ranks = std::vector<Endpoint>;

/// A binary tree over ranks 0 .. count-1: the parent of each, -1 for the root, and the most hops to the root.
struct Tree {
  std::vector<int> parent;
  int depth = 0;
};

int depth_of(const std::vector<int>& parent) {
  int deepest = 0;
  for (std::size_t i = 0; i < parent.size(); ++i) {
    int depth = 0;
    for (int node = static_cast<int>(i); parent[static_cast<std::size_t>(node)] >= 0;
         node = parent[static_cast<std::size_t>(node)])
      ++depth;
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

/// Balanced: the children of i are 2 i + 1 and 2 i + 2.
Tree heap_tree(int count) {
  Tree tree;
  for (int i = 0; i < count; ++i) tree.parent.push_back(i == 0 ? -1 : (i - 1) / 2);
  tree.depth = depth_of(tree.parent);
  return tree;
}

/// In-order tree: counted from 1, odd ranks are leaves, and a rank's height is its number of trailing zero bits. Where
/// a parent would lie beyond the last rank, the next ancestor that exists takes its place.
Tree in_order_tree(int count) {
  Tree tree;
  tree.parent.assign(static_cast<std::size_t>(count), -1);
  for (int node = 1; node <= count; ++node) {
    for (int low = node & -node; low <= count; low <<= 1) {
      const int parent = (node & ~((low << 1) - 1)) | (low << 1);
      if (parent > count) continue;
      tree.parent[static_cast<std::size_t>(node - 1)] = parent - 1;
      break;
    }
  }
  tree.depth = depth_of(tree.parent);
  return tree;
}

/// The second of two trees: that of the ranks in reverse order if their number is even, shifted by one if it is odd, so
/// that leaves and inner nodes change roles.
Tree complement(const Tree& tree) {
  const int count = static_cast<int>(tree.parent.size());
  const auto map = [count](int rank) { return count % 2 == 0 ? count - 1 - rank : (rank + 1) % count; };
  Tree other;
  other.parent.assign(tree.parent.size(), -1);
  for (int i = 0; i < count; ++i) {
    const int parent = tree.parent[static_cast<std::size_t>(i)];
    other.parent[static_cast<std::size_t>(map(i))] = parent < 0 ? -1 : map(parent);
  }
  other.depth = tree.depth;
  return other;
}

class Planner {
 public:
  Planner(const Ranks& gpus, Network& network, bool is_in_gpu_order)
      : gpus_{gpus}, network_{network}, is_in_gpu_order_{is_in_gpu_order} {}

  CollectivePlan ring() const {
    const auto count = static_cast<std::int64_t>(gpus_.size());
    const std::vector<Ranks> machines = by_island();
    if (machines.size() == 1) {
      const std::vector<Ranks> rings = local_rings(gpus_);
      CollectivePhase phase{.edges = {},
                            .parts = count * static_cast<std::int64_t>(rings.size()),
                            .repeat = 2 * (count - 1),
                            .sections = 2};
      for (const Ranks& ring : rings) add_ring(phase, ring);
      go_round(phase);
      return {phase};
    }
    const std::size_t channels = channels_between(machines);
    CollectivePhase phase{
        .edges = {}, .parts = count * static_cast<std::int64_t>(channels), .repeat = 2 * (count - 1), .sections = 2};
    for (std::size_t channel = 0; channel < channels; ++channel) {
      Ranks ring;
      for (const Ranks& machine : machines) {
        const Ranks order = order_for(machine, channel);
        ring.insert(ring.end(), order.begin(), order.end());
      }
      add_ring(phase, ring);
    }
    go_round(phase);
    return {phase};
  }

  /// Each rank to the next one, in their order.
  CollectivePlan shift() const {
    CollectivePhase phase;
    add_ring(phase, gpus_);
    go_round(phase);
    return {phase};
  }

  /// Along the ring, but for the edges that come back to the first rank; the latencies of the way add up.
  CollectivePlan broadcast() const {
    CollectivePlan plan = ring();
    CollectivePhase& phase = plan.front();
    const std::size_t edges_of_ring = phase.edges.size();
    const auto count = static_cast<std::int64_t>(gpus_.size());
    std::erase_if(phase.edges, [&](PathIndex edge) { return network_.destination(edge) == gpus_.front(); });
    const LinkSteps mean = mean_steps(phase.edges);
    const auto hops = static_cast<double>(count - 1);
    const double between = std::round(mean.network * hops);  // latencies inside of machines are in the steps
    phase.parts = std::max<std::int64_t>(static_cast<std::int64_t>(edges_of_ring) / count, 1);
    phase.repeat = 1;
    phase.mean_latency.reset();
    phase.hops = std::max(static_cast<int>(between), 1);
    phase.steps = {mean.nvlink * hops, mean.pcie * hops, mean.network * hops};
    return plan;
  }

  CollectivePlan trees(const Ranks& ranks, const std::vector<Tree>& trees) const {
    CollectivePhase up{.edges = {}, .parts = static_cast<std::int64_t>(trees.size())}, down = up;
    for (const Tree& tree : trees) {
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (tree.parent[i] < 0) continue;
        const Endpoint parent = ranks[static_cast<std::size_t>(tree.parent[i])];
        up.edges.push_back(network_.path(ranks[i], parent));
        down.edges.push_back(network_.path(parent, ranks[i]));
      }
      up.hops = down.hops = std::max(up.hops, tree.depth);
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        LinkSteps way{};
        for (int node = static_cast<int>(i); tree.parent[static_cast<std::size_t>(node)] >= 0;
             node = tree.parent[static_cast<std::size_t>(node)])
          way = way +
                steps_of(network_.path(ranks[static_cast<std::size_t>(node)],
                                       ranks[static_cast<std::size_t>(tree.parent[static_cast<std::size_t>(node)])]));
        up.steps = down.steps = longer(up.steps, way);
      }
    }
    return {up, down};
  }

  CollectivePlan star(const Ranks& ranks) const {
    CollectivePhase in, out;
    for (std::size_t i = 1; i < ranks.size(); ++i) {
      in.edges.push_back(network_.path(ranks[i], ranks[0]));
      out.edges.push_back(network_.path(ranks[0], ranks[i]));
    }
    in.steps = out.steps = longest_steps(in.edges);
    return {in, out};
  }

  /// From every rank to every other one at once, `repeat` times. Each needs a part from all others before it goes on.
  CollectivePlan clique(const Ranks& ranks, std::int64_t repeat) const {
    CollectivePhase phase{
        .edges = {}, .parts = static_cast<std::int64_t>(ranks.size()), .repeat = repeat, .waits_for_all = true};
    for (const Endpoint from : ranks)
      for (const Endpoint to : ranks)
        if (!(from == to)) phase.edges.push_back(network_.path(from, to));
    phase.steps = longest_steps(phase.edges);
    return {phase};
  }

  /// Rounds of a gathering, the first being over half of the ranks: a rank that is m behind another one gets there in as many as m
  /// has binary digits that are 1. Empty where several share a machine.
  CollectivePlan aggregated_trees() const {
    const auto count = static_cast<std::int64_t>(gpus_.size());
    CollectivePlan rounds;
    if (by_island().size() != gpus_.size()) return rounds;
    for (auto distance = static_cast<std::int64_t>(std::bit_ceil(gpus_.size())) / 2; distance >= 1; distance /= 2) {
      CollectivePhase round{
          .edges = {}, .parts = count, .pieces = (count - distance + 2 * distance - 1) / (2 * distance)};
      for (std::int64_t i = 0; i < count; ++i)
        round.edges.push_back(
            network_.path(gpus_[static_cast<std::size_t>(i)], gpus_[static_cast<std::size_t>((i + distance) % count)]));
      round.steps = longest_steps(round.edges);
      rounds.push_back(std::move(round));
    }
    return rounds;
  }

  CollectivePlan tree() const {
    const std::vector<Ranks> machines = by_island();
    const int count = static_cast<int>(machines.size());
    const Tree tree = in_order_tree(count);
    const std::vector<Tree> trees = count > 1 ? std::vector{tree, complement(tree)} : std::vector{tree};
    const std::size_t channels = count > 1 ? channels_between(machines) : local_rings(gpus_).size();
    CollectivePhase phase{.edges = {}, .parts = static_cast<std::int64_t>(channels * trees.size())};
    const auto add_both_ways = [&](const Endpoint below, const Endpoint above) {
      phase.edges.push_back(network_.path(below, above));
      phase.edges_up.push_back(phase.edges.back());
      phase.edges.push_back(network_.path(above, below));
    };
    std::size_t longest = 0;
    for (std::size_t channel = 0; channel < channels; ++channel) {
      std::vector<Ranks> chains;  // the head, which the NIC is nearest to, is the last
      for (const Ranks& machine : machines) chains.push_back(order_for(machine, channel));
      for (const Tree& one : trees)
        for (std::size_t m = 0; m < chains.size(); ++m) {
          longest = std::max(longest, chains[m].size() - 1);
          for (std::size_t i = 0; i + 1 < chains[m].size(); ++i) add_both_ways(chains[m][i], chains[m][i + 1]);
          if (one.parent[m] >= 0)
            add_both_ways(chains[m].back(), chains[static_cast<std::size_t>(one.parent[m])].back());
        }
    }
    if (phase.edges.empty()) return {};
    phase.hops = 2 * std::max(tree.depth, 1);
    if (longest > 0) phase.steps = steps_of(phase.edges.front());
    phase.steps = {2 * static_cast<double>(longest) * phase.steps.nvlink,
                   2 * static_cast<double>(longest) * phase.steps.pcie, 2.0 * tree.depth};
    return {phase};
  }

  /// As a shift along the ranks: what crosses a port of the switch is the same. Empty where it does not work.
  CollectivePlan nvls() const {
    const std::vector<Ranks> machines = by_island();
    const TopologyMachine& machine = network_.topology().machines()[static_cast<std::size_t>(gpus_.front().machine)];
    if (machines.size() > 1 || !machine.interconnect.nvswitch || !machine.interconnect.reduces_in_switch) return {};
    const auto count = static_cast<std::int64_t>(gpus_.size());
    CollectivePhase phase{.edges = {}, .parts = count, .pieces = count + 1};
    add_ring(phase, gpus_);
    phase.steps = mean_steps(phase.edges);
    return {phase};
  }

  CollectivePlan hierarchical() const {
    const std::vector<Ranks> machines = by_island();
    const std::size_t gpus = machines.front().size();
    for (const Ranks& machine : machines)
      if (machine.size() != gpus)
        throw std::invalid_argument{"a hierarchical all-reduce needs the same number of GPUs on every machine"};
    const auto g = static_cast<std::int64_t>(gpus), m = static_cast<std::int64_t>(machines.size());
    CollectivePhase inside{.edges = {}, .parts = g, .repeat = g - 1},
        between{.edges = {}, .parts = g * m, .repeat = 2 * (m - 1), .sections = 2};
    for (const Ranks& machine : machines) add_ring(inside, machine);
    for (std::size_t i = 0; i < gpus; ++i) {
      Ranks ring;
      for (const Ranks& machine : machines) ring.push_back(machine[i]);
      add_ring(between, ring);
    }
    go_round(inside);
    go_round(between);
    return {inside, between, inside};
  }

  CollectivePlan binary_tree_star() const {
    CollectivePhase in, out;
    Ranks masters;
    for (const Ranks& machine : by_island()) {
      masters.push_back(machine.front());
      const CollectivePlan local = star(machine);
      in.edges.insert(in.edges.end(), local[0].edges.begin(), local[0].edges.end());
      out.edges.insert(out.edges.end(), local[1].edges.begin(), local[1].edges.end());
    }
    in.steps = out.steps = longest_steps(in.edges);
    CollectivePlan plan = trees(masters, {heap_tree(static_cast<int>(masters.size()))});
    plan.insert(plan.begin(), in);
    plan.push_back(out);
    return plan;
  }

 private:
  /// Between islands: one for each NIC of the island that has the most.
  std::size_t channels_between(const std::vector<Ranks>& islands) const {
    std::size_t channels = 1;
    for (const Ranks& island : islands)
      channels = std::max(channels, island.size() == 1 ? static_cast<std::size_t>(nics(island.front().machine))
                                                       : nics_of(island).size());
    return channels;
  }

  struct Nic {
    int machine = 0, number = 0;
  };
  std::vector<Nic> nics_of(const Ranks& island) const {
    std::vector<Nic> all;
    for (const Endpoint gpu : island)
      if (all.empty() || all.back().machine != gpu.machine)
        for (int n = 0; n < nics(gpu.machine); ++n) all.push_back({gpu.machine, n});
    return all;
  }

  /// An island's GPUs in the order of one of its rings. The last GPU sends to the next island: over the channel's NIC,
  /// if one of the GPUs uses it.
  Ranks order_for(const Ranks& island, std::size_t channel) const {
    if (island.size() == 1) return island;
    const std::vector<Ranks> orders = local_rings(island);
    Ranks order = orders[channel % orders.size()];
    const std::vector<Nic> all = nics_of(island);
    const Nic nic = all[channel % all.size()];
    const auto leaves = [&](const Endpoint gpu) {
      return gpu.machine == nic.machine && gpu.gpu % nics(gpu.machine) == nic.number;
    };
    const auto last = std::find_if(order.begin(), order.end(), leaves);
    if (last != order.end()) std::rotate(order.begin(), last + 1, order.end());
    return order;
  }

  LinkSteps steps_of(PathIndex edge) const {
    switch (network_.path(edge).kind) {
      case PathKind::kNvlink:
        return {.nvlink = 1};
      case PathKind::kPcie:
        return {.pcie = 1};
      case PathKind::kNetwork:
        return {.network = 1};
    }
    throw std::logic_error{"unknown kind of path"};
  }

  LinkSteps mean_steps(const std::vector<PathIndex>& edges) const {
    LinkSteps sum{};
    for (const PathIndex edge : edges) sum = sum + steps_of(edge);
    const auto count = static_cast<double>(std::max<std::size_t>(edges.size(), 1));
    return {sum.nvlink / count, sum.pcie / count, sum.network / count};
  }

  /// Of phases in which every part crosses all edges of a ring, one after another.
  void go_round(CollectivePhase& phase) const {
    phase.steps = mean_steps(phase.edges);
    Seconds sum{};
    for (const PathIndex edge : phase.edges) sum += network_.latency(edge);
    phase.mean_latency = sum / static_cast<double>(std::max<std::size_t>(phase.edges.size(), 1));
  }

  LinkSteps longest_steps(const std::vector<PathIndex>& edges) const {
    LinkSteps longest{};
    for (const PathIndex edge : edges) longest = longer(longest, steps_of(edge));
    return longest;
  }

  /// The way with more steps over the network; of equals, over PCIe, then over NVLink.
  static LinkSteps longer(const LinkSteps& a, const LinkSteps& b) {
    return std::tie(a.network, a.pcie, a.nvlink) < std::tie(b.network, b.pcie, b.nvlink) ? b : a;
  }

  void add_ring(CollectivePhase& phase, const Ranks& ranks) const {
    for (std::size_t i = 0; ranks.size() > 1 && i < ranks.size(); ++i)
      phase.edges.push_back(network_.path(ranks[i], ranks[(i + 1) % ranks.size()]));
  }

  /// Over NVLinks if they make rings; otherwise, or if it is asked for, one ring in order.
  std::vector<Ranks> local_rings(const Ranks& ranks) const {
    if (is_in_gpu_order_) return {ranks};
    const int machine = ranks.front().machine;
    std::vector<int> gpus;
    for (const Endpoint gpu : ranks) gpus.push_back(gpu.gpu);
    std::vector<Ranks> rings;
    const auto& interconnect = network_.topology().machines()[static_cast<std::size_t>(machine)].interconnect;
    if (known_gpus_ != gpus || known_nvlinks_ != interconnect.nvlinks) {  // machines are mostly alike
      known_gpus_ = gpus;
      known_nvlinks_ = interconnect.nvlinks;
      known_rings_ = find_rings(interconnect, gpus);
    }
    for (const std::vector<int>& ring : known_rings_) {
      rings.emplace_back();
      for (const int gpu : ring) rings.back().push_back({machine, gpu});
    }
    if (rings.empty()) rings.push_back(ranks);
    return rings;
  }

  int nics(int machine) const { return network_.topology().machines()[static_cast<std::size_t>(machine)].nics; }

  /// GPUs that reach one another without NICs: of a machine, or of the machines of an NVLink domain.
  std::vector<Ranks> by_island() const {
    std::map<int, Ranks> machines;
    for (const Endpoint gpu : gpus_) machines[gpu.machine].push_back(gpu);
    std::vector<Ranks> list;
    std::map<int, std::size_t> of_domain;  // in the list
    for (auto& [machine, ranks] : machines) {
      const int domain = network_.topology().machines()[static_cast<std::size_t>(machine)].nvlink_domain;
      const auto [entry, is_new] = of_domain.try_emplace(domain < 0 ? -1 - machine : domain, list.size());
      if (is_new)
        list.push_back(std::move(ranks));
      else
        list[entry->second].insert(list[entry->second].end(), ranks.begin(), ranks.end());
    }
    return list;
  }

  const Ranks& gpus_;
  Network& network_;
  bool is_in_gpu_order_;
  mutable std::vector<int> known_gpus_;  // what the rings were last searched for
  mutable std::vector<NvlinkPair> known_nvlinks_;
  mutable std::vector<std::vector<int>> known_rings_;
};

/// One that a planner makes.
AllReduceAlgorithm planned(std::string title, CollectivePlan (*plan)(const Planner&, const Ranks&),
                           std::size_t most_ranks = std::numeric_limits<std::size_t>::max()) {
  return {.title = std::move(title),
          .plan =
              [plan](const Ranks& gpus, Network& network, bool is_in_gpu_order) {
                return plan(Planner{gpus, network, is_in_gpu_order}, gpus);
              },
          .most_ranks = most_ranks};
}

/// No algorithm of its own.
AllReduceAlgorithm choice_of_one(std::string title) {
  return planned(std::move(title), [](const Planner&, const Ranks&) -> CollectivePlan {
    throw std::invalid_argument{"the choice of one of several is no algorithm of its own"};
  });
}

/// [CollectiveAlgorithm]
std::vector<AllReduceAlgorithm>& algorithms() {
  constexpr std::size_t kMostOfClique = 256;  // sends between every two of them
  static std::vector<AllReduceAlgorithm> all{
      planned("ring all-reduce", [](const Planner& planner, const Ranks&) { return planner.ring(); }),
      planned("binary tree all-reduce over all GPUs",
              [](const Planner& planner, const Ranks& gpus) {
                return planner.trees(gpus, {heap_tree(static_cast<int>(gpus.size()))});
              }),
      planned("double binary tree all-reduce over all GPUs",
              [](const Planner& planner, const Ranks& gpus) {
                const Tree tree = in_order_tree(static_cast<int>(gpus.size()));
                return planner.trees(gpus, {tree, complement(tree)});
              }),
      planned("hierarchical all-reduce", [](const Planner& planner, const Ranks&) { return planner.hierarchical(); }),
      planned("star all-reduce", [](const Planner& planner, const Ranks& gpus) { return planner.star(gpus); }),
      planned(
          "clique all-reduce", [](const Planner& planner, const Ranks& gpus) { return planner.clique(gpus, 2); },
          kMostOfClique),
      planned("binary-tree-star all-reduce",
              [](const Planner& planner, const Ranks&) { return planner.binary_tree_star(); }),
      planned("NVLink SHARP all-reduce", [](const Planner& planner, const Ranks&) { return planner.nvls(); }),
      planned("tree all-reduce (NCCL's Tree: double binary trees between machines, chains inside)",
              [](const Planner& planner, const Ranks&) { return planner.tree(); }),
      choice_of_one("all-reduce by the fastest algorithm"),
      choice_of_one("all-reduce as the library chooses")};
  return all;
}

}  // namespace

CollectiveSize plan_size(const CollectivePlan& plan) {
  CollectiveSize size;
  for (const CollectivePhase& phase : plan) {
    size.edges += static_cast<double>(phase.edges.size());
    size.messages += static_cast<double>(phase.edges.size()) * static_cast<double>(phase.repeat);
  }
  return size;
}

const AllReduceAlgorithm& all_reduce_algorithm(CollectiveAlgorithm algorithm) {
  return algorithms().at(static_cast<std::size_t>(algorithm));
}

CollectiveAlgorithm register_all_reduce(const std::string& word, AllReduceAlgorithm algorithm) {
  const CollectiveAlgorithm added = add_collective_algorithm(word);
  algorithms().push_back(std::move(algorithm));
  return added;
}

CollectivePlan plan_all_reduce(CollectiveAlgorithm algorithm, const std::vector<Endpoint>& gpus, Network& network,
                               bool is_in_gpu_order) {
  return plan_collective(CollectiveKind::kAllReduce, algorithm, gpus, network, is_in_gpu_order);
}

CollectivePlan plan_collective(CollectiveKind kind, CollectiveAlgorithm algorithm, const std::vector<Endpoint>& gpus,
                               Network& network, bool is_in_gpu_order, bool by_trees) {
  const Planner planner{gpus, network, is_in_gpu_order};
  CollectivePlan plan;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      plan = all_reduce_algorithm(algorithm).plan(gpus, network, is_in_gpu_order);
      break;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllGather:
      if (by_trees) plan = planner.aggregated_trees();
      if (kind == CollectiveKind::kReduceScatter) std::ranges::reverse(plan);
      if (!plan.empty()) break;
      plan = planner.ring();
      for (CollectivePhase& phase : plan) {
        phase.repeat /= 2;
        phase.sections = 1;
      }
      break;
    case CollectiveKind::kAllToAll:
      plan = planner.clique(gpus, 1);
      plan.front().steps = plan.front().steps * std::log2(static_cast<double>(std::max<std::size_t>(gpus.size(), 2)));
      break;
    case CollectiveKind::kBroadcast:
      plan = planner.broadcast();
      break;
    case CollectiveKind::kShift:
      plan = planner.shift();
      break;
  }
  std::erase_if(plan, [](const CollectivePhase& phase) { return phase.edges.empty() || phase.repeat == 0; });
  return plan;
}

}  // namespace rehearse
