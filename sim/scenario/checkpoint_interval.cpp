#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "sim/scenario/scenario.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

Bytes checkpoint_bytes(const Scenario& scenario) {
  const Workload& workload = scenario.workload;
  Bytes untrained{};
  for (const Variable& variable : workload.variables)
    if (!variable.is_trainable && !variable.is_frozen) untrained += variable.bytes;
  return untrained + Bytes{workload.parameters_of_all(scenario.model.split.degree) *
                           checkpoint_bytes(scenario.states, optimizer_slots(scenario.optimizer))};
}

std::int64_t checkpoint_tensors(const Scenario& scenario) {
  const Workload& workload = scenario.workload;
  return std::ranges::count(workload.variables, false, &Variable::is_frozen) +
         (optimizer_slots(scenario.optimizer) + (scenario.states.master_weights ? 1 : 0)) *
             std::int64_t{workload.trainable_tensors()};
}

namespace {

/// Machines, and their GPUs, that have parts of a checkpoint.
std::int64_t writing_machines(const Scenario& scenario) { return std::max(1, scenario.worker_machines()); }
std::int64_t writing_gpus(const Scenario& scenario) {
  std::int64_t gpus = 0;
  for (const Group& group : scenario.groups)
    gpus += group.role == Role::kWorker ? std::int64_t{group.count} * group.instance.accelerators : 0;
  return std::max<std::int64_t>(1, gpus);
}

/// Of one GPU's part to its host.
Seconds copy_time(const Scenario& scenario, std::int64_t parts) {
  const BytesPerSecond rate =
      scenario.training.checkpoint->copy_rate.value_or(scenario.first_workers().interconnect.pcie);
  return checkpoint_bytes(scenario) / rate / static_cast<double>(parts);
}

}  // namespace

std::optional<Seconds> checkpoint_time(const Scenario& scenario) {
  const auto& own = scenario.training.checkpoint;
  const std::int64_t writers = own && own->is_by_machines ? writing_machines(scenario) : 1;
  const std::int64_t tensors = (checkpoint_tensors(scenario) + writers - 1) / writers;
  const Bytes bytes = checkpoint_bytes(scenario);
  const Bytes part{(bytes.value() + writers - 1) / writers};
  const Seconds shared = own && own->storage_rate ? bytes / *own->storage_rate : Seconds{};
  if (own && own->stage) return std::max(own->stage->time(tensors, part), own->stage->fixed_time + shared);
  if (scenario.profile.checkpoint) return std::max(scenario.profile.checkpoint->time(tensors, part), shared);
  return {};
}

std::optional<CheckpointTimes> checkpoint_times(const Scenario& scenario) {
  const auto written = checkpoint_time(scenario);
  if (!written) return {};
  const auto& rule = scenario.training.checkpoint;
  if (!rule || !rule->is_asynchronous) return CheckpointTimes{*written, *written, *written};
  const Seconds copied = copy_time(scenario, rule->is_by_machines ? writing_gpus(scenario) : 1);
  return CheckpointTimes{.stall = copied, .write = copied + *written, .read = *written};
}

CheckpointTimes memory_checkpoint_times(const Scenario& scenario) {
  BytesPerSecond slowest{std::numeric_limits<double>::infinity()};
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker)
      slowest = std::min(slowest, nic_payload(scenario, group) * static_cast<double>(group.instance.nics));
  const Seconds copied = copy_time(scenario, writing_gpus(scenario));
  const Seconds all = copied + checkpoint_bytes(scenario) / slowest / static_cast<double>(writing_machines(scenario));
  return {.stall = copied, .write = all, .read = all};
}

Seconds young_daly_interval(Seconds checkpoint, Seconds between_failures) {
  return Seconds{std::sqrt(2 * checkpoint.value() * between_failures.value())};
}

