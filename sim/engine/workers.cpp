#include "sim/engine/workers.hpp"

#include <cmath>

#include "sim/engine/step_time.hpp"

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

const ComputePlan& Workers::plan_of(MachineIndex machine, const StepShare& share, std::int64_t workers) {
  const Group& group = site_.group(machine);
  if (share.batch == group.batch) return plan_of(machine);
  const auto [entry, is_new] = other_plans_.try_emplace({site_.machine(machine).group, share.batch});
  if (is_new) entry->second = plan_step(site_.scenario, with_batch(site_.scenario, group, share.batch, workers));
  return entry->second;
}

}  // namespace rehearse
