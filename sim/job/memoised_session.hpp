#pragma once
// Training whose speed in each membership is known from simulations of that membership: what a job of days is made of.

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "sim/job/job.hpp"

namespace rehearse {

/// Machines of each group that train: [groups]. Servers of the start are not counted: without all of them nobody trains; those
/// that were added are.
using MachineCounts = std::vector<int>;

/// Speed of a cluster in its steady state. A sample counts as much as one of the job's.
struct TrainingSpeed {
  double updates_per_s = 0;
  double samples_per_update = 0;
  int batch = 1;            // of each worker, times the scenario's (ElasticBatch)
  double until = 1;         // share of the job's samples that it holds for
  double above_rest_w = 0;  // W that machines draw besides while they train; 0: also if it is not known

  double samples_per_s() const { return updates_per_s * samples_per_update; }
};
/// The speed of a membership, when a share of the job's samples is done.
using SpeedOf = std::function<TrainingSpeed(const MachineCounts&, double share_done)>;

/// How a job on spot machines went.
struct Trajectory {
  JobResult job;
  bool is_finished = false;  // before it was given up
  double above_rest_j = 0;   // at TrainingSpeed::above_rest_w
  std::vector<EventSpan> events;
};

/// What a broadcast of the model takes, by how many machines of each group receive it and the group of the source: an integer each.
using BroadcastTimes = std::map<std::vector<int>, Seconds>;

/// Jobs of one site at known speeds. No byte moves: a job takes milliseconds.
class Trajectories {
 public:
  /// `rules` are those of the scenario's Control; none: they are not asked. All three outlive this.
  Trajectories(const Site& site, const SpeedOf& speed_of, const ControlRules& rules);

  /// One job from start to end, with the machine events of `seed`. What is not done at `gives_up_after` ends there: some jobs
  /// never end. `keeps_events`: otherwise none are recorded.
  Trajectory run(std::uint64_t seed, Seconds gives_up_after, bool keeps_events);

  /// Those that were computed so far, or elsewhere; of a site whose machines are not alike none are taken over.
  void know_broadcasts(BroadcastTimes times) { broadcasts_ = std::move(times); }
  BroadcastTimes known_broadcasts() const { return are_alike_ ? broadcasts_ : BroadcastTimes{}; }

 private:
  Seconds broadcast_to(const Membership& membership, MachineIndex source, const MachineSet& receivers);

  const Site& site_;
  const SpeedOf& speed_of_;
  const ControlRules& rules_;
  bool are_alike_;             // machines of a group
  BroadcastTimes broadcasts_;  // of machines that are not alike by the source and its receivers
};

/// A single one.
Trajectory run_trajectory(const Site& site, std::uint64_t seed, const SpeedOf& speed_of, Seconds gives_up_after,
                          bool keeps_events, const ControlRules& rules = {});

}  // namespace rehearse
