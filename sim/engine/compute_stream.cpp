#include "sim/engine/compute_stream.hpp"

#include <algorithm>
#include <utility>

namespace rehearse {

ComputeStream::ComputeStream(const ComputePlan& plan, std::size_t variables, int passes, Recorder& recorder,
                             Endpoint gpu, OnGradient on_gradient)
    : plan_{&plan},
      passes_{passes},
      recorder_{recorder},
      gpu_index_{gpu},
      on_gradient_{std::move(on_gradient)},
      arrival_(variables),
      is_here_(variables),
      pass_{passes} {}

void ComputeStream::begin_step(Seconds start, double slowdown) {
  std::fill(is_here_.begin(), is_here_.end(), false);
  next_ = 0;
  pass_ = 0;
  stalls_.clear();
  slowdown_ = slowdown;
  host_ = std::max(host_, start);
  gpu_ = std::max(gpu_, start);
  advance();
}

void ComputeStream::begin_step_with_all_variables(Seconds start, double slowdown) {
  std::fill(is_here_.begin(), is_here_.end(), true);
  std::fill(arrival_.begin(), arrival_.end(), Seconds{});
  next_ = 0;
  pass_ = 0;
  stalls_.clear();
  slowdown_ = slowdown;
  host_ = std::max(host_, start);
  gpu_ = std::max(gpu_, start);
  advance();
}

void ComputeStream::variable_arrived(int variable, Seconds when) {
  const auto index = static_cast<std::size_t>(variable);
  arrival_[index] = when;
  is_here_[index] = true;
  advance();
}

int ComputeStream::waits_for() const {
  if (is_done()) return -1;
  for (const int variable : plan_->kernels[next_].waits_for)
    if (!is_here_[static_cast<std::size_t>(variable)]) return variable;
  return -1;
}

void ComputeStream::advance() {
  for (; pass_ < passes_; ++pass_, next_ = 0) {
    const bool is_last = pass_ == passes_ - 1;
    for (; next_ < plan_->kernels.size(); ++next_) {
      const PlannedKernel& kernel = plan_->kernels[next_];
      Seconds ready = host_;
      if (pass_ == 0) {
        int latest = -1;
        for (const int variable : kernel.waits_for) {
          const auto index = static_cast<std::size_t>(variable);
          if (!is_here_[index]) return;
          if (arrival_[index] > ready) ready = arrival_[index], latest = variable;
        }
        if (latest >= 0)
          if (const Seconds stall = ready + kernel.dispatch - std::max(gpu_, host_ + kernel.dispatch);
              stall > Seconds{})
            stalls_.push_back({latest, stall});
      }
      host_ = ready + kernel.dispatch;
      const Seconds start = std::max(gpu_, host_);
      gpu_ = start + kernel.time.total * slowdown_;
      recorder_.add(
          KernelSpan{gpu_index_.machine, gpu_index_.gpu, kernel.vertex, {start, gpu_}, kernel.time.memory * slowdown_});
      if (is_last)
        for (const int variable : kernel.completes) on_gradient_(variable, gpu_);
    }
  }
}

}  // namespace rehearse
