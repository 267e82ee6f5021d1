#include "sim/training/strategies/pipeline.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/pipeline_schedule.hpp"
#include "sim/scenario/pipeline_stages.hpp"
#include "sim/scenario/refusals.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "sim/training/strategies/strategies.hpp"

namespace rehearse {

namespace {

constexpr int kMostLayers = 1000;  // and chunks of a stage

bool has_pipeline(const Refusal::Subject& subject) {
  return subject.scenario->training.strategy.kind->pipeline() != nullptr;
}

/// The value of a key of the pipeline; null if it is not stated.
const Json* stated_in_pipeline(const Refusal::Subject& subject, const std::string& key) {
  return json_pointer_find(subject.root.value(), kStrategy + ("/pipeline/" + key));
}
bool is_stated_as(const Refusal::Subject& subject, const std::string& key, const char* word) {
  const Json* value = stated_in_pipeline(subject, key);
  return value != nullptr && *value == word;
}
/// The place of the first of those keys that the pipeline states.
RefusedPlace place_in_pipeline(const Refusal::Subject& subject, std::initializer_list<std::string_view> keys) {
  return stated_key(subject, std::string{kStrategy} + "/pipeline", keys);
}

std::vector<Refusal> refusals_of_pipelines() {
  return {
      {"a pipeline whose stages are parts of machines",
       [](const Refusal::Subject& s) { return has_pipeline(s) ? algorithm_of_machines(s) : RefusedPlace{}; },
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
       [](const Refusal::Subject& s) { return has_pipeline(s) ? batch_of_others(s) : RefusedPlace{}; },
       "the same batch in all groups with a pipeline", "it is that of a micro-batch in each of its stages"},
      {"a pipeline that accumulates twice",
       [](const Refusal::Subject& s) {
         return stated_of_strategy(s, {"pipeline"}) ? stated_of_strategy(s, {"accumulation_steps"}) : RefusedPlace{};
       },
       "none with a pipeline", "its \"microbatches\" are what a step accumulates"},
      {"forward overlap of pipelines",
       [](const Refusal::Subject& s) { return has_pipeline(s) ? forward_overlap(s) : RefusedPlace{}; },
       "\"none\" or \"backward\" with a pipeline", "its stages end a step together"},
      {"chunks of a pipeline that is not interleaved",
       [](const Refusal::Subject& s) {
         const Json* chunks = stated_in_pipeline(s, "chunks");
         const bool is_folded = is_stated_as(s, "schedule", "zbv") || is_stated_as(s, "schedule", "dualpipev");
         return chunks == nullptr || *chunks == 1 || is_stated_as(s, "schedule", "interleaved") || is_folded
                    ? RefusedPlace{}
                    : place_in_pipeline(s, {"chunks"});
       },
       "\"schedule\": \"interleaved\" beside it",
       "with other schedules a stage has one part of the model, or two where it is folded"},
      {"groups of micro-batches of a pipeline that is not interleaved",
       [](const Refusal::Subject& s) {
         return is_stated_as(s, "schedule", "interleaved") ? RefusedPlace{}
                                                           : place_in_pipeline(s, {"microbatch_group"});
       },
       "\"schedule\": \"interleaved\" beside it", "with other schedules a stage has no other chunk to turn to"},
      {"merged passes of a pipeline that is not interleaved",
       [](const Refusal::Subject& s) {
         return is_stated_as(s, "schedule", "interleaved") ? RefusedPlace{} : place_in_pipeline(s, {"merged_passes"});
       },
       "\"schedule\": \"interleaved\" beside it",
       "\"dualpipe\" and \"dualpipev\" merge passes anyway, and with other schedules a backward pass waits for the "
       "forward pass before it"},
      {"an interleaved pipeline without chunks",
       [](const Refusal::Subject& s) {
         return is_stated_as(s, "schedule", "interleaved") && stated_in_pipeline(s, "chunks") == nullptr
                    ? place_in_pipeline(s, {"schedule"})
                    : RefusedPlace{};
       },
       "\"chunks\" beside \"interleaved\", 2 or more", "each stage has so many parts of the model"},
      {"chunks of a model that is on one worker",
       [](const Refusal::Subject& s) {
         const Json* chunks = stated_in_pipeline(s, "chunks");
         return chunks == nullptr || *chunks == 1 || has_pipeline(s) ? RefusedPlace{}
                                                                     : place_in_pipeline(s, {"stages"});
       },
       "2 stages or more with several chunks", "chunks shorten the time in which a stage waits for others"},
      {"sharded parameters where the backward pass is split",
       [](const Refusal::Subject& s) {
         return strategy_place_if(has_pipeline(s) && splits_backward(*s.scenario->training.strategy.kind->pipeline()) &&
                                      collective_rules_of(s).sharding >= Sharding::kGradients,
                                  "sharding");
       },
       "\"none\" or \"optimizer\" with \"zb1p\", \"zb2p\", \"zbv\", \"dualpipe\" and \"dualpipev\"",
       "gradients of weights are put off behind the passes in which parameters are gathered and gradients scattered"},
      {"layers of a pipeline that is cut by time",
       [](const Refusal::Subject& s) {
         return is_stated_as(s, "cut", "layers")
                    ? RefusedPlace{}
                    : place_in_pipeline(s, {"counts_embedding", "counts_loss", "layers_per_stage"});
       },
       "\"cut\": \"layers\" beside it", "the other cuts find by themselves how many layers a stage has"},
  };
}

std::string schema_of_pipelines() {
  return R"json({ "properties": {
    "pipeline": {
      "type": "object",
      "description": "all_reduce: workers hold the model together, each of them a stage; batch_per_worker is that of a micro-batch, and a step of a pipeline has microbatches of them",
      "required": ["stages"],
      "additionalProperties": false,
      "properties": {
        "stages": { "type": "integer", "minimum": 1, "description": "a divisor of the workers: worker i is stage i mod stages; 1: as without a pipeline, with accumulation_steps for microbatches" },
        "microbatches": { "type": "integer", "minimum": 1, "maximum": 10000, "description": "or global_batch in the strategy" },
        "schedule": { "enum": ["gpipe", "1f1b", "interleaved", "zb1p", "zb2p", "zbv", "dualpipev", "dualpipe"], "default": "1f1b", "description": "gpipe: all forward passes, then all backward ones; 1f1b: one of each in turns once the pipeline is full, which keeps fewer activations; interleaved: 1f1b with several chunks of the model on each stage, which wait a chunks-th as long for each other and send as many times more; zb1p: 1f1b whose gradients of weights are put off to when a stage would wait (ZB-H1 of Zero Bubble); zb2p: twice as far, after twice as many forward passes (ZB-H2), which takes post_validation to be shorter; zbv: with two chunks on each stage, of which the second ones go back from the last stage to the first (ZB-V); dualpipev: the same as DeepSeek's DualPipe takes them, whose forward passes run in turns with backward ones, each while the other exchanges; dualpipe: DeepSeek's DualPipe, with the model twice: stage r also has that of stage stages - 1 - r, half of the micro-batches go each way, and stages with the same variables add up their gradients" },
        "chunks": { "type": "integer", "minimum": 1, "default": 1, "description": "interleaved: parts of the model on each stage (virtual pipeline stages of Megatron-LM): part j stages + r is chunk j of stage r; 1: as 1f1b; zbv, dualpipev: 2, part 2 stages - 1 - r is the other one of stage r" },
        "microbatch_group": { "type": "integer", "minimum": 1, "description": "interleaved: micro-batches that go through a chunk before its stage turns to the next one; by default as many as stages, and no fewer" },
        "merged_passes": { "type": "boolean", "default": false, "description": "interleaved: a forward and a backward pass of different micro-batches run in turns, each while what the other exchanges between workers that hold layers together is on its way, such as tokens of experts; one more forward pass goes before the first backward one (overlap_moe_expert_parallel_comm of Megatron-LM)" },
        "post_validation": { "type": "boolean", "default": false, "description": "a stage begins its next step when it has updated its own part, instead of with all others: with clip_norm a stage adds the norm of its gradients to that of the stages before and sends it on, and what all of them have is compared afterwards; an update that has to be made again is not modelled" },
        "messages": { "enum": ["overlapped", "blocking"], "default": "overlapped", "description": "overlapped: a stage computes while what it sends is on its way; blocking: not before it has arrived, as in Megatron-LM without overlap_p2p_comm, which is so unless interleaved" },
        "scatter_gather": { "type": "boolean", "default": false, "description": "with layers that workers hold together, unless by sequence_parallel, which passes on parts anyway: each sends its part of an activation that all of them have, and the receivers gather it, as Megatron-LM since 2021 and DeepSpeed do; false: each sends all of it" },
        "cut": { "enum": ["time", "layers", "balanced_layers", "layers_by_weights"], "default": "time", "description": "time: the longest stage is as short as can be; layers: whole layers, as many on each stage; balanced_layers: whole layers, and the longest stage as short as can be, as DeepSpeed cuts; layers_by_weights: a stage takes layers until it has its share of the weights, as nanotron cuts" },
        "counts_embedding": { "type": "boolean", "default": false, "description": "cut in layers: what comes before the first layer counts as one (account_for_embedding_in_pipeline_split of Megatron-LM)" },
        "counts_loss": { "type": "boolean", "default": false, "description": "cut in layers: what comes after the last layer counts as one (account_for_loss_in_pipeline_split)" },
        "layers_per_stage": { "type": "array", "items": { "type": "integer", "minimum": 0 }, "description": "cut in layers: those of each stage, or of each part where stages have chunks, in the order of the model, with those that are counted besides" } } }
  } })json";
}

}  // namespace

