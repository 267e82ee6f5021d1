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
  static constexpr Seconds kLatest = kLongest;

  Seconds now() const { return now_; }

  /// The one on whose behalf something happens: a machine, or a part of the training. 0: nobody, whom nothing ends.
  using Owner = std::uint32_t;
  Owner new_owner() {
    retired_.push_back(false);
    lines_.emplace_back();
    return static_cast<Owner>(retired_.size() - 1);
  }
  /// None of the owner's events happens any more.
  void retire(Owner owner) { retired_[owner] = true; }

  /// Adds an event; `when` is not past. Throws NoResultError if it is beyond the end of time, as infinite dates are.
  void schedule(Seconds when, Action action, Owner owner = 0);
  void schedule_in(Seconds delay, Action action, Owner owner = 0) { schedule(now_ + delay, std::move(action), owner); }

  bool is_empty() {
    drop_retired();
    return heap_.empty();
  }
  /// Date of the first event of a calendar that is not empty.
  Seconds next_date() {
    drop_retired();
    return heap_.front().when;
  }

  /// Moves to `now` and runs every event due by then, including those that they schedule for the same date. Throws
  /// NoResultError if `now` lies beyond the end of time.
  void advance_to(Seconds now);

  /// `action` is called every few hundred events; it may throw to end the run.
  void on_progress(Action action) { on_progress_ = std::move(action); }

  /// Order-dependent hash of the dates of all events so far: two runs with the same value did the same things at the
  /// same times.
  std::uint64_t fingerprint() const { return fingerprint_; }
  std::uint64_t events() const { return events_; }

 private:
  struct Event {  // what the heap moves about; the action stays in its slot
    Seconds when;
    std::uint64_t sequence;
    std::uint32_t slot;
    Owner owner;
  };
  struct IsLater {
    bool operator()(const Event& a,
                    const Event& b) const {  // without a branch, which would be guessed wrong half of the time
      const bool is_later = a.when.value() > b.when.value(), is_same = a.when.value() == b.when.value();
      const bool is_after = a.sequence > b.sequence;
      return is_later | (is_same & is_after);
    }
  };
  /// Events of one owner in their order. Most owners schedule most of their events in that order, so only the first one
  /// is in the heap, which stays small, and the next one enters when that leaves.
  struct Line {
    std::vector<Event> events;
    std::size_t first = 0;  // of those that have not happened
    bool is_empty() const { return first == events.size(); }
  };
  void push(const Event& event);
  void replace_first(const Event& event);
  static bool has_joined(Line& line, const Event& event);
  Event pop();
  Action take_action(std::uint32_t slot);
  void drop_retired() {
    while (!heap_.empty() && retired_[heap_.front().owner]) (void)take_action(pop().slot);
  }

  Seconds now_{};
  std::vector<Event> heap_;                // the first event of each line, and those that joined no line
  std::vector<Line> lines_{Line{}};        // [owners]
  std::vector<Action> actions_;            // [slots]
  std::vector<std::uint32_t> free_slots_;  // of actions_
  std::vector<bool> retired_{false};       // [owners]
  std::uint64_t next_sequence_ = 0;
  std::uint64_t fingerprint_ = 1469598103934665603ULL;
  std::uint64_t events_ = 0;
  Action on_progress_;
};

/// The clock as one owner sees it.
class OwnedClock {
 public:
  explicit OwnedClock(Clock& clock, Clock::Owner owner = 0) : clock_{&clock}, owner_{owner} {}

  Seconds now() const { return clock_->now(); }
  void schedule(Seconds when, Clock::Action action) { clock_->schedule(when, std::move(action), owner_); }
  void schedule_in(Seconds delay, Clock::Action action) { clock_->schedule_in(delay, std::move(action), owner_); }
  void retire() { clock_->retire(owner_); }
  /// The same clock for another owner.
  OwnedClock for_new_owner() const { return OwnedClock{*clock_, clock_->new_owner()}; }

 private:
  Clock* clock_;
  Clock::Owner owner_;
};

}  // namespace rehearse
