#include "sim/job/machine_events.hpp"

#include <memory>
#include <utility>

#include "platforms/fleet_trace.hpp"

namespace rehearse {

namespace {

Fleet fleet_of(const Scenario& scenario, std::uint64_t seed) {
  std::vector<int> fleet_index(scenario.groups.size(), -1);  // [groups]
  int count = 0;
  for (std::size_t g = 0; g < scenario.groups.size(); ++g)
    if (scenario.groups[g].colocated_with < 0) fleet_index[g] = count++;
  std::vector<FleetGroup> groups;
  for (const Group& group : scenario.groups) {
    if (group.colocated_with >= 0) continue;
    FleetGroup& fleet = groups.emplace_back();
    fleet.slots = group.count;
    fleet.is_standby = group.is_standby;
    fleet.pool = group.pool;
    fleet.faults = group.faults;
    fleet.noticed_after = scenario.training.recovery.timeout;
    if (group.replay)
      fleet.replay = std::make_shared<const FleetReplay>(*group.replay, group.count, Seconds{}, group.replay_notice);
    fleet.zone = group.zone;
    fleet.startup = startup_of(scenario, group);
    const auto& control = scenario.training.control;
    const bool is_planned_anew = control && control->replan && group.role == Role::kWorker;
    if (group.replaced_by && !is_planned_anew)
      fleet.replaced_by = fleet_index[static_cast<std::size_t>(*group.replaced_by)];
    fleet.replacement_delay = group.replacement_delay;
    fleet.requests_at_notice = group.requests_at_notice.value_or(scenario.training.recovery.uses_notice);
  }
  return Fleet{std::move(groups), scenario.start_utc.value(), seed};
}

}  // namespace

MachineEvents::MachineEvents(const Site& site, std::uint64_t seed)
    : site_{site},
      fleet_{site.scenario.has_revocations() ||
                     (site.scenario.training.control && site.scenario.training.control->changes_machines())
                 ? std::optional{fleet_of(site.scenario, seed)}
                 : std::nullopt} {}

std::optional<MachineEvent> MachineEvents::next() { return next_until(Seconds{1e9}); }

std::optional<MachineEvent> MachineEvents::next_until(Seconds date) {
  const auto event = fleet_ ? fleet_->next(date) : std::nullopt;
  if (!event) return {};
  return MachineEvent{event->at, event->slot, event->kind};
}

std::vector<bool> MachineEvents::running_at_start() const {
  std::vector<bool> running;
  for (MachineIndex m = 0; m < static_cast<MachineIndex>(site_.machines.size()); ++m)
    running.push_back(fleet_ ? fleet_->runs_at_start(m) : site_.group(m).is_there_from_the_start());
  return running;
}

}  // namespace rehearse