StrategyKeys pipeline_keys() { return {schema_of_pipelines, refusals_of_pipelines}; }

namespace {

/// can_have_microbatches().
void check_microbatches(const JsonReader& json, const JsonReader& strategy, const Pipeline& pipeline,
                        int microbatches) {
  const bool is_dual = is_dual_pipe(pipeline);
  if (!is_dual && pipeline.schedule != PipelineSchedule::kInterleaved) return;
  const int least = (is_dual ? 2 : 1) * pipeline.stages, group = pipeline.group();
  const std::string of_stages =
      std::to_string(least) + (is_dual ? " with half as many stages" : " with as many stages");
  const bool is_by_samples = strategy.has("global_batch");
  const auto expect = [&](bool holds, const std::string& what, int nearest) {
    if (!is_by_samples) return json.expect(holds, "microbatches", what + ", such as " + std::to_string(nearest));
    const std::int64_t each = strategy.required<std::int64_t>("global_batch") / microbatches;
    strategy.expect(holds, "global_batch",
                    "samples of " + what + ", such as " + std::to_string(each * nearest) + " samples of " +
                        std::to_string(nearest) + " micro-batches");
  };
  const std::string schedule = pipeline.copies() > 1 ? "dualpipe" : is_dual ? "dualpipev" : "interleaved";
  expect(microbatches >= least, "at least " + of_stages + " and " + in_quotes(schedule), least);
  expect(microbatches % pipeline.copies() == 0, "an even number with \"dualpipe\", half of them from each end",
         microbatches + 1);
  if (pipeline.microbatch_group > 0)
    json.expect(group >= least && group <= microbatches, "microbatch_group",
                "at least " + of_stages + ", and at most the " + std::to_string(microbatches) + " micro-batches");
  if (can_have_microbatches(pipeline, microbatches)) return;
  const int below = microbatches - microbatches % group, above = below + least;
  const int nearest = microbatches - below <= above - microbatches ? below : above;
  expect(false,
         group == least
             ? "a multiple of " + of_stages + " and \"interleaved\""
             : "micro-batches in groups of " + std::to_string(group) +
                   ", of which the last one may have fewer but not less than " + of_stages + " and \"interleaved\"",
         nearest);
}

std::optional<LayerCut> read_layers(const JsonReader& json, const Pipeline& pipeline, Json& effective) {
  std::optional<LayerRule> rule;
  if (json.has("cut"))
    rule = read_word<std::optional<LayerRule>>(json, "cut",
                                               {{"time", std::nullopt},
                                                {"layers", LayerRule::kCount},
                                                {"balanced_layers", LayerRule::kTime},
                                                {"layers_by_weights", LayerRule::kWeights}});
  else
    effective["cut"] = "time";
  LayerCut cut{.rule = rule.value_or(LayerRule::kCount),
               .counts_embedding = json.optional<bool>("counts_embedding", false),
               .counts_loss = json.optional<bool>("counts_loss", false)};
  if (json.has("layers_per_stage")) {
    cut.per_part = json.required<std::vector<int>>("layers_per_stage");
    const auto count = std::to_string(pipeline.parts());
    const std::string of =
        pipeline.chunks > 1 ? " stages with " + std::to_string(pipeline.chunks) + " chunks" : " stages";
    if (static_cast<int>(cut.per_part.size()) != pipeline.parts())
      json.fail("layers_per_stage", "expected " + count + " numbers of layers for " + std::to_string(pipeline.stages) +
                                        of + "; found " + std::to_string(cut.per_part.size()));
    for (const JsonReader& layers : json.children("layers_per_stage"))
      layers.expect(layers.as<int>() >= 0 && layers.as<int>() <= kMostLayers, "0 or more layers");
  }
  return rule ? std::optional{cut} : std::nullopt;
}

/// Stages that are no divisor of the workers' places are refused with the nearest that are, that the model can be cut into.
void check_stages(const JsonReader& json, const Pipeline& pipeline, const Scenario& scenario) {
  const int split = workers_of_layer(scenario.model), places = scenario.count(Role::kWorker) / split;
  const auto divides = [&](int stages) {
    return places % stages == 0 && (stages == 1 || stages % pipeline.copies() == 0);
  };
  if (pipeline.stages >= 1 && divides(pipeline.stages)) return;
  int layers = 0;  // 0: of any number of stages
  if (json.has("cut") && json.required<std::string>("cut") == "layers" && !json.has("layers_per_stage"))
    layers = layers_to_cut(scenario.workload, {.counts_embedding = json.optional<bool>("counts_embedding", false),
                                               .counts_loss = json.optional<bool>("counts_loss", false)});
  const auto nearest = [&](int chunks) {
    const auto is_valid = [&](int stages) {
      if (!divides(stages)) return false;
      return stages == 1 ? chunks == 1 || pipeline.is_folded() : layers % (stages * chunks) == 0;
    };
    const int stages = nearest_by_ratio(std::max(1, pipeline.stages), 1, places, is_valid);
    return is_valid(stages) ? stages : 0;
  };
  int chunks = pipeline.chunks;
  while (nearest(chunks) == 0) --chunks;  // of one chunk there is always one stage
  json.fail(
      "stages",
      (pipeline.copies() > 1 ? "expected an even divisor of the " : "expected a divisor of the ") +
          std::to_string(places) +
          (split == 1 ? " workers, of which each is a stage"
                      : " groups of " + std::to_string(split) + " workers, of which each is a stage") +
          ", such as " + std::to_string(nearest(chunks)) +
          (chunks == pipeline.chunks ? "" : " with " + std::to_string(chunks) + (chunks == 1 ? " chunk" : " chunks")) +
          "; found " + std::to_string(pipeline.stages));
}

}  // namespace

