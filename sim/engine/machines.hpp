#pragma once
// The machines of a scenario, and the network between them.

#include <string>
#include <vector>

#include "platforms/topology.hpp"
#include "sim/engine/run_record.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

/// Group after group, with payload NIC rates (the provider's rate times the profile's nic_efficiency_for() the
/// instance). Colocated servers are counted on the machines that they share.
std::vector<Machine> list_machines(const Scenario& scenario);

/// What to record, from the texts "10s..12s" and "0,8..15" (workers, whose machines are recorded); empty: all. Throws
/// InputError.
RecordingScope read_recording_scope(const std::string& window, const std::string& ranks,
                                    const std::vector<Machine>& machines);

/// Throws std::invalid_argument as Topology does.
Topology build_topology(const Scenario& scenario, const std::vector<Machine>& machines);

}  // namespace rehearse
