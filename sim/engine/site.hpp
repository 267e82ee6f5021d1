#pragma once
// Where a scenario takes place: its machines, what runs on them, and the network between them.

#include <string>
#include <vector>

#include "platforms/topology.hpp"
#include "sim/engine/run_record.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

/// Resolved once for a run, and handed on. The scenario has to outlive it.
struct Site {
  /// Throws std::invalid_argument as Topology does.
  explicit Site(const Scenario& scenario);

  const Machine& machine(MachineIndex index) const { return machines[static_cast<std::size_t>(index)]; }
  /// The machine's.
  const Group& group(MachineIndex index) const {
    return scenario.groups[static_cast<std::size_t>(machine(index).group)];
  }

  const Scenario& scenario;
  /// Group after group, with payload NIC rates (the provider's rate times the profile's nic_efficiency_for() the
  /// instance). Colocated servers are counted on the machines that they share.
  std::vector<Machine> machines;
  std::vector<std::vector<Endpoint>> workers;  // the GPUs of each; the first stands for all in what is recorded
  std::vector<MachineIndex> servers;           // the machine of each
  Topology topology;
};

/// What to record, from the texts "10s..12s" and "0,8..15" (workers, whose machines are recorded); empty: all. Throws
/// InputError.
RecordingScope read_recording_scope(const std::string& window, const std::string& ranks, const Site& site);

}  // namespace rehearse
