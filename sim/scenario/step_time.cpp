#include "sim/scenario/step_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/gpu_power.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/kernel_plan.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

KernelSetting setting_of(const Scenario& scenario, const Group& group) {
  KernelSetting setting =
      kernel_setting(scenario.profile, scenario.framework, scenario.precision, *group.accelerator, group.place);
  setting.optimizer_implementation = scenario.optimizer_implementation;
  return setting;
}

/// By kernels, if the profile has them.
ComputePlan plan_of(const Scenario& scenario, const Group& group, const Workload& workload) {
  if (scenario.profile.kernels) return plan_kernels(workload, setting_of(scenario, group));
  return plan_compute(workload, *group.accelerator, scenario.peak_of(*group.accelerator), scenario.profile);
}

/// Servers do it themselves.
UpdateTime update_time(const Scenario& scenario, const Group& group) {
  if (!scenario.training.strategy.kind->updates_on_workers()) return {};
  if (scenario.profile.kernels && !scenario.workload.is_whole_step) {
    UpdateTime update =
        update_time(scenario.workload, scenario.optimizer, scenario.states, setting_of(scenario, group));
    update.total = scenario.workload.optimizer_time + update.total;
    return update;
  }
  const GpuParameters& parameters = scenario.profile.gpu;
  const auto accesses = parameters.update_accesses.find(to_text(scenario.optimizer));
  if (accesses == parameters.update_accesses.end() || scenario.workload.is_whole_step)
    return {.total = scenario.workload.optimizer_time};
  const int slots = optimizer_slots(scenario.optimizer);
  const double share = static_cast<double>(update_bytes(scenario.states, slots)) / update_bytes({}, slots);
  const double bytes = static_cast<double>(scenario.workload.parameters()) * sizeof(float) * accesses->second * share;
  return {.total = scenario.workload.optimizer_time +
                   Seconds{bytes / (group.accelerator->memory_bandwidth.value() * parameters.memory_efficiency)}};
}

struct ModelledStep {
  Seconds time{};  // the input not copied
  Bytes input{};
};

/// Of a lone worker, who has the whole of each layer; `batch` of one GPU. Steps that a profile has were measured of all of the
/// model being trained, and nothing computed again; those that the scenario states (`is_stated`) are of its own training.
ModelledStep modelled_step(const Scenario& scenario, const Group& group, int batch, bool is_stated) {
  const Workload* workload = &scenario.workload_of(group);
  Workload other;
  ModelDescription whole = scenario.model;
  whole.split = {};
  whole.context = {};
  whole.expert_split = {};
  if (!is_stated) {
    whole.again = {};
    whole.adapters = {};
  }
  if (batch != workload->batch || whole.split != scenario.model.split || whole.context != scenario.model.context ||
      whole.expert_split != scenario.model.expert_split || whole.again != scenario.model.again ||
      whole.adapters != scenario.model.adapters) {
    other = build_workload(whole, batch, scenario.precision, "step time of " + scenario.model.name);
    workload = &other;
  }
  const ComputePlan plan = plan_of(scenario, group, *workload);
  const UpdateTime update = update_time(scenario, group);
  return {plan.step_overhead + end_of_kernels(plan) + update.total + update.traffic, plan.input};
}

/// To a GPU that shares its way from the host with nobody.
Seconds copy_time(const Interconnect& inside, Bytes input) {
  return input / std::min(inside.pcie, inside.pcie_root.value_or(inside.pcie)) + inside.latency;
}

}  // namespace

namespace {

bool is_of(const StepTime& step, const Scenario& scenario, const Group& group) {
  return step.model == scenario.model.name && step.accelerator == group.accelerator->name &&
         step.precision == computed_in(scenario) && step.framework == scenario.framework;
}

constexpr std::array kStepSources{Named{"computed", StepSource::kComputed}, Named{"estimated", StepSource::kEstimated},
                                  Named{"measured", StepSource::kMeasured}, Named{"stated", StepSource::kStated}};

}  // namespace

StepSource step_source(const Scenario& scenario, const Group& group) {
  if (group.step_time) return StepSource::kMeasured;
  bool is_known = false, is_measured = false;
  for (const StepTime& step : scenario.profile.step_times) {
    if (!is_of(step, scenario, group)) continue;
    is_known = true;
    is_measured = is_measured || !step.is_estimated;
  }
  if (is_known) return is_measured ? StepSource::kMeasured : StepSource::kEstimated;
  const OperatorGraph& graph = scenario.workload_of(group).graph;
  bool is_stated = graph.size() > 0;
  for (std::size_t i = 0; i < graph.size(); ++i)
    is_stated = is_stated && (graph[i]->phase == Phase::kUpdate || graph[i]->measured_time);
  return is_stated ? StepSource::kStated : StepSource::kComputed;
}

