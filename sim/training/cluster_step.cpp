#include "sim/training/cluster_step.hpp"

#include <algorithm>
#include <numeric>

#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

const WorkerStep* ClusterStep::find(int worker) const {
  const auto found = std::ranges::lower_bound(workers, worker, {}, &WorkerStep::worker);
  return found != workers.end() && found->worker == worker ? &*found : nullptr;
}

StepCompiler::StepCompiler(const Site& site, bool fuses_chains)
    : site_{site}, fuses_chains_{fuses_chains}, grid_{rank_grid(site.scenario)} {
  const Scenario& scenario = site.scenario;
  if (grid_.degree(Axis::kPipeline) > 1) {
    stages_ = cut_into_stages(scenario);
    stage_exchange_ = plan_pipeline_exchange(scenario, *stages_);
  } else {
    units_ = plan_gradient_units(scenario, static_cast<int>(site.servers.size()));
  }
  for (const Group& group : scenario.groups)
    plans_.push_back(group.role == Role::kWorker ? plan_step(scenario, group) : ComputePlan{});
  const bool has_teams = !std::holds_alternative<AllReduceStrategy>(scenario.training.strategy.kind);
  for (const std::vector<Endpoint>& gpus : site.workers) {
    const Endpoint first = gpus.front();
    places_.push_back(has_teams ? team_places(site, first.machine, units_)[static_cast<std::size_t>(first.gpu)]
                                : TeamPlace{});
  }
}

const ComputePlan& StepCompiler::own_plan(int worker) {
  const ComputePlan& whole = plans_[at(group_of(worker))];
  if (!stages_) return whole;
  const auto [entry, is_new] = stage_plans_.try_emplace({group_of(worker), stage_of(worker)});
  if (is_new) entry->second = plan_stage(whole, *stages_, stage_of(worker), scenario().workload);
  return entry->second;
}

const std::vector<std::string>& StepCompiler::kernels(int worker) {
  const auto [entry, is_new] = kernels_.try_emplace(group_of(worker));
  if (is_new)
    for (const Operator& kernel : scenario().workload_of(scenario().groups[at(group_of(worker))]).graph)
      entry->second.push_back(kernel.name);
  return entry->second;
}

std::vector<int> StepCompiler::team(int worker) const {
  if (stages_) return grid_.along(Axis::kPipeline, worker);
  const TeamPlace& place = places_[at(worker)];
  std::vector<int> team(at(place.members));
  std::iota(team.begin(), team.end(), worker - place.member);
  return team;
}

std::vector<Wire> StepCompiler::wires(int worker) const {
  std::vector<Wire> wires;
  const std::vector<Endpoint>& gpus = site_.workers[at(worker)];
  if (stages_) {
    const auto connect = [&](int stage) {
      const int other = grid_.moved(worker, Axis::kPipeline, stage);
      for (std::size_t i = 0; i < gpus.size(); ++i)
        wires.push_back({worker, other, gpus[i], site_.workers[at(other)][i]});
    };
    const int stage = stage_of(worker);
    if (stage > 0) connect(stage - 1);
    if (stage + 1 < grid_.degree(Axis::kPipeline)) connect(stage + 1);
    return wires;
  }
  const Endpoint host{gpus.front().machine, Endpoint::kHost};
  for (std::size_t s = 0; s < site_.servers.size(); ++s) {
    const int server = workers() + static_cast<int>(s);
    const Endpoint other{site_.servers[s], Endpoint::kHost};
    wires.push_back({worker, server, host, other});
    wires.push_back({server, worker, other, host});
  }
  if (!places_[at(worker)].adder.empty())
    for (const int member : team(worker))
      wires.push_back({worker, member, gpus.front(), site_.workers[at(member)].front()});
  if (std::holds_alternative<PairwiseAveragingStrategy>(scenario().training.strategy.kind))
    for (std::size_t i = 1; i < gpus.size(); ++i) wires.push_back({worker, worker, gpus.front(), gpus[i]});
  return wires;
}

ClusterStep StepCompiler::step() {
  std::vector<int> all(site_.workers.size());
  std::iota(all.begin(), all.end(), 0);
  return own_step(all);
}

ClusterStep StepCompiler::step(const std::vector<int>& workers) {
  ClusterStep step = own_step(workers);
  if (scenario().training.strategy.is_synchronous()) share_samples(step);
  return step;
}

