#include "sim/engine/step_time.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace rehearse {

namespace {

FlopsPerSecond peak_of(const Scenario& scenario, const Accelerator& gpu) {
  return scenario.precision == Precision::kFp16 ? gpu.peak_fp16 : gpu.peak_fp32;
}

/// Servers do it themselves.
Seconds update_time(const Scenario& scenario, const Accelerator& gpu) {
  if (std::holds_alternative<ParameterServerStrategy>(scenario.training.strategy.kind)) return {};
  const GpuParameters& parameters = scenario.profile.gpu;
  const auto accesses = parameters.update_accesses.find(to_text(scenario.optimizer));
  if (accesses == parameters.update_accesses.end()) return scenario.workload.optimizer_time;
  const double bytes = as_double(scenario.workload.parameter_bytes()) /
                       static_cast<double>(bytes_per_scalar(scenario.precision)) * sizeof(float) * accesses->second;
  return scenario.workload.optimizer_time +
         Seconds{bytes / (gpu.memory_bandwidth.value() * parameters.memory_efficiency)};
}

/// Of a lone worker, its input not copied.
Seconds modelled_step(const Scenario& scenario, const Accelerator& gpu, int batch) {
  const Workload* workload = &scenario.workload;
  Workload other;
  if (batch != scenario.batch) {
    other = build_workload(scenario.model, batch, scenario.precision, "step time of " + scenario.model.name);
    workload = &other;
  }
  const ComputePlan plan = plan_compute(*workload, gpu, peak_of(scenario, gpu), scenario.profile);
  const FusedPlan fused = fuse(plan, 1);
  return plan.step_overhead + std::max(fused.end, fused.host_end) + update_time(scenario, gpu);
}

}  // namespace

std::optional<double> step_time_factor(const Scenario& scenario, const Accelerator& gpu) {
  std::map<int, Seconds> measured;  // by batch
  for (const StepTime& step : scenario.profile.step_times)
    if (step.model == scenario.model.name && step.accelerator == gpu.name &&
        step.precision == (scenario.precision == Precision::kFp16 ? "fp16" : "fp32") &&
        step.framework == scenario.framework)
      measured[step.batch] = step.time;
  if (measured.empty()) return {};
  const auto factor = [&](std::map<int, Seconds>::const_iterator at) {
    return at->second / modelled_step(scenario, gpu, at->first);
  };
  const auto above = measured.lower_bound(scenario.batch);
  if (above == measured.end()) return factor(std::prev(above));
  if (above->first == scenario.batch || above == measured.begin()) return factor(above);
  const auto below = std::prev(above);
  const double share = std::log(static_cast<double>(scenario.batch) / below->first) /
                       std::log(static_cast<double>(above->first) / below->first);
  return factor(below) + share * (factor(above) - factor(below));
}

ComputePlan plan_step(const Scenario& scenario, const Accelerator& gpu) {
  ComputePlan plan = plan_compute(scenario.workload, gpu, peak_of(scenario, gpu), scenario.profile);
  plan.update = update_time(scenario, gpu);
  const auto factor = step_time_factor(scenario, gpu);
  if (!factor) return plan;
  plan.input = {};
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
