#include "sim/engine/clock.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace rehearse {

bool Clock::is_later(const Event& a, const Event& b) {
  return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
}

void Clock::schedule(Seconds when, Action action) {
  assert(when >= now_);
  heap_.push_back({when, next_sequence_++, std::move(action)});
  std::push_heap(heap_.begin(), heap_.end(), is_later);
}

void Clock::advance_to(Seconds now) {
  now_ = std::max(now_, now);
  while (!heap_.empty() && heap_.front().when <= now_) {
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    const Event event = std::move(heap_.back());
    heap_.pop_back();
    fingerprint_ = (fingerprint_ ^ std::bit_cast<std::uint64_t>(event.when.value())) * 1099511628211ULL;
    ++events_;
    event.action();
  }
}

}  // namespace rehearse
