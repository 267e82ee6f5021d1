#pragma once
// What a command may spend: real time, until a limit is over or its user wants it to end. Made once by the command,
// handed down to whatever takes long, which asks it every now and then.

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "sim/base/units.hpp"

namespace rehearse {

/// What ends a command after Ctrl-C. What had been written stays.
struct Interrupted {};

class Budget {
 public:
  /// A budget that is never over.
  Budget() = default;
  /// A budget that is over after `wall_time` of real time from `start` on, or once `is_interrupted` says true.
  explicit Budget(std::optional<Seconds> wall_time, std::function<bool()> is_interrupted = {},
                  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now());

  bool is_over() const { return is_interrupted() || is_out_of_time(); }
  /// Ends the work if it is over; see stop().
  void check() const {
    if (is_over()) stop();
  }
  /// Ends the work: throws Interrupted, or without an interrupt NoResultError: "stopped by --max-wall-time 30s", then
  /// `progress`, such as " after 3 of 9 steps" or ": what is finished is kept in results".
  [[noreturn]] void stop(const std::string& progress = {}) const;

  /// is_over() as a function, which holds a copy of this.
  std::function<bool()> asked() const {
    return [own = *this] { return own.is_over(); };
  }
  bool is_interrupted() const { return is_interrupted_ && is_interrupted_(); }

 private:
  bool is_out_of_time() const { return wall_time_ && elapsed() > *wall_time_; }
  Seconds elapsed() const {
    return Seconds{std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()};
  }

  std::optional<Seconds> wall_time_;
  std::function<bool()> is_interrupted_;
  std::chrono::steady_clock::time_point start_{};
};

}  // namespace rehearse
