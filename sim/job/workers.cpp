#include "sim/job/workers.hpp"

#include <cmath>

#include "sim/scenario/work.hpp"

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

Workers::Workers(const Membership& membership, StepCompiler& compiler)
    : site_{compiler.site()}, membership_{membership}, compiler_{compiler} {
  const Scenario& scenario = compiler.scenario();
  for (const std::vector<Endpoint>& gpus : site_.workers) {
    const auto index = static_cast<int>(workers_.size());
    Worker& worker = workers_.emplace_back(index, gpus, compiler.own_plan(index), scenario.seed);
    worker.passes = passes_of_part(scenario);
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

ClusterStep Workers::step_of_all() const {
  std::vector<int> all;
  for (const Worker& worker : workers_) all.push_back(worker.index);
  return compiler_.step(all);
}

}  // namespace rehearse
