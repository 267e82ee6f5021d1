#pragma once
// What a strategy makes of a cluster: what each worker does in a step, who is at the other end of its connections, who
// meets in collectives, and who shares counters. One class for each strategy, in its compile_*.cpp.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/pinned.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "sim/scenario/site.hpp"
#include "sim/training/compile.hpp"

namespace rehearse {

/// A one-way connection of a worker. Ranks are the workers, in the scenario's order, and then the parameter servers; a
/// worker of several GPUs is one.
struct Wire {
  int from = 0, to = 0;  // ranks
  Endpoint sender, receiver;
};

/// Workers that meet in collectives, with all their GPUs, in the order in which a ring takes them.
struct WorkerGroup {
  std::string name;  // "data", "copies of wte", "GPUs of a worker"
  std::vector<int> workers;
};

/// What one worker does in a step.
struct WorkerStep {
  int worker = 0;
  const ComputePlan* plan = nullptr;  // of one pass
  int passes = 1;
  std::int64_t samples = 0;
  std::vector<int> groups{};  // in ClusterStep::groups, as its program numbers them
};

class StrategyCompiler : private Pinned {
 public:
  /// The site has to outlive it.
  explicit StrategyCompiler(const Site& site)
      : site_{site}, grid_{rank_grid(site.scenario)}, experts_{expert_grid(site.scenario)} {}
  virtual ~StrategyCompiler() = default;

  /// The worker's part of what a machine like its own would do by itself in a pass.
  virtual ComputePlan share(const ComputePlan& whole, int /*worker*/) const { return whole; }
  /// Workers with the same number, plan and passes have the same program.
  virtual int alike(int worker) const { return std::max(expert_gpu(worker), 0); }
  /// Which of the GPUs that have other loads of experts each; -1: there are none.
  int expert_gpu(int worker) const {
    const ExpertSplit& split = scenario().model.expert_split;
    if (!split.has_own_loads()) return -1;
    return experts_.coordinate(worker, Axis::kExperts) +
           experts_.coordinate(worker, Axis::kExpertMachines) * (split.degree / split.machines);
  }
  virtual Program compile(const WorkerStep& step, FirstVariables first) const = 0;

  /// The worker's connections, as its program numbers them.
  virtual std::vector<Wire> wires(int /*worker*/) const { return {}; }
  /// Groups of all workers that there are. A worker's program numbers those that it is in, in this order (GroupNumbers). By default
  /// one of all that are alike: that differ along kSharingAxes alone; then those that compute each layer together, then replicas.
  virtual std::vector<WorkerGroup> groups() const {
    std::vector<WorkerGroup> groups;
    for (int first = 0; first < workers(); ++first)
      if (grid_.is_first(kSharingAxes, first)) groups.push_back({"data", grid_.along(kSharingAxes, first)});
    add_split_groups(groups);
    add_replica_groups(groups);
    add_expert_groups(groups);
    return groups;
  }
  /// The workers that share the counters of the worker's team, itself included, in order.
  virtual std::vector<int> team(int worker) const { return {worker}; }

  /// What goes to servers in one piece; none without servers.
  virtual const std::vector<GradientUnit>& placed_units() const {
    static const std::vector<GradientUnit> none;
    return none;
  }
  /// Of workers that go on by themselves: whether nothing but the worker's own copies crosses PCIe of its GPUs.
  virtual bool copies_are_alone(int /*worker*/) const { return true; }

 protected:
  const Site& site() const { return site_; }
  const Scenario& scenario() const { return site_.scenario; }
  const RankGrid& grid() const { return grid_; }
  /// A group of each worker at the beginning of the axis and those along it.
  void add_groups_along(Axis axis, const std::string& name, std::vector<WorkerGroup>& groups) const {
    add_groups_along(grid_, axis, name, groups);
  }
  void add_groups_along(const RankGrid& grid, Axis axis, const std::string& name,
                        std::vector<WorkerGroup>& groups) const {
    for (int first = 0; first < workers(); ++first)
      if (grid.coordinate(first, axis) == 0) groups.push_back({name, grid.along(axis, first)});
  }
  /// Those that compute each layer together; none if layers are not split.
  void add_split_groups(std::vector<WorkerGroup>& groups) const {
    constexpr std::array<const char*, kSplitGroups> kNames{"tensor", "heads", "positions", "experts",
                                                           "machines of experts"};
    for (std::size_t group = 0; group < kSplitGroups; ++group) {
      const Axis axis = axis_of(static_cast<SplitGroup>(group));
      if (const RankGrid& grid = axis == Axis::kExperts || axis == Axis::kExpertMachines ? experts_ : grid_;
          grid.degree(axis) > 1)
        add_groups_along(grid, axis, kNames[group], groups);
    }
  }
  /// Those that share the states of experts.
  void add_expert_groups(std::vector<WorkerGroup>& groups) const {
    if (scenario().model.expert_split.degree > 0) add_groups_along(experts_, Axis::kData, "data of experts", groups);
  }
  void add_replica_groups(std::vector<WorkerGroup>& groups) const {
    if (grid_.degree(Axis::kReplica) > 1) add_groups_along(Axis::kReplica, "replicas", groups);
  }
  int workers() const { return static_cast<int>(site_.workers.size()); }
  const std::vector<Endpoint>& gpus(int worker) const { return site_.workers[at(worker)]; }

 private:
  const Site& site_;
  RankGrid grid_, experts_;
};

std::unique_ptr<StrategyCompiler> parameter_server_compiler(const Site& site);
std::unique_ptr<StrategyCompiler> all_reduce_compiler(const Site& site);
std::unique_ptr<StrategyCompiler> pipeline_compiler(const Site& site);
std::unique_ptr<StrategyCompiler> pairwise_compiler(const Site& site);
}  // namespace rehearse
