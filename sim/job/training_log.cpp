#include "sim/job/training_log.hpp"

#include <algorithm>
#include <map>

#include "sim/scenario/gpu_power.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {
constexpr Seconds kProfiledTime{60};
constexpr int kProfiledSteps = 21;  // the first one may have begun before the steady state
}  // namespace

TrainingLog::TrainingLog(const Cluster& cluster, Workers& workers, SteadyWindow& window, JobState& job)
    : cluster_{cluster},
      training_{cluster.site.scenario.training},
      workers_{workers},
      window_{window},
      membership_{job.membership},
      checkpoints_{job.checkpoints},
      gpu_time_(cluster.site.machines.size()),
      memory_time_(gpu_time_.size()),
      energy_(gpu_time_.size()),
      timed_steps_(gpu_time_.size()),
      recorded_by_(gpu_time_.size(), -1),
      stands_for_(gpu_time_.size(), 1) {
  for (const Worker& worker : workers_) reporting_workers_ += workers_.is_there_from_the_start(worker) ? 1 : 0;
}

void TrainingLog::record_start(const Worker& worker) {
  const Seconds now = cluster_.clock.now();
  const bool is_first = worker.steps == 0 && workers_.is_there_from_the_start(worker);
  cluster_.recorder.events.push_back({worker.gpu.machine, is_first ? "start" : "join", {now, now}, ""});
}

void TrainingLog::record_leave(const Worker& worker) {
  const Seconds now = cluster_.clock.now();
  cluster_.recorder.events.push_back({worker.gpu.machine, "leave", {now, now}, ""});
  for (std::size_t m = 0; m < recorded_by_.size(); ++m) {
    const auto machine = static_cast<MachineIndex>(m);
    if (machine == worker.gpu.machine || recorded_by_[m] == worker.gpu.machine) membership_.end_presence(machine);
  }
}

void TrainingLog::lose(MachineIndex machine) {
  cluster_.recorder.cut(machine, cluster_.clock.now());
  window_.close_if_open();
}

void TrainingLog::fold(std::size_t classes, std::vector<MachineIndex> recorded_by, std::vector<int> stands_for) {
  reporting_workers_ = classes;
  recorded_by_ = std::move(recorded_by);
  stands_for_ = std::move(stands_for);
}

void TrainingLog::end_step(Worker& worker, std::int64_t global_step) {
  worker.step.machine = worker.gpu.machine;
  worker.step.gpu = worker.gpu.gpu;
  worker.step.step = worker.steps++;
  worker.step.span.end = cluster_.clock.now();
  worker.step.global_step = global_step;
  cluster_.recorder.steps.push_back(worker.step);
  worker.steps += worker.step.repeats - 1;
  samples_.computed += worker.step.samples * worker.step.repeats;
  if (training_.smaller_cluster != SmallerCluster::kKeepsBatchPerWorker) {
    const auto m = static_cast<std::size_t>(worker.gpu.machine);
    const auto repeats = static_cast<double>(worker.step.repeats);
    gpu_time_[m] += worker.plan->gpu_time * worker.passes * repeats;
    memory_time_[m] += worker.plan->memory_time * worker.passes * repeats;
    energy_[m] += step_energy(*worker.plan, worker.passes) * repeats;
    timed_steps_[m] += worker.step.repeats;
  }
  end_recording(worker);
  if (workers_.is_there_from_the_start(worker) && worker.steps == training_.warmup_steps &&
      ++warm_workers_ == reporting_workers_)
    window_.open();
}

bool TrainingLog::count_update(TrainingProgress& done, std::int64_t samples) {
  const std::int64_t used = std::min(samples, training_.samples - done.samples);
  if (used <= 0) {
    drop(samples);
    return false;
  }
  samples_.unfilled += samples - used;
  ++done.updates;
  done.samples += used;
  return true;
}

void TrainingLog::end_recording(const Worker& worker) {
  RecordingScope& scope = cluster_.recorder.scope;
  if (!cluster_.recorder.keeps_activity || !scope.ends_with_profile) return;
  if (workers_.is_there_from_the_start(worker) && worker.steps == training_.warmup_steps + kProfiledSteps)
    ++profiled_workers_;
  const Seconds now = cluster_.clock.now();
  const Seconds cut = cluster_.site.scenario.output.sampling_period * 2;  // samples that lie only partly in the window
  if (profiled_workers_ < reporting_workers_ || now < window_.start() + kProfiledTime + cut) return;
  scope.window.end = now;
  scope.ends_with_profile = false;
}

Seconds TrainingLog::checkpoint_pause(const Worker& worker, const TrainingProgress& progress) {
  const auto& rule = training_.checkpoint;
  if (!rule) return Seconds{};
  const Seconds now = cluster_.clock.now();
  Seconds& recorded = cluster_.recorder.steps.back().times.pause;
  if (worker.gpu.machine != checkpoints_.chief || worker.gpu.gpu != 0)
    return recorded = rule->pauses_all ? std::max(Seconds{}, checkpoints_.stalls_until() - now) : Seconds{};
  if (!checkpoints_.is_due(progress.updates, now)) return Seconds{};
  const Seconds pause = checkpoints_.begin(progress, now) - now;
  cluster_.recorder.events.push_back(
      {worker.gpu.machine, "checkpoint", {now, now + pause}, "after step " + std::to_string(progress.updates)});
  return recorded = pause;
}