ClusterStep StepCompiler::own_step(const std::vector<int>& workers) {
  ClusterStep step;
  for (const int worker : workers)
    step.workers.push_back({.worker = worker,
                            .plan = &own_plan(worker),
                            .passes = scenario().training.strategy.exchange.accumulation_steps,
                            .samples = samples_per_step(scenario(), scenario().groups[at(group_of(worker))])});
  add_groups(step);
  return step;
}

void StepCompiler::share_samples(ClusterStep& step) {
  WorkerCounts counts(scenario().groups.size());
  std::vector<std::int64_t> weights;
  for (const WorkerStep& worker : step.workers) {
    ++counts[at(group_of(worker.worker))];
    weights.push_back(worker.samples);
  }
  const std::vector<StepShare> shares = step_shares(scenario(), counts);
  step.samples = static_cast<std::int64_t>(samples_per_update(scenario(), counts));
  const std::int64_t all =
      backup_workers(scenario()) > 0 ? std::accumulate(weights.begin(), weights.end(), std::int64_t{}) : step.samples;
  const std::vector<std::int64_t> samples = split_samples(all, weights);
  for (std::size_t i = 0; i < step.workers.size(); ++i) {
    WorkerStep& worker = step.workers[i];
    const int g = group_of(worker.worker);
    const Group& group = scenario().groups[at(g)];
    worker.passes = shares[at(g)].passes;
    worker.samples = samples[i];
    if (stages_ || shares[at(g)].batch == group.batch) continue;
    const auto [entry, is_new] = other_plans_.try_emplace({g, shares[at(g)].batch});
    if (is_new)
      entry->second = plan_step(scenario(), with_batch(scenario(), group, shares[at(g)].batch,
                                                       static_cast<std::int64_t>(step.workers.size())));
    worker.plan = &entry->second;
  }
}

void StepCompiler::add_groups(ClusterStep& step) const {
  const auto add = [&](const std::string& name, const std::vector<int>& workers) {
    WorkerGroup group{name, {}};
    for (const int worker : workers) {
      const auto member = std::ranges::lower_bound(step.workers, worker, {}, &WorkerStep::worker);
      if (member == step.workers.end() || member->worker != worker) continue;
      member->groups.push_back(static_cast<int>(step.groups.size()));
      group.workers.push_back(worker);
    }
    if (!group.workers.empty()) step.groups.push_back(std::move(group));
  };
  if (std::holds_alternative<PairwiseAveragingStrategy>(scenario().training.strategy.kind)) {
    for (const WorkerStep& worker : std::vector{step.workers})
      if (site_.workers[at(worker.worker)].size() > 1) add("GPUs of a worker", {worker.worker});
    return;
  }
  if (!std::holds_alternative<AllReduceStrategy>(scenario().training.strategy.kind)) return;
  const int stages = grid_.degree(Axis::kPipeline);
  for (int stage = 0; stage < stages; ++stage)
    add(stages > 1 ? "stage " + std::to_string(stage + 1) : "data", grid_.along(Axis::kData, stage));
  if (!stage_exchange_) return;
  for (const PipelineExchange::Copies& copies : stage_exchange_->copies)
    for (const int first : grid_.along(Axis::kData, 0)) {
      std::vector<int> holders;
      for (const int stage : copies.stages) holders.push_back(grid_.moved(first, Axis::kPipeline, stage));
      add(stage_exchange_
              ->labels[at(stage_exchange_->first_label.back()) + at(&copies - stage_exchange_->copies.data())],
          holders);
    }
}

const Program& StepCompiler::program(const WorkerStep& step, FirstVariables first) {
  const TeamPlace& place = places_[at(step.worker)];
  const Class same{step.plan, step.passes, stage_of(step.worker), place, first};
  if (const auto known = programs_.find(same); known != programs_.end()) return known->second;
  Program program;
  if (stages_)
    program = compile_pipeline(scenario(), *step.plan, *stages_, *stage_exchange_, stage_of(step.worker));
  else if (std::holds_alternative<AllReduceStrategy>(scenario().training.strategy.kind))
    program = compile_step(scenario(), *step.plan, step.passes, units_);
  else
    program = compile_step(scenario(), *step.plan, step.passes, units_, place, first);
  return programs_.emplace(same, fuses_chains_ ? fuse_chains(program) : std::move(program)).first->second;
}

}  // namespace rehearse
