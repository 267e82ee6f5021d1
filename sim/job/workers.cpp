#include "sim/job/workers.hpp"

#include <cmath>
#include <numeric>

#include "sim/scenario/step_time.hpp"

namespace rehearse {

Workers::Workers(const Site& site, const Membership& membership) : site_{site}, membership_{membership} {
  const Scenario& scenario = site.scenario;
  for (const Group& group : scenario.groups)
    plans_.push_back(group.role == Role::kWorker ? plan_step(scenario, group) : ComputePlan{});
  const Pipeline* pipeline = scenario.training.strategy.pipeline();
  if (pipeline != nullptr) stages_ = cut_into_stages(scenario);
  for (const std::vector<Endpoint>& gpus : site.workers) {
    const auto index = static_cast<int>(workers_.size());
    const MachineIndex machine = gpus.front().machine;
    const ComputePlan* plan = &plan_of(machine);
    if (pipeline != nullptr) {
      const int stage = index % pipeline->stages;
      const auto [entry, is_new] = stage_plans_.try_emplace({site.machine(machine).group, stage});
      if (is_new) entry->second = plan_stage(*plan, *stages_, stage, scenario.workload);
      plan = &entry->second;
    }
    Worker& worker = workers_.emplace_back(index, gpus, *plan, scenario.seed);
    worker.passes = scenario.training.strategy.exchange.accumulation_steps;
    worker.samples = samples_per_step(scenario, site.group(machine));
  }
}

double Workers::slowdown(Worker& worker) const {
  const double variation = site_.scenario.training.step_time_variation;
  if (variation == 0) return 1;
  const double variance = std::log1p(variation * variation);
  return std::exp(std::sqrt(variance) * worker.noise.normal() - variance / 2);
}

Seconds Workers::starts_at(const Worker& worker) const {
  return site_.scenario.training.start_interval * static_cast<double>(worker.index);
}

SharedStep Workers::share_step(const std::vector<const Worker*>& sharing) {
  const Scenario& scenario = site_.scenario;
  WorkerCounts counts(scenario.groups.size());
  std::vector<std::int64_t> weights;
  for (const Worker* worker : sharing) {
    ++counts[static_cast<std::size_t>(site_.machine(worker->gpu.machine).group)];
    weights.push_back(worker->samples);
  }
  const std::vector<StepShare> shares = step_shares(scenario, counts);
  SharedStep step{.samples = static_cast<std::int64_t>(samples_per_update(scenario, counts)), .parts = {}};
  const std::int64_t all =
      backup_workers(scenario) > 0 ? std::accumulate(weights.begin(), weights.end(), std::int64_t{}) : step.samples;
  const std::vector<std::int64_t> samples = split_samples(all, weights);
  for (std::size_t i = 0; i < sharing.size(); ++i) {
    const MachineIndex machine = sharing[i]->gpu.machine;
    const int g = site_.machine(machine).group;
    const Group& group = site_.group(machine);
    const StepShare& share = shares[static_cast<std::size_t>(g)];
    const ComputePlan* plan = stages_ ? sharing[i]->plan : &plan_of(machine);
    if (!stages_ && share.batch != group.batch) {
      const auto [entry, is_new] = other_plans_.try_emplace({g, share.batch});
      if (is_new)
        entry->second =
            plan_step(scenario, with_batch(scenario, group, share.batch, static_cast<std::int64_t>(sharing.size())));
      plan = &entry->second;
    }
    step.parts.push_back({plan, share.passes, samples[i]});
  }
  return step;
}

}  // namespace rehearse
