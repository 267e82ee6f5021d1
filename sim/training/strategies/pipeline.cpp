#include "sim/training/strategies/pipeline.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sim/scenario/pipeline_stages.hpp"
#include "sim/scenario/refusals.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "sim/training/strategies/strategies.hpp"

namespace rehearse {

namespace {

bool has_pipeline(const Refusal::Subject& subject) {
  return subject.scenario->training.strategy.kind->pipeline() != nullptr;
}

std::vector<Refusal> refusals_of_pipelines() {
  return {
      {"a pipeline whose stages are parts of machines",
       [](const Refusal::Subject& s) {
         return strategy_place_if(
             has_pipeline(s) && (collective_rules_of(s).algorithm == CollectiveAlgorithm::kHierarchical ||
                                 collective_rules_of(s).algorithm == CollectiveAlgorithm::kNvls),
             "algorithm");
       },
       "an all-reduce among any GPUs with a pipeline, not \"hierarchical\" or \"nvls\"",
       "a stage may have some of a machine's GPUs"},
      {"a pipeline of stages with different numbers of GPUs",
       [](const Refusal::Subject& s) {
         const auto differ = [&](const Group& group) {
           return std::any_of(s.scenario->groups.begin(), s.scenario->groups.end(),
                              [&](const Group& other) { return other.gpus_per_worker != group.gpus_per_worker; });
         };
         if (!has_pipeline(s)) return RefusedPlace{};
         return stated_of_group(s, {"workers_per_machine"}, differ);
       },
       "as many GPUs of every worker with a pipeline", "each GPU passes its part of a micro-batch on to its like"},
      {"a pipeline of unequal micro-batches",
       [](const Refusal::Subject& s) {
         if (!has_pipeline(s)) return RefusedPlace{};
         return stated_of_group(s, {"batch_per_worker"}, [&](const Group& group) {
           return group.role == Role::kWorker && group.batch != s.scenario->first_workers().batch;
         });
       },
       "the same batch in all groups with a pipeline", "it is that of a micro-batch in each of its stages"},
      {"a pipeline that accumulates twice",
       [](const Refusal::Subject& s) {
         return stated_of_strategy(s, {"pipeline"}) ? stated_of_strategy(s, {"accumulation_steps"}) : RefusedPlace{};
       },
       "none with a pipeline", "its \"microbatches\" are what a step accumulates"},
      {"forward overlap of pipelines",
       [](const Refusal::Subject& s) {
         return strategy_place_if(
             has_pipeline(s) && s.scenario->training.strategy.exchange.overlap == Overlap::kForward, "overlap");
       },
       "\"none\" or \"backward\" with a pipeline", "its stages end a step together"},
  };
}

std::string schema_of_pipelines() {
  return R"json({ "properties": {
    "pipeline": {
      "type": "object",
      "description": "all_reduce: consecutive workers hold the model together, each of them a stage; batch_per_worker is that of a micro-batch, and a step of a pipeline has microbatches of them",
      "required": ["stages", "microbatches"],
      "additionalProperties": false,
      "properties": {
        "stages": { "type": "integer", "minimum": 1, "description": "a divisor of the workers: worker i is stage i mod stages; 1: as without a pipeline, with accumulation_steps for microbatches" },
        "microbatches": { "type": "integer", "minimum": 1, "maximum": 10000 },
        "schedule": { "enum": ["gpipe", "1f1b"], "default": "1f1b", "description": "gpipe: all forward passes, then all backward ones; 1f1b: one of each in turns once the pipeline is full, which keeps fewer activations" } } }
  } })json";
}

}  // namespace

StrategyKeys pipeline_keys() { return {schema_of_pipelines, refusals_of_pipelines}; }

std::optional<Pipeline> read_pipeline(const JsonReader& json, Scenario& scenario, Json& effective) {
  Pipeline pipeline{.stages = json.required<int>("stages")};
  const int workers = scenario.count(Role::kWorker);
  json.expect(pipeline.stages >= 1 && workers % pipeline.stages == 0, "stages",
              "a divisor of the " + std::to_string(workers) + " workers, of which each is a stage");
  int& microbatches = scenario.training.strategy.exchange.accumulation_steps;
  microbatches = json.required<int>("microbatches");
  json.expect(microbatches >= 1 && microbatches <= kMaxPasses, "microbatches", "1 to 10000 micro-batches");
  if (json.has("schedule"))
    pipeline.schedule = read_word<PipelineSchedule>(
        json, "schedule", {{"gpipe", PipelineSchedule::kGpipe}, {"1f1b", PipelineSchedule::kOneForwardOneBackward}});
  else
    effective["schedule"] = "1f1b";
  refuse_unmodelled_keys(json);
  json.reject_unknown_keys();
  return pipeline.stages > 1 ? std::optional{pipeline} : std::nullopt;
}

std::string title_of(const Pipeline& pipeline) {
  return "pipelines of " + std::to_string(pipeline.stages) +
         (pipeline.schedule == PipelineSchedule::kGpipe ? " stages (GPipe)" : " stages (1F1B)");
}

GpuMemory stage_memory(const Pipeline& pipeline, const Scenario& scenario, const Group& group) {
  const Workload& workload = scenario.workload_of(group);
  const PipelineStages stages = cut_into_stages(scenario);
  const RankGrid grid = rank_grid(scenario);
  int first = 0;  // of its workers
  for (const Group* other = scenario.groups.data(); other != &group && other->place != group.place; ++other)
    first += other->workers();
  GpuMemory most;
  for (int i = 0; i < std::min(group.workers(), pipeline.stages); ++i) {
    const int stage = grid.coordinate(first + i, Axis::kPipeline);
    const auto s = static_cast<std::size_t>(stage);
    const int in_flight =
        microbatches_in_flight(pipeline, scenario.training.strategy.exchange.accumulation_steps, stage);
    GpuMemory memory{.context = group.accelerator->memory_reserved,
                     .activations = in_flight * stages.kept[s] + stages.kept_again[s]};
    if (stage == 0) memory.input = workload.input_bytes;
    if (stage + 1 == pipeline.stages) memory.logits = in_flight * workload.logits_bytes;
    add_states(memory, scenario, stages.parameters[s]);
    add_units(memory, scenario, plan_stage_units(scenario, stages, stage).units);
    if (i == 0 || memory.total() > most.total()) most = memory;
  }
  return most;
}

void check_pipeline(const Scenario& scenario, const JsonReader& json) {
  try {
    (void)cut_into_stages(scenario);
  } catch (const std::invalid_argument& error) { json.child("pipeline").fail("stages", error.what()); }
}

std::string passed_text(const Scenario& scenario) {
  Bytes most{};
  for (const Bytes passed : cut_into_stages(scenario).passed) most = std::max(most, passed);
  std::array<char, 200> text{};
  std::snprintf(text.data(), text.size(),
                "stages pass on up to %.4g MB of each of %d micro-batches, and as much of gradients back; in each step "
                "pipelines add up ",
                as_double(most) / 1e6, scenario.training.strategy.exchange.accumulation_steps);
  return text.data();
}

}  // namespace rehearse
