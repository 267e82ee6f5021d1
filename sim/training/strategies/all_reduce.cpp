// Workers add their gradients up by collectives and go through the steps together; with parts for what each keeps of the model:
// sharding.hpp, pipeline.hpp. The programs of a step: compile_all_reduce.cpp, compile_pipeline.cpp.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/collective/collective.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/offloaded_layers.hpp"
#include "sim/scenario/refusals.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/step_size.hpp"
#include "sim/training/strategies/context.hpp"
#include "sim/training/strategies/experts.hpp"
#include "sim/training/strategies/offload.hpp"
#include "sim/training/strategies/pipeline.hpp"
#include "sim/training/strategies/sharding.hpp"
#include "sim/training/strategies/strategies.hpp"
#include "sim/training/strategies/tensor.hpp"
#include "sim/training/strategy_compiler.hpp"

namespace rehearse {

namespace {

/// What an all-reduce is made of.
struct AllReduceParts {
  CollectiveRules rules;
  TensorSplit split{};
  ContextSplit context{};
  ExpertSplit experts{};
  Offload offload{};
  std::optional<Pipeline> stages{};
  bool has_microbatches = false;  // stated, whatever the number of stages
  std::vector<Axis> rank_order{};
};

class AllReduce final : public StrategyKind {
 public:
  explicit AllReduce(const AllReduceParts& parts) : parts_{parts} {
    parts_.rules.only_reduces = parts.rules.sharding == Sharding::kNone && parts.split.degree == 1 &&
                                parts.context.degree() == 1 && parts.experts.degree == 0;
  }

  std::string title() const override {
    return (parts_.split.degree > 1 ? title_of(parts_.split) + ", " : "") +
           (parts_.context.degree() > 1 ? title_of(parts_.context) + ", " : "") +
           (parts_.experts.degree > 1 ? title_of(parts_.experts) + ", " : "") +
           (parts_.stages ? title_of(*parts_.stages) + ", " : "") +
           (parts_.rules.sharding != Sharding::kNone
                ? "data parallel with " + title_of(parts_.rules.sharding) + shard_group_text(parts_.rules)
                : all_reduce_algorithm(parts_.rules.algorithm).title) +
           (parts_.offload != Offload{} ? ", " + title_of(parts_.offload) : "");
  }

  const CollectiveRules* collectives() const override { return &parts_.rules; }
  std::vector<RankGrid::Degree> model_axes() const override {
    std::vector<RankGrid::Degree> axes;
    for (const RankGrid::Degree& axis : {RankGrid::Degree{Axis::kTensor, parts_.split.degree},
                                         {Axis::kHeads, parts_.context.heads},
                                         {Axis::kPositions, parts_.context.positions}})
      if (axis.count > 1) axes.push_back(axis);
    if (parts_.stages) axes.push_back({Axis::kPipeline, parts_.stages->stages});
    return axes;
  }
  std::vector<Axis> rank_order() const override { return parts_.rank_order; }
  bool divides_model() const override {
    return parts_.rules.sharding != Sharding::kNone || parts_.stages || has_split();
  }
  DividedStates divided_states() const override { return divided_by(parts_.rules); }
  Offload offload() const override { return parts_.offload; }
  const Pipeline* pipeline() const override { return parts_.stages ? &*parts_.stages : nullptr; }

