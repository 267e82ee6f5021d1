#pragma once
// Host and GPU of one worker. The host dispatches kernels one after another and may run ahead; the GPU runs them first
// in, first out.

#include <functional>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/engine/kernel_time.hpp"
#include "sim/engine/recorder.hpp"

namespace rehearse {

/// For kernel k with host time d, duration t and variables that arrive at a_k:
///   dispatched_k = max(dispatched_{k-1}, a_k) + d,    end_k = max(end_{k-1}, dispatched_k) + t
/// Kernels between two waits are computed in one go, so a step costs one call per variable that blocks it. A step may
/// go over the kernels several times, for gradients that are accumulated: only the first pass waits for variables, only
/// the last one hands out gradients.
class ComputeStream {
 public:
  /// `on_gradient(variable, ready)` runs as soon as the date is known, which lies in the present or the future, in
  /// order of time.
  using OnGradient = std::function<void(int variable, Seconds ready)>;

  ComputeStream(const ComputePlan& plan, std::size_t variables, int passes, Recorder& recorder, Endpoint gpu,
                OnGradient on_gradient);

  /// Starts a step at `start`; `slowdown` multiplies every kernel's duration. The previous step must have ended.
  void begin_step(Seconds start, double slowdown);
  /// The same when all variables are there.
  void begin_step_with_all_variables(Seconds start, double slowdown);
  /// The variable is in GPU memory from `when` on.
  void variable_arrived(int variable, Seconds when);
  bool is_done() const { return pass_ == passes_; }
  /// When the last kernel of the step ends; valid when is_done().
  Seconds end() const { return gpu_; }
  /// Of the step's kernels, waits not included.
  Seconds kernel_time() const { return plan_->gpu_time * passes_ * slowdown_; }
  /// How much earlier a kernel of the step would have started, had a variable been there.
  struct Stall {
    int variable = 0;
    Seconds time{};
  };
  const std::vector<Stall>& stalls() const { return stalls_; }
  /// The first variable that the next kernel waits for, -1 if none: for deadlock messages.
  int waits_for() const;

 private:
  void advance();

  const ComputePlan* plan_;
  int passes_;
  Recorder& recorder_;
  Endpoint gpu_index_;
  OnGradient on_gradient_;
  std::vector<Seconds> arrival_;
  std::vector<bool> is_here_;
  std::size_t next_ = 0;
  int pass_ = 0;
  std::vector<Stall> stalls_;
  Seconds host_{}, gpu_{};
  double slowdown_ = 1;
};

}  // namespace rehearse
