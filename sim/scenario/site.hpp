#pragma once
// Where a scenario takes place: its machines, what runs on them, and the network between them.

#include <string>
#include <vector>

#include "platforms/topology.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// One machine of the cluster. Colocated parameter servers run on machines of workers.
struct Machine {
  std::string name;           // "workers-3"; just the group's name if the group has one machine
  int group = 0;              // index into Scenario::groups
  Role role = Role::kWorker;  // of its group
  int number = 0;             // of the machines of its role before it, whatever groups stand between
  std::string region;
  int workers = 0;
  int gpus = 0;     // 0 to workers - 1 are the first GPUs of the workers, the others follow, worker after worker
  int servers = 0;  // parameter server processes
  int cores = 0;    // for them
  int threads = 0;  // of all of them, that serve messages: at most one a core
  int nics = 1;
  BytesPerSecond nic{};    // payload rate of one NIC, each direction
  Bytes nic_burst{};       // payload
  int nvlink_domain = -1;  // as TopologyMachine's
};

/// What passes one NIC of the group's machines in each direction: the provider's rate times the protocol's share, or what a
/// collective's sockets carry.
BytesPerSecond nic_payload(const Scenario& scenario, const Group& group);

/// Whether the sockets are what limits it, whatever the NIC's rate.
bool is_limited_by_sockets(const Scenario& scenario, const Group& group);

/// Whether workers exchange between machines by RDMA: their instance says so, or it says nothing and has NICs that sockets
/// do not fill.
bool exchanges_by_rdma(const Scenario& scenario);

/// Resolved once for a run, and handed on. The scenario has to outlive it.
struct Site {
  /// Throws std::invalid_argument as Topology does.
  explicit Site(const Scenario& scenario);

  const Machine& machine(MachineIndex index) const { return machines[static_cast<std::size_t>(index)]; }
  /// The group that the machine belongs to.
  const Group& group(MachineIndex index) const {
    return scenario.groups[static_cast<std::size_t>(machine(index).group)];
  }

  /// Of all these workers, one after another.
  std::vector<Endpoint> gpus_of(const std::vector<int>& of_workers) const;

  const Scenario& scenario;
  /// Group after group, with payload NIC rates (the provider's rate times the profile's nic_efficiency_for() the
  /// instance). Colocated servers are counted on the machines that they share.
  std::vector<Machine> machines;
  std::vector<std::vector<Endpoint>> workers;  // the GPUs of each; the first stands for all in what is recorded
  std::vector<MachineIndex> servers;           // the machine of each
  Topology topology;
};

}  // namespace rehearse
