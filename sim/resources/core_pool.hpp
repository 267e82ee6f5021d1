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

  /// `slowdown`: each job takes so many times as long, as the cores have other work, too.
  explicit CorePool(int cores, double slowdown = 1)
      : cores_{cores}, slowdown_{slowdown}, free_at_{static_cast<std::size_t>(cores), 0} {}

  /// Gives the job that arrives at `now` to the core that is free first. Arrivals must come in order of time, so that
  /// the completion is known at once:  start = max(now, min over cores of free_at).
  Slot run(Seconds now, Seconds alone);

  /// Sum over cores of the work accepted so far.
  Seconds work() const { return work_; }
  int cores() const { return cores_; }

 private:
  int cores_;
  double slowdown_;
  EarliestDate free_at_;  // [cores]
  Seconds work_{};
};

}  // namespace rehearse
