#pragma once
// What is noted of a training: who comes and goes, steps, samples, checkpoints.

#include <vector>

#include "sim/job/job.hpp"
#include "sim/job/steady_window.hpp"
#include "sim/job/workers.hpp"

namespace rehearse {

class TrainingLog {
 public:
  TrainingLog(const Cluster& cluster, Workers& workers, SteadyWindow& window, JobState& job);

  /// A worker begins to train, or has left, now.
  void record_start(const Worker& worker);
  void record_leave(const Worker& worker);
  /// A machine is gone.
  void lose(MachineIndex machine);
  /// Only one worker of each class of identical ones will report its steps, for all of the class: `classes` of them are
  /// there from the start. The others as in RunRecord.
  void fold(std::size_t classes, std::vector<MachineIndex> recorded_by, std::vector<int> stands_for);
  /// The step of a worker ends now. Its samples are computed.
  void end_step(Worker& worker, std::int64_t global_step);
  /// An update uses the worker's step, whose end never comes.
  void cut_used_step(const Worker& worker) { samples_.computed += worker.step.samples; }
  /// Adds an update of so many samples, of which the last one uses what is left. False if nothing was left: it is used
  /// by nobody.
  bool count_update(TrainingProgress& done, std::int64_t samples);
  /// Counts samples of ended steps: those that came too late, and those whose update will never be.
  void drop(std::int64_t samples) { samples_.dropped += samples; }
  void lose_samples(std::int64_t samples) { samples_.lost += samples; }
  /// How long the worker pauses now, at the end of its step, for a checkpoint. The chief writes one after its first
  /// step for which one is due; the others pause with it if all have to. Recorded as an event.
  Seconds checkpoint_pause(const Worker& worker, const TrainingProgress& progress);

  /// Fills all but what only the strategy and the job know.
  RunRecord collect(Seconds end, std::int64_t updates) const;

 private:
  void end_recording(const Worker& worker);

  const Cluster& cluster_;
  const Training& training_;
  Workers& workers_;
  SteadyWindow& window_;
  Membership& membership_;
  Checkpoints& checkpoints_;
  std::vector<Seconds> gpu_time_, memory_time_;  // [machines] of all steps
  std::vector<double> energy_;                   // [machines] J of a GPU, of all steps
  std::vector<std::int64_t> timed_steps_;        // [machines]
  SampleCounts samples_;
  std::vector<MachineIndex> recorded_by_;  // [machines]
  std::vector<int> stands_for_;            // [machines]
  std::size_t reporting_workers_ = 0;
  std::size_t warm_workers_ = 0;
  std::size_t profiled_workers_ = 0;
};

}  // namespace rehearse
