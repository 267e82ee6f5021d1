#include "calibration/metric.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "calibration/replayed_metric.hpp"
#include "calibration/transfer.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/job/simulate.hpp"
#include "sim/record/resource_profile.hpp"
#include "sim/record/step_parts.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/scenario/site.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/collective_time.hpp"

namespace rehearse {

namespace {

/// A metric that needs no simulation, and the parts of a profile that it depends on.
struct ClosedForm {
  std::function<Seconds(const Startup&, std::optional<double> probability)> startup;  // or, of the whole scenario:
  std::function<double(const Scenario&)> value;
  std::vector<std::string> profile_parts;
  std::function<double(const Scenario&, std::optional<double> probability)> distribution{};  // instead of a value

  bool has_quantiles() const { return startup || distribution; }
};

const CheckpointParameters& checkpoint_of(const Scenario& scenario) {
  if (!scenario.profile.checkpoint)
    throw InputError{"profile " + in_quotes(scenario.profile.name) + " has no times of checkpoints"};
  return *scenario.profile.checkpoint;
}

double gpu_memory_bytes(const Scenario& scenario) {
  return as_double(gpu_memory_needed(scenario, fullest_group(scenario)));
}

double gpu_memory_allocated_bytes(const Scenario& scenario) {
  return gpu_memory_bytes(scenario) - as_double(fullest_group(scenario).accelerator->memory_reserved);
}

double gpu_memory_allocated_first_stage_bytes(const Scenario& scenario) {
  const Group& group = scenario.first_workers();
  return as_double(WorkerMemory{scenario, group}.of(0).total() - group.accelerator->memory_reserved);
}

double memory_fits(const Scenario& scenario) {
  return gpu_memory_bytes(scenario) <= as_double(fullest_group(scenario).accelerator->memory) ? 1 : 0;
}

double checkpoint_seconds(const Scenario& scenario) {
  const auto time = checkpoint_time(scenario);
  if (!time) (void)checkpoint_of(scenario);  // says what is missing
  return time ? time->value() : 0;
}

double checkpoint_write_seconds(const Scenario& scenario) {
  return checkpoint_of(scenario).write.time(checkpoint_tensors(scenario), checkpoint_bytes(scenario)).value();
}

double checkpoint_upload_seconds(const Scenario& scenario) {
  const auto& upload = checkpoint_of(scenario).upload;
  return upload ? upload->time(checkpoint_tensors(scenario), checkpoint_bytes(scenario)).value() : 0;
}

double framework_seconds(const Scenario& scenario, bool is_cold) {
  if (!scenario.profile.startup)
    throw InputError{"profile " + in_quotes(scenario.profile.name) + " has no start-up times"};
  return scenario.profile.startup->framework.time(scenario.workload.trainable_tensors(), is_cold).value();
}

double first_kernel_seconds(const Scenario& scenario) {
  const OperatorAt kernel = scenario.workload.graph[0];
  if (kernel->measured_time) return kernel->measured_time->value();
  const Accelerator& gpu = *scenario.first_workers().accelerator;
  return kernel_time(kernel.stored(), gpu, scenario.peak_of(gpu), scenario.profile.gpu).total.value();
}

/// Of a start-up time: its mean, or its quantile.
template <class Time>
Seconds at(const Time& time, std::optional<double> probability) {
  return probability ? time.quantile(*probability) : time.mean();
}

const std::map<std::string, ClosedForm>& closed_forms() {
  using Probability = std::optional<double>;
  static const std::map<std::string, ClosedForm> forms{
      {"collective_time_s",
       {{}, [](const Scenario& scenario) { return collective_time(scenario).value(); }, {"network", "collectives"}}},
      {"gpu_memory_bytes", {{}, gpu_memory_bytes, {}}},
      {"gpu_memory_allocated_bytes", {{}, gpu_memory_allocated_bytes, {}}},
      {"gpu_memory_allocated_first_stage_bytes", {{}, gpu_memory_allocated_first_stage_bytes, {}}},
      {"memory_fits", {{}, memory_fits, {}}},
      {"checkpoint_time_s", {{}, checkpoint_seconds, {"checkpoint"}}},
      {"checkpoint_write_time_s", {{}, checkpoint_write_seconds, {"checkpoint"}}},
      {"checkpoint_upload_time_s", {{}, checkpoint_upload_seconds, {"checkpoint"}}},
      {"startup_time_s", {[](const Startup& s, Probability p) { return at(s, p); }, {}, {"startup"}}},
      {"startup_provisioning_time_s",
       {[](const Startup& s, Probability p) { return at(s.provisioning, p); }, {}, {"startup"}}},
      {"startup_staging_time_s", {[](const Startup& s, Probability p) { return at(s.staging, p); }, {}, {"startup"}}},
      {"startup_booting_time_s", {[](const Startup& s, Probability p) { return at(s.booting, p); }, {}, {"startup"}}},
      {"startup_framework_cold_time_s",
       {{}, [](const Scenario& scenario) { return framework_seconds(scenario, true); }, {"startup"}}},
      {"startup_framework_warm_time_s",
       {{}, [](const Scenario& scenario) { return framework_seconds(scenario, false); }, {"startup"}}},
      {"transfer_rate_Bps", {{}, transfer_rate, {"network"}}},
      {"transfer_time_s", {{}, {}, {"network"}, transfer_time}},
      {"transfer_timeout_share", {{}, transfer_timeout_share, {"network"}}},
      {"kernel_time_s", {{}, first_kernel_seconds, {"gpu"}}},
      {"kernel_gap_s",
       {{}, [](const Scenario& scenario) { return scenario.profile.gpu.kernel_overhead.value(); }, {"gpu"}}},
      {"dispatch_time_s",
       {{}, [](const Scenario& scenario) { return scenario.profile.host.dispatch.value(); }, {"host"}}},
      {"step_overhead_s",
       {{}, [](const Scenario& scenario) { return scenario.profile.host.step_overhead.value(); }, {"host"}}}};
  return forms;
}

double startup_seconds(const ClosedForm& form, const Scenario& scenario, std::optional<double> probability) {
  const Group& group = scenario.first_workers();
  const auto startup = startup_of(scenario, group);
  if (!startup)
    throw InputError{"profile " + in_quotes(scenario.profile.name) + " has no start-up times of a machine like those " +
                     "of group " + in_quotes(group.name)};
  return form.startup(*startup, probability).value();
}

/// A number of the first worker's NICs at the scenario's sampling period.
struct NicMetric {
  std::string_view name;
  Bursts BurstMetrics::*direction;
  double (*value)(const Bursts&);
};

constexpr auto kMean = [](const Bursts& bursts) { return bursts.mean; };
constexpr auto kActive = [](const Bursts& bursts) { return bursts.active.value(); };
constexpr auto kIdle = [](const Bursts& bursts) { return bursts.idle.value(); };
constexpr auto kPeak = [](const Bursts& bursts) { return bursts.peak; };

constexpr std::array kNicMetrics{NicMetric{"nic_receive_mean_Bps", &BurstMetrics::receive, kMean},
                                 NicMetric{"nic_receive_active_s", &BurstMetrics::receive, kActive},
                                 NicMetric{"nic_receive_idle_s", &BurstMetrics::receive, kIdle},
                                 NicMetric{"nic_receive_peak_Bps", &BurstMetrics::receive, kPeak},
                                 NicMetric{"nic_transmit_mean_Bps", &BurstMetrics::transmit, kMean},
                                 NicMetric{"nic_transmit_active_s", &BurstMetrics::transmit, kActive},
                                 NicMetric{"nic_transmit_idle_s", &BurstMetrics::transmit, kIdle},
                                 NicMetric{"nic_transmit_peak_Bps", &BurstMetrics::transmit, kPeak}};

double nic_value(const Scenario& scenario, const NicMetric& metric) {
  const Site site{scenario};
  SimulateOptions options{.keeps_activity = true};
  options.scope.machines.assign(site.machines.size(), false);
  options.scope.machines[static_cast<std::size_t>(site.workers.front().front().machine)] = true;
  const ResourceProfile profile = resource_profile(scenario, simulate(scenario, options));
  return metric.value(profile.bursts.front().*metric.direction);
}

constexpr std::string_view kGradientWait = "gradient_wait_first_worker_s";

/// From the end of the first worker's last kernel to its update, in a mean step: sums of gradients, and of their norm, that nothing
/// hides.
double gradient_wait(const Scenario& scenario) {
  const RunRecord record = simulate(scenario);
  double waited = 0, steps = 0;
  for (const StepSpan& step : record.recorder.steps) {
    if (step.machine != record.recorder.steps.front().machine || step.gpu != record.recorder.steps.front().gpu)
      continue;
    const double repeats = static_cast<double>(steps_in_window(step, record));
    const Seconds update = record.update_per_step[static_cast<std::size_t>(step.machine)];
    waited += repeats * std::max(0.0, (step.span.end - step.compute_end - update).value());
    steps += repeats;
  }
  return steps > 0 ? waited / steps : 0;
}

[[noreturn]] void refuse_metric(const std::string& metric, const Json& summary) {
  std::vector<std::string> known;
  for (const auto& [key, entry] : summary.items())
    if (entry.is_number() && key != "format" && key != "seed") known.push_back(key);
  for (const auto& [name, form] : closed_forms()) known.push_back(name);
  for (const NicMetric& entry : kNicMetrics) known.emplace_back(entry.name);
  known.emplace_back(kGradientWait);
  throw InputError{unknown_name_message("metric", metric, known)};
}

double summary_value(const Scenario& scenario, const std::string& metric) {
  if (const auto* nic = std::ranges::find(kNicMetrics, metric, &NicMetric::name); nic != kNicMetrics.end())
    return nic_value(scenario, *nic);
  if (metric == kGradientWait) return gradient_wait(scenario);

  const Json summary = to_json(scenario, summarize(scenario, simulate(scenario)));
  const auto value = summary.find(metric);
  if (value != summary.end() && value->is_number()) return value->get<double>();
  refuse_metric(metric, summary);
}

}  // namespace

void check_metric(const Scenario& scenario, const std::string& metric) {
  if (is_replayed(metric) || closed_forms().contains(metric) || metric == kGradientWait ||
      std::ranges::find(kNicMetrics, metric, &NicMetric::name) != kNicMetrics.end())
    return;
  if (const Json summary = to_json(scenario, Summary{}); !summary.contains(metric)) refuse_metric(metric, summary);
}

double simulated_metric(const Scenario& scenario, const std::string& metric, std::optional<double> probability) {
  const auto form = closed_forms().find(metric);
  const bool is_closed = form != closed_forms().end();
  if (probability && !(is_closed && form->second.has_quantiles()))
    throw InputError{"metric " + in_quotes(metric) + " has no distribution"};
  if (!is_closed) return summary_value(scenario, metric);
  if (form->second.startup) return startup_seconds(form->second, scenario, probability);
  if (form->second.distribution) return form->second.distribution(scenario, probability);
  return form->second.value(scenario);
}

const Verb kMeasure{"measure", [](Scenario scenario, const JsonReader& options) {
                      if (const auto steps = options.maybe<std::int64_t>("steps")) set_steps(scenario, *steps);
                      const auto metric = options.required<std::string>("metric");
                      const auto probability = options.maybe<double>("probability");
                      const auto traces = options.maybe<std::string>("traces");
                      options.reject_unknown_keys();
                      if (is_replayed(metric)) {
                        if (!traces) throw InputError{"metric " + in_quotes(metric) + " needs the trace to replay"};
                        return to_text(replayed_metric(scenario, metric, *traces));
                      }
                      return to_text(simulated_metric(scenario, metric, probability));
                    }};

bool is_rate(const std::string& metric) {
  return metric.ends_with("_per_s") || metric.find("_per_s_") != std::string::npos || metric.ends_with("_Bps");
}

bool is_speed(const std::string& metric) { return is_rate(metric) || metric.ends_with("_s"); }

bool is_closed_form(const std::string& metric) { return closed_forms().contains(metric); }

std::string profile_used_by(const std::string& metric, const Json& profile) {
  std::string text;
  for (const std::string& part : closed_forms().at(metric).profile_parts)
    if (profile.contains(part)) text += profile.at(part).dump();
  return text;
}

}  // namespace rehearse