  std::vector<SmallerStrategy> smaller(const Scenario& scenario) const override {
    std::vector<SmallerStrategy> all;
    for (const auto& [word, level] : more_sharding(scenario, parts_.rules)) {
      all.push_back({"\"sharding\": " + in_quotes(word) + " in the strategy", scenario.training.strategy});
      SmallerStrategy& added = all.back();
      AllReduceParts parts = parts_;
      parts.rules.sharding = level;
      if (level == Sharding::kParameters) parts.rules.gather_bucket_size.reset();  // gathered before they are used
      added.strategy.kind = std::make_shared<AllReduce>(parts);
      added.strategy.exchange.bucket_size.reset();
      added.strategy.exchange.by_blocks = true;
    }
    const auto add_offload = [&](const char* key, double Offload::*share) {
      all.push_back({.change = std::string{"\"offload\": { \""} + key + "\": 1 } in the strategy",
                     .strategy = scenario.training.strategy,
                     .is_on_host = true});
      AllReduceParts parts = parts_;
      parts.offload.*share = 1;
      all.back().strategy.kind = std::make_shared<AllReduce>(parts);
    };
    if (can_offload_optimizer(scenario)) add_offload("optimizer", &Offload::optimizer);
    if (can_offload_activations(scenario)) add_offload("activations", &Offload::activations);
    const bool has_group = parts_.rules.shard_group > 0;  // which experts do not go with
    for (const ExpertSplit& split :
         has_group ? std::vector<ExpertSplit>{} : more_experts(scenario, parts_.stages ? parts_.stages->stages : 1)) {
      all.push_back({"\"experts\": { \"degree\": " + std::to_string(split.degree) + " } in the strategy",
                     scenario.training.strategy,
                     {},
                     split});
      AllReduceParts parts = parts_;
      parts.experts = split;
      all.back().strategy.kind = std::make_shared<AllReduce>(parts);
    }
    for (const TensorSplit& split : more_split(scenario)) {
      const char* parts_of_positions = split.has_sequence_parts ? ", \"sequence_parallel\": true" : "";
      all.push_back(
          {"\"tensor\": { \"degree\": " + std::to_string(split.degree) + parts_of_positions + " } in the strategy",
           scenario.training.strategy, split});
      AllReduceParts parts = parts_;
      parts.split = split;
      all.back().strategy.kind = std::make_shared<AllReduce>(parts);
    }
    return all;
  }

  /// Blocks of what is sharded, as FSDP; and of all-reduces that start during the backward pass PyTorch's buckets. By cycles,
  /// priorities, pieces or forward overlap each gradient goes by itself.
  void choose_units(GradientExchange& exchange) const override {
    if (exchange.cycle_time) return;
    if (parts_.rules.sharding != Sharding::kNone) {
      exchange.by_blocks = true;
    } else if (!exchange.partition_size && exchange.order == Order::kFifo && exchange.overlap != Overlap::kForward) {
      exchange.bucket_size = kUsualBucket;
      if (!exchange.first_bucket_size) exchange.first_bucket_size = kUsualFirstBucket;
    }
  }
  std::string accumulation_key() const override {
    return parts_.has_microbatches ? "pipeline/microbatches" : StrategyKind::accumulation_key();
  }

  void check(const Scenario& scenario, const JsonReader& json) const override {
    if (parts_.stages) check_pipeline(scenario, json);
  }

  /// Horovod sends all that is ready in a cycle, in as many buckets as it takes; here a cycle has one.
  std::vector<std::string> warnings(const Scenario& scenario) const override {
    constexpr double kMany = 10;
    std::vector<std::string> all = parts_.stages ? warnings_of_pipeline(scenario) : std::vector<std::string>{};
    const GradientExchange& exchange = scenario.training.strategy.exchange;
    if (!exchange.cycle_time || !exchange.bucket_size || *exchange.bucket_size == Bytes{}) return all;
    const double buckets = as_double(scenario.workload.parameter_bytes()) / as_double(*exchange.bucket_size);
    if (buckets <= kMany) return all;
    all.push_back(
        "gradients fill " + std::to_string(std::llround(std::ceil(buckets))) +
        " buckets, of which one goes at the end of each cycle of " + to_text(*exchange.cycle_time) +
        ": slower than Horovod, which sends all that are ready in a cycle; state a larger \"bucket_size\" or a "
        "shorter \"cycle_time\"");
    return all;
  }

