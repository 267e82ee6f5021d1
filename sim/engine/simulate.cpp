#include "sim/engine/simulate.hpp"

#include <stdexcept>

#include "sim/engine/simgrid_backend.hpp"
#include "sim/engine/strategy.hpp"

namespace rehearse {

namespace {

NetworkDescription describe_network(const Scenario& scenario, const std::vector<Machine>& machines) {
  NetworkDescription network;
  for (const Machine& machine : machines)
    network.machines.push_back(
        {machine.name, scenario.groups[static_cast<std::size_t>(machine.group)].region, machine.nic});
  for (const RegionLink& link : scenario.links)
    network.paths.push_back({link.from, link.to, link.latency, link.per_flow_rate});
  return network;
}

/// What must hold in every run, whatever the scenario. A violation is a bug of ours.
void check_invariants(const RunRecord& record) {
  const auto require = [](bool holds, const char* invariant) {
    if (!holds) throw std::logic_error{std::string{"invariant broken: "} + invariant};
  };
  constexpr double kRounding = 1e-6;
  require(record.sent == record.received, "bytes sent = bytes received");
  Bytes sent{}, received{};
  for (std::size_t m = 0; m < record.machines.size(); ++m) {
    const Machine& machine = record.machines[m];
    const MachineUse& use = record.total[m];
    sent += use.sent;
    received += use.received;
    const double capacity = machine.nic.value() * record.end.value() * (1 + kRounding);
    require(as_double(use.sent) <= capacity && as_double(use.received) <= capacity, "no NIC above its capacity");
    require(use.cpu_busy.value() <= machine.cores * record.end.value() * (1 + kRounding),
            "no core busy for longer than the run");
  }
  require(sent == record.sent && received == record.received, "bytes of the machines = bytes of the connections");
  for (const StepSpan& step : record.recorder.steps)
    require(step.span.end > step.span.start && step.staleness >= 0, "every step takes time");
}

}  // namespace

std::vector<Machine> list_machines(const Scenario& scenario) {
  std::vector<Machine> machines;
  for (std::size_t g = 0; g < scenario.groups.size(); ++g) {
    const Group& group = scenario.groups[g];
    for (int i = 0; i < group.count; ++i) {
      machines.push_back({.name = group.count == 1 ? group.name : group.name + "-" + std::to_string(i),
                          .group = static_cast<int>(g),
                          .role = group.role,
                          .cores = group.instance.vcpus,
                          .nic = group.instance.nic * scenario.profile.network.nic_efficiency});
    }
  }
  return machines;
}

RunRecord simulate(const Scenario& scenario, const SimulateOptions& options) {
  const std::vector<Machine> machines = list_machines(scenario);
  SimgridBackend backend{describe_network(scenario, machines)};
  Recorder recorder;
  recorder.keeps_activity = options.keeps_activity;
  const Cluster cluster{.scenario = scenario,
                        .machines = machines,
                        .clock = backend.clock(),
                        .network = backend.network(),
                        .recorder = recorder,
                        .on_update = options.on_update,
                        .run = [&backend] { backend.run(); }};
  RunRecord record;
  switch (scenario.training.strategy.synchronization) {
    case Synchronization::kAsynchronous:
      record = run_parameter_server_asynchronous(cluster);
      break;
  }
  record.recorder = std::move(recorder);
  record.fingerprint = backend.clock().fingerprint();
  record.events = backend.clock().events();
  check_invariants(record);
  return record;
}

}  // namespace rehearse
