#include "sim/engine/simulate.hpp"

#include <stdexcept>
#include <utility>

#include "sim/engine/simgrid_backend.hpp"
#include "sim/engine/strategy.hpp"

namespace rehearse {

namespace {

Topology build_topology(const Scenario& scenario, const std::vector<Machine>& machines) {
  std::vector<TopologyMachine> nodes;
  for (const Machine& machine : machines) {
    const Group& group = scenario.groups[static_cast<std::size_t>(machine.group)];
    nodes.push_back({.region = machine.region,
                     .nic = machine.nic,
                     .nics = machine.nics,
                     .gpus = machine.workers,
                     .interconnect = group.interconnect});
  }
  return Topology{std::move(nodes), scenario.fabric, scenario.links, scenario.hop_latency};
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
    const double capacity = machine.nics * machine.nic.value() * record.drained.value() * (1 + kRounding) + 1;
    require(as_double(use.sent) <= capacity && as_double(use.received) <= capacity, "no NIC above its capacity");
    require(use.cpu_busy.value() <= machine.cores * record.drained.value() * (1 + kRounding),
            "no core busy for longer than the run");
  }
  require(sent == record.sent && received == record.received, "bytes of the machines = bytes of the run");
  for (const StepSpan& step : record.recorder.steps)
    require(step.span.end > step.span.start && step.staleness >= 0, "every step takes time");
}

}  // namespace

std::vector<Machine> list_machines(const Scenario& scenario) {
  std::vector<Machine> machines;
  std::vector<std::size_t> first(scenario.groups.size());  // machine of each group
  for (std::size_t g = 0; g < scenario.groups.size(); ++g) {
    const Group& group = scenario.groups[g];
    first[g] = machines.size();
    if (group.colocated_with >= 0) continue;
    for (int i = 0; i < group.count; ++i) {
      machines.push_back({.name = group.count == 1 ? group.name : group.name + "-" + std::to_string(i),
                          .group = static_cast<int>(g),
                          .role = group.role,
                          .region = group.region,
                          .workers = group.role == Role::kWorker ? group.instance.accelerators : 0,
                          .servers = group.role == Role::kParameterServer ? 1 : 0,
                          .cores = group.role == Role::kParameterServer ? group.instance.vcpus : 0,
                          .nics = group.instance.nics,
                          .nic = group.instance.nic * scenario.profile.network.nic_efficiency});
    }
  }
  for (const Group& group : scenario.groups) {
    if (group.colocated_with < 0) continue;
    const auto host = static_cast<std::size_t>(group.colocated_with);
    for (int i = 0; i < group.count; ++i) {
      Machine& machine = machines[first[host] + static_cast<std::size_t>(i % scenario.groups[host].count)];
      ++machine.servers;
      machine.cores = scenario.groups[host].instance.vcpus;
    }
  }
  return machines;
}

RunRecord simulate(const Scenario& scenario, const SimulateOptions& options) {
  const std::vector<Machine> machines = list_machines(scenario);
  const Topology topology = build_topology(scenario, machines);
  SimgridBackend backend{topology, options.is_exact ? FlowSolver::kSimgrid : FlowSolver::kMaxMinFlows};
  Recorder recorder;
  recorder.keeps_activity = options.keeps_activity;
  const Cluster cluster{.scenario = scenario,
                        .machines = machines,
                        .clock = backend.clock(),
                        .network = backend.network(),
                        .recorder = recorder,
                        .is_exact = options.is_exact,
                        .on_update = options.on_update,
                        .run = [&backend] { backend.run(); }};
  struct Run {
    const Cluster& cluster;
    RunRecord operator()(const ParameterServerStrategy&) const { return run_parameter_server(cluster); }
    RunRecord operator()(const AllReduceStrategy&) const { return run_all_reduce(cluster); }
    RunRecord operator()(const PairwiseAveragingStrategy&) const { return run_pairwise_averaging(cluster); }
  };
  RunRecord record = std::visit(Run{cluster}, scenario.training.strategy.kind);
  record.recorder = std::move(recorder);
  record.fingerprint = backend.clock().fingerprint();
  record.events = backend.clock().events();
  check_invariants(record);
  return record;
}

}  // namespace rehearse
