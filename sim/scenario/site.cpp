#include "sim/scenario/site.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <variant>

namespace rehearse {

namespace {

BytesPerSecond delivered_by_nic(const Scenario& scenario, const Group& group) {
  return group.instance.nic * scenario.profile.network.nic_efficiency_for(group.instance.name);
}

/// What sockets carry of a collective through one NIC, where they do.
std::optional<BytesPerSecond> carried_by_sockets(const Scenario& scenario, const Group& group) {
  const auto& rate = scenario.profile.network.tcp_rate;
  const bool is_by_sockets =
      group.instance.transport == NetworkTransport::kTcp && scenario.training.strategy.kind->collectives() != nullptr;
  return is_by_sockets && rate ? std::optional{*rate / group.instance.nics} : std::nullopt;
}

}  // namespace

BytesPerSecond nic_payload(const Scenario& scenario, const Group& group) {
  const BytesPerSecond rate = delivered_by_nic(scenario, group);
  return std::min(rate, carried_by_sockets(scenario, group).value_or(rate));
}

bool is_limited_by_sockets(const Scenario& scenario, const Group& group) {
  const auto sockets = carried_by_sockets(scenario, group);
  return sockets && *sockets < delivered_by_nic(scenario, group);
}

bool exchanges_by_rdma(const Scenario& scenario) {
  if (scenario.training.strategy.kind->collectives() == nullptr) return false;
  return std::any_of(scenario.groups.begin(), scenario.groups.end(), [&](const Group& group) {
    const Instance& instance = group.instance;
    return group.role == Role::kWorker && scenario.count(Role::kWorker) > group.workers_per_machine() &&
           instance.transport.value_or(instance.all_nics() > kOneSocketRate
                                           ? NetworkTransport::kRdma
                                           : NetworkTransport::kTcp) == NetworkTransport::kRdma;
  });
}

namespace {

std::vector<Machine> list_machines(const Scenario& scenario) {
  std::vector<Machine> machines;
  std::vector<std::size_t> first(scenario.groups.size());  // machine of each group
  int domains = 0;
  std::map<Role, int> of_role;
  for (std::size_t g = 0; g < scenario.groups.size(); ++g) {
    const Group& group = scenario.groups[g];
    first[g] = machines.size();
    if (group.colocated_with >= 0) continue;
    const double nic_efficiency = scenario.profile.network.nic_efficiency_for(group.instance.name);
    for (int i = 0; i < group.count; ++i) {
      if (i % group.machines_per_domain == 0 && group.machines_per_domain > 1) ++domains;
      machines.push_back({.name = group.count == 1 ? group.name : group.name + "-" + std::to_string(i),
                          .group = static_cast<int>(g),
                          .role = group.role,
                          .number = of_role[group.role]++,
                          .region = group.region,
                          .workers = group.workers_per_machine(),
                          .gpus = group.role == Role::kWorker ? group.instance.accelerators : 0,
                          .servers = group.role == Role::kParameterServer ? 1 : 0,
                          .cores = group.role == Role::kParameterServer ? group.instance.vcpus : 0,
                          .nics = group.instance.nics,
                          .nic = nic_payload(scenario, group),
                          .nic_burst = Bytes{std::llround(as_double(group.instance.nic_burst) * nic_efficiency)},
                          .nvlink_domain = group.machines_per_domain > 1 ? domains - 1 : -1});
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
  for (Machine& machine : machines)
    machine.threads = machine.servers > 0 ? scenario.profile.servers.serving(machine.servers, machine.cores) : 0;
  return machines;
}

/// [workers] Those of a machine have its first GPUs; the others follow, worker after worker.
std::vector<std::vector<Endpoint>> list_workers(const std::vector<Machine>& machines) {
  std::vector<std::vector<Endpoint>> workers;
  for (std::size_t m = 0; m < machines.size(); ++m) {
    int next_gpu = machines[m].workers;
    for (int gpu = 0; gpu < machines[m].workers; ++gpu) {
      workers.push_back({{static_cast<MachineIndex>(m), gpu}});
      for (int other = 1; other < machines[m].gpus / machines[m].workers; ++other)
        workers.back().push_back({static_cast<MachineIndex>(m), next_gpu++});
    }
  }
  return workers;
}

/// One of each machine in turn, so that consecutive ones are on different machines.
std::vector<MachineIndex> list_servers(const std::vector<Machine>& machines) {
  std::vector<MachineIndex> servers;
  const int most = std::ranges::max(machines, {}, &Machine::servers).servers;
  for (int turn = 0; turn < most; ++turn)
    for (std::size_t m = 0; m < machines.size(); ++m)
      if (machines[m].servers > turn) servers.push_back(static_cast<MachineIndex>(m));
  return servers;
}

/// The links of the scenario with what their connections deliver, with what the framework carries over one to a server,
/// and with the rate at which a connection's window goes round, where NICs are faster than that.
std::vector<RegionLink> limited_links(const Scenario& scenario, const std::vector<Machine>& machines) {
  const NetworkParameters& network = scenario.profile.network;
  std::vector<RegionLink> links = scenario.links;
  for (RegionLink& link : links) {
    if (!link.per_flow_rate) continue;
    link.per_flow_rate = *link.per_flow_rate * network.flow_efficiency;
    if (network.duplex < 2) link.per_pair_rate = *link.per_flow_rate * network.duplex;
  }
  BytesPerSecond fastest{};
  for (const Machine& machine : machines) fastest = std::max(fastest, machine.nic);
  const std::optional<BytesPerSecond>& carried = scenario.profile.servers.connection_rate;
  if (carried && scenario.count(Role::kParameterServer) > 0)
    for (RegionLink& link : links)
      if (*carried < link.per_flow_rate.value_or(fastest)) link.per_flow_rate = carried;
  if (!network.connection_window) return links;
  for (RegionLink& link : links) {
    if (scenario.hop_latency && link.from == link.to) continue;  // the way is another for every two machines
    if (!(link.latency > Seconds{})) continue;
    const BytesPerSecond rate{as_double(*network.connection_window) / (2 * link.latency.value())};
    if (rate < fastest && rate < link.per_flow_rate.value_or(fastest)) link.per_flow_rate = rate;
  }
  return links;
}

Topology build_topology(const Scenario& scenario, const std::vector<Machine>& machines) {
  std::vector<TopologyMachine> nodes;
  for (const Machine& machine : machines) {
    const Group& group = scenario.groups[static_cast<std::size_t>(machine.group)];
    nodes.push_back({.region = machine.region,
                     .nic = machine.nic,
                     .nic_burst = machine.nic_burst,
                     .nics = machine.nics,
                     .gpus = machine.gpus,
                     .interconnect = group.interconnect,
                     .name = machine.name,
                     .packet_loss = scenario.packet_loss,
                     .nvlink_domain = machine.nvlink_domain});
    Interconnect& inside = nodes.back().interconnect;
    const CollectiveParameters& library = scenario.profile.collectives.on(inside.name, inside.generation);
    inside.pcie = inside.pcie * library.pcie_efficiency;
    if (inside.pcie_root) inside.pcie_root = *inside.pcie_root * library.pcie_efficiency;
    if (inside.socket_link) inside.socket_link = *inside.socket_link * library.socket_efficiency;
    inside.nvlink_relay_efficiency = library.nvlink_relay_efficiency;
    inside.nvlink_rate = inside.nvlink_rate * library.nvlink_efficiency;
    if (inside.nvswitch) inside.nvswitch = *inside.nvswitch * library.nvlink_efficiency;
  }
  return Topology{std::move(nodes), scenario.fabric, limited_links(scenario, machines), scenario.hop_latency};
}

}  // namespace

Site::Site(const Scenario& scenario_)
    : scenario{scenario_},
      machines{list_machines(scenario)},
      workers{list_workers(machines)},
      servers{list_servers(machines)},
      topology{build_topology(scenario, machines)} {}

std::vector<Endpoint> Site::gpus_of(const std::vector<int>& of_workers) const {
  std::vector<Endpoint> gpus;
  for (const int worker : of_workers) {
    const std::vector<Endpoint>& own = workers[static_cast<std::size_t>(worker)];
    gpus.insert(gpus.end(), own.begin(), own.end());
  }
  return gpus;
}

}  // namespace rehearse
