#include "sim/engine/clock.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

constexpr std::uint64_t kEventsBetweenCalls = 256;

void require_precise(Seconds date) {
  if (!(date <= Clock::kLatest))
    throw NoResultError{"an event lies beyond 1e9 s, 31 years, of simulated time, where dates lose their precision"};
}

}  // namespace

void Clock::schedule(Seconds when, Action action, Owner owner) {
  require_precise(when);
  assert(when >= now_);
  std::uint32_t slot;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint32_t>(actions_.size());
    actions_.push_back(std::move(action));
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    actions_[slot] = std::move(action);
  }
  heap_.push_back({when, next_sequence_++, slot, owner});
  std::push_heap(heap_.begin(), heap_.end(), IsLater{});
}

Clock::Event Clock::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), IsLater{});
  const Event event = heap_.back();
  heap_.pop_back();
  return event;
}

Clock::Action Clock::take_action(std::uint32_t slot) {
  free_slots_.push_back(slot);
  return std::exchange(actions_[slot], nullptr);
}

void Clock::advance_to(Seconds now) {
  require_precise(now);
  now_ = std::max(now_, now);
  while (!heap_.empty() && heap_.front().when <= now_) {
    const Event event = pop();
    const Action action = take_action(event.slot);
    if (retired_[event.owner]) continue;
    fingerprint_ = (fingerprint_ ^ std::bit_cast<std::uint64_t>(event.when.value())) * 1099511628211ULL;
    if (++events_ % kEventsBetweenCalls == 0 && on_progress_) on_progress_();
    action();
  }
}

}  // namespace rehearse
