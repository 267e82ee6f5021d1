#include "sim/job/membership.hpp"

#include <algorithm>
#include <utility>

namespace rehearse {

Membership::Membership(const Site& site, std::vector<bool> is_there, Clock& clock)
    : site_{site},
      clock_{clock},
      is_there_{std::move(is_there)},
      from_start_{is_there_},
      is_dismissed_(site.machines.size()),
      next_event_{kNever},
      presence_(site.machines.size()) {
  for (std::size_t m = 0; m < presence_.size(); ++m)
    if (is_there_[m]) presence_[m].push_back({Seconds{}, kNever});
}

void Membership::vanish(MachineIndex machine) {
  const auto m = static_cast<std::size_t>(machine);
  is_there_[m] = is_dismissed_[m] = false;
  end_presence(machine);
}

bool Membership::has_to_leave(MachineIndex machine) const {
  const std::optional<Seconds>& leaves_at = site_.group(machine).leaves_at;
  return (leaves_at && clock_.now() >= *leaves_at) || is_dismissed_[static_cast<std::size_t>(machine)];
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
  is_there_[static_cast<std::size_t>(machine)] = true;
  std::vector<Span>& spans = presence_[static_cast<std::size_t>(machine)];
  if (spans.empty() || spans.back().end < kNever) spans.push_back({clock_.now(), kNever});
}

void Membership::end_presence(MachineIndex machine) {
  std::vector<Span>& spans = presence_[static_cast<std::size_t>(machine)];
  if (!spans.empty()) spans.back().end = std::min(spans.back().end, clock_.now());
}

Checkpoints::Checkpoints(const Site& site)
    : chief{site.workers.front().front().machine},
      rule_{site.scenario.training.checkpoint},
      interval_{checkpoint_interval(site.scenario)} {}

bool Checkpoints::is_due(std::int64_t updates, Seconds now) const {
  if (!rule_) return false;
  return is_asked_for_ || updates >= next_updates() || now >= next_date();
}

std::int64_t Checkpoints::next_updates() const {
  if (!rule_ || interval_ || rule_->every_steps == 0) return std::numeric_limits<std::int64_t>::max();
  return (periods_ + 1) * rule_->every_steps;
}

Seconds Checkpoints::next_date() const { return rule_ && interval_ ? began_ + *interval_ : kNever; }

void Checkpoints::begin(TrainingProgress progress, Seconds now, Seconds end) {
  if (rule_->every_steps > 0) periods_ = progress.updates / rule_->every_steps;
  before_ = latest(now);
  latest_ = progress;
  began_ = now;
  written_until_ = end;
  is_asked_for_ = false;
  ++count_;
}

void Checkpoints::lose_chief(Seconds now) {
  latest_ = before_ = latest(now);
  written_until_ = now;
  if (rule_ && rule_->is_on_disk) latest_ = before_ = {};
}

void Checkpoints::resume(std::int64_t updates, Seconds now, bool is_from_checkpoint) {
  latest_ = before_ = latest(now);
  written_until_ = now;
  is_asked_for_ = false;
  if (is_from_checkpoint) began_ = now;
  if (rule_ && rule_->every_steps > 0) periods_ = updates / rule_->every_steps;
}

}  // namespace rehearse
