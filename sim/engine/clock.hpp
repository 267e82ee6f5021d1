#pragma once
// The calendar of future events. It does not advance time itself: the backend (simgrid_backend.hpp) does.

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "sim/base/units.hpp"

namespace rehearse {

/// Events at the same date happen in the order in which they were scheduled, so a run is reproducible to the byte.
class Clock {
 public:
  using Action = std::function<void()>;

  /// The end of time: doubles beyond it are more than 1e-7 s apart, too far for messages and kernels.
  static constexpr Seconds kLatest{1e9};

  Seconds now() const { return now_; }

  /// `when` must not lie in the past. Throws NoResultError if it lies beyond the end of time, as infinite dates do.
  void schedule(Seconds when, Action action);
  void schedule_in(Seconds delay, Action action) { schedule(now_ + delay, std::move(action)); }

  bool is_empty() const { return heap_.empty(); }
  Seconds next_date() const { return heap_.front().when; }

  /// Moves to `now` and runs every event due by then, including those that they schedule for the same date. Throws
  /// NoResultError if `now` lies beyond the end of time.
  void advance_to(Seconds now);

  /// Called every few hundred events; may throw to end the run.
  void on_progress(Action action) { on_progress_ = std::move(action); }

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
  Action on_progress_;
};

}  // namespace rehearse
