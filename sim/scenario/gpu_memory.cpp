#include <algorithm>
#include <functional>

#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/pipeline_stages.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

/// Of the optimizer's slots, the gradients and the values of variables of so many bytes: what sharding leaves a GPU.
Bytes kept_of_variables(const Scenario& scenario, Bytes variables, int slots,
                        const std::function<GradientUnits()>& plan_units) {
  const auto* all_reduce = std::get_if<AllReduceStrategy>(&scenario.training.strategy.kind);
  const Sharding sharding = all_reduce != nullptr ? all_reduce->sharding : Sharding::kNone;
  const Bytes whole = (2 + slots) * variables;
  if (sharding == Sharding::kNone) return whole;
  const int gpus = sharing_gpus(scenario);
  const auto of_others = [&](int copies) { return Bytes{copies * variables.value() / gpus * (gpus - 1)}; };
  if (sharding == Sharding::kOptimizer) return whole - of_others(slots);
  if (sharding == Sharding::kGradients) return whole - of_others(slots + 1);
  Bytes largest{};
  for (const GradientUnit& unit : plan_units().units) largest = std::max(largest, unit.value_bytes);
  return whole - of_others(slots + 2) + largest * (all_reduce->prefetched_units + 1);
}

/// Of the stage with the most among those of the group's workers.
Bytes stage_memory_needed(const Scenario& scenario, const Group& group, int slots) {
  const Workload& workload = scenario.workload_of(group);
  const Pipeline& pipeline = *scenario.training.strategy.pipeline();
  const PipelineStages stages = cut_into_stages(scenario);
  int first = 0;  // of its workers
  for (const Group* other = scenario.groups.data(); other != &group && other->place != group.place; ++other)
    first += other->workers();
  Bytes most{};
  for (int i = 0; i < std::min(group.workers(), pipeline.stages); ++i) {
    const int stage = (first + i) % pipeline.stages;
    const auto s = static_cast<std::size_t>(stage);
    const int in_flight =
        microbatches_in_flight(pipeline, scenario.training.strategy.exchange.accumulation_steps, stage);
    const auto plan_units = [&] { return plan_stage_units(scenario, stages, stage); };
    most = std::max(most, kept_of_variables(scenario, stages.variables[s], slots, plan_units) +
                              in_flight * stages.kept[s] + (stage == 0 ? workload.input_bytes : Bytes{}));
  }
  return group.accelerator->memory_reserved + most;
}

}  // namespace

Bytes gpu_memory_needed(const Scenario& scenario, const Group& group) {
  const Workload& workload = scenario.workload_of(group);
  const int slots = scenario.count(Role::kParameterServer) > 0 ? 0 : optimizer_slots(scenario.optimizer);
  if (scenario.training.strategy.pipeline() != nullptr) return stage_memory_needed(scenario, group, slots);
  const Bytes variables = workload.parameter_bytes();
  return gpu_memory_needed(workload, *group.accelerator, slots) - (2 + slots) * variables +
         kept_of_variables(scenario, variables, slots, [&] { return plan_gradient_units(scenario, 0); });
}

Bytes gpu_memory_needed(const Workload& workload, const Accelerator& gpu, int slots) {
  return gpu.memory_reserved + (2 + slots) * workload.parameter_bytes() + workload.activation_bytes +
         workload.input_bytes;
}

}  // namespace rehearse
