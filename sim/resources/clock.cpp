#include "sim/resources/clock.hpp"

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
    throw RunError{"/training",
                   "an event lies beyond 1e9 s, 31 years, of simulated time, where dates lose their precision"};
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
  const Event event{when, next_sequence_++, slot, owner};
  Line& line = lines_[owner];
  if (line.is_empty()) {
    line.events.assign(1, event);
    line.first = 0;
    push(event);
  } else if (!has_joined(line, event)) {
    push(event);
  }
}

void Clock::push(const Event& event) {
  heap_.push_back(event);
  std::push_heap(heap_.begin(), heap_.end(), IsLater{});
}

/// Not if it comes before the first one, or before so many that to move them takes longer than the heap does.
bool Clock::has_joined(Line& line, const Event& event) {
  constexpr std::ptrdiff_t kMostMoved = 16;
  const auto first = line.events.begin() + static_cast<std::ptrdiff_t>(line.first);
  auto place = line.events.end();
  for (; IsLater{}(*(place - 1), event); --place)
    if (place - 1 == first || line.events.end() - place == kMostMoved) return false;
  line.events.insert(place, event);
  return true;
}

Clock::Event Clock::pop() {
  const Event event = heap_.front();
  Line& line = lines_[event.owner];
  const bool is_of_line = !line.is_empty() && line.events[line.first].sequence == event.sequence;
  if (is_of_line) ++line.first;
  if (!is_of_line || line.is_empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), IsLater{});
    heap_.pop_back();
    return event;
  }
  replace_first(line.events[line.first]);
  constexpr std::size_t kFew = 64;
  if (line.first > std::max(kFew, line.events.size() / 2)) {
    line.events.erase(line.events.begin(), line.events.begin() + static_cast<std::ptrdiff_t>(line.first));
    line.first = 0;
  }
  return event;
}

/// In one pass down the heap, where a pop and a push would make two.
void Clock::replace_first(const Event& event) {
  std::size_t hole = 0;
  for (std::size_t child; (child = 2 * hole + 1) < heap_.size(); hole = child) {
    if (child + 1 < heap_.size() && IsLater{}(heap_[child], heap_[child + 1])) ++child;
    if (!IsLater{}(event, heap_[child])) break;
    heap_[hole] = heap_[child];
  }
  heap_[hole] = event;
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