std::string why_no_update_kernels(const Scenario& scenario) {
  const StrategyKind& kind = *scenario.training.strategy.kind;
  if (!kind.updates_on_workers()) return "servers update the variables";
  if (kind.offload().optimizer == 1) return "the host updates the variables";
  if (!scenario.profile.kernels || scenario.workload.is_whole_step)
    return "updates are not computed of kernels with profile " + in_quotes(scenario.profile.name);
  const bool is_measured = std::ranges::all_of(scenario.groups, [&](const Group& group) {
    return group.role != Role::kWorker || step_source(scenario, group) == StepSource::kMeasured;
  });
  return is_measured ? "the update is a part of the measured step time" : "";
}

std::string to_text(StepSource source) { return name_in(kStepSources, source); }

std::string step_sources(const Scenario& scenario) {
  std::set<std::string> names;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker && group.colocated_with < 0) names.insert(to_text(step_source(scenario, group)));
  return joined(names);
}

std::string source_warning(const std::set<std::string>& sources, double low, double high) {
  if (sources.size() < 2) return {};
  std::array<char, 96> interval{};
  if (low < high)
    std::snprintf(interval.data(), interval.size(), "; intervals of 90 %% reach from %.2g to %.2g times a speed", low,
                  high);
  return "some of the steps that are compared are " + joined(sources, ", others ") +
         ": part of the difference may come from that" + interval.data() +
         "; --set /calibration=kernels computes all of them";
}

std::optional<double> step_time_factor(const Scenario& scenario, const Group& group) {
  std::map<int, std::map<int, Seconds>> by_gpus;  // by GPUs of a worker, then by batch of one of them
  for (const StepTime& step : scenario.profile.step_times)
    if (is_of(step, scenario, group)) by_gpus[step.gpus][step.batch / step.gpus] = step.time;
  const int batch = group.batch / group.gpus_per_worker;
  if (group.step_time) by_gpus = {{group.gpus_per_worker, {{batch, group.step_time->time}}}};
  if (by_gpus.empty()) return {};
  const auto more_gpus = by_gpus.upper_bound(group.gpus_per_worker);
  const std::map<int, Seconds>& measured = (more_gpus == by_gpus.begin() ? more_gpus : std::prev(more_gpus))->second;
  const auto factor = [&](std::map<int, Seconds>::const_iterator at) {
    const ModelledStep modelled = modelled_step(scenario, group, at->first, group.step_time.has_value());
    Seconds compute = at->second;
    if (scenario.copies_input.value_or(false))
      compute = std::max(compute - copy_time(group.interconnect, modelled.input), compute * 0.1);
    return compute / modelled.time;
  };
  const auto above = measured.lower_bound(batch);
  if (above == measured.end()) return factor(std::prev(above));
  if (above->first == batch || above == measured.begin()) return factor(above);
  const auto below = std::prev(above);
  const double share =
      std::log(static_cast<double>(batch) / below->first) / std::log(static_cast<double>(above->first) / below->first);
  return factor(below) + share * (factor(above) - factor(below));
}

Seconds step_time_with(const Scenario& scenario, const Group& group, double factor) {
  const ModelledStep modelled =
      modelled_step(scenario, group, group.batch / group.gpus_per_worker, group.step_time.has_value());
  const bool has_copy = scenario.copies_input.value_or(false);
  return modelled.time * factor + (has_copy ? copy_time(group.interconnect, modelled.input) : Seconds{});
}

