#pragma once
// The calendar of future events. It does not advance time itself: the backend (simgrid_backend.hpp) does.

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/base/units.hpp"

namespace rehearse {

/// Events at the same date happen in the order in which they were scheduled, so a run is reproducible to the byte.
class Clock {
 public:
  using Action = std::function<void()>;

  Seconds now() const { return now_; }

  /// `when` must not lie in the past.
  void schedule(Seconds when, Action action);
  void schedule_in(Seconds delay, Action action) { schedule(now_ + delay, std::move(action)); }

  bool is_empty() const { return heap_.empty(); }
  Seconds next_date() const { return heap_.front().when; }

  /// Moves to `now` and runs every event due by then, including those that they schedule for the same date.
  void advance_to(Seconds now);

  /// Order-dependent hash of the dates of all events so far: two runs with the same value did the same things at the
  /// same times.
  std::uint64_t fingerprint() const { return fingerprint_; }
  std::uint64_t events() const { return events_; }

 private:
  struct Event {
    Seconds when;
    std::uint64_t sequence;
    Action action;
  };
  static bool is_later(const Event& a, const Event& b);

  Seconds now_{};
  std::vector<Event> heap_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t fingerprint_ = 1469598103934665603ULL;
  std::uint64_t events_ = 0;
};

}  // namespace rehearse
