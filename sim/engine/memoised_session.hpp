#pragma once
// Training whose speed in each membership is known from simulations of that membership: what a job of days is made of.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sim/engine/job.hpp"

namespace rehearse {

/// Machines of each group that train: [groups]. Servers are not counted: without all of them nobody trains.
using MachineCounts = std::vector<int>;

/// Of a cluster in its steady state. A sample counts as much as one of the job's.
struct TrainingSpeed {
  double updates_per_s = 0;
  double samples_per_update = 0;

  double samples_per_s() const { return updates_per_s * samples_per_update; }
};
using SpeedOf = std::function<TrainingSpeed(const MachineCounts&)>;

/// What a session needs of the world; it moves no byte.
struct MemoisedSite {
  const Scenario& scenario;
  const std::vector<Machine>& machines;
  Clock& clock;
  Membership& membership;
  Checkpoints& checkpoints;
  SpeedOf speed_of;
  std::function<void(const TrainingProgress&)> on_update;
  std::function<void()> on_deserted;
  std::vector<EventSpan>* events = nullptr;  // checkpoints, leaves; may be null
};

/// Updates at speed_of the machines that are there; what changes the speed:
///   checkpoint   without the chief while it writes; not at all for synchronous strategies, or if all pause
///   join         all-reduce stands still while newcomers are sent the model: bytes / slower NIC, one after another
///   loss         the step under way of a synchronous strategy; with bounded staleness a stop for Recovery::timeout
/// An update counts when it is complete.
std::unique_ptr<Session> train_at_known_speed(const MemoisedSite& site, TrainingProgress done);

/// How a job on spot machines went.
struct Trajectory {
  JobResult job;
  bool is_finished = false;  // before Recovery::give_up_after, or 60 days
  std::vector<EventSpan> events;
};

/// One job from start to end, with the machine events of `seed`, at known speeds. No simulation of messages: takes
/// milliseconds. `keeps_events`: otherwise none are recorded.
Trajectory run_trajectory(const Scenario& scenario, std::uint64_t seed, const SpeedOf& speed_of, bool keeps_events);

}  // namespace rehearse
