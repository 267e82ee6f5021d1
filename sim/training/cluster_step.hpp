#pragma once
// A step as the whole cluster does it: what each worker's program is, who is at the other end of its connections, who
// meets in its collectives, and who shares its counters. Sessions, exports, estimates and printed programs all ask here.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/resources/network.hpp"
#include "sim/training/strategy_compiler.hpp"

namespace rehearse {

/// What all workers that take part in a step do.
struct ClusterStep {
  std::vector<WorkerStep> workers;
  std::vector<WorkerGroup> groups;
  std::int64_t samples = 0;  // of its update

  /// That of a worker who takes part.
  const WorkerStep& of(int worker) const;
};

/// Compiles the steps of a cluster, whoever takes part in them.
class StepCompiler {
 public:
  /// The site has to outlive it. `fused`: [workers] whose programs are fuse_chains() of what strategies compile; empty: none.
  /// Throws what the compilers throw.
  explicit StepCompiler(const Site& site, std::vector<bool> fused = {});

  const Site& site() const { return site_; }
  const Scenario& scenario() const { return site_.scenario; }
  const StrategyCompiler& strategy() const { return *strategy_; }
  int workers() const { return static_cast<int>(site_.workers.size()); }
  int ranks() const { return workers() + static_cast<int>(site_.servers.size()); }
  /// What is exchanged in a step, as every program numbers it; none before one is compiled.
  const std::vector<std::string>& labels() const;

  /// What a machine of the group does in a pass of a step of the group's own batch, by itself.
  const ComputePlan& plan_of(int group) const { return plans_[at(group)]; }
  /// The worker's share of it.
  const ComputePlan& own_plan(int worker) { return plan_with(worker, scenario().groups[at(group_of(worker))].batch); }
  /// Names of the kernels of the worker's programs, by label.
  const std::vector<std::string>& kernels(int worker);

  /// A step of these, in the scenario's order; what is synchronous they share, as step_shares() has it. Throws
  /// NoResultError if one has not enough memory for its part.
  ClusterStep step(const std::vector<int>& workers);
  /// A step of all, each with its own batch.
  ClusterStep step();
  /// What a worker does in it. It is compiled when it is first asked for, once for all workers that do the same.
  const Program& program(const WorkerStep& step, FirstVariables first = FirstVariables::kPushed);
  /// The worker's connections, as its program numbers them.
  std::vector<PathIndex> paths(int worker, Network& network) const;
  /// [groups] whether no message of another group or between workers, and no copy of what hosts keep, crosses a link that the
  /// group's collectives cross.
  std::vector<bool> groups_with_own_links(const ClusterStep& step, Network& network);
  /// Whether all GPUs of each machine that stands for others do the same at the same time, each with its own links: in each phase of
  /// collectives, and by each connection, as much crosses the links of one as of another, from and to links of the same kinds. Then
  /// max-min sharing gives all of them the same rates, whatever else is under way.
  bool gpus_are_alike(const ClusterStep& step, Network& network);
  /// Of the group's collectives.
  const std::set<CollectiveKind>& kinds_of(const ClusterStep& step, std::size_t group);

 private:
  /// Programs are the same of workers with the same: plan, passes, number of StrategyCompiler::alike(), first variables, and that
  /// are fused or not.
  using Class = std::tuple<const ComputePlan*, int, int, FirstVariables, bool>;
  struct Compiled {
    Program program;
    std::map<int, std::set<CollectiveKind>> kinds;  // by the worker's group
  };

  const Compiled& compiled(const WorkerStep& step, FirstVariables first);

  /// Of programs that differ in their loads of experts. Throws RunError if there are too many.
  void count_operations(const Program& program);
  /// Of what hosts keep: the ways there and back.
  std::vector<PathIndex> offloading_copies(int worker, Network& network) const;
  int group_of(int worker) const { return site_.machine(site_.workers[at(worker)].front().machine).group; }
  /// Of so many samples in a pass, where `sharing` workers share the step.
  const ComputePlan& plan_with(int worker, int batch, std::int64_t sharing = 0);
  /// Of all stages.
  const ComputePlan& whole_plan(int worker, int batch, std::int64_t sharing);
  ClusterStep own_step(const std::vector<int>& workers);
  void share_samples(ClusterStep& step);

  const Site& site_;
  std::vector<bool> fused_;  // [workers]
  std::unique_ptr<StrategyCompiler> strategy_;
  std::vector<WorkerGroup> groups_;
  std::vector<ComputePlan> plans_;                                 // [groups of machines]
  std::map<std::tuple<int, int, int>, ComputePlan> whole_plans_;   // by group, batch, and GPU with loads of its own
  std::map<std::tuple<int, int, int>, ComputePlan> shared_plans_;  // by group, batch, and what is alike
  std::map<int, std::vector<std::string>> kernels_;                // by group of machines
  std::map<Class, Compiled> programs_;
  std::size_t operations_ = 0;
};

}  // namespace rehearse
