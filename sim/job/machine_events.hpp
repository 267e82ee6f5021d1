#pragma once
// What the provider does to the machines of a scenario, in order of date.

#include <optional>
#include <vector>

#include "platforms/fleet.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

struct MachineEvent {
  Seconds at{};
  MachineIndex machine = 0;
  FleetEvent::Kind kind = FleetEvent::Kind::kRequested;
};

/// Draws from the pools of the groups, with start-up times of the profile; groups with a recorded trace replay it.
/// There are none where no machine is ever revoked and no rule of Control requests any. A rule that plans machines anew takes the
/// place of replacements.
class MachineEvents {
 public:
  MachineEvents(const Site& site, std::uint64_t seed);

  /// The next event, in order of date; none: there are no more.
  std::optional<MachineEvent> next();
  /// What Fleet says, for those who request and release machines meanwhile: next() has then gone too far.
  std::optional<MachineEvent> next_until(Seconds date);
  Seconds next_date() const { return fleet_ ? fleet_->next_date() : kNever; }
  void request(Seconds now, MachineIndex machine) { fleet_->request(now, machine); }
  void release(MachineIndex machine) { fleet_->release(machine); }
  /// [machines] whether each is there at date 0.
  std::vector<bool> running_at_start() const;

 private:
  const Site& site_;
  std::optional<Fleet> fleet_;
};

}  // namespace rehearse
