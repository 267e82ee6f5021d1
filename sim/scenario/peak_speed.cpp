#include "sim/scenario/peak_speed.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <variant>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

constexpr double kFewestOperations = 1 / 2.25;

/// Of those FLOPs, how many a GPU computes at least.
double fewest_operations_of_sample(const Scenario& scenario) {
  const bool has_only_products = std::holds_alternative<Transformer>(scenario.model.structure);
  return model_flops_of_sample(scenario) * (has_only_products ? 1 : kFewestOperations);
}

double peak_of_gpu(const Scenario& scenario, const Group& group) {
  const Accelerator& gpu = *group.accelerator;
  return std::max(scenario.peak_of(gpu), peak_of_casts(gpu, bits_of(scenario.model.fp8))).value();
}

bool trains_from_the_start(const Group& group) { return group.role == Role::kWorker && !group.is_standby; }

int gpus_of(const Group& group) { return group.workers() * group.gpus_per_worker; }

double by_operations(double peak, double operations) {
  return operations > 0 ? peak / operations : std::numeric_limits<double>::infinity();
}

}  // namespace

FlopsPerSecond peak_of_casts(const Accelerator& gpu, int bits) {
  return bits == 8 ? gpu.peak_fp8 : bits == 4 ? gpu.peak_fp4 : FlopsPerSecond{};
}

double model_flops_of_sample(const Scenario& scenario) {
  if (std::holds_alternative<TimedLayers>(scenario.model.structure)) return 0;
  ModelDescription whole = scenario.model;
  whole.split = {};
  whole.context = {};
  whole.expert_split = {};
  whole.again = {};
  try {
    const Workload workload = build_workload(whole, 1, scenario.precision, "arithmetic of " + whole.name);
    double flops = workload.training_flops().value();
    for (std::size_t v = 0; v < workload.graph.size(); ++v)
      if (const OperatorAt op = workload.graph[v];
          op->attention && op->phase != Phase::kForward && op.backward_of() >= 0)
        flops += 2 * workload.graph[static_cast<std::size_t>(op.backward_of())]->flops.value() - op->flops.value();
    return flops;
  } catch (const InputError&) {  // larger than a graph of one GPU may be
    return 0;
  }
}

double peak_flops_per_s(const Scenario& scenario) {
  double peak = 0;
  for (const Group& group : scenario.groups)
    if (trains_from_the_start(group)) peak += peak_of_gpu(scenario, group) * gpus_of(group);
  return peak;
}

int tokens_of_sample(const Scenario& scenario) {
  const auto* net = std::get_if<Transformer>(&scenario.model.structure);
  const bool reads_words = net != nullptr && net->vocabulary > 0 && !net->images && !net->spectrogram && !net->waveform;
  return reads_words ? net->sequence_length : 0;
}

double peak_samples_per_s(const Scenario& scenario, const Group& group) {
  return by_operations(peak_of_gpu(scenario, group), fewest_operations_of_sample(scenario));
}

double peak_samples_per_s(const Scenario& scenario) {
  return by_operations(peak_flops_per_s(scenario), fewest_operations_of_sample(scenario));
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
