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
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

/// No faster than a run may have it (simulate.cpp, check_rates()).
BytesPerSecond divided(BytesPerSecond rate, double factor) { return std::min(rate / factor, BytesPerSecond{1e18}); }

void slow_down_network(Scenario& scenario, double factor) {
  for (Group& group : scenario.groups) group.instance.nic = divided(group.instance.nic, factor);
  for (RegionLink& link : scenario.links)
    if (link.per_flow_rate) *link.per_flow_rate = divided(*link.per_flow_rate, factor);
}

void slow_down_servers(Scenario& scenario, double factor) {
  ServerParameters& servers = scenario.profile.servers;
  for (Seconds* time :
       {&servers.time_per_variable, &servers.time_per_byte, &servers.time_per_split_update, &servers.time_per_update})
    *time = *time * factor;
}

/// Of the fabric and between GPUs; in a fat tree and between rails they are a share of the NICs.
void slow_down_links(Scenario& scenario, double factor) {
  for (Group& group : scenario.groups) {
    Interconnect& inside = group.interconnect;
    for (BytesPerSecond* rate : {&inside.pcie, &inside.nvlink_rate}) *rate = divided(*rate, factor);
    for (auto* rate : {&inside.pcie_root, &inside.socket_link, &inside.nvswitch})
      if (*rate) *rate = divided(**rate, factor);
  }
  struct SlowDown {
    double factor;
    void operator()(Star&) const {}
    void operator()(FatTree& tree) const { tree.oversubscription *= factor; }
    void operator()(Dragonfly& fabric) const {
      fabric.local = divided(fabric.local, factor);
      fabric.global = divided(fabric.global, factor);
    }
    void operator()(Torus& torus) const { torus.link = divided(torus.link, factor); }
    void operator()(Rail& rail) const { rail.oversubscription *= factor; }
  };
  std::visit(SlowDown{factor}, scenario.fabric);
}

void lengthen_latency(Scenario& scenario, double factor) {
  for (RegionLink& link : scenario.links) link.latency = link.latency * factor;
  if (scenario.hop_latency) *scenario.hop_latency = *scenario.hop_latency * factor;
  for (Group& group : scenario.groups) group.interconnect.latency = group.interconnect.latency * factor;
}

}  // namespace

namespace {

/// Whether hosts of workers do something that takes time.
bool dispatches(const Scenario& scenario) {
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker || group.colocated_with >= 0) continue;
    const ComputePlan plan = plan_step(scenario, group);
    if (plan.step_overhead > Seconds{} || plan.update_dispatch > Seconds{} || plan.host_update.share > 0) return true;
    for (const PlannedKernel& kernel : plan.kernels)
      if (kernel.dispatch > Seconds{}) return true;
  }
  return false;
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
  if (dispatches(scenario)) mechanisms.push_back({"host", 50, 1.5});
  return mechanisms;
}

Scenario made_worse(Scenario scenario, const std::string& mechanism, double strength, Seconds step) {
  if (mechanism == "input")
    scenario.step_change.delay += step * (strength - 1);
  else if (mechanism == "host")
    scenario.step_change.host *= strength;
  else if (mechanism == "launch")
    scenario.step_change.launch *= strength;
  else if (mechanism == "network")
    slow_down_network(scenario, strength);
  else if (mechanism == "servers")
    slow_down_servers(scenario, strength);
  else if (mechanism == "stragglers")
    scenario.training.step_time_variation = std::max(scenario.training.step_time_variation, strength - 1);
  else if (mechanism == "gpu")
    scenario.step_change.gpu *= strength;
  else if (mechanism == "links")
    slow_down_links(scenario, strength);
  else if (mechanism == "latency")
    lengthen_latency(scenario, strength);
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
  if (mechanism.name == "host")
    return formatted(
        "hosts that take %.3g times as long to dispatch kernels and begin steps (slower cores, other work)", strength);
  return formatted("GPUs that take %.3g times as long (throttled, shared, slower kernels)", strength);
}

}  // namespace rehearse
