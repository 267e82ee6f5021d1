#include "sim/job/fold_links.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/program/collective_methods.hpp"

namespace rehearse {

namespace {

bool may_bind(const TopologyLink& link) { return link.machine < 0 && !link.never_binds; }

class LinkFolding {
 public:
  LinkFolding(const MachineFold& fold, const RankGrid& grid, StepCompiler& compiler, const ClusterStep& step,
              Cluster& cluster)
      : fold_{fold}, compiler_{compiler}, step_{step}, cluster_{cluster}, links_{cluster.network.topology().links()} {
    const std::vector<Machine>& machines = cluster.site.machines;
    for (const Machine& machine : machines) standing_for_.emplace_back(at(machine.gpus));
    const std::vector<std::vector<Endpoint>>& workers = cluster.site.workers;
    for (std::size_t w = 0; w < workers.size(); ++w) {
      const int machine = workers[w].front().machine;
      const int like = static_cast<int>(w) + (fold.standing_for(machine) - machine) * machines[at(machine)].workers;
      workers_standing_for_.push_back(fold.alike > 1 ? grid.moved(like, Axis::kTensor, 0) : like);
      for (std::size_t i = 0; i < workers[w].size(); ++i)
        standing_for_[at(machine)][at(workers[w][i].gpu)] = workers[at(workers_standing_for_.back())][i];
    }
  }

  std::optional<LinkFold> run() {
    add_connections();
    add_collectives();
    if (crossed_.empty()) return LinkFold{};
    return are_alike() ? std::optional{fold()} : std::nullopt;
  }

 private:
  /// Of a class: what sends it, the ends of those that stand for it.
  using Key = std::array<int, 8>;
  struct MessageClass {
    int messages = 0, simulated = 0;
    Seconds latency{};
    bool has_one_latency = true;
  };
  /// Messages of a class that cross a link as that place of their way.
  struct Crossing {
    int message_class = 0, place = 0, messages = 0;
    auto operator<=>(const Crossing&) const = default;
  };

  Endpoint standing_for(Endpoint end) const {
    return end.gpu == Endpoint::kHost ? Endpoint{fold_.standing_for(end.machine), end.gpu}
                                      : standing_for_[at(end.machine)][at(end.gpu)];
  }

  void add(std::array<int, 4> of, Endpoint from, Endpoint to, const Path& way, bool counts_latency) {
    const Endpoint first = standing_for(from), last = standing_for(to);
    const auto [entry, is_new] =
        numbers_.try_emplace(Key{of[0], of[1], of[2], of[3], first.machine, first.gpu, last.machine, last.gpu},
                             static_cast<int>(classes_.size()));
    if (is_new) classes_.push_back({.latency = way.latency});
    const int number = entry->second;
    MessageClass& its = classes_[at(number)];
    ++its.messages;
    if (first == from) ++its.simulated;
    if (counts_latency && way.latency != its.latency) its.has_one_latency = false;
    for (std::size_t place = 0; place < way.links.size(); ++place)
      if (may_bind(links_[at(way.links[place])])) ++crossed_[way.links[place]][{number, static_cast<int>(place)}];
  }

  void add_connections() {
    for (const WorkerStep& worker : step_.workers) {
      const std::vector<Wire> wires = compiler_.strategy().wires(worker.worker);
      for (std::size_t i = 0; i < wires.size(); ++i)
        if (cluster_.network.topology().crosses_network(wires[i].sender, wires[i].receiver))
          add({-1, static_cast<int>(i), 0, 0}, wires[i].sender, wires[i].receiver,
              cluster_.network.path(cluster_.network.path(wires[i].sender, wires[i].receiver)), true);
    }
  }

