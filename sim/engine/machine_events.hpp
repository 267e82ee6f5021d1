#pragma once
// What the provider does to the machines of a scenario, in order of date.

#include <optional>
#include <vector>

#include "platforms/fleet.hpp"
#include "sim/engine/run_record.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

struct MachineEvent {
  Seconds at{};
  MachineIndex machine = 0;
  FleetEvent::Kind kind = FleetEvent::Kind::kRequested;
};

/// Draws from the pools of the groups, with start-up times of the profile; groups with a recorded trace replay it.
class MachineEvents {
 public:
  MachineEvents(const Scenario& scenario, std::uint64_t seed);

  std::optional<MachineEvent> next();
  /// [machines]
  std::vector<bool> running_at_start() const;

 private:
  Fleet fleet_;
};

/// Machines that are there at the start if no machine is ever revoked: [machines]
std::vector<bool> machines_at_start(const Scenario& scenario, const std::vector<Machine>& machines);

}  // namespace rehearse
