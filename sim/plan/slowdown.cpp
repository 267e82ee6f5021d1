#include "sim/plan/slowdown.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/pool/pool.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

void stretch(Workload& workload, double factor) {
  workload.optimizer_time = workload.optimizer_time * factor;
  for (std::size_t i = 0; i < workload.graph.size(); ++i)
    if (auto& time = workload.graph[i].measured_time) *time = *time * factor;
}

/// Its clock, too, which follows from its peak: kernels from data sheets take `factor` times as long.
void slow_down(Accelerator& gpu, double factor) {
  for (FlopsPerSecond* peak :
       {&gpu.peak_fp32, &gpu.peak_fp32_matrix, &gpu.peak_fp16, &gpu.peak_tf32, &gpu.peak_bf16, &gpu.peak_fp8})
    *peak = *peak / factor;
  gpu.memory_bandwidth = gpu.memory_bandwidth / factor;
}

void slow_down_kernels(Scenario& scenario, double factor) {
  for (auto& [name, framework] : scenario.profile.frameworks) {
    framework.dispatch = framework.dispatch * factor;
    framework.kernel_overhead = framework.kernel_overhead * factor;
  }
  for (Group& group : scenario.groups)
    if (group.accelerator) slow_down(*group.accelerator, factor);
}

void slow_down_gpus(Scenario& scenario, double factor) {
  if (scenario.profile.kernels) slow_down_kernels(scenario, factor);
  for (StepTime& step : scenario.profile.step_times) step.time = step.time * factor;
  HostParameters& host = scenario.profile.host;
  host.dispatch = host.dispatch * factor;
  GpuParameters& gpu = scenario.profile.gpu;
  gpu.kernel_overhead = gpu.kernel_overhead * factor;
  gpu.memory_efficiency /= factor;
  gpu.default_peak_efficiency /= factor;
  for (auto& [name, efficiency] : gpu.peak_efficiency) efficiency /= factor;
  stretch(scenario.workload, factor);
  for (Group& group : scenario.groups) {
    if (!group.workload) continue;
    auto slower = std::make_shared<Workload>(*group.workload);
    stretch(*slower, factor);
    group.workload = std::move(slower);
  }
}

void slow_down_network(Scenario& scenario, double factor) {
  for (Group& group : scenario.groups) group.instance.nic = group.instance.nic / factor;
  for (RegionLink& link : scenario.links)
    if (link.per_flow_rate) *link.per_flow_rate = *link.per_flow_rate / factor;
}

void slow_down_servers(Scenario& scenario, double factor) {
  ServerParameters& servers = scenario.profile.servers;
  for (Seconds* time :
       {&servers.time_per_variable, &servers.time_per_byte, &servers.time_per_split_update, &servers.time_per_update})
    *time = *time * factor;
}

/// Measured step times, if there are any, are those of a lone worker with its host's work; so are measured layers of
/// whole steps.
void delay_host(Scenario& scenario, Seconds delay) {
  for (StepTime& step : scenario.profile.step_times) step.time += delay;
  scenario.profile.host.step_overhead += delay;
  if (scenario.workload.is_whole_step) *scenario.workload.graph[0].measured_time += delay;
}

}  // namespace

std::vector<Mechanism> list_mechanisms(const Scenario& scenario) {
  std::vector<Mechanism> mechanisms{{"input", 50, 2}};
  int machines = 0;
  for (const Group& group : scenario.groups) machines += group.colocated_with < 0 ? group.count : 0;
  if (machines > 1) mechanisms.push_back({"network", 50, 2});
  const ServerParameters& servers = scenario.profile.servers;
  if (scenario.count(Role::kParameterServer) > 0 &&
      servers.time_per_variable + servers.time_per_byte + servers.time_per_update > Seconds{})
    mechanisms.push_back({"servers", 50, 1.5});
  if (scenario.count(Role::kWorker) > 1) mechanisms.push_back({"stragglers", 4, 1.2});
  mechanisms.push_back({"gpu", 50, 1.25});
  return mechanisms;
}

Scenario made_worse(Scenario scenario, const std::string& mechanism, double strength, Seconds step) {
  if (mechanism == "input")
    delay_host(scenario, step * (strength - 1));
  else if (mechanism == "network")
    slow_down_network(scenario, strength);
  else if (mechanism == "servers")
    slow_down_servers(scenario, strength);
  else if (mechanism == "stragglers")
    scenario.training.step_time_variation = std::max(scenario.training.step_time_variation, strength - 1);
  else if (mechanism == "gpu")
    slow_down_gpus(scenario, strength);
  else
    throw InputError{"unknown mechanism " + in_quotes(mechanism)};
  return scenario;
}

const Verb kSimulateWorse{"simulate_worse", [](Scenario scenario, const JsonReader& options) {
                            scenario.training.target.reset();
                            if (const auto steps = options.maybe<std::int64_t>("steps")) set_steps(scenario, *steps);
                            const auto mechanism = options.required<std::string>("mechanism");
                            const auto strength = options.required<double>("strength");
                            const Seconds step{options.required<double>("step_s")};
                            options.reject_unknown_keys();
                            return summary_text(made_worse(std::move(scenario), mechanism, strength, step));
                          }};

std::string describe(const Mechanism& mechanism, double strength, Seconds step) {
  if (mechanism.name == "input")
    return formatted("%.3g ms more in every step before it can begin (a slow input pipeline, a busy host)",
                     (strength - 1) * step.value() * 1e3);
  if (mechanism.name == "network")
    return formatted("NICs and connections at %.0f %% of their rate (other traffic, caps, a slower route)",
                     100 / strength);
  if (mechanism.name == "servers")
    return formatted("parameter servers with %.0f %% of their cores' speed (fewer cores, other work on them)",
                     100 / strength);
  if (mechanism.name == "stragglers")
    return formatted("steps whose compute time varies by %.0f %% (stragglers)", (strength - 1) * 100);
  return formatted("GPUs that take %.3g times as long (throttled, shared, slower kernels)", strength);
}

}  // namespace rehearse