std::optional<Pipeline> read_pipeline(const JsonReader& json, const JsonReader& strategy, Scenario& scenario,
                                      Json& effective) {
  Pipeline pipeline{.stages = json.required<int>("stages")};
  if (json.has("schedule"))
    pipeline.schedule = read_word<PipelineSchedule>(json, "schedule",
                                                    {{"gpipe", PipelineSchedule::kGpipe},
                                                     {"1f1b", PipelineSchedule::kOneForwardOneBackward},
                                                     {"interleaved", PipelineSchedule::kInterleaved},
                                                     {"zb1p", PipelineSchedule::kZeroBubble},
                                                     {"zb2p", PipelineSchedule::kZeroBubble2},
                                                     {"zbv", PipelineSchedule::kZeroBubbleV},
                                                     {"dualpipev", PipelineSchedule::kDualPipeV},
                                                     {"dualpipe", PipelineSchedule::kDualPipe}});
  else
    effective["schedule"] = "1f1b";
  const bool has_two_parts = pipeline.is_folded() && pipeline.copies() == 1;
  pipeline.chunks = json.optional<int>("chunks", has_two_parts ? 2 : 1);
  if (has_two_parts) json.expect(pipeline.chunks == 2, "chunks", "2 of a folded pipeline");
  json.expect(pipeline.chunks >= 1 && pipeline.chunks <= kMostLayers, "chunks", "1 to 1000 chunks of each stage");
  pipeline.microbatch_group = json.optional<int>("microbatch_group", 0);
  if (json.has("microbatch_group"))
    json.expect(pipeline.microbatch_group >= 1, "microbatch_group", "1 or more micro-batches");
  if (pipeline.schedule == PipelineSchedule::kInterleaved && pipeline.chunks == 1) {
    pipeline.schedule = PipelineSchedule::kOneForwardOneBackward;
    pipeline.microbatch_group = 0;
  }
  pipeline.merges_passes =
      json.optional<bool>("merged_passes", false) && pipeline.schedule == PipelineSchedule::kInterleaved;
  check_stages(json, pipeline, scenario);
  int& microbatches = scenario.training.strategy.exchange.accumulation_steps;
  if (strategy.has("global_batch")) {
    if (json.has("microbatches"))
      json.fail("microbatches", "expected none beside \"global_batch\", which says how many");
    microbatches = passes_of_global_batch(strategy, scenario, workers_of_layer(scenario.model) * pipeline.stages,
                                          [&](int passes) { return can_have_microbatches(pipeline, passes); });
  } else {
    microbatches = json.required<int>("microbatches");
  }
  json.expect(microbatches >= 1 && microbatches <= kMaxPasses, "microbatches", "1 to 10000 micro-batches");
  if (pipeline.stages > 1) check_microbatches(json, strategy, pipeline, microbatches);
  if (json.has("messages"))
    pipeline.messages = read_word<PipelineMessages>(
        json, "messages", {{"overlapped", PipelineMessages::kOverlapped}, {"blocking", PipelineMessages::kBlocking}});
  else
    effective["messages"] = "overlapped";
  pipeline.scatters = json.optional<bool>("scatter_gather", false);
  if (!json.has("scatter_gather")) effective["scatter_gather"] = false;
  pipeline.validates_afterwards = json.optional<bool>("post_validation", false);
  pipeline.layers = read_layers(json, pipeline, effective);
  refuse_unmodelled_keys(json);
  json.reject_unknown_keys();
  return pipeline.stages > 1 ? std::optional{pipeline} : std::nullopt;
}

