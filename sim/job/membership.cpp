#include "sim/job/membership.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace rehearse {

Membership::Membership(const Site& site, const std::vector<bool>& is_there, Clock& clock)
    : site_{site},
      clock_{clock},
      is_there_{machines_that(site, [&](MachineIndex machine) { return is_there[static_cast<std::size_t>(machine)]; })},
      from_start_{is_there_},
      is_dismissed_(site.machines.size()),
      workers_{machines_that(site, [&](MachineIndex machine) { return site.machine(machine).workers > 0; })},
      added_servers_{machines_that(
          site,
          [&](MachineIndex machine) { return site.machine(machine).servers > 0 && site.group(machine).is_standby; })},
      next_event_{kNever},
      presence_(site.machines.size()) {
  needed_servers_ =
      machines_that(site, [&](MachineIndex machine) { return site.machine(machine).servers > 0; }) - added_servers_;
  for (std::size_t g = 0; g < site.scenario.groups.size(); ++g)
    of_group_.push_back(
        machines_that(site, [&](MachineIndex machine) { return site.machine(machine).group == static_cast<int>(g); }));
  there_by_group_ = by_group(is_there_);
  for (std::size_t m = 0; m < presence_.size(); ++m)
    if (is_there_[m]) presence_[m].push_back({Seconds{}, kNever});
}

MachineSet Membership::leaving() const {
  MachineSet all = is_dismissed_;
  for (std::size_t g = 0; g < of_group_.size(); ++g)
    if (leaves(site_.scenario.groups[g])) all |= of_group_[g];
  return all;
}

bool Membership::has_leaving() const {
  return is_dismissed_.any() ||
         std::ranges::any_of(site_.scenario.groups, [this](const Group& group) { return leaves(group); });
}

void Membership::set_there(MachineIndex machine, bool is_there) {
  const auto m = static_cast<std::size_t>(machine);
  if (is_there_[m] == is_there) return;
  is_there_[m] = is_there;
  there_by_group_[static_cast<std::size_t>(site_.machine(machine).group)] += is_there ? 1 : -1;
}

std::vector<int> Membership::by_group(const MachineSet& machines) const {
  std::vector<int> counts;
  for (const MachineSet& group : of_group_) counts.push_back(static_cast<int>((machines & group).count()));
  return counts;
}

void Membership::vanish(MachineIndex machine) {
  set_there(machine, false);
  is_dismissed_[static_cast<std::size_t>(machine)] = false;
  end_presence(machine);
}

bool Membership::has_to_leave(MachineIndex machine) const {
  return leaves(site_.group(machine)) || is_dismissed_[static_cast<std::size_t>(machine)];
}

Seconds Membership::next_change() const {
  const Seconds now = clock_.now();
  Seconds next = next_event_;
  for (const Group& group : site_.scenario.groups)
    for (const Seconds date : {group.joins_at, group.leaves_at.value_or(Seconds{})})
      if (date > now) next = std::min(next, date);
  return next;
}

void Membership::arrive(MachineIndex machine) {
  set_there(machine, true);
  std::vector<Span>& spans = presence_[static_cast<std::size_t>(machine)];
  if (spans.empty() || spans.back().end < kNever) spans.push_back({clock_.now(), kNever});
}

void Membership::end_presence(MachineIndex machine) {
  std::vector<Span>& spans = presence_[static_cast<std::size_t>(machine)];
  if (!spans.empty()) spans.back().end = std::min(spans.back().end, clock_.now());
}

std::int64_t CheckpointSeries::next_updates() const {
  if (interval_ || every_steps_ == 0) return std::numeric_limits<std::int64_t>::max();
  return (periods_ + 1) * every_steps_;
}

void CheckpointSeries::begin(const SavedState& state, Seconds now) {
  if (every_steps_ > 0) periods_ = state.progress.updates / every_steps_;
  before_ = latest(now);
  latest_ = state;
  began_ = now;
  written_until_ = now + times_.write;
}

void CheckpointSeries::cut(Seconds now) {
  latest_ = before_ = latest(now);
  written_until_ = std::min(written_until_, now);
}

