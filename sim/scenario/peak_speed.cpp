#include "sim/scenario/peak_speed.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <variant>

namespace rehearse {

namespace {

constexpr double kFewestOperations = 1 / 2.25;

/// Of the whole model, as one GPU computes it that could hold it.
double operations_of_sample(const Scenario& scenario) {
  if (std::holds_alternative<TimedLayers>(scenario.model.structure)) return 0;  // none is stated, of one batch alone
  ModelDescription whole = scenario.model;
  whole.split = {};
  whole.context = {};
  whole.expert_split = {};
  whole.again = {};
  const Workload workload = build_workload(whole, 1, scenario.precision, "arithmetic of " + whole.name);
  const bool has_only_products = std::holds_alternative<Transformer>(whole.structure);
  return workload.training_flops().value() * (has_only_products ? 1 : kFewestOperations);
}

double peak_of_gpu(const Scenario& scenario, const Group& group) {
  const Accelerator& gpu = *group.accelerator;
  return std::max(scenario.peak_of(gpu).value(), scenario.model.fp8 == Fp8::kNone ? 0 : gpu.peak_fp8.value());
}

bool trains_from_the_start(const Group& group) { return group.role == Role::kWorker && !group.is_standby; }

int gpus_of(const Group& group) { return group.workers() * group.gpus_per_worker; }

double by_operations(double peak, double operations) {
  return operations > 0 ? peak / operations : std::numeric_limits<double>::infinity();
}

}  // namespace

double peak_samples_per_s(const Scenario& scenario, const Group& group) {
  return by_operations(peak_of_gpu(scenario, group), operations_of_sample(scenario));
}

double peak_samples_per_s(const Scenario& scenario) {
  double peak = 0;
  for (const Group& group : scenario.groups)
    if (trains_from_the_start(group)) peak += peak_of_gpu(scenario, group) * gpus_of(group);
  return by_operations(peak, operations_of_sample(scenario));
}

int training_gpus(const Scenario& scenario) {
  int all = 0;
  for (const Group& group : scenario.groups)
    if (trains_from_the_start(group)) all += gpus_of(group);
  return all;
}

std::string impossible_speed(const Scenario& scenario, double samples_per_s, std::optional<int> gpus) {
  const int all = training_gpus(scenario);
  const double peak = peak_samples_per_s(scenario) * (gpus && all > 0 ? static_cast<double>(*gpus) / all : 1);
  if (samples_per_s <= peak) return {};
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(),
                "%.4g samples/s are %.3g times the %.4g that the arithmetic of this model allows", samples_per_s,
                samples_per_s / peak, peak);
  return text.data() + std::string{" at the peak of its GPUs in "} + computed_in(scenario) +
         ": another unit (tokens, samples of one GPU), model, size of a sample, precision or GPU was measured";
}

}  // namespace rehearse
