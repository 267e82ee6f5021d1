#include "calibration/microbench/network_comparison.hpp"

#include <cmath>

#include "calibration/microbench/cases.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/json_origins.hpp"
#include "sim/base/statistics.hpp"
#include "sim/job/simulate.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/kernel_plan.hpp"
#include "sim/scenario/step_time.hpp"
#include "workloads/model_zoo.hpp"

namespace rehearse::microbench {

PredictedStep predicted_step(const Json& json, const std::string& name, const Catalog& catalog) {
  const Scenario scenario = read_scenario(json, name, catalog, JsonOrigins{});
  const Group& group = scenario.groups.front();
  KernelSetting processor;
  processor.gpu.architecture = group.accelerator->architecture;
  CsvWriter csv{{"operator", "kernel", "time_s"}};
  for (const PlannedKernel& planned : plan_step(scenario, group).kernels) {
    const Operator& op = scenario.workload.graph[static_cast<std::size_t>(planned.vertex)];
    const auto kernel = kernel_of(op, processor);
    csv.row({op.name, kernel ? to_text({*kernel}) : "", planned.time.total.value()});
  }
  const GpuMemory memory = gpu_memory(scenario, group);
  return {.time = summarize(scenario, simulate(scenario)).iteration_time.value(),
          .kept = as_double(memory.activations + memory.logits),
          .kernels = csv.text()};
}

std::vector<kernels::Kernel> kernels_of_step(const Json& model, const std::string& name, int batch) {
  const Workload workload =
      build_workload(read_model(name, JsonReader{model, name}), batch, rehearse::Precision::kFp32, name);
  KernelSetting processor;
  processor.gpu.architecture = kernels::kProcessorArchitecture;
  std::vector<kernels::Kernel> all;
  for (const Operator& op : workload.graph)
    if (op.phase != Phase::kUpdate)
      if (auto kernel = kernel_of(op, processor)) all.push_back(*kernel);
  return all;
}

double median_error(const std::vector<double>& predicted, const std::vector<double>& measured) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < measured.size(); ++i) errors.push_back(100 * std::abs(predicted[i] / measured[i] - 1));
  return median(errors);
}

}  // namespace rehearse::microbench
