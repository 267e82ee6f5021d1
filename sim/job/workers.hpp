#pragma once
// Those who train, and what each does in a step.

#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/job/membership.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/training/cluster_step.hpp"

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
  const ComputePlan* plan;  // of one pass
  int passes = 1;           // of a step
  Rng noise;
  std::int64_t steps = 0;  // completed
  StepSpan step;           // the current one
};

class Workers {
 public:
  Workers(const Membership& membership, StepCompiler& compiler);

  std::vector<Worker>::iterator begin() { return workers_.begin(); }
  std::vector<Worker>::iterator end() { return workers_.end(); }
  const Worker& operator[](int index) const { return workers_[static_cast<std::size_t>(index)]; }
  std::size_t size() const { return workers_.size(); }

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

  /// What each does in a step.
  StepCompiler& compiler() const { return compiler_; }
  /// A step that all of them share.
  ClusterStep step_of_all() const;

 private:
  const Site& site_;
  const Membership& membership_;
  StepCompiler& compiler_;
  std::vector<Worker> workers_;
};

}  // namespace rehearse
