#pragma once
// A step as the whole cluster does it: what each worker's program is, who is at the other end of its connections, who
// meets in its collectives, and who shares its counters. Sessions, exports, estimates and printed programs all ask here.

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

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

/// What one worker does in a step.
struct WorkerStep {
  int worker = 0;
  const ComputePlan* plan = nullptr;  // of one pass
  int passes = 1;
  std::int64_t samples = 0;
  std::vector<int> groups{};  // in ClusterStep::groups, as its program numbers them
};

/// Workers that meet in collectives, with all their GPUs, in the order in which a ring takes them.
struct WorkerGroup {
  std::string name;  // "data", "copies of wte", "GPUs of a worker"
  std::vector<int> workers;
};

/// What all workers that take part in a step do.
struct ClusterStep {
  std::vector<WorkerStep> workers;
  std::vector<WorkerGroup> groups;
  std::int64_t samples = 0;  // of its update

  /// Null if it takes no part.
  const WorkerStep* find(int worker) const;
};

/// Compiles the steps of a cluster, whoever takes part in them.
class StepCompiler {
 public:
  /// The site has to outlive it. With `fuses_chains` programs are fuse_chains() of what strategies compile. Throws what
  /// the compilers throw.
  explicit StepCompiler(const Site& site, bool fuses_chains = false);

  const Site& site() const { return site_; }
  const Scenario& scenario() const { return site_.scenario; }
  int workers() const { return static_cast<int>(site_.workers.size()); }
  int ranks() const { return workers() + static_cast<int>(site_.servers.size()); }
  /// What goes over the network in one piece, with servers or collectives of all workers.
  const GradientUnits& units() const { return units_; }
  /// What is exchanged in a step, as every program numbers it; none before one is compiled.
  std::vector<std::string> labels() const {
    return programs_.empty() ? std::vector<std::string>{} : programs_.begin()->second.labels;
  }

  /// What a worker of the machine does in a pass of a step of the group's own batch, by all stages together.
  const ComputePlan& plan_of(MachineIndex machine) const {
    return plans_[static_cast<std::size_t>(site_.machine(machine).group)];
  }
  /// The same of the worker, by itself.
  const ComputePlan& own_plan(int worker);
  /// Names of the kernels of the worker's programs, by label.
  const std::vector<std::string>& kernels(int worker);

  /// As the worker's program numbers them.
  std::vector<Wire> wires(int worker) const;
  /// The workers that share the counters of the worker's team, itself included, in order.
  std::vector<int> team(int worker) const;
  /// Where it stands among them.
  const TeamPlace& place(int worker) const { return places_[at(worker)]; }

  /// A step of these, in the scenario's order; what is synchronous they share, as step_shares() has it. Throws
  /// NoResultError if one has not enough memory for its part.
  ClusterStep step(const std::vector<int>& workers);
  /// A step of all, each with its own batch.
  ClusterStep step();
  /// What a worker does in it. It is compiled when it is first asked for, once for all workers that do the same.
  const Program& program(const WorkerStep& step, FirstVariables first = FirstVariables::kPushed);

 private:
  /// Programs are the same of workers with the same: plan, passes, stage, place in their team, first variables.
  using Class = std::tuple<const ComputePlan*, int, int, TeamPlace, FirstVariables>;

  int group_of(int worker) const { return site_.machine(site_.workers[at(worker)].front().machine).group; }
  int stage_of(int worker) const { return grid_.coordinate(worker, Axis::kPipeline); }
  ClusterStep own_step(const std::vector<int>& workers);
  void share_samples(ClusterStep& step);
  void add_groups(ClusterStep& step) const;

  const Site& site_;
  bool fuses_chains_;
  RankGrid grid_;
  GradientUnits units_;
  std::optional<PipelineStages> stages_;
  std::optional<PipelineExchange> stage_exchange_;
  std::vector<TeamPlace> places_;                           // [workers]
  std::deque<ComputePlan> plans_;                           // [groups]; addresses stay
  std::map<std::pair<int, int>, ComputePlan> stage_plans_;  // by group and stage
  std::map<std::pair<int, int>, ComputePlan> other_plans_;  // by group and batch
  std::map<int, std::vector<std::string>> kernels_;         // by group of machines
  std::map<Class, Program> programs_;
};

}  // namespace rehearse
