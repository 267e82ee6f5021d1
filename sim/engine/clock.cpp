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

bool Clock::is_later(const Event& a, const Event& b) {
  return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
}

void Clock::schedule(Seconds when, Action action, Owner owner) {
  require_precise(when);
  assert(when >= now_);
  heap_.push_back({when, next_sequence_++, std::move(action), owner});
  std::push_heap(heap_.begin(), heap_.end(), is_later);
}

Clock::Event Clock::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), is_later);
  Event event = std::move(heap_.back());
  heap_.pop_back();
  return event;
}

void Clock::advance_to(Seconds now) {
  require_precise(now);
  now_ = std::max(now_, now);
  while (!heap_.empty() && heap_.front().when <= now_) {
    const Event event = pop();
    if (retired_[event.owner]) continue;
    fingerprint_ = (fingerprint_ ^ std::bit_cast<std::uint64_t>(event.when.value())) * 1099511628211ULL;
    if (++events_ % kEventsBetweenCalls == 0 && on_progress_) on_progress_();
    event.action();
  }
}

}  // namespace rehearse
