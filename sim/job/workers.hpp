#pragma once
// Those who train, and what each does in a step.

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/job/membership.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/scenario/pipeline_stages.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

/// What trains on a GPU, or on several of one machine, as every strategy sees it.
struct Worker {
  Worker(int index_, const std::vector<Endpoint>& gpus, const ComputePlan& plan_, std::uint64_t seed)
      : index{index_},
        gpu{gpus.front()},
        other_gpus{gpus.begin() + 1, gpus.end()},
        host{gpu.machine, Endpoint::kHost},
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

/// A step that some workers share.
struct SharedStep {
  /// What one of them does.
  struct Part {
    const ComputePlan* plan = nullptr;  // of one pass
    int passes = 1;
    std::int64_t samples = 0;
  };
  std::int64_t samples = 0;  // of its update
  std::vector<Part> parts;   // [those who share it]
};

class Workers {
 public:
  Workers(const Site& site, const Membership& membership);

  std::vector<Worker>::iterator begin() { return workers_.begin(); }
  std::vector<Worker>::iterator end() { return workers_.end(); }
  const Worker& operator[](int index) const { return workers_[static_cast<std::size_t>(index)]; }
  std::size_t size() const { return workers_.size(); }
  /// Stages of the pipeline, where there is one.
  const PipelineStages& stages() const { return *stages_; }

  /// Lognormal with mean 1 and the coefficient of variation c of the scenario: exp(sigma z - sigma^2 / 2), sigma^2 =
  /// ln(1 + c^2).
  double slowdown(Worker& worker) const;

  /// When the worker begins, of those that are there from the start: see Starts.
  Seconds starts_at(const Worker& worker) const;
  bool is_there_from_the_start(const Worker& worker) const {
    return membership_.is_there_from_the_start(worker.gpu.machine);
  }
  bool is_there(MachineIndex machine) const { return membership_.is_there(machine); }
  bool has_to_leave(const Worker& worker) const { return membership_.has_to_leave(worker.gpu.machine); }
  bool stays(const Worker& worker) const { return membership_.stays(worker.gpu.machine); }
  Seconds next_change() const { return membership_.next_change(); }

  /// What a worker of the machine does in a pass of a step of the group's own batch, by all workers of a pipeline.
  const ComputePlan& plan_of(MachineIndex machine) const {
    return plans_[static_cast<std::size_t>(site_.machine(machine).group)];
  }
  /// A step of these. Throws NoResultError if one has not enough memory for its part.
  SharedStep share_step(const std::vector<const Worker*>& sharing);

 private:
  const Site& site_;
  const Membership& membership_;
  std::deque<ComputePlan> plans_;  // [groups]; addresses stay
  std::optional<PipelineStages> stages_;
  std::map<std::pair<int, int>, ComputePlan> stage_plans_;  // by group and stage
  std::map<std::pair<int, int>, ComputePlan> other_plans_;  // by group and batch
  std::vector<Worker> workers_;
};

}  // namespace rehearse
