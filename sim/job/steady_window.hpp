#pragma once
// The steady state of a run, and what the cluster has been used for until it begins and ends.

#include <optional>
#include <vector>

#include "sim/program/cluster.hpp"
#include "sim/record/run_record.hpp"

namespace rehearse {

/// What the cluster has carried and worked since the beginning.
struct Use {
  std::vector<MachineUse> machines;
  std::vector<Bytes> paths;  // of the network; those that were not in use yet are missing

  Use& operator-=(const Use& earlier);
};

/// From the end of the warm-up of all that are there from the start until the first of what ends the steady state.
class SteadyWindow {
 public:
  explicit SteadyWindow(const Cluster& cluster);

  Seconds start() const { return span_.start; }
  /// All workers are warm.
  void open();
  /// The first worker has run out of work.
  void close();
  /// A machine is lost.
  void close_if_open() {
    if (at_start_) close();
  }

  /// The first date of that of `change` and that from which on activity is recorded, if it is to come.
  Seconds next_change(Seconds change) const;
  /// `count` steps are skipped, each of which would have used `each`.
  void skip(std::int64_t count, const Use& each);
  Use use_so_far() const;

  /// Fills in the window, and what has been used within it and in the whole run, which ended at `end`.
  void describe(RunRecord& record, Seconds end) const;

 private:
  /// [machines] of all, if the network is folded: what has left a block's machine has left, and what has come to one
  /// has come to, each one in its place.
  std::vector<MachineUse> unfolded(std::vector<MachineUse> machines) const;
  LinkUse busiest_link(const std::vector<Bytes>& carried, Seconds time) const;

  const Cluster& cluster_;
  Use skipped_;
  Span span_;
  bool is_closed_ = false;
  std::optional<Use> at_start_, at_end_;
};

}  // namespace rehearse
