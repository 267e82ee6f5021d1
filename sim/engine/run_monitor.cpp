#include "sim/engine/run_monitor.hpp"

#include <cmath>

namespace rehearse {

RunMonitor::RunMonitor(Cluster& cluster) : cluster_{cluster}, traffic_{cluster.machines.size()} {
  const Scenario& scenario = cluster.scenario;
  for (const Group& group : scenario.groups) {
    plans_.emplace_back();
    if (group.role != Role::kWorker) continue;
    const Accelerator& gpu = *group.accelerator;
    const FlopsPerSecond peak = scenario.precision == Precision::kFp16 ? gpu.peak_fp16 : gpu.peak_fp32;
    plans_.back() = plan_compute(scenario.workload, gpu, peak, scenario.profile);
  }
  for (std::size_t m = 0; m < cluster.machines.size(); ++m) {
    const Machine& machine = cluster.machines[m];
    cores_.emplace_back(std::max(machine.cores, 1));
    for (int gpu = 0; gpu < machine.workers; ++gpu)
      workers_.emplace_back(static_cast<int>(workers_.size()), Endpoint{static_cast<int>(m), gpu},
                            plans_[static_cast<std::size_t>(machine.group)], scenario.seed);
  }
  skipped_use_.resize(cluster.machines.size());
  recorded_by_.assign(cluster.machines.size(), -1);
  reporting_workers_ = workers_.size();
  if (scenario.training.warmup_steps == 0) use_at_start_ = use_so_far();
}

double RunMonitor::slowdown(Worker& worker) const {
  const double variation = cluster_.scenario.training.step_time_variation;
  if (variation == 0) return 1;
  const double variance = std::log1p(variation * variation);
  return std::exp(std::sqrt(variance) * worker.noise.normal() - variance / 2);
}

void RunMonitor::record_start(const Worker& worker) {
  const Seconds now = cluster_.clock.now();
  cluster_.recorder.events.push_back({worker.gpu.machine, "start", {now, now}, ""});
}

void RunMonitor::fold(std::size_t classes, std::vector<MachineIndex> recorded_by) {
  reporting_workers_ = classes;
  recorded_by_ = std::move(recorded_by);
}

void RunMonitor::end_step(Worker& worker, std::int64_t global_step) {
  worker.step.machine = worker.gpu.machine;
  worker.step.gpu = worker.gpu.gpu;
  worker.step.step = worker.steps++;
  worker.step.span.end = cluster_.clock.now();
  worker.step.global_step = global_step;
  cluster_.recorder.steps.push_back(worker.step);
  if (worker.steps != cluster_.scenario.training.warmup_steps || ++warm_workers_ != reporting_workers_) return;
  if (window_is_closed_) return;
  window_.start = cluster_.clock.now();
  use_at_start_ = use_so_far();
}

void RunMonitor::close_window() {
  if (window_is_closed_) return;
  window_is_closed_ = true;
  window_.end = cluster_.clock.now();
  use_at_end_ = use_so_far();
}

Seconds RunMonitor::checkpoint_pause(const Worker& worker, std::int64_t updates) {
  const auto& checkpoint = cluster_.scenario.training.checkpoint;
  if (!checkpoint || worker.index != 0 || updates / checkpoint->every_steps == checkpoints_) return Seconds{};
  checkpoints_ = updates / checkpoint->every_steps;
  const Seconds pause = checkpoint->fixed_time + checkpoint_bytes(cluster_.scenario) / checkpoint->rate;
  const Seconds now = cluster_.clock.now();
  cluster_.recorder.events.push_back(
      {worker.gpu.machine, "checkpoint", {now, now + pause}, "after step " + std::to_string(updates)});
  return pause;
}

std::vector<MachineUse> RunMonitor::use_so_far() const {
  std::vector<MachineUse> use = skipped_use_;
  for (std::size_t m = 0; m < use.size(); ++m) {
    use[m].cpu_busy += cores_[m].work();
    use[m].sent += traffic_.of(m).sent;
    use[m].received += traffic_.of(m).received;
  }
  return use;
}

void RunMonitor::skip(std::int64_t count, const std::vector<MachineUse>& before) {
  const std::vector<MachineUse> now = use_so_far();
  for (std::size_t m = 0; m < now.size(); ++m) {
    skipped_use_[m].cpu_busy += (now[m].cpu_busy - before[m].cpu_busy) * static_cast<double>(count);
    skipped_use_[m].sent += (now[m].sent - before[m].sent) * count;
    skipped_use_[m].received += (now[m].received - before[m].received) * count;
  }
  skipped_steps_ += count;
}

RunRecord RunMonitor::collect(Seconds end, std::int64_t updates) {
  RunRecord record;
  record.machines = cluster_.machines;
  record.total = use_so_far();
  record.in_window = record.total;
  record.window = {Seconds{}, end};
  if (!use_at_start_.empty() && window_is_closed_ && window_.end > window_.start) {
    record.window = window_;
    record.in_window = use_at_end_;
    for (std::size_t m = 0; m < record.in_window.size(); ++m) {
      MachineUse& use = record.in_window[m];
      use.cpu_busy -= use_at_start_[m].cpu_busy;
      use.sent -= use_at_start_[m].sent;
      use.received -= use_at_start_[m].received;
    }
  }
  record.end = end;
  record.drained = std::max(end, cluster_.clock.now());
  record.updates = updates;
  record.is_synchronous = cluster_.scenario.training.strategy.is_synchronous();
  record.recorded_by = recorded_by_;
  record.skipped_steps = skipped_steps_;
  for (const MachineUse& use : record.total) record.sent += use.sent, record.received += use.received;
  const std::size_t machines = cluster_.machines.size();
  const int passes = cluster_.scenario.training.strategy.exchange.accumulation_steps;
  record.gpu_time_per_step.resize(machines);
  record.memory_time_per_step.resize(machines);
  record.unblocked_step.resize(machines);
  record.placed_bytes.resize(machines);
  record.placed_variables.resize(machines);
  for (std::size_t m = 0; m < machines; ++m) {
    if (cluster_.machines[m].workers == 0) continue;
    const ComputePlan& plan = plans_[static_cast<std::size_t>(cluster_.machines[m].group)];
    record.gpu_time_per_step[m] = plan.gpu_time * passes;
    record.memory_time_per_step[m] = plan.memory_time * passes;
    record.unblocked_step[m] =
        std::max(fuse(plan, passes).end, fuse(plan, passes).host_end) + cluster_.scenario.profile.host.step_overhead;
  }
  return record;
}

}  // namespace rehearse
