// A job that asks rules which machines it should have, and does what they say.

#include <algorithm>
#include <string>
#include <utility>

#include "sim/job/job.hpp"

namespace rehearse {

bool Job::asks_at(ControlEvent event) const {
  return std::ranges::any_of(control_.rules, [&](const auto& rule) { return rule->event() == event; });
}

/// Notices that come together are answered together.
void Job::ask_soon() {
  if (!asks_at(ControlEvent::kLoss) || std::exchange(is_planning_, true)) return;
  planning_ = OwnedClock{state_.clock, state_.clock.new_owner()};
  planning_.schedule_in(site_.scenario.training.control->replan->planning_time, [this] {
    is_planning_ = false;
    ask(ControlEvent::kLoss, view());
  });
}

/// Who trains has changed.
void Job::observe() {
  if (!session_ || is_done_ || !asks_at(ControlEvent::kObservation)) return;
  observation_.retire();
  observation_ = OwnedClock{state_.clock, state_.clock.new_owner()};
  observation_.schedule_in(site_.scenario.training.control->add_servers->warmup, [this] { begin_window(); });
}

/// One in which a checkpoint is written says nothing of the servers.
void Job::begin_window() {
  const std::int64_t updates = session_->progress().updates, checkpoints = state_.checkpoints.count();
  const bool is_writing = state_.checkpoints.stalls_until() > state_.clock.now();
  const Seconds window = site_.scenario.training.control->add_servers->window;
  observation_.schedule_in(window, [this, updates, checkpoints, is_writing, window] {
    if (is_writing || state_.checkpoints.count() > checkpoints) return begin_window();
    ControlView seen = view();
    seen.updates_per_s = static_cast<double>(session_->progress().updates - updates) / window.value();
    std::vector<int> training(site_.scenario.groups.size());
    for (std::size_t m = 0; m < site_.machines.size(); ++m)
      if (const auto machine = static_cast<MachineIndex>(m); is_worker(machine) && state_.membership.is_there(machine))
        ++training[static_cast<std::size_t>(site_.machines[m].group)];
    seen.updates_per_s_alone = control_.updates_per_s_alone(training);
    ask(ControlEvent::kObservation, seen);
  });
}

/// A machine that does not train yet.
bool Job::is_on_its_way(MachineIndex machine) const {
  const auto m = static_cast<std::size_t>(machine);
  return requested_[m] || (joins_at_[m] && !noticed_[m]);
}

ControlView Job::view() const {
  ControlView view{.now = state_.clock.now()};
  const std::int64_t done = (session_ ? session_->progress() : result_.done).samples;
  view.share_done = static_cast<double>(done) / static_cast<double>(site_.scenario.training.samples);
  view.machines.assign(site_.scenario.groups.size(), 0);
  view.joining.assign(site_.scenario.groups.size(), 0);
  for (std::size_t m = 0; m < site_.machines.size(); ++m) {
    const auto machine = static_cast<MachineIndex>(m);
    const auto group = static_cast<std::size_t>(site_.machines[m].group);
    const bool is_joining = is_on_its_way(machine);
    view.joining[group] += is_joining ? 1 : 0;
    view.machines[group] += is_joining || (state_.membership.is_there(machine) && !noticed_[m]) ? 1 : 0;
  }
  return view;
}

void Job::ask(ControlEvent event, const ControlView& view) {
  for (const auto& rule : control_.rules) {
    if (rule->event() != event) continue;
    if (const auto decision = rule->decide(view)) change_machines(*decision);
  }
}

void Job::batch_chosen(int times) {
  if (std::exchange(batch_, times) == times) return;
  record(-1, "decision",
         times == 1 ? "each worker has its own batch" : "each worker has " + std::to_string(times) + " of its batches");
  ++result_.interruptions.decisions;
}

/// Free slots before those whose machine is about to go; machines that do not train before those that do, the last first.
void Job::change_machines(const ControlDecision& decision) {
  const ControlView now = view();
  record(-1, "decision", decision.reason);
  bool has_changed = false;
  for (std::size_t g = 0; g < decision.machines.size(); ++g) {
    int missing = decision.machines[g] - now.machines[g];
    for (const bool is_free : {true, false})
      for (std::size_t m = 0; m < site_.machines.size() && missing > 0; ++m) {
        if (site_.machines[m].group != static_cast<int>(g) || requested_[m]) continue;
        const bool is_there = rented_[m].has_value();
        if (is_free ? is_there : !(is_there && noticed_[m])) continue;
        state_.machine_events.request(state_.clock.now(), static_cast<MachineIndex>(m));
        requested_[m] = has_changed = true;
        --missing;
      }
    for (const bool is_joining : {true, false})
      for (std::size_t m = site_.machines.size(); m-- > 0 && missing < 0;) {
        const auto machine = static_cast<MachineIndex>(m);
        if (site_.machines[m].group != static_cast<int>(g) || is_on_its_way(machine) != is_joining) continue;
        if (!is_joining && (!state_.membership.is_there(machine) || noticed_[m])) continue;
        release(machine);
        has_changed = true;
        ++missing;
      }
  }
  if (!has_changed) return;
  ++result_.interruptions.decisions;
  take_events();
}

/// The job gives the machine back, or does not wait for it.
void Job::release(MachineIndex machine) {
  const auto m = static_cast<std::size_t>(machine);
  state_.machine_events.release(machine);
  const bool is_awaited = requested_[m];
  requested_[m] = false;
  record(machine, is_awaited ? "withdraw" : "release", "");
  if (is_awaited) return;
  if (rented_[m]) end_rental(m, state_.clock.now(), false);
  take_away(machine, false);
}

}  // namespace rehearse
