#pragma once
// The machines of a scenario, and the network between them.

#include <vector>

#include "platforms/topology.hpp"
#include "sim/engine/run_record.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

/// Group after group, with payload NIC rates (the provider's rate times the profile's nic_efficiency). Colocated
/// servers are counted on the machines that they share.
std::vector<Machine> list_machines(const Scenario& scenario);

/// Throws std::invalid_argument as Topology does.
Topology build_topology(const Scenario& scenario, const std::vector<Machine>& machines);

}  // namespace rehearse