  void add_collectives() {
    for (std::size_t g = 0; g < step_.groups.size(); ++g) {
      const std::vector<int>& workers = step_.groups[g].workers;
      const std::vector<Endpoint> gpus = cluster_.site.gpus_of(workers);
      if (std::ranges::none_of(
              gpus, [&](Endpoint gpu) { return cluster_.network.topology().crosses_network(gpus.front(), gpu); }))
        continue;
      // Of the worker that stands for the first of them, the group of this number.
      const int first = *std::ranges::min_element(workers, {}, [&](int one) { return workers_standing_for_[at(one)]; });
      const std::vector<int>& groups = step_.of(first).groups;
      const int number = static_cast<int>(std::ranges::find(groups, static_cast<int>(g)) - groups.begin());
      for (const CollectiveKind kind : compiler_.kinds_of(step_, g)) {
        int phases = 0;
        for (const CollectiveMethod& method : collective_methods(cluster_.site, gpus, cluster_.network, kind))
          for (const CollectivePhase& phase : method.plan) {
            for (const PathIndex edge : phase.edges)
              add({workers_standing_for_[at(first)], number, static_cast<int>(kind), phases},
                  cluster_.network.source(edge), cluster_.network.destination(edge), cluster_.network.path(edge),
                  !phase.mean_latency);
            ++phases;
          }
      }
    }
  }

  /// Messages that a simulated one stands for, itself included.
  int stood_for() const { return (fold_.block > 0 ? fold_.span / fold_.block : 1) * fold_.alike; }

  /// Finds the classes of links, and whether they tell no messages of a class apart.
  bool are_alike() {
    for (const auto& [link, by_message] : crossed_) {
      std::vector<Crossing> crossings;
      for (const auto& [message, count] : by_message) crossings.push_back({message.first, message.second, count});
      link_classes_[{links_[at(link)].rate.value(), std::move(crossings)}].push_back(link);
    }
    for (const auto& [what, links] : link_classes_)
      for (const Crossing& crossing : what.second) {
        const MessageClass& its = classes_[at(crossing.message_class)];
        if (!its.has_one_latency || its.messages != stood_for() * its.simulated ||
            its.messages != crossing.messages * static_cast<int>(links.size()))
          return false;
      }
    return true;
  }

  LinkFold fold() const {
    LinkFold fold;
    fold.like.resize(links_.size());
    std::iota(fold.like.begin(), fold.like.end(), 0);
    if (fold_.block > 0) {
      std::vector<int> first_of(cluster_.site.machines.size(), -1);
      for (std::size_t i = 0; i < links_.size(); ++i)
        if (const int machine = links_[i].machine; machine >= 0) {
          int& first = first_of[at(machine)];
          if (first < 0) first = static_cast<int>(i);
          fold.like[i] = static_cast<int>(i) - first + first_of[at(fold_.standing_for(machine))];
        }
    }
    for (const auto& [what, links] : link_classes_) {
      for (const int link : links) fold.like[at(link)] = links.front();
      fold.rates[links.front()] = BytesPerSecond{what.first} * (static_cast<double>(links.size()) / stood_for());
    }
    return fold;
  }

  const MachineFold& fold_;
  StepCompiler& compiler_;
  const ClusterStep& step_;
  Cluster& cluster_;
  const std::vector<TopologyLink>& links_;
  std::vector<int> workers_standing_for_;
  std::vector<std::vector<Endpoint>> standing_for_;  // [machines][GPUs]
  std::map<Key, int> numbers_;                       // of classes
  std::vector<MessageClass> classes_;
  std::map<int, std::map<std::pair<int, int>, int>> crossed_;  // by link: by class and place messages
  std::map<std::pair<double, std::vector<Crossing>>, std::vector<int>> link_classes_;  // by rate and what crosses them
};

}  // namespace

bool has_binding_links(const Topology& topology) { return std::ranges::any_of(topology.links(), may_bind); }

std::optional<LinkFold> fold_links(const MachineFold& fold, const RankGrid& grid, StepCompiler& compiler,
                                   const ClusterStep& step, Cluster& cluster) {
  if (!has_binding_links(cluster.network.topology())) return LinkFold{};
  return LinkFolding{fold, grid, compiler, step, cluster}.run();
}

}  // namespace rehearse
