#include "sim/app/explain.hpp"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <set>

#include "sim/base/parse_quantity.hpp"
#include "sim/engine/kernel_time.hpp"

namespace rehearse {

namespace {

// A message costs about this much real time (tests/bench/run.sh prints the figure for this machine).
constexpr double kSecondsPerMessage = 2e-6;

[[gnu::format(printf, 2, 3)]] void append(std::string& text, const char* format, ...) {
  std::array<char, 1024> line{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  text += line.data();
}

double expected_messages(const Scenario& scenario) {
  return static_cast<double>(scenario.training.steps) *
         (scenario.workload.trainable_tensors() + static_cast<double>(scenario.workload.variables.size()));
}

double gib(Bytes bytes) { return as_double(bytes) / (1024.0 * 1024 * 1024); }

}  // namespace

std::string explain(const Scenario& scenario) {
  std::string text;
  const Workload& workload = scenario.workload;
  append(text, "model %s: %lld parameters in %d tensors, %zu variables, %.4g GFLOP per sample (forward and backward)\n",
         scenario.model.name.c_str(), static_cast<long long>(workload.parameters()), workload.trainable_tensors(),
         workload.variables.size(), workload.training_flops().value() / workload.batch / 1e9);
  text += "  source: " + scenario.model.source + "\n";
  std::set<std::string> explained;
  for (const Group& group : scenario.groups) {
    append(text, "group %s: %d x %s in %s: %d vCPU, NIC %s of which %.3g is delivered\n", group.name.c_str(),
           group.count, group.instance.name.c_str(), group.region.c_str(), group.instance.vcpus,
           to_text(group.instance.nic).c_str(), scenario.profile.network.nic_efficiency);
    text += "  source: " + group.instance.source + "\n";
    if (!group.accelerator || !explained.insert(group.accelerator->name).second) continue;
    const Accelerator& gpu = *group.accelerator;
    const FlopsPerSecond peak = scenario.precision == Precision::kFp16 ? gpu.peak_fp16 : gpu.peak_fp32;
    const ComputePlan plan = plan_compute(workload, gpu, peak, scenario.profile);
    append(text,
           "GPU %s: peak %s, memory %s, e_max %.3g: one step computes for %.2f ms in %zu kernels; dispatching them "
           "takes %.2f ms\n",
           gpu.name.c_str(), to_text(peak).c_str(), to_text(gpu.memory_bandwidth).c_str(),
           scenario.profile.gpu.efficiency_for(gpu.name), plan.gpu_time.value() * 1e3, plan.kernels.size(),
           scenario.profile.host.dispatch.value() * 1e3 * static_cast<double>(plan.kernels.size()));
    text += "  source: " + gpu.source + "\n";
  }
  for (const RegionLink& link : scenario.links) {
    append(text, "link %s - %s: %s one way%s\n", link.from.c_str(), link.to.c_str(), to_text(link.latency).c_str(),
           link.per_flow_rate ? (", at most " + to_text(*link.per_flow_rate) + " per connection").c_str() : "");
    text += "  source: " + link.source + "\n";
  }
  const Profile& profile = scenario.profile;
  append(text, "profile %s: dispatch %s, step overhead %s; server: %s per variable, %s per byte, %s per split update\n",
         profile.name.c_str(), to_text(profile.host.dispatch).c_str(), to_text(profile.host.step_overhead).c_str(),
         to_text(profile.servers.time_per_variable).c_str(), to_text(profile.servers.time_per_byte).c_str(),
         to_text(profile.servers.time_per_split_update).c_str());
  text += "  source: " + profile.source + "\n";
  return text;
}

Seconds expected_duration(const Scenario& scenario) {
  return Seconds{0.02 + expected_messages(scenario) * kSecondsPerMessage};
}

std::string describe_dry_run(const Scenario& scenario) {
  std::string text;
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker) continue;
    append(text, "GPU memory of %s: %.2f of %.2f GiB on a %s\n", group.name.c_str(),
           gib(gpu_memory_needed(scenario, *group.accelerator)), gib(group.accelerator->memory),
           group.accelerator->name.c_str());
  }
  const double messages = expected_messages(scenario);
  append(text, "%lld steps of %d workers, %.3g messages; the simulation takes about %.2g s\n",
         static_cast<long long>(scenario.training.steps), scenario.count(Role::kWorker), messages,
         expected_duration(scenario).value());
  double price = 0;
  bool is_priced = true;
  for (const Group& group : scenario.groups) {
    if (group.colocated_with >= 0) continue;  // on machines that are paid for already
    const auto& own =
        group.market == Market::kSpot ? group.instance.usd_per_hour_spot : group.instance.usd_per_hour_on_demand;
    is_priced = is_priced && own;
    if (own) price += *own * group.count;
  }
  if (is_priced)
    append(text, "the cluster costs %.4g USD per hour\n", price);
  else
    text += "the cluster's cost is unknown: an instance has no price\n";
  return text;
}

}  // namespace rehearse
