#include "sim/scenario/step_time.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/scenario/kernel_plan.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

KernelSetting setting_of(const Scenario& scenario, const Group& group) {
  return kernel_setting(scenario.profile, scenario.framework, scenario.precision, *group.accelerator, group.place);
}

/// By kernels, if the profile has them.
ComputePlan plan_of(const Scenario& scenario, const Group& group, const Workload& workload) {
  if (scenario.profile.kernels) return plan_kernels(workload, setting_of(scenario, group));
  return plan_compute(workload, *group.accelerator, scenario.peak_of(*group.accelerator), scenario.profile);
}

/// Servers do it themselves.
Seconds update_time(const Scenario& scenario, const Group& group) {
  if (std::holds_alternative<ParameterServerStrategy>(scenario.training.strategy.kind)) return {};
  if (scenario.profile.kernels && !scenario.workload.is_whole_step)
    return scenario.workload.optimizer_time +
           update_time(scenario.workload, scenario.optimizer, scenario.states, setting_of(scenario, group));
  const GpuParameters& parameters = scenario.profile.gpu;
  const auto accesses = parameters.update_accesses.find(to_text(scenario.optimizer));
  if (accesses == parameters.update_accesses.end() || scenario.workload.is_whole_step)
    return scenario.workload.optimizer_time;
  const int slots = optimizer_slots(scenario.optimizer);
  const double share = static_cast<double>(update_bytes(scenario.states, slots)) / update_bytes({}, slots);
  const double bytes = static_cast<double>(scenario.workload.parameters()) * sizeof(float) * accesses->second * share;
  return scenario.workload.optimizer_time +
         Seconds{bytes / (group.accelerator->memory_bandwidth.value() * parameters.memory_efficiency)};
}

struct ModelledStep {
  Seconds time{};  // the input not copied
  Bytes input{};
};

/// Of a lone worker; `batch` of one GPU.
ModelledStep modelled_step(const Scenario& scenario, const Group& group, int batch) {
  const Workload* workload = &scenario.workload_of(group);
  Workload other;
  if (batch != workload->batch) {
    other = build_workload(scenario.model, batch, scenario.precision, "step time of " + scenario.model.name);
    workload = &other;
  }
  const ComputePlan plan = plan_of(scenario, group, *workload);
  return {plan.step_overhead + end_of_kernels(plan) + update_time(scenario, group), plan.input};
}

/// To a GPU that shares its way from the host with nobody.
Seconds copy_time(const Interconnect& inside, Bytes input) {
  return input / std::min(inside.pcie, inside.pcie_root.value_or(inside.pcie)) + inside.latency;
}

}  // namespace

std::optional<double> step_time_factor(const Scenario& scenario, const Group& group) {
  std::map<int, std::map<int, Seconds>> by_gpus;  // by GPUs of a worker, then by batch of one of them
  for (const StepTime& step : scenario.profile.step_times)
    if (step.model == scenario.model.name && step.accelerator == group.accelerator->name &&
        step.precision == to_text(scenario.precision) && step.framework == scenario.framework)
      by_gpus[step.gpus][step.batch / step.gpus] = step.time;
  if (by_gpus.empty()) return {};
  const auto more_gpus = by_gpus.upper_bound(group.gpus_per_worker);
  const std::map<int, Seconds>& measured = (more_gpus == by_gpus.begin() ? more_gpus : std::prev(more_gpus))->second;
  const int batch = group.batch / group.gpus_per_worker;
  const auto factor = [&](std::map<int, Seconds>::const_iterator at) {
    const ModelledStep modelled = modelled_step(scenario, group, at->first);
    Seconds compute = at->second;
    if (scenario.copies_input.value_or(false))
      compute = std::max(compute - copy_time(group.interconnect, modelled.input), compute * 0.1);
    return compute / modelled.time;
  };
  const auto above = measured.lower_bound(batch);
  if (above == measured.end()) return factor(std::prev(above));
  if (above->first == batch || above == measured.begin()) return factor(above);
  const auto below = std::prev(above);
  const double share =
      std::log(static_cast<double>(batch) / below->first) / std::log(static_cast<double>(above->first) / below->first);
  return factor(below) + share * (factor(above) - factor(below));
}

Seconds step_time_with(const Scenario& scenario, const Group& group, double factor) {
  const ModelledStep modelled = modelled_step(scenario, group, group.batch / group.gpus_per_worker);
  const bool has_copy = scenario.copies_input.value_or(false);
  return modelled.time * factor + (has_copy ? copy_time(group.interconnect, modelled.input) : Seconds{});
}

ComputePlan plan_step(const Scenario& scenario, const Group& group) {
  ComputePlan plan = plan_of(scenario, group, scenario.workload_of(group));
  plan.update = update_time(scenario, group);
  if (const auto* all_reduce = std::get_if<AllReduceStrategy>(&scenario.training.strategy.kind);
      all_reduce != nullptr && all_reduce->sharding != Sharding::kNone)
    plan.update = plan.update / static_cast<double>(sharing_gpus(scenario));
  const auto factor = step_time_factor(scenario, group);
  if (!scenario.copies_input.value_or(!factor)) plan.input = {};
  if (!factor) return plan;
  plan.step_overhead = plan.step_overhead * *factor;
  plan.gpu_time = plan.gpu_time * *factor;
  plan.memory_time = plan.memory_time * *factor;
  plan.update = plan.update * *factor;
  for (PlannedKernel& kernel : plan.kernels) {
    kernel.dispatch = kernel.dispatch * *factor;
    kernel.time = {kernel.time.total * *factor, kernel.time.memory * *factor};
  }
  return plan;
}

}  // namespace rehearse
