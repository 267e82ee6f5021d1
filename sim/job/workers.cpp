#include "sim/job/workers.hpp"

#include <cmath>
#include <numeric>

#include "sim/scenario/step_time.hpp"

namespace rehearse {

namespace {

/// About the time in which each worker has its turn at the servers, or with another worker, once: what a step takes the
/// worker itself, and all workers' pulls and pushes at the rate of the servers' NICs.
Seconds first_turn(const Site& site, const Worker& worker) {
  BytesPerSecond servers{};
  for (const Machine& machine : site.machines)
    if (machine.servers > 0) servers += machine.nic * machine.nics;
  const Machine& own = site.machine(worker.gpu.machine);
  const bool has_servers = servers > BytesPerSecond{};
  const Seconds exchange = site.scenario.workload.variable_bytes() / (has_servers ? servers : own.nic * own.nics) *
                           (has_servers ? 2.0 * static_cast<double>(site.workers.size()) : 2.0);
  return worker.plan->step_overhead + end_of_kernels(*worker.plan) * static_cast<double>(worker.passes) + exchange;
}

}  // namespace

Workers::Workers(const Site& site, const Membership& membership) : site_{site}, membership_{membership} {
  const Scenario& scenario = site.scenario;
  for (const Group& group : scenario.groups)
    plans_.push_back(group.role == Role::kWorker ? plan_step(scenario, group) : ComputePlan{});
  const Pipeline* pipeline = scenario.training.strategy.kind->pipeline();
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
  const Training& training = site_.scenario.training;
  if (training.starts == Starts::kInInterval) return training.start_interval * static_cast<double>(worker.index);
  if (worker.index == 0) return {};
  const double part = training.starts == Starts::kEvenly
                          ? static_cast<double>(worker.index) / static_cast<double>(workers_.size())
                          : Rng{site_.scenario.seed, "start of worker " + std::to_string(worker.index)}.uniform();
  return first_turn(site_, worker) * part;
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