namespace {

void stretch(ComputePlan& plan, double factor) {
  for (Seconds* part : {&plan.step_overhead, &plan.host_copies, &plan.gpu_time, &plan.memory_time, &plan.launch_time,
                        &plan.update, &plan.update_dispatch, &plan.update_loop, &plan.gather_copies})
    *part = *part * factor;
  for (PlannedKernel& kernel : plan.kernels) {
    kernel.dispatch = kernel.dispatch * factor;
    kernel.host_wait = kernel.host_wait * factor;
    kernel.time = {kernel.time.total * factor, kernel.time.memory * factor, kernel.time.launch * factor};
  }
}

void change(ComputePlan& plan, const StepChange& by) {
  if (by == StepChange{}) return;
  const Seconds overhead = plan.step_overhead - plan.host_copies;
  plan.step_overhead = plan.host_copies + overhead * by.host + by.delay;
  plan.load = plan.load * by.host;
  const Seconds on_gpu = plan.update - plan.update_dispatch;
  plan.update_dispatch = plan.update_dispatch * by.host;
  plan.update = on_gpu * by.gpu + plan.update_dispatch;
  plan.update_loop = plan.update_loop * by.host;
  plan.host_update.time = plan.host_update.time * by.host;
  plan.gather_copies = plan.gather_copies * by.host;
  plan.gpu_time = plan.memory_time = plan.launch_time = {};
  for (PlannedKernel& kernel : plan.kernels) {
    kernel.dispatch = kernel.dispatch * by.host;
    kernel.host_wait = kernel.host_wait * by.host;
    KernelTime& time = kernel.time;
    const Seconds launch = time.launch * (by.gpu * by.launch);
    time = {(time.total - time.launch) * by.gpu + launch, time.memory * by.gpu, launch};
    plan.gpu_time += time.total;
    plan.memory_time += time.memory;
    plan.launch_time += time.launch;
  }
}

/// Takes the host's share of the update from the GPU. The host reads and writes update_bytes() of each parameter at the rate of its
/// memory, which the machine's GPUs share.
void offload_update(ComputePlan& plan, const Scenario& scenario, const Group& group) {
  constexpr BytesPerSecond kOfVcpu{1.5e9};  // 100 to 200 GB/s of a socket with 64 to 128 threads
  const Offload offload = scenario.training.strategy.kind->offload();
  if (offload.optimizer == 0) return;
  const Workload& workload = scenario.workload_of(group);
  const double parameters = static_cast<double>(workload.parameters()) * updated_bytes(scenario, workload.variables) /
                            as_double(workload.parameter_bytes()) / sharing_gpus(scenario);
  const BytesPerSecond rate = offload.host_memory_bandwidth.value_or(kOfVcpu * group.instance.vcpus) /
                              (group.workers_per_machine() * group.gpus_per_worker);
  const double sent = bytes_per_scalar(sent_gradients(scenario));
  plan.host_update = {
      .time = Seconds{parameters * offload.optimizer *
                      update_bytes(scenario.states, optimizer_slots(scenario.optimizer)) / rate.value()},
      .share = offload.optimizer,
      .sharing_gpus = sharing_gpus(scenario),
      .sharing_of_experts = sharing_gpus_of_experts(scenario),
      .gradient_bytes = gradient_bytes(scenario.states) / sent,
      .value_bytes = weight_bytes(scenario.states) / sent};
  for (Seconds* part : {&plan.update, &plan.update_dispatch}) *part = *part * (1 - offload.optimizer);
}

/// Casts of weights that serve all micro-batches run once in a step, behind the update; not those of weights that are gathered
/// anew for each of them.
void cast_weights_once(ComputePlan& plan, const Scenario& scenario, const Workload& workload) {
  const StrategyKind& kind = *scenario.training.strategy.kind;
  if (!keeps_casts(scenario.model.fp8) || kind.divided_states().weights) return;
  for (PlannedKernel& kernel : plan.kernels) {
    const OperatorAt op = workload.graph[static_cast<std::size_t>(kernel.vertex)];
    if (!op->serves_all_passes) continue;
    if (!op->is_again) kernel.once = kernel.time.total;
    plan.gpu_time -= kernel.time.total;
    plan.memory_time -= kernel.time.memory;
    plan.launch_time -= kernel.time.launch;
    kernel.time = {};
    if (kind.pipeline() == nullptr) plan.update += kernel.once;
  }
}

/// As Framework::dispatch_beside_pipeline says.
void slow_exchanges(ComputePlan& plan, const Scenario& scenario) {
  const Seconds each = scenario.profile.framework(scenario.framework).dispatch_beside_pipeline;
  if (each == Seconds{} || scenario.worker_machines() < 2 || scenario.training.strategy.kind->pipeline() == nullptr)
    return;
  for (PlannedKernel& kernel : plan.kernels)
    if (kernel.exchange) kernel.dispatch += each * scenario.model.split.degree;
}

}  // namespace

ComputePlan plan_step(const Scenario& scenario, const Group& group) {
  ComputePlan plan = plan_of(scenario, group, scenario.workload_of(group));
  note_traffic(plan, scenario, group);
  const UpdateTime update = update_time(scenario, group);
  plan.update = update.total;
  plan.update_dispatch = update.dispatch;
  plan.update_loop = update.loop;
  scenario.training.strategy.kind->divide(plan, scenario);
  offload_update(plan, scenario, group);
  plan.offloaded = offloaded_layers(scenario, scenario.workload_of(group));
  plan.update += update.traffic;
  cast_weights_once(plan, scenario, scenario.workload_of(group));
  if (scenario.training.strategy.kind->divided_states().optimizer)
    plan.gather_copies = update.gather_copies * sharing_gpus(scenario);
  const auto factor = step_time_factor(scenario, group);
  if (!scenario.copies_input.value_or(!factor)) plan.input = {};
  if (factor) stretch(plan, *factor);
  plan.load = load_time_of_sample(scenario, group) * group.batch;
  plan.loads_ahead = scenario.input && scenario.input->prefetches;
  change(plan, scenario.step_change);
  draw_power(plan, scenario, group);
  slow_exchanges(plan, scenario);
  return plan;
}

}  // namespace rehearse
