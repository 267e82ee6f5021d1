#pragma once
// The programs of all workers of a full cluster for one step, and who is at the other end of their connections, groups
// and counters.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "sim/scenario/site.hpp"
#include "sim/training/compile.hpp"

namespace rehearse {

/// Ranks are the workers, in the scenario's order, and then the parameter servers. A worker of several GPUs is one.
class StepPrograms {
 public:
  /// A one-way connection of a worker, between ranks.
  struct Connection {
    int from = 0, to = 0;
  };

  /// The scenario has to outlive it. Throws what Site and the compilers throw.
  explicit StepPrograms(const Scenario& scenario);

  const Scenario& scenario() const { return scenario_; }
  int workers() const { return static_cast<int>(site_.workers.size()); }
  int servers() const { return has_servers_ ? static_cast<int>(site_.servers.size()) : 0; }
  int ranks() const { return workers() + servers(); }

  /// Of a step that follows others. It is compiled when it is first asked for, once for all workers that do the same.
  const Program& program(int worker);
  /// Names of the kernels, by label.
  const std::vector<std::string>& kernels(int worker);
  /// As the compilers number them (compile.hpp).
  std::vector<Connection> connections(int worker) const;
  /// [groups of collectives, as the compilers number them] the ranks that meet in them.
  std::vector<std::vector<int>> groups(int worker) const;
  /// All that are not of all ranks, each once: the name of the i-th in a trace is i + 1.
  const std::vector<std::vector<int>>& process_groups() const { return process_groups_; }
  /// The ranks that share the counters of the worker's team, itself included.
  std::vector<int> team(int worker) const;

 private:
  /// Workers of the same: group of machines, stage, place in their team.
  using Class = std::tuple<int, int, TeamPlace>;

  int group_of(int worker) const;
  int stage_of(int worker) const { return pipeline_ == nullptr ? 0 : worker % pipeline_->stages; }
  Class class_of(int worker) const;
  const ComputePlan& plan_of(int group);
  void find_process_groups();

  const Scenario& scenario_;
  Site site_;
  const Pipeline* pipeline_;
  bool has_servers_;
  GradientUnits units_;
  std::optional<PipelineStages> stages_;
  std::optional<PipelineExchange> stage_exchange_;
  std::vector<std::vector<int>> process_groups_;
  std::vector<TeamPlace> places_;                    // [workers]
  std::map<int, ComputePlan> plans_;                 // by group of machines
  std::map<int, std::vector<std::string>> kernels_;  // by group of machines
  std::map<Class, Program> programs_;
};

}  // namespace rehearse