std::string title_of(const Pipeline& pipeline) {
  std::string schedule = "1F1B";
  if (pipeline.schedule == PipelineSchedule::kGpipe) schedule = "GPipe";
  if (pipeline.schedule == PipelineSchedule::kZeroBubble) schedule = "ZB1P";
  if (pipeline.schedule == PipelineSchedule::kZeroBubble2) schedule = "ZB2P";
  if (pipeline.schedule == PipelineSchedule::kZeroBubbleV) schedule = "ZB-V";
  if (pipeline.schedule == PipelineSchedule::kDualPipeV) schedule = "DualPipeV";
  if (pipeline.schedule == PipelineSchedule::kDualPipe) schedule = "DualPipe";
  if (pipeline.schedule == PipelineSchedule::kInterleaved)
    schedule = "interleaved 1F1B, " + std::to_string(pipeline.chunks) + " chunks" +
               (pipeline.merges_passes ? ", merged passes" : "");
  if (pipeline.messages == PipelineMessages::kBlocking) schedule += ", blocking messages";
  if (pipeline.validates_afterwards) schedule += ", updates validated afterwards";
  return "pipelines of " + std::to_string(pipeline.stages) + " stages (" + schedule + ")";
}

void check_pipeline(const Scenario& scenario, const JsonReader& json) {
  const JsonReader pipeline = json.child("pipeline");
  try {
    const PipelineStages stages = cut_into_stages(scenario);
    if (!scenario.training.strategy.kind->divided_states().weights) return;
    for (std::size_t v = 0; v < stages.of_variable.size(); ++v)
      if (stages.of_variable[v].size() < stages.parts_of_variable[v].size())
        pipeline.fail(
            "chunks",
            "expected 1 with \"sharding\": \"parameters\" for a model of which several chunks of a stage use " +
                in_quotes(scenario.workload.variables[v].name));
  } catch (const UncutModel& error) { pipeline.fail(error.key, error.what()); }
}