  std::string explain(const Scenario& scenario) const override {
    std::array<char, 100> size{};
    std::snprintf(size.data(), size.size(), "; one all-reduce is %.4g messages", messages_per_all_reduce(scenario));
    return (has_split() ? split_text(scenario) : "") +
           (parts_.stages ? passed_text(scenario) : "in each step all workers add up ") +
           units_text(plan_gradient_units(scenario, 0).units, &GradientUnit::gradient_bytes) + size.data();
  }

  std::map<std::string, std::string> verdict_remedies() const override {
    const bool gathers = parts_.rules.sharding != Sharding::kNone && !parts_.rules.gathers_by_trees;
    return {{"latency", std::string{"fewer and larger buckets, "} +
                            (gathers ? "gatherings of fewer rounds (gather_algorithm)"
                                     : "an all-reduce of fewer rounds (tree, hierarchical)") +
                            ", or overlap"}};
  }

  std::vector<StrategyRemedy> remedies(const Scenario& scenario, const Json& effective) const override;

  std::unique_ptr<StrategyCompiler> compiler(const Site& site) const override {
    return parts_.stages ? pipeline_compiler(site) : all_reduce_compiler(site);
  }

 private:
  // As refusals of "offload" allow.
  bool can_offload_optimizer(const Scenario& scenario) const {
    return parts_.offload.optimizer < 1 && scenario.training.strategy.exchange.overlap != Overlap::kForward &&
           (parts_.rules.sharding != Sharding::kNone || sharing_gpus(scenario) == 1) &&
           optimizer_bytes(scenario.states, optimizer_slots(scenario.optimizer)) > 0;
  }
  bool can_offload_activations(const Scenario& scenario) const {
    return parts_.offload.activations < 1 && !parts_.stages &&
           !offloaded_layers(scenario.workload, 1, {}, scenario.model.split.degree).empty();
  }
  bool has_split() const { return parts_.split.degree * parts_.context.degree() > 1 || parts_.experts.degree > 0; }

