#include "sim/engine/compute_stream.hpp"

#include <algorithm>
#include <utility>

namespace rehearse {

ComputeStream::ComputeStream(const ComputePlan& plan, std::size_t variables, Recorder& recorder, MachineIndex machine,
                             OnGradient on_gradient)
    : plan_{&plan},
      recorder_{recorder},
      machine_{machine},
      on_gradient_{std::move(on_gradient)},
      arrival_(variables),
      is_here_(variables),
      next_{plan.kernels.size()} {}

void ComputeStream::begin_step(Seconds start, double slowdown) {
  std::fill(is_here_.begin(), is_here_.end(), false);
  next_ = 0;
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
  for (; next_ < plan_->kernels.size(); ++next_) {
    const PlannedKernel& kernel = plan_->kernels[next_];
    Seconds ready = host_;
    for (const int variable : kernel.waits_for) {
      const auto index = static_cast<std::size_t>(variable);
      if (!is_here_[index]) return;
      ready = std::max(ready, arrival_[index]);
    }
    host_ = ready + plan_->dispatch;
    const Seconds start = std::max(gpu_, host_);
    gpu_ = start + kernel.time.total * slowdown_;
    if (recorder_.keeps_activity)
      recorder_.kernels.push_back({machine_, kernel.vertex, {start, gpu_}, kernel.time.memory * slowdown_});
    for (const int variable : kernel.completes) on_gradient_(variable, gpu_);
  }
}

}  // namespace rehearse