namespace {

/// Whether the loss of one of the group's machines takes what has been done since the last checkpoint.
bool costs_work_when_lost(const Scenario& scenario, const Group& group) {
  if (group.is_standby) return false;
  if (group.role != Role::kWorker || scenario.training.recovery.lost_worker == Recovery::LostWorker::kRestart)
    return true;
  return scenario.worker_machines() == 1 &&
         std::ranges::find(scenario.groups, Role::kParameterServer, &Group::role) == scenario.groups.end();
}

/// Revocations of a whole zone that hit any of its machines whose loss costs work.
double bulk_losses_per_s(const Scenario& scenario) {
  std::map<std::pair<std::string, std::string>, std::pair<const BulkRevocations*, int>> zones;  // by zone and pool
  for (const Group& group : scenario.groups) {
    if (!group.pool || !group.pool->bulk || !costs_work_when_lost(scenario, group)) continue;
    auto& [bulk, machines] = zones[{group.zone, group.pool->name}];
    bulk = &*group.pool->bulk;
    machines += group.count;
  }
  double rate = 0;
  for (const auto& [zone, in_it] : zones)
    rate += in_it.first->hits_any_of(in_it.second) / in_it.first->interval.mean().value();
  return rate;
}

}  // namespace

Seconds mean_time_to_loss(const Scenario& scenario) {
  // Trapezoids over the product of survivals, whose steps grow with age.
  constexpr double kHorizon = 60 * 86400.0, kFirst = 60, kGrowth = 1.02;
  const double bulk_rate = bulk_losses_per_s(scenario);
  const auto survival = [&](Seconds age) {
    double all = std::exp(-age.value() * bulk_rate);
    for (const Group& group : scenario.groups) {
      if (!costs_work_when_lost(scenario, group)) continue;
      if (group.faults) all *= std::exp(-age.value() * group.count * group.faults->rate());
      if (!group.pool) continue;
      const double factor = group.pool->churn ? group.pool->churn->mean_factor() : 1;
      all *= std::pow(group.pool->lifetime.survival(age * factor), group.count);
    }
    return all;
  };
  double sum = 0, last = 1;
  double age = 0;
  for (double step = kFirst; age < kHorizon; age += step, step *= kGrowth) {
    const double next = survival(Seconds{age + step});
    sum += (last + next) / 2 * step;
    last = next;
  }
  // Beyond it as often as up to it.
  return Seconds{sum + (last > 0 ? last * age / -std::log(last) : 0)};
}

std::optional<Seconds> checkpoint_interval(const Scenario& scenario) {
  const auto& rule = scenario.training.checkpoint;
  if (!rule || !rule->is_young_daly) return rule ? rule->every : std::nullopt;
  return young_daly_interval(checkpoint_times(scenario)->stall, mean_time_to_loss(scenario));
}

std::optional<Seconds> checkpoint_loss(const Scenario& scenario, double workers) {
  const auto& rule = scenario.training.checkpoint;
  const auto times = rule ? checkpoint_times(scenario) : std::nullopt;
  if (!times) return {};
  return times->stall / (scenario.training.strategy.is_synchronous() || rule->pauses_all ? 1 : workers);
}

double with_checkpoints(const Scenario& scenario, double speed, double workers) {
  const auto loss = checkpoint_loss(scenario, workers);
  if (!loss || speed <= 0) return speed;
  const double lost = loss->value();
  if (const auto interval = checkpoint_interval(scenario))  // between two at least a step
    return speed * (1 - lost / std::max(interval->value(), lost + 1 / speed));
  const auto steps = static_cast<double>(scenario.training.checkpoint->every_steps);
  return steps / (steps / speed + lost);
}

Seconds time_with_checkpoints(const Scenario& scenario, double updates, double speed, double workers) {
  const auto loss = checkpoint_loss(scenario, workers);
  if (!loss) return Seconds{updates / speed};
  if (checkpoint_interval(scenario)) return Seconds{updates / with_checkpoints(scenario, speed, workers)};
  const double count = std::ceil(updates / static_cast<double>(scenario.training.checkpoint->every_steps)) - 1;
  return Seconds{updates / speed} + *loss * std::max(0.0, count);
}

}  // namespace rehearse
