#pragma once
// What all strategies measure alike: steps, traffic, the steady-state window.

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/engine/core_pool.hpp"
#include "sim/engine/kernel_time.hpp"
#include "sim/engine/membership.hpp"
#include "sim/engine/pipeline_stages.hpp"
#include "sim/engine/strategy.hpp"
#include "sim/engine/traffic.hpp"
#include "sim/engine/work.hpp"

namespace rehearse {

/// What trains on a GPU, or on several of one machine, as every strategy sees it.
struct Worker {
  Worker(int index_, Endpoint gpu_, const ComputePlan& plan_, std::uint64_t seed)
      : index{index_},
        gpu{gpu_},
        host{gpu_.machine, Endpoint::kHost},
        plan{&plan_},
        noise{seed, "step time of worker " + std::to_string(index_)} {}
  int index;
  Endpoint gpu;                      // the first, which stands for all in what is recorded
  std::vector<Endpoint> other_gpus;  // do the same at the same time
  Endpoint host;
  const ComputePlan* plan;   // of one pass
  int passes = 1;            // of a step
  std::int64_t samples = 0;  // of a step of its group's batch
  Rng noise;
  std::int64_t steps = 0;  // completed
  StepSpan step;           // the current one
};

/// What the cluster has carried and worked since the beginning.
struct Use {
  std::vector<MachineUse> machines;
  std::vector<Bytes> paths;  // of the network; those that were not in use yet are missing

  Use& operator-=(const Use& earlier);
};

class RunMonitor {
 public:
  RunMonitor(Cluster& cluster, Membership& membership, Checkpoints& checkpoints);

  std::vector<Worker>& workers() { return workers_; }
  /// With a pipeline.
  const PipelineStages& stages() const { return *stages_; }
  const std::vector<Worker>& workers() const { return workers_; }
  Traffic& traffic() { return traffic_; }
  /// The cores of a machine's parameter servers; machines of workers have some if servers are colocated.
  CorePool& cores(MachineIndex machine) { return cores_[static_cast<std::size_t>(machine)]; }

  /// Lognormal with mean 1 and the coefficient of variation c of the scenario: exp(sigma z - sigma^2 / 2), sigma^2 =
  /// ln(1 + c^2).
  double slowdown(Worker& worker) const;

  /// Of those that are there from the start each worker begins start_interval after the one before.
  Seconds starts_at(const Worker& worker) const;
  bool is_there_from_the_start(const Worker& worker) const {
    return membership_.is_there_from_the_start(worker.gpu.machine);
  }
  bool is_there(MachineIndex machine) const { return membership_.is_there(machine); }
  bool has_to_leave(const Worker& worker) const { return membership_.has_to_leave(worker.gpu.machine); }
  Seconds next_change() const { return membership_.next_change(); }
  /// A worker begins to train, or has left, now.
  void record_start(const Worker& worker);
  void record_leave(const Worker& worker);
  /// A machine is gone.
  void lose(MachineIndex machine);
  /// Only one worker of each class of identical ones will report its steps, for all of the class: `classes` of them are
  /// there from the start. `recorded_by` [machines] is the machine of the worker that stands for a machine's.
  void fold(std::size_t classes, std::vector<MachineIndex> recorded_by);
  /// The step of a worker ends now. Its samples are computed.
  void end_step(Worker& worker, std::int64_t global_step);
  /// An update uses the worker's step, whose end never comes.
  void cut_used_step(const Worker& worker) { samples_.computed += worker.step.samples; }
  /// Adds an update of so many samples, of which the last one uses what is left. False if nothing was left: it is used
  /// by nobody.
  bool count_update(TrainingProgress& done, std::int64_t samples);
  /// Of ended steps: samples that came too late, and those whose update will never be.
  void drop(std::int64_t samples) { samples_.dropped += samples; }
  void lose_samples(std::int64_t samples) { samples_.lost += samples; }
  /// What a worker of the machine does in a step of which `share` is its part and in which `workers` take part. Throws
  /// NoResultError if it has not enough memory for it.
  const ComputePlan& plan_of(MachineIndex machine, const StepShare& share, std::int64_t workers);
  /// The first worker has run out of work, or a machine is lost.
  void close_window();
  /// How long the worker pauses now, at the end of its step, for a checkpoint. The chief writes one after its first
  /// step for which one is due; the others pause with it if all have to. Recorded as an event.
  Seconds checkpoint_pause(const Worker& worker, const TrainingProgress& progress);

  /// `count` steps are skipped, each of which would have used `each`.
  void skip(std::int64_t count, const Use& each);
  Use use_so_far() const;

  /// Fills all but what only the strategy and the job know.
  RunRecord collect(Seconds end, std::int64_t updates);

 private:
  void time_step(const Worker& worker);
  void end_recording(const Worker& worker);
  LinkUse busiest_link(const std::vector<Bytes>& carried, Seconds time) const;

  Cluster& cluster_;
  Membership& membership_;
  Checkpoints& checkpoints_;
  std::deque<ComputePlan> plans_;  // [groups]; addresses stay
  std::optional<PipelineStages> stages_;
  std::map<std::pair<int, int>, ComputePlan> stage_plans_;  // by group and stage
  std::map<std::pair<int, int>, ComputePlan> other_plans_;  // by group and batch
  std::vector<Seconds> gpu_time_, memory_time_;             // [machines] of all steps
  std::vector<std::int64_t> timed_steps_;                   // [machines]
  SampleCounts samples_;
  std::vector<Worker> workers_;
  std::vector<CorePool> cores_;  // [machines]
  Traffic traffic_;
  Use skipped_use_;
  std::vector<MachineIndex> recorded_by_;
  std::size_t reporting_workers_ = 0;
  std::size_t warm_workers_ = 0;
  std::size_t profiled_workers_ = 0;
  Span window_;
  bool window_is_closed_ = false;
  std::optional<Use> use_at_start_, use_at_end_;
};

}  // namespace rehearse
