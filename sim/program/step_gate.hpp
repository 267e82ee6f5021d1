#pragma once
// Which steps workers have ended, and who may begin another one.

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/scenario/work.hpp"

namespace rehearse {

/// A worker may begin its step k, counted from 0, when all present ones but `slack` have ended k - lag steps. With lag
/// 0 that is a barrier; with a slack some may be late; without a lag nobody waits. A step that was open once stays open
/// to those that come late, even if the workers that opened it have left since.
class StepGate {
 public:
  /// Whoever is there has ended the steps before `first`.
  StepGate(std::optional<std::int64_t> lag, int slack, std::int64_t first)
      : lag_{lag}, slack_{slack}, first_{first}, passed_{first} {}

  std::int64_t needed() const { return needed_workers(present_, slack_); }
  bool may_begin(std::int64_t step) { return !lag_ || have_ended(step - *lag_); }
  /// Whether all for whom others wait have ended so many steps, now or when more workers were there.
  bool have_ended(std::int64_t steps) {
    if (steps > passed_ && ended(steps) >= needed()) passed_ = steps;
    return steps <= passed_;
  }
  /// One more has ended so many steps. Whether that opens the next one to those that waited for it.
  bool end(std::int64_t steps) {
    ++ended(steps);
    return steps > passed_ && have_ended(steps);
  }
  /// All have ended so many more steps.
  void skip(std::int64_t steps) {
    first_ += steps;
    passed_ += steps;
  }
  /// A worker comes, or goes, that has ended so many steps or left them out.
  void enter(std::int64_t steps) { change(steps, 1); }
  void leave(std::int64_t steps) { change(steps, -1); }

 private:
  void change(std::int64_t steps, int by) {
    present_ += by;
    if (lag_)
      for (std::int64_t step = first_ + 1; step <= steps; ++step) ended(step) += by;
  }
  std::int64_t& ended(std::int64_t steps) {
    const auto index = static_cast<std::size_t>(steps - first_);
    if (ended_.size() <= index) ended_.resize(index + 1);
    return ended_[index];
  }

  std::optional<std::int64_t> lag_;
  int slack_;
  std::int64_t first_;
  std::int64_t passed_;  // steps that all for whom others wait have ended
  int present_ = 0;
  std::vector<std::int64_t> ended_;  // [steps from first_ on] workers that have ended at least so many
};

}  // namespace rehearse
