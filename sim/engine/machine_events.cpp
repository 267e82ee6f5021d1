#include "sim/engine/machine_events.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace rehearse {

/// One stream of events, and the next of them.
struct MachineEvents::Source {
  std::function<std::optional<FleetEvent>()> pull;
  int first_machine = 0;
  std::vector<bool> runs_at_start;
  std::optional<FleetEvent> next;
};

MachineEvents::MachineEvents(const Scenario& scenario, std::uint64_t seed) {
  std::vector<int> fleet_index(scenario.groups.size(), -1);  // [groups]
  int count = 0;
  for (std::size_t g = 0; g < scenario.groups.size(); ++g)
    if (scenario.groups[g].colocated_with < 0) fleet_index[g] = count++;
  std::vector<FleetGroup> groups;
  std::vector<std::unique_ptr<Source>> replays;
  int machine = 0;
  for (const Group& group : scenario.groups) {
    if (group.colocated_with >= 0) continue;
    FleetGroup& fleet = groups.emplace_back();
    fleet.slots = group.count;
    fleet.is_standby = group.is_standby;
    fleet.pool = group.pool;
    fleet.zone = group.zone;
    fleet.startup = startup_of(scenario, group);
    if (group.replaced_by) fleet.replaced_by = fleet_index[static_cast<std::size_t>(*group.replaced_by)];
    fleet.replacement_delay = group.replacement_delay;
    fleet.requests_at_notice = scenario.training.recovery.uses_notice;
    if (group.replay) {
      const auto replay = std::make_shared<FleetReplay>(*group.replay, group.count, Seconds{}, group.replay_notice);
      auto source = std::make_unique<Source>();
      source->pull = [replay] { return replay->next(); };
      source->first_machine = machine;
      for (int slot = 0; slot < group.count; ++slot) source->runs_at_start.push_back(replay->runs_at_start(slot));
      replays.push_back(std::move(source));
    }
    machine += group.count;
  }
  const auto fleet = std::make_shared<Fleet>(std::move(groups), scenario.start_utc.value(), seed);
  sources_.push_back(std::make_unique<Source>());
  sources_.back()->pull = [fleet] { return fleet->next(); };
  for (int slot = 0; slot < machine; ++slot) sources_.back()->runs_at_start.push_back(fleet->runs_at_start(slot));
  for (auto& replay : replays) sources_.push_back(std::move(replay));
  for (const auto& source : sources_) source->next = source->pull();
}

MachineEvents::~MachineEvents() = default;

std::optional<MachineEvent> MachineEvents::next() {
  Source* first = nullptr;
  for (const auto& source : sources_)
    if (source->next && (first == nullptr || source->next->at < first->next->at)) first = source.get();
  if (first == nullptr) return {};
  const FleetEvent event = *std::exchange(first->next, first->pull());
  return MachineEvent{event.at, first->first_machine + event.slot, event.kind};
}

std::vector<bool> MachineEvents::running_at_start() const {
  std::vector<bool> running = sources_.front()->runs_at_start;
  for (std::size_t s = 1; s < sources_.size(); ++s)
    for (std::size_t slot = 0; slot < sources_[s]->runs_at_start.size(); ++slot)
      running[static_cast<std::size_t>(sources_[s]->first_machine) + slot] = sources_[s]->runs_at_start[slot];
  return running;
}

std::vector<bool> machines_at_start(const Scenario& scenario, const std::vector<Machine>& machines) {
  std::vector<bool> there;
  for (const Machine& machine : machines)
    there.push_back(scenario.groups[static_cast<std::size_t>(machine.group)].is_there_from_the_start());
  return there;
}

}  // namespace rehearse