std::vector<std::string> warnings_of_pipeline(const Scenario& scenario) {
  constexpr int kMany = 4;
  const Pipeline& pipeline = *scenario.training.strategy.kind->pipeline();
  const std::optional<LayerCut>& layers = pipeline.layers;
  std::vector<std::string> warnings;
  const Accelerator& gpu = *scenario.first_workers().accelerator;
  const bool has_others = std::ranges::any_of(
      scenario.groups, [&](const Group& group) { return group.role == Role::kWorker && *group.accelerator != gpu; });
  if (has_others && (!layers || (layers->rule == LayerRule::kTime && layers->per_part.empty())))
    warnings.push_back("stages are cut for " + gpu.name +
                       ", the GPU of the first group, though others have other GPUs: with \"cut\": \"layers\", "
                       "\"layers_per_stage\" says how many layers each stage has");
  if (layers) return warnings;
  std::vector<Bytes> passed = cut_into_stages(scenario).passed;
  passed.resize(static_cast<std::size_t>(pipeline.parts() - 1));
  const auto [least, most] = std::ranges::minmax_element(passed);
  if (*most > *least * kMany)
    warnings.push_back("the cut by time takes no account of what stages pass on, " + to_text(*least) + " to " +
                       to_text(*most) + " of a micro-batch: \"cut\": \"layers\" cuts between layers alone");
  return warnings;
}

std::string passed_text(const Scenario& scenario) {
  Bytes most{};
  for (const Bytes passed : cut_into_stages(scenario).passed) most = std::max(most, passed);
  const Pipeline& pipeline = *scenario.training.strategy.kind->pipeline();
  std::array<char, 300> text{};
  std::snprintf(text.data(), text.size(),
                "%s pass on up to %.4g MB of each of %d micro-batches, and as much of gradients back%s; in each step "
                "pipelines add up ",
                pipeline.chunks > 1 ? "chunks" : "stages", as_double(most) / 1e6,
                scenario.training.strategy.exchange.accumulation_steps,
                pipeline.copies() > 1 ? "; each part is on two stages, which add up its gradients in the end" : "");
  return text.data();
}

}  // namespace rehearse