  AllReduceParts parts_;
};

std::vector<StrategyRemedy> AllReduce::remedies(const Scenario& scenario, const Json& effective) const {
  const GradientExchange& exchange = scenario.training.strategy.exchange;
  std::vector<StrategyRemedy> all;
  if (exchange.overlap == Overlap::kNone)
    all.push_back({"gradients exchanged during the backward pass", {"/training/strategy/overlap=backward"}});
  const std::string bucket = "/training/strategy/bucket_size=";
  if (!exchange.bucket_size) {
    all.push_back({"gradients in buckets of 25 MiB", {bucket + "25MiB"}});
  } else {
    constexpr Bytes kLargest{std::int64_t{1} << 60};  // four times as much is below 2^63
    all.push_back({"gradients in buckets four times as large",
                   {bucket + to_text(std::min(*exchange.bucket_size, kLargest) * 4)}});
    all.push_back(
        {"gradients in buckets a quarter as large", {bucket + to_text(Bytes{exchange.bucket_size->value() / 4 + 1})}});
  }
  if (parts_.rules.sharding != Sharding::kNone && !parts_.rules.gathers_by_trees && !shares_machines(scenario))
    all.push_back({"gatherings by NCCL's aggregated trees", {"/training/strategy/gather_algorithm=pat"}});
  for (const char* algorithm : {"ring", "tree", "hierarchical", "library"})
    if (find_collective_algorithm(effective["training"]["strategy"].value("algorithm", "ring")) !=
        find_collective_algorithm(algorithm))
      all.push_back(
          {std::string{"all-reduce as "} + algorithm, {std::string{"/training/strategy/algorithm="} + algorithm}});
  return all;
}

std::shared_ptr<const StrategyKind> read_all_reduce(const JsonReader& json, Scenario& scenario, Json& effective) {
  AllReduceParts parts;
  parts.rules.algorithm = read_algorithm(json, scenario, effective);
  read_sharding(json, parts.rules);
  if (json.has("tensor"))
    parts.split = read_tensor(json.child("tensor"), scenario, json.has("experts"), effective["tensor"]);
  if (json.has("context")) parts.context = read_context(json.child("context"), scenario, effective["context"]);
  const int of_layer = workers_of_layer(scenario.model);
  if (json.has("global_batch"))
    scenario.training.strategy.exchange.global_batch = json.required<std::int64_t>("global_batch");
  parts.has_microbatches = json.has("pipeline");
  if (parts.has_microbatches)
    parts.stages = read_pipeline(json.child("pipeline"), json, scenario, effective["pipeline"]);
  else if (json.has("global_batch"))
    scenario.training.strategy.exchange.accumulation_steps = passes_of_global_batch(json, scenario, of_layer);
  if (json.has("experts"))
    parts.experts =
        read_experts(json.child("experts"), scenario, parts.stages ? parts.stages->stages : 1, effective["experts"]);
  parts.rules.has_gradient_norm = json.optional<bool>("clip_norm", false);
  parts.rules.shard_group = read_shard_group(
      json, scenario.count(Role::kWorker) / parts.split.degree / (parts.stages ? parts.stages->stages : 1),
      parts.context.degree());
  if (json.has("offload")) parts.offload = read_offload(json.child("offload"));
  parts.rank_order = read_rank_order(json, of_layer > 1 || parts.experts.degree > 1, effective);
  return std::make_shared<AllReduce>(parts);
}

std::vector<Refusal> refusals_of_algorithms() {
  return {
      {"NVLink SHARP without its switch",
       [](const Refusal::Subject& s) {
         return strategy_place_if(
             collective_rules_of(s).algorithm == CollectiveAlgorithm::kNvls &&
                 (s.scenario->islands().size() > 1 || !s.scenario->first_workers().interconnect.reduces_in_switch),
             "algorithm");
       },
       "all workers on one machine with an NVSwitch that \"reduces_in_switch\" for \"nvls\", or in one such "
       "\"nvlink_domain\"",
       "the switch adds up what its own GPUs send"},
      {"a hierarchy of unequal machines",
       [](const Refusal::Subject& s) {
         const std::vector<int> gpus = s.scenario->islands();
         return strategy_place_if(
             collective_rules_of(s).algorithm == CollectiveAlgorithm::kHierarchical &&
                 std::any_of(gpus.begin(), gpus.end(), [&](int count) { return count != gpus.front(); }),
             "algorithm");
       },
       "the same number of GPUs on every machine, or in every NVLink domain, for \"hierarchical\"",
       "each of its rings between machines has one GPU of every machine"},
  };
}

std::string schema_of_batches() {
  return R"json({ "properties": {
    "clip_norm": { "type": "boolean", "default": false, "description": "all_reduce: the update waits for the norm of all gradients, which workers with different parts of them (stages, parts of layers, of what is sharded) add up, as for clipping" },
    "global_batch": { "type": "integer", "minimum": 1, "description": "all_reduce: samples of a step of all workers, instead of accumulation_steps, or of the microbatches of a pipeline" }
  } })json";
}

std::vector<Refusal> refusals_of_batches() {
  return {{"a norm of gradients that go on into the next step",
           [](const Refusal::Subject& s) {
             return collective_rules_of(s).has_gradient_norm ? forward_overlap(s) : RefusedPlace{};
           },
           "\"none\" or \"backward\" with \"clip_norm\"", "no update begins before all gradients are there"},
          {"a global batch that is stated twice",
           [](const Refusal::Subject& s) {
             return stated_of_strategy(s, {"global_batch"}) ? stated_of_strategy(s, {"accumulation_steps"})
                                                            : RefusedPlace{};
           },
           "none beside \"global_batch\"", "it says how many batches a step has"}};
}

