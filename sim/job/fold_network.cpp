#include "sim/job/fold_network.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "sim/job/fold_links.hpp"
#include "sim/program/collective_methods.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "sim/training/cluster_step.hpp"

namespace rehearse {

namespace {

class Folding {
 public:
  Folding(const Reductions& reductions, Workers& workers, Cluster& cluster)
      : reductions_{reductions},
        workers_{workers},
        cluster_{cluster},
        scenario_{cluster.site.scenario},
        compiler_{workers.compiler()},
        grid_{rank_grid(scenario_)},
        experts_{expert_grid(scenario_)} {}

  MachineFold run() {
    const MachineFold of_machines = fold_of_machines();
    const ClusterStep step = step_of_all(of_machines);
    const int split = folds_split(of_machines, step) ? grid_.degree(Axis::kTensor) : 1;
    std::vector<MachineFold> folds{of_machines, {}};
    if (split > 1) folds = {{of_machines.block, of_machines.span, split}, of_machines, {.alike = split}, {}};
    for (MachineFold fold : folds) {
      std::optional<LinkFold> links =
          fold ? fold_links(fold, grid_, compiler_, step, cluster_) : std::optional{LinkFold{}};
      if (!links) continue;
      if (reductions_.joins_gpus && !*links && joins_gpus({.block = fold.block, .span = fold.span}, step)) {
        fold.alike = cluster_.site.machines.front().workers;
        fold.joins_gpus = true;
      }
      if (fold || cluster_.network.fold()) cluster_.network.fold(fold, std::move(*links));
      return fold;
    }
    return {};
  }

 private:
  /// Machines that stand for all others, if the groups of likes, one in each block of them, are the same in each; or none.
  MachineFold fold_of_machines() {
    const MachineFold& fold = reductions_.fold;
    if (!fold) return fold;
    constexpr std::array kReplicas{Axis::kReplica}, kLikes{Axis::kData};
    const std::span<const Axis> likes =
        grid_.degree(Axis::kReplica) > 1 ? std::span<const Axis>{kReplicas} : std::span<const Axis>{kSharingAxes};
    for (const WorkerGroup& group : compiler_.strategy().groups()) {
      if (grid_.along(likes, group.workers.front()) != group.workers &&
          (scenario_.model.expert_split.degree == 0 || experts_.along(kLikes, group.workers.front()) != group.workers))
        continue;
      for (const CollectiveMethod& method :
           collective_methods(cluster_.site, cluster_.site.gpus_of(group.workers), cluster_.network))
        if (!repeats_in_blocks(method.plan, cluster_.network, fold)) return {};
    }
    return fold;
  }

  /// Of workers that hold each layer together, whether one may run for all of them: they are on one machine, and no link of what
  /// another one sends to its data-parallel likes, or to the next stage, is a machine's link of its own.
  bool folds_split(const MachineFold& fold, const ClusterStep& step) {
    if (!reductions_.folds_split) return false;
    for (const Machine& machine : cluster_.site.machines)
      if (machine.workers % grid_.degree(Axis::kTensor) != 0) return false;
    std::map<int, int> users;  // by link: the coordinate
    const auto cross = [&](PathIndex path, int worker) {
      const int coordinate = grid_.coordinate(worker, Axis::kTensor);
      return std::ranges::all_of(cluster_.network.path(path).links, [&](int link) {
        if (cluster_.network.topology().links()[static_cast<std::size_t>(link)].machine < 0) return true;
        return users.try_emplace(link, coordinate).first->second == coordinate;
      });
    };
    for (std::size_t g = 0; g < step.groups.size(); ++g) {
      const WorkerGroup& group = step.groups[g];
      const int first = group.workers.front();
      if (grid_.degree(Axis::kTensor) > 1 && grid_.along(Axis::kTensor, first) == group.workers) continue;
      const int coordinate = grid_.coordinate(first, Axis::kTensor);
      if (std::ranges::any_of(group.workers,
                              [&](int one) { return grid_.coordinate(one, Axis::kTensor) != coordinate; }))
        return false;  // as of experts, of which each is held by one of those that hold other layers together
      std::set<CollectiveKind> kinds = compiler_.kinds_of(step, g);
      kinds.insert({CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter});
      for (const CollectiveKind kind : kinds)
        for (const CollectiveMethod& method :
             collective_methods(cluster_.site, cluster_.site.gpus_of(group.workers), cluster_.network, kind))
          for (const CollectivePhase& phase : method.plan)
            for (const PathIndex edge : phase.edges)
              if (fold.stands(cluster_.network.source(edge).machine) && !cross(edge, first)) return false;
    }
    for (const Worker& worker : workers_)
      if (fold.stands(worker.gpu.machine))
        for (const PathIndex path : compiler_.paths(worker.index, cluster_.network))
          if (!cross(path, worker.index)) return false;
    return true;
  }

  /// A step of all workers, if a reduction asks what they exchange in it; or of none.
  ClusterStep step_of_all(const MachineFold& of_machines) {
    if (!reductions_.joins_gpus && !reductions_.folds_split &&
        !(of_machines && has_binding_links(cluster_.network.topology())))
      return {};
    return workers_.step_of_all();
  }

  /// Whether the first GPU of each machine may run for all of them: what experts, or heads, exchange is the same for each. Folds
  /// the network by machines.
  bool joins_gpus(const MachineFold& of_machines, const ClusterStep& step) {
    if (of_machines) cluster_.network.fold(of_machines);
    for (std::size_t m = 0; m < cluster_.site.machines.size(); ++m) {
      const auto links = cluster_.network.topology().links_by_gpu(static_cast<MachineIndex>(m));
      const int workers = cluster_.site.machines[m].workers;
      if (links.empty() || workers < 2 || static_cast<std::size_t>(workers) != links.front().size()) return false;
    }
    const StrategyCompiler& strategy = compiler_.strategy();
    return std::ranges::all_of(workers_,
                               [&](const Worker& worker) {
                                 return strategy.alike(worker.index) == strategy.alike(worker.index - worker.gpu.gpu);
                               }) &&
           compiler_.gpus_are_alike(step, cluster_.network);
  }

  const Reductions& reductions_;
  Workers& workers_;
  Cluster& cluster_;
  const Scenario& scenario_;
  StepCompiler& compiler_;
  RankGrid grid_, experts_;
};

}  // namespace

MachineFold fold_network(const Reductions& reductions, Workers& workers, Cluster& cluster) {
  return Folding{reductions, workers, cluster}.run();
}

}  // namespace rehearse