namespace {

HostWork host_work_of(const ComputePlan& plan, int passes) {
  return {.overhead = plan.step_overhead,
          .copies = plan.host_copies,
          .update_dispatch = plan.update_dispatch,
          .update = plan.host_update.time > plan.update ? plan.host_update.time : Seconds{},
          .launch_share = plan.gpu_time > Seconds{} ? plan.launch_time / plan.gpu_time : 0,
          .hidden_share = share_behind_dispatch(plan, passes)};
}

}  // namespace

RunRecord TrainingLog::collect(Seconds end, std::int64_t updates) const {
  RunRecord record;
  record.machines = cluster_.site.machines;
  record.messaging = cluster_.site.scenario.messaging;
  window_.describe(record, end);
  record.end = end;
  record.drained = std::max(end, cluster_.clock.now());
  record.updates = updates;
  record.samples = samples_;
  record.is_synchronous = training_.strategy.is_synchronous();
  record.recorded_by = recorded_by_;
  record.stands_for = stands_for_;
  record.presence = membership_.presence();
  for (std::vector<Span>& spans : record.presence)
    for (Span& there : spans) there = {std::min(there.start, end), std::min(there.end, end)};
  record.lost = cluster_.traffic.lost();
  record.losses = cluster_.losses;
  for (const MachineUse& total : record.total) {
    record.sent += total.sent;
    record.received += total.received;
  }
  const std::size_t machines = cluster_.site.machines.size();
  const int passes = passes_of_part(cluster_.site.scenario);
  record.gpu_time_per_step.resize(machines);
  record.memory_time_per_step.resize(machines);
  record.update_per_step.resize(machines);
  record.host_work.resize(machines);
  record.gpu_energy_per_step.resize(machines);
  std::map<const ComputePlan*, HostWork> host_works;
  std::map<const ComputePlan*, double> energies;
  const auto energy = [&](const ComputePlan& plan) {
    const auto [known, is_new] = energies.try_emplace(&plan);
    if (is_new) known->second = step_energy(plan, passes);
    return known->second;
  };
  const auto host_work = [&](const ComputePlan& plan) -> const HostWork& {
    const auto [known, is_new] = host_works.try_emplace(&plan);
    if (is_new) known->second = host_work_of(plan, passes);
    return known->second;
  };
  record.placed_bytes.resize(machines);
  record.placed_variables.resize(machines);
  for (std::size_t m = 0; m < machines; ++m) {
    if (cluster_.site.machines[m].workers == 0) continue;
    const ComputePlan& plan = workers_.compiler().plan_of(cluster_.site.machines[m].group);
    record.gpu_time_per_step[m] = plan.gpu_time * passes;
    record.memory_time_per_step[m] = plan.memory_time * passes;
    record.update_per_step[m] = plan.all_update();
    record.gpu_energy_per_step[m] = energy(plan);
    record.host_work[m] = host_work(plan);
    const auto by = recorded_by_[m] >= 0 ? static_cast<std::size_t>(recorded_by_[m]) : m;
    if (timed_steps_[by] == 0) continue;
    const auto steps = static_cast<double>(timed_steps_[by]);
    record.gpu_time_per_step[m] = gpu_time_[by] / steps;
    record.memory_time_per_step[m] = memory_time_[by] / steps;
    record.gpu_energy_per_step[m] = energy_[by] / steps;
  }
  const bool has_own_loads = cluster_.site.scenario.model.expert_split.has_own_loads();
  if (training_.strategy.kind->workers_per_model() == 1 && !has_own_loads) return record;
  for (std::vector<Seconds>* times : {&record.gpu_time_per_step, &record.memory_time_per_step, &record.update_per_step})
    times->assign(machines, {});
  record.host_work.assign(machines, {});
  record.gpu_energy_per_step.assign(machines, 0);
  for (const Worker& worker : workers_) {  // parts, or experts, of a model on a machine: their mean
    const auto m = static_cast<std::size_t>(worker.gpu.machine);
    const double share = 1.0 / cluster_.site.machines[m].workers;
    record.gpu_time_per_step[m] += worker.plan->gpu_time * (passes * share);
    record.memory_time_per_step[m] += worker.plan->memory_time * (passes * share);
    record.update_per_step[m] += worker.plan->all_update() * share;
    record.gpu_energy_per_step[m] += energy(*worker.plan) * share;
    const HostWork& own = host_work(*worker.plan);
    HostWork& mean = record.host_work[m];
    mean.overhead += own.overhead * share;
    mean.copies += own.copies * share;
    mean.update_dispatch += own.update_dispatch * share;
    mean.update += own.update * share;
    mean.launch_share += own.launch_share * share;
    mean.hidden_share += own.hidden_share * share;
  }
  return record;
}

}  // namespace rehearse