std::string schema_of_algorithms() {
  Json schema = parse_json(R"json({ "properties": {
    "algorithm": { "enum": [], "default": "ring", "description": "all_reduce. tree (double_binary_tree, nccl_tree, chain_tree): NCCL's Tree, double binary trees between machines and chains inside; binary_tree and flat_double_binary_tree: those of textbooks over all GPUs; library: of the profile's protocols that which its tuner takes, rings or trees where one states neither; fastest: of all algorithms here the one that ends first, whether the library has it or not" }
  } })json",
                           "schema of algorithms");
  Json& words = schema["properties"]["algorithm"]["enum"];
  for (const auto* table : {&collective_algorithms(), &collective_algorithm_aliases()})
    for (const auto& [word, algorithm] : *table) words.push_back(word);
  for (const char* word : {"Ring", "Tree", "NVLS"}) words.push_back(word);
  return to_json_text(schema);
}

}  // namespace

RefusedPlace algorithm_of_machines(const Refusal::Subject& subject) {
  const CollectiveAlgorithm algorithm = collective_rules_of(subject).algorithm;
  return strategy_place_if(algorithm == CollectiveAlgorithm::kHierarchical || algorithm == CollectiveAlgorithm::kNvls,
                           "algorithm");
}

RefusedPlace batch_of_others(const Refusal::Subject& subject) {
  return stated_of_group(subject, {"batch_per_worker"}, [&](const Group& group) {
    return group.role == Role::kWorker && group.batch != subject.scenario->first_workers().batch;
  });
}

RefusedPlace forward_overlap(const Refusal::Subject& subject) {
  return strategy_place_if(subject.scenario->training.strategy.exchange.overlap == Overlap::kForward, "overlap");
}

int passes_of_global_batch(const JsonReader& json, const Scenario& scenario, int workers_per_model,
                           const std::function<bool(int passes)>& is_valid) {
  constexpr const char* kKey = "global_batch";
  const auto samples = json.required<std::int64_t>(kKey);
  const std::int64_t once = samples_of_pass(scenario, workers_per_model);
  json.expect(samples >= 1 && samples <= once * kMaxPasses, kKey,
              "1 to 10000 times the " + std::to_string(once) + " samples of one batch of all workers");
  const auto passes = static_cast<int>(samples / once);
  if (samples % once == 0) return passes;
  const auto nearest = [&](int from, int step) {
    int found = from;
    while (found >= 1 && found <= kMaxPasses && !is_valid(found)) found += step;
    return found >= 1 && found <= kMaxPasses ? std::to_string(found * once) : "";
  };
  const std::string below = nearest(passes, -1), above = nearest(passes + 1, 1);
  json.fail(kKey, "expected a multiple of the " + std::to_string(once) +
                      " samples of one batch of all workers, such as " + below +
                      (below.empty() || above.empty() ? "" : " or ") + above + "; found " + std::to_string(samples));
}

const CollectiveRules& collective_rules_of(const Refusal::Subject& subject) {
  return *subject.scenario->training.strategy.kind->collectives();
}

StrategyKeys algorithm_keys() { return {schema_of_algorithms, refusals_of_algorithms}; }

CollectiveAlgorithm read_algorithm(const JsonReader& json, const Scenario& scenario, Json& effective) {
  constexpr int kMaxClique = 1024;
  if (!json.has("algorithm")) {
    effective["algorithm"] = "ring";
    return CollectiveAlgorithm::kRing;
  }
  const CollectiveAlgorithm algorithm = read_collective_algorithm(json, "algorithm", true);
  if (algorithm == CollectiveAlgorithm::kClique && scenario.count(Role::kWorker) > kMaxClique)
    json.fail("algorithm", "expected at most 1024 workers for a clique, which sends between every two of them; found " +
                               std::to_string(scenario.count(Role::kWorker)));
  return algorithm;
}

StrategyEntry all_reduce() {
  return {"all_reduce",
          read_all_reduce,
          {algorithm_keys(),
           sharding_keys(),
           pipeline_keys(),
           tensor_keys(),
           context_keys(),
           expert_keys(),
           offload_keys(),
           {schema_of_batches, refusals_of_batches}}};
}

}  // namespace rehearse
