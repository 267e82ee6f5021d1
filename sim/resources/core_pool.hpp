#pragma once
// The CPU cores of a parameter server: jobs of known length, first come, first served.

#include "sim/base/units.hpp"
#include "sim/resources/earliest_date.hpp"

namespace rehearse {

class CorePool {
 public:
  struct Slot {  // where a job runs, and when
    int core = 0;
    Seconds start{};
    Seconds end{};
  };

  explicit CorePool(int cores) : cores_{cores}, free_at_{static_cast<std::size_t>(cores), 0} {}

  /// Gives the job that arrives at `now` to the core that is free first. Arrivals must come in order of time, so that
  /// the completion is known at once:  start = max(now, min over cores of free_at).
  Slot run(Seconds now, Seconds duration);

  /// Sum over cores of the work accepted so far.
  Seconds work() const { return work_; }
  int cores() const { return cores_; }

 private:
  int cores_;
  EarliestDate free_at_;  // [cores]
  Seconds work_{};
};

}  // namespace rehearse
