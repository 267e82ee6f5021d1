#include "sim/training/step_programs.hpp"

#include <algorithm>
#include <set>

#include "sim/scenario/step_time.hpp"

namespace rehearse {

StepPrograms::StepPrograms(const Scenario& scenario)
    : scenario_{scenario},
      site_{scenario},
      pipeline_{scenario.training.strategy.kind->pipeline()},
      has_servers_{scenario.training.strategy.kind->servers() != nullptr} {
  if (pipeline_ != nullptr) {
    stages_ = cut_into_stages(scenario);
    stage_exchange_ = plan_pipeline_exchange(scenario, *stages_);
  } else {
    units_ = plan_gradient_units(scenario, servers());
  }
  for (const std::vector<Endpoint>& gpus : site_.workers) {
    const Endpoint first = gpus.front();
    places_.push_back(scenario.training.strategy.kind->is_in_lockstep()
                          ? TeamPlace{}
                          : team_places(site_, first.machine, units_)[static_cast<std::size_t>(first.gpu)]);
  }
  find_process_groups();
}

void StepPrograms::find_process_groups() {
  if (pipeline_ == nullptr) return;
  std::set<std::vector<int>> known;
  for (int worker = 0; worker < workers(); ++worker)
    for (std::vector<int>& group : groups(worker))
      if (static_cast<int>(group.size()) < ranks() && known.insert(group).second)
        process_groups_.push_back(std::move(group));
}

int StepPrograms::group_of(int worker) const { return site_.machine(site_.workers[at(worker)].front().machine).group; }

StepPrograms::Class StepPrograms::class_of(int worker) const {
  return {group_of(worker), stage_of(worker), places_[at(worker)]};
}

const ComputePlan& StepPrograms::plan_of(int group) {
  const auto [entry, is_new] = plans_.try_emplace(group);
  if (is_new) entry->second = plan_step(scenario_, scenario_.groups[at(group)]);
  return entry->second;
}

const std::vector<std::string>& StepPrograms::kernels(int worker) {
  const auto [entry, is_new] = kernels_.try_emplace(group_of(worker));
  if (is_new)
    for (const Operator& kernel : scenario_.workload_of(scenario_.groups[at(group_of(worker))]).graph)
      entry->second.push_back(kernel.name);
  return entry->second;
}

const Program& StepPrograms::program(int worker) {
  const auto [entry, is_new] = programs_.try_emplace(class_of(worker));
  if (!is_new) return entry->second;
  const ComputePlan& plan = plan_of(group_of(worker));
  const int passes = scenario_.training.strategy.exchange.accumulation_steps;
  if (pipeline_ != nullptr)
    entry->second = compile_pipeline(scenario_, plan_stage(plan, *stages_, stage_of(worker), scenario_.workload),
                                     *stages_, *stage_exchange_, stage_of(worker));
  else if (scenario_.training.strategy.kind->is_in_lockstep())
    entry->second = compile_step(scenario_, plan, passes, units_);
  else
    entry->second = compile_step(scenario_, plan, passes, units_, places_[at(worker)], FirstVariables::kPushed);
  return entry->second;
}

std::vector<StepPrograms::Connection> StepPrograms::connections(int worker) const {
  std::vector<Connection> connections;
  if (pipeline_ != nullptr) {
    const int gpus = static_cast<int>(site_.workers[at(worker)].size());
    const auto connect = [&](int other) { connections.insert(connections.end(), at(gpus), {worker, other}); };
    if (stage_of(worker) > 0) connect(worker - 1);
    if (stage_of(worker) + 1 < pipeline_->stages) connect(worker + 1);
    return connections;
  }
  for (int server = 0; server < servers(); ++server) {
    connections.push_back({worker, workers() + server});
    connections.push_back({workers() + server, worker});
  }
  if (!places_[at(worker)].adder.empty())
    for (const int member : team(worker)) connections.push_back({worker, member});
  return connections;
}

std::vector<std::vector<int>> StepPrograms::groups(int worker) const {
  std::vector<std::vector<int>> groups(1);
  if (pipeline_ == nullptr) {
    for (int other = 0; other < workers(); ++other) groups.front().push_back(other);
    return groups;
  }
  for (int other = stage_of(worker); other < workers(); other += pipeline_->stages) groups.front().push_back(other);
  for (const PipelineExchange::Copies& copies : stage_exchange_->copies) {
    if (std::ranges::find(copies.stages, stage_of(worker)) == copies.stages.end()) continue;
    groups.emplace_back();
    for (const int stage : copies.stages) groups.back().push_back(worker - stage_of(worker) + stage);
  }
  return groups;
}

std::vector<int> StepPrograms::team(int worker) const {
  const int members = pipeline_ != nullptr ? pipeline_->stages : places_[at(worker)].members;
  const int place = pipeline_ != nullptr ? stage_of(worker) : places_[at(worker)].member;
  std::vector<int> team;
  for (int member = 0; member < members; ++member) team.push_back(worker - place + member);
  return team;
}

}  // namespace rehearse
