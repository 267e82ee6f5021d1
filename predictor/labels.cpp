#include "predictor/labels.hpp"

#include <nlohmann/json.hpp>

#include "predictor/dataset.hpp"
#include "predictor/described_step.hpp"
#include "predictor/run_labels.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/job/simulate.hpp"
#include "sim/record/repeated_steps.hpp"
#include "sim/record/resource_profile.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

namespace {

/// Steps after the warm-up; longer runs record only as much as a resource profile takes.
constexpr std::int64_t kMostExtended = 21;

MachineIndex chief_of(const Site& site) { return site.workers.front().front().machine; }

RunRecord record_of(const Scenario& scenario, const SimulateOptions& options) {
  const Training& training = scenario.training;
  const std::int64_t cycle = scenario.count(Role::kWorker);
  const std::int64_t after_two = training.steps - std::max<std::int64_t>(1, training.warmup_steps) - 2 * cycle;
  if (may_repeat(scenario) && cycle <= kLongestCycle && after_two >= cycle &&
      training.steps - training.warmup_steps <= kMostExtended) {
    const std::int64_t more = after_two / cycle * cycle;
    Scenario shorter = scenario;
    set_steps(shorter, training.steps - more);
    if (auto record = extend_steps(simulate(shorter, options), more, cycle)) return *std::move(record);
  }
  return simulate(scenario, options);
}

}  // namespace

std::vector<float> node_features_of(const Scenario& scenario) {
  return node_features_of(scenario.workload_of(scenario.first_workers()), scenario.optimizer, scenario.states);
}

std::vector<double> simulate_labels(const Scenario& scenario) {
  const Site site{scenario};
  const TrafficOf traffic = site.machines.size() == 1 ? TrafficOf::kGpus : TrafficOf::kNics;
  SimulateOptions options{.keeps_activity = true, .records_gpu_links = traffic == TrafficOf::kGpus};
  options.scope.machines.assign(site.machines.size(), false);
  options.scope.machines[static_cast<std::size_t>(chief_of(site))] = true;
  const RunRecord record = record_of(scenario, options);
  const ResourceProfile profile = resource_profile(scenario, record, traffic);
  const BurstMetrics& bursts = profile.bursts.front();
  if (bursts.gpu.gaps + bursts.gpu.bursts == 0)
    throw NoResultError{"no sample of " + to_text(scenario.output.sampling_period) +
                        " lies within the steps: a shorter sampling_period, or more steps"};
  const auto labels_of = [](const Bursts& of) { return BurstLabels{of.idle.value(), of.active.value(), of.peak}; };
  return values_of({.memory = labels_of(bursts.memory),
                    .gpu = labels_of(bursts.gpu),
                    .receive = labels_of(bursts.receive),
                    .transmit = labels_of(bursts.transmit),
                    .step_time_s = summarize(scenario, record).iteration_time.value(),
                    .receive_mean_bytes_per_s = bursts.receive.mean,
                    .transmit_mean_bytes_per_s = bursts.transmit.mean});
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): all verbs have this signature
const Verb kLabels{
    "labels", [](Scenario scenario, const JsonReader& options) {
      options.reject_unknown_keys();
      return Json{{"labels", simulate_labels(scenario)}, {"step", numbers_of(describe_step(scenario))}}.dump();
    }};

}  // namespace rehearse