/// What is written while training stands still does not go on beside it.
void CheckpointSeries::resume(std::int64_t updates, Seconds now, bool is_from_checkpoint) {
  if (times_.write <= times_.stall) cut(now);
  if (is_from_checkpoint) began_ = now;
  if (every_steps_ > 0) periods_ = updates / every_steps_;
}

Checkpoints::Checkpoints(const Site& site) : chief{site.workers.front().front().machine} {
  const auto& rule = site.scenario.training.checkpoint;
  if (!rule) return;
  is_by_machines_ = rule->is_by_machines;
  is_on_disk_ = rule->is_on_disk;
  series_.emplace_back(rule->every_steps, checkpoint_interval(site.scenario), *checkpoint_times(site.scenario));
  if (rule->in_memory)
    series_.emplace_back(rule->in_memory->every_steps, rule->in_memory->every, memory_checkpoint_times(site.scenario));
  const bool stops_all = site.scenario.training.strategy.is_synchronous() || rule->pauses_all;
  if (!stops_all) stall_share_ = 1.0 / site.scenario.count(Role::kWorker);
}

bool Checkpoints::is_due(std::int64_t updates, Seconds now) const {
  if (is_asked_for_ && !series_.empty() && now >= series_.front().written_until()) return true;
  return std::ranges::any_of(series_, [&](const CheckpointSeries& one) { return one.is_due(updates, now); });
}

/// What is written to storage is kept in memory besides.
Seconds Checkpoints::begin(TrainingProgress progress, Seconds now) {
  const SavedState state{progress, trained(now)};
  const bool is_stored =
      (is_asked_for_ && now >= series_.front().written_until()) || series_.front().is_due(progress.updates, now);
  Seconds stall{};
  for (CheckpointSeries& one : series_) {
    if (&one == &series_.front() && !is_stored) continue;
    if (now < one.written_until()) continue;
    one.begin(state, now);
    stall = std::max(stall, one.times().stall);
  }
  if (is_stored) is_asked_for_ = false;
  stalled_ += stalled_since(now);
  stall_ = {now, now + stall};
  ++count_;
  return stall_.end;
}

std::pair<SavedState, Seconds> Checkpoints::latest(Seconds now) const {
  std::pair<SavedState, Seconds> best;
  for (const CheckpointSeries& one : series_)
    if (const SavedState& state = one.latest(now); state.progress.updates > best.first.progress.updates ||
                                                   (state.progress.updates == best.first.progress.updates &&
                                                    state.progress.updates > 0 && one.times().read < best.second))
      best = {state, one.times().read};
  return best;
}

void Checkpoints::cut(Seconds now, std::optional<MachineIndex> machine) {
  for (CheckpointSeries& one : series_)
    if (!machine || *machine == chief || is_by_machines_ || &one != &series_.front()) one.cut(now);
}

void Checkpoints::lose_copies(MachineIndex machine, bool has_pair) {
  if (machine == chief && is_on_disk_) series_.front().forget();
  if (!has_pair && series_.size() > 1) series_.back().forget();
}

void Checkpoints::resume(std::int64_t updates, Seconds now, bool is_from_checkpoint) {
  for (CheckpointSeries& one : series_) one.resume(updates, now, is_from_checkpoint);
  is_asked_for_ = false;
  since_ = now;
  stalled_before_ = stalled_;
  stall_ = {now, now};
  is_training_ = true;
}

void Checkpoints::stop(Seconds now) {
  trained_ = trained(now);
  stalled_ += stalled_since(now);
  stall_ = {now, now};
  is_training_ = false;
}

Seconds Checkpoints::stalled_since(Seconds at) const {
  return std::max(Seconds{}, std::min(at, stall_.end) - stall_.start) * stall_share_;
}

Seconds Checkpoints::trained(Seconds at) const {
  if (!is_training_ || at <= since_) return trained_;
  return trained_ + (at - since_) - (stalled_ - stalled_before_) - stalled_since(at);
}

Seconds Checkpoints::undo_to(Seconds trained) {
  const Seconds undone = std::max(Seconds{}, trained_ - trained);
  trained_ -= undone;
  return undone;
}

}  // namespace rehearse
