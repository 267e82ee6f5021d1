#include "sim/engine/run_monitor.hpp"

#include <algorithm>
#include <cmath>

#include "sim/engine/step_time.hpp"

namespace rehearse {

namespace {
constexpr Seconds kProfiledTime{60};
constexpr int kProfiledSteps = 21;  // the first one may have begun before the steady state
}  // namespace

Use& Use::operator-=(const Use& earlier) {
  for (std::size_t m = 0; m < machines.size(); ++m) {
    machines[m].cpu_busy -= earlier.machines[m].cpu_busy;
    machines[m].sent -= earlier.machines[m].sent;
    machines[m].received -= earlier.machines[m].received;
  }
  for (std::size_t p = 0; p < earlier.paths.size(); ++p) paths[p] -= earlier.paths[p];
  return *this;
}

RunMonitor::RunMonitor(Cluster& cluster, Membership& membership, Checkpoints& checkpoints)
    : cluster_{cluster}, membership_{membership}, checkpoints_{checkpoints}, traffic_{cluster.site.machines.size()} {
  const Scenario& scenario = cluster.site.scenario;
  for (const Group& group : scenario.groups) {
    plans_.emplace_back();
    if (group.role != Role::kWorker) continue;
    plans_.back() = plan_step(scenario, group);
  }
  const Pipeline* pipeline = scenario.training.strategy.pipeline();
  if (pipeline != nullptr) stages_ = cut_into_stages(scenario);
  const auto plan_for = [&](int group, int worker) -> const ComputePlan& {
    const ComputePlan& whole = plans_[static_cast<std::size_t>(group)];
    if (pipeline == nullptr) return whole;
    const std::pair key{group, worker % pipeline->stages};
    const auto known = stage_plans_.find(key);
    if (known != stage_plans_.end()) return known->second;
    return stage_plans_.emplace(key, plan_stage(whole, *stages_, key.second, scenario.workload)).first->second;
  };
  for (std::size_t m = 0; m < cluster.site.machines.size(); ++m) {
    const Machine& machine = cluster.site.machines[m];
    cores_.emplace_back(std::max(machine.cores, 1));
    int next_gpu = machine.workers;
    for (int gpu = 0; gpu < machine.workers; ++gpu) {
      const auto index = static_cast<int>(workers_.size());
      workers_.emplace_back(index, Endpoint{static_cast<int>(m), gpu}, plan_for(machine.group, index), scenario.seed);
      workers_.back().passes = scenario.training.strategy.exchange.accumulation_steps;
      workers_.back().samples = samples_per_step(scenario, scenario.groups[static_cast<std::size_t>(machine.group)]);
      for (int other = 1; other < machine.gpus / machine.workers; ++other)
        workers_.back().other_gpus.push_back({static_cast<int>(m), next_gpu++});
    }
  }
  skipped_use_.machines.resize(cluster.site.machines.size());
  for (std::vector<Seconds>* of_steps : {&gpu_time_, &memory_time_}) of_steps->resize(cluster.site.machines.size());
  timed_steps_.resize(cluster.site.machines.size());
  recorded_by_.assign(cluster.site.machines.size(), -1);
  for (const Worker& worker : workers_) reporting_workers_ += is_there_from_the_start(worker) ? 1 : 0;
  if (scenario.training.warmup_steps == 0) use_at_start_ = use_so_far();
}

double RunMonitor::slowdown(Worker& worker) const {
  const double variation = cluster_.site.scenario.training.step_time_variation;
  if (variation == 0) return 1;
  const double variance = std::log1p(variation * variation);
  return std::exp(std::sqrt(variance) * worker.noise.normal() - variance / 2);
}

Seconds RunMonitor::starts_at(const Worker& worker) const {
  return cluster_.site.scenario.training.start_interval * static_cast<double>(worker.index);
}

void RunMonitor::record_start(const Worker& worker) {
  const Seconds now = cluster_.clock.now();
  const bool is_first = worker.steps == 0 && is_there_from_the_start(worker);
  cluster_.recorder.events.push_back({worker.gpu.machine, is_first ? "start" : "join", {now, now}, ""});
}

void RunMonitor::record_leave(const Worker& worker) {
  const Seconds now = cluster_.clock.now();
  cluster_.recorder.events.push_back({worker.gpu.machine, "leave", {now, now}, ""});
  for (std::size_t m = 0; m < recorded_by_.size(); ++m) {
    const auto machine = static_cast<MachineIndex>(m);
    if (machine == worker.gpu.machine || recorded_by_[m] == worker.gpu.machine) membership_.end_presence(machine);
  }
}

void RunMonitor::lose(MachineIndex machine) {
  cluster_.recorder.cut(machine, cluster_.clock.now());
  if (use_at_start_) close_window();
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
  worker.steps += worker.step.repeats - 1;
  samples_.computed += worker.step.samples * worker.step.repeats;
  if (cluster_.site.scenario.training.smaller_cluster != SmallerCluster::kKeepsBatchPerWorker) time_step(worker);
  end_recording(worker);
  if (!is_there_from_the_start(worker) || worker.steps != cluster_.site.scenario.training.warmup_steps ||
      ++warm_workers_ != reporting_workers_)
    return;
  if (window_is_closed_) return;
  window_.start = cluster_.clock.now();
  use_at_start_ = use_so_far();
}

bool RunMonitor::count_update(TrainingProgress& done, std::int64_t samples) {
  const std::int64_t used = std::min(samples, cluster_.site.scenario.training.samples - done.samples);
  if (used <= 0) {
    drop(samples);
    return false;
  }
  samples_.unfilled += samples - used;
  ++done.updates;
  done.samples += used;
  return true;
}

void RunMonitor::time_step(const Worker& worker) {
  const auto m = static_cast<std::size_t>(worker.gpu.machine);
  const auto repeats = static_cast<double>(worker.step.repeats);
  gpu_time_[m] += worker.plan->gpu_time * worker.passes * repeats;
  memory_time_[m] += worker.plan->memory_time * worker.passes * repeats;
  timed_steps_[m] += worker.step.repeats;
}

const ComputePlan& RunMonitor::plan_of(MachineIndex machine, const StepShare& share, std::int64_t workers) {
  const int g = cluster_.site.machines[static_cast<std::size_t>(machine)].group;
  const Group& group = cluster_.site.scenario.groups[static_cast<std::size_t>(g)];
  if (share.batch == group.batch) return plans_[static_cast<std::size_t>(g)];
  const auto known = other_plans_.find({g, share.batch});
  if (known != other_plans_.end()) return known->second;
  const Group other = with_batch(cluster_.site.scenario, group, share.batch, workers);
  return other_plans_.emplace(std::pair{g, share.batch}, plan_step(cluster_.site.scenario, other)).first->second;
}

void RunMonitor::end_recording(const Worker& worker) {
  RecordingScope& scope = cluster_.recorder.scope;
  if (!cluster_.recorder.keeps_activity || !scope.ends_with_profile) return;
  if (is_there_from_the_start(worker) && worker.steps == cluster_.site.scenario.training.warmup_steps + kProfiledSteps)
    ++profiled_workers_;
  const Seconds now = cluster_.clock.now();
  const Seconds cut = cluster_.site.scenario.output.sampling_period * 2;  // samples that lie only partly in the window
  if (profiled_workers_ < reporting_workers_ || now < window_.start + kProfiledTime + cut) return;
  scope.window.end = now;
  scope.ends_with_profile = false;
}

void RunMonitor::close_window() {
  if (window_is_closed_) return;
  window_is_closed_ = true;
  window_.end = cluster_.clock.now();
  use_at_end_ = use_so_far();
}

Seconds RunMonitor::checkpoint_pause(const Worker& worker, const TrainingProgress& progress) {
  const auto& rule = cluster_.site.scenario.training.checkpoint;
  if (!rule) return Seconds{};
  const Seconds now = cluster_.clock.now();
  Seconds& recorded = cluster_.recorder.steps.back().times.pause;
  if (worker.gpu.machine != checkpoints_.chief || worker.gpu.gpu != 0)
    return recorded = rule->pauses_all ? std::max(Seconds{}, checkpoints_.written_until() - now) : Seconds{};
  if (!checkpoints_.is_due(progress.updates, now)) return Seconds{};
  const Seconds pause = *checkpoint_time(cluster_.site.scenario);
  checkpoints_.begin(progress, now, now + pause);
  cluster_.recorder.events.push_back(
      {worker.gpu.machine, "checkpoint", {now, now + pause}, "after step " + std::to_string(progress.updates)});
  return recorded = pause;
}

Use RunMonitor::use_so_far() const {
  Use use = skipped_use_;
  for (std::size_t m = 0; m < use.machines.size(); ++m) {
    use.machines[m].cpu_busy += cores_[m].work();
    use.machines[m].sent += traffic_.of(m).sent;
    use.machines[m].received += traffic_.of(m).received;
  }
  const std::vector<Bytes>& carried = cluster_.network.carried();
  use.paths.resize(carried.size());
  for (std::size_t p = 0; p < carried.size(); ++p) use.paths[p] += carried[p];
  return use;
}

void RunMonitor::skip(std::int64_t count, const Use& each) {
  for (std::size_t m = 0; m < each.machines.size(); ++m) {
    MachineUse& skipped = skipped_use_.machines[m];
    skipped.cpu_busy += each.machines[m].cpu_busy * static_cast<double>(count);
    skipped.sent += each.machines[m].sent * count;
    skipped.received += each.machines[m].received * count;
  }
  if (skipped_use_.paths.size() < each.paths.size()) skipped_use_.paths.resize(each.paths.size());
  for (std::size_t p = 0; p < each.paths.size(); ++p) skipped_use_.paths[p] += each.paths[p] * count;
}

LinkUse RunMonitor::busiest_link(const std::vector<Bytes>& carried, Seconds time) const {
  const Network& network = cluster_.network;
  const std::vector<TopologyLink>& links = network.topology().links();
  LinkUse busiest;
  std::vector<Bytes> of_link(links.size());
  for (std::size_t p = 0; p < carried.size(); ++p) {
    const auto index = static_cast<PathIndex>(p);
    const Path& path = network.path(index);
    for (const int link : path.links) of_link[static_cast<std::size_t>(link)] += carried[p];
    if (!path.per_flow_rate) continue;
    const double utilization = as_double(carried[p]) / (path.per_flow_rate->value() * time.value());
    if (utilization <= busiest.utilization) continue;
    const auto name = [&](Endpoint end) { return cluster_.site.machines[static_cast<std::size_t>(end.machine)].name; };
    busiest = {name(network.source(index)) + " to " + name(network.destination(index)), true, utilization};
  }
  for (std::size_t m = 0; m < cluster_.site.machines.size(); ++m)
    for (const int nic : network.topology().nic_links(static_cast<int>(m))) of_link[static_cast<std::size_t>(nic)] = {};
  for (std::size_t i = 0; i < links.size(); ++i) {
    const double utilization = as_double(of_link[i]) / (links[i].rate.value() * time.value());
    if (utilization > busiest.utilization) busiest = {links[i].name, false, utilization};
  }
  busiest.utilization = std::min(1.0, busiest.utilization);  // messages count as a whole when they start
  return busiest;
}

RunRecord RunMonitor::collect(Seconds end, std::int64_t updates) {
  RunRecord record;
  record.machines = cluster_.site.machines;
  Use use = use_so_far();
  record.total = record.in_window = use.machines;
  for (std::size_t p = 0; p < use.paths.size(); ++p) {
    const auto path = static_cast<PathIndex>(p);
    const MachineIndex from = cluster_.network.source(path).machine, to = cluster_.network.destination(path).machine;
    if (from != to && use.paths[p] > Bytes{}) record.carried[{from, to}] += use.paths[p];
  }
  record.window = {Seconds{}, end};
  if (use_at_start_ && use_at_end_ && window_.end > window_.start) {
    record.window = window_;
    use = *use_at_end_;
    use -= *use_at_start_;
    record.in_window = use.machines;
  }
  record.busiest_link = busiest_link(use.paths, record.window.end - record.window.start);
  record.end = end;
  record.drained = std::max(end, cluster_.clock.now());
  record.updates = updates;
  record.samples = samples_;
  record.is_synchronous = cluster_.site.scenario.training.strategy.is_synchronous();
  record.recorded_by = recorded_by_;
  record.presence = membership_.presence();
  for (std::vector<Span>& spans : record.presence)
    for (Span& there : spans) there = {std::min(there.start, end), std::min(there.end, end)};
  record.lost = traffic_.lost();
  for (const MachineUse& total : record.total) record.sent += total.sent, record.received += total.received;
  const std::size_t machines = cluster_.site.machines.size();
  const int passes = cluster_.site.scenario.training.strategy.exchange.accumulation_steps;
  record.gpu_time_per_step.resize(machines);
  record.memory_time_per_step.resize(machines);
  record.update_per_step.resize(machines);
  record.placed_bytes.resize(machines);
  record.placed_variables.resize(machines);
  for (std::size_t m = 0; m < machines; ++m) {
    if (cluster_.site.machines[m].workers == 0) continue;
    const ComputePlan& plan = plans_[static_cast<std::size_t>(cluster_.site.machines[m].group)];
    record.gpu_time_per_step[m] = plan.gpu_time * passes;
    record.memory_time_per_step[m] = plan.memory_time * passes;
    record.update_per_step[m] = plan.update;
    const auto by = recorded_by_[m] >= 0 ? static_cast<std::size_t>(recorded_by_[m]) : m;
    if (timed_steps_[by] == 0) continue;
    const auto steps = static_cast<double>(timed_steps_[by]);
    record.gpu_time_per_step[m] = gpu_time_[by] / steps;
    record.memory_time_per_step[m] = memory_time_[by] / steps;
  }
  if (!stages_) return record;
  for (std::vector<Seconds>* times : {&record.gpu_time_per_step, &record.memory_time_per_step, &record.update_per_step})
    times->assign(machines, {});
  for (const Worker& worker : workers_) {  // stages of a machine: their mean
    const auto m = static_cast<std::size_t>(worker.gpu.machine);
    const double share = 1.0 / cluster_.site.machines[m].workers;
    record.gpu_time_per_step[m] += worker.plan->gpu_time * (passes * share);
    record.memory_time_per_step[m] += worker.plan->memory_time * (passes * share);
    record.update_per_step[m] += worker.plan->update * share;
  }
  return record;
}

}  // namespace rehearse
