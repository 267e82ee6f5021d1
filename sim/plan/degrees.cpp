#include "sim/plan/degrees.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "sim/scenario/strategy.hpp"

namespace rehearse {

namespace {

constexpr std::array kShardingWords{"none", "optimizer", "gradients", "parameters"};
constexpr std::string_view kDataFirst = "tensor_data_pipeline", kStagesFirst = "tensor_pipeline_data";
constexpr int kMostBatches = 32;  // in a step, of models that have no layers of tokens
constexpr int kLongSequence = 16'384, kLeastPositions = 4096;

/// What of a model bounds the degrees.
struct ModelLimits {
  const Transformer* net = nullptr;
  bool is_split = false;  // its layers may be held by several workers
  int layers = 0;         // stages at the most
  bool has_experts = false;
};

ModelLimits limits_of(const Scenario& scenario) {
  ModelLimits limits{.net = std::get_if<Transformer>(&scenario.model.structure)};
  if (limits.net == nullptr) return limits;
  using Head = Transformer::Head;
  const Transformer& net = *limits.net;
  limits.layers = net.layers + net.decoder_layers;
  limits.has_experts = net.experts.count > 0 && net.experts.is_grouped;
  limits.is_split = net.vocabulary > 0 &&
                    (net.head == Head::kLanguageModel || net.head == Head::kMaskedLanguageModel) &&
                    (net.experts.count == 0 || limits.has_experts) && net.disentangled_positions == 0;
  return limits;
}

std::vector<int> divisors(int number) {
  std::vector<int> all;
  for (int d = 1; d <= number; ++d)
    if (number % d == 0) all.push_back(d);
  return all;
}

std::vector<int> powers_of_two(int most) {
  std::vector<int> all;
  for (int power = 1; power <= most; power *= 2) all.push_back(power);
  return all;
}

/// The loops of degree_space(), each over one degree of the plan that is being made.
class Enumeration {
 public:
  Enumeration(const Scenario& scenario, std::int64_t global_batch, std::string algorithm, std::string rank_order)
      : limits_{limits_of(scenario)},
        gpus_{scenario.count(Role::kWorker)},
        island_{smallest_island(scenario)},
        algorithm_{std::move(algorithm)},
        rank_order_{std::move(rank_order)},
        space_{.global_batch = global_batch, .plans = {}} {}

  DegreeSpace space() && {
    for (const int tensor : tensor_degrees())
      for (const bool has_parts : {true, false}) {
        if (has_parts && (tensor == 1 || limits_.net->sequence_length % tensor != 0)) continue;
        plan_ = {.tensor = tensor, .has_sequence_parts = has_parts};
        for (const int context : context_degrees()) {
          plan_.context = context;
          stages();
        }
      }
    return std::move(space_);
  }

 private:
  std::vector<int> tensor_degrees() const {
    if (!limits_.is_split) return {1};
    const Transformer& net = *limits_.net;
    std::vector<int> all = divisors(island_);
    std::erase_if(all, [&](int t) {
      return gpus_ % t != 0 || net.heads % t != 0 || net.kv_heads % t != 0 || net.feed_forward % t != 0;
    });
    return all;
  }

  std::vector<int> context_degrees() const {
    if (!limits_.is_split || limits_.net->sequence_length < kLongSequence || !limits_.net->is_causal) return {1};
    std::vector<int> all = powers_of_two(limits_.net->sequence_length / kLeastPositions);
    std::erase_if(all, [&](int c) { return gpus_ % (plan_.tensor * c) != 0; });
    return all;
  }

  void stages() {
    const int rest = gpus_ / (plan_.tensor * plan_.context);
    const int most = std::max(1, limits_.layers);
    for (const int stages : divisors(rest)) {
      if (stages > most) break;
      plan_.stages = stages;
      for (const int experts : expert_degrees()) {
        plan_.experts = experts;
        batches();
      }
    }
  }

  std::vector<int> expert_degrees() const {
    if (!limits_.has_experts) return {0};
    std::vector<int> all = powers_of_two(limits_.net->experts.count);
    std::erase_if(all, [&](int e) { return limits_.net->experts.count % e != 0 || gpus_ / plan_.stages % e != 0; });
    return all;
  }

  void batches() {
    const int likes = gpus_ / (plan_.tensor * plan_.context * plan_.stages);
    constexpr int kMostSamples = 16;
    if (limits_.net != nullptr) {
      for (const int samples : powers_of_two(kMostSamples)) with_batch(samples);
      return;
    }
    for (const int batches : powers_of_two(kMostBatches))
      if (space_.global_batch % (std::int64_t{likes} * batches) == 0)
        with_batch(static_cast<int>(space_.global_batch / likes / batches));
  }

  void with_batch(int samples) {
    plan_.microbatch = samples;
    const std::int64_t count = microbatches(plan_, gpus_, space_.global_batch);
    constexpr std::int64_t kMost = 10'000;
    if (count == 0 || count > kMost) return;
    if (plan_.stages == 1) return schedule("none", 1);
    for (const bool is_first : stages_first()) {
      plan_.has_stages_first = is_first;
      schedules(count);
    }
    plan_.has_stages_first = false;
  }

  /// Which orders of ranks are different plans: on one island all GPUs are as near.
  std::vector<bool> stages_first() const {
    if (!rank_order_.empty()) return {rank_order_ == kStagesFirst};
    const bool is_alike = limits_.has_experts || gpus_ <= island_ || plan_.tensor * plan_.context >= island_ ||
                          plan_.stages * plan_.tensor * plan_.context == gpus_;
    return is_alike ? std::vector{false} : std::vector{false, true};
  }

  void schedules(std::int64_t count) {
    constexpr int kMostChunks = 8;
    const auto has_layers_for = [this](int chunks) { return plan_.stages * chunks <= limits_.layers; };
    const bool exchanges_tokens = plan_.experts > 1;
    schedule("1f1b", 1);
    for (const int chunks : powers_of_two(kMostChunks))
      if (chunks > 1 && has_layers_for(chunks) && count % plan_.stages == 0)
        for (const bool merges : {false, true})
          if (!merges || exchanges_tokens) schedule("interleaved", chunks, merges);
    schedule("zb1p", 1);
    if (has_layers_for(2)) schedule("zbv", 2);
    if (has_layers_for(2) && exchanges_tokens && count >= std::int64_t{2} * plan_.stages)
      schedule("dualpipev", 2, true);
  }

  void schedule(const char* word, int chunks, bool merges_passes = false) {
    plan_.schedule = word;
    plan_.chunks = chunks;
    plan_.merges_passes = merges_passes;
    for (const char* again : {"none", "every_second_product", "full"}) {
      plan_.recompute = again;
      if (limits_.net == nullptr && plan_.recompute != "none") break;
      for (std::size_t level = 0; level < kShardingWords.size(); ++level) {
        if (level > 0 && sharing_workers(plan_, gpus_) == 1) break;
        if (splits_backward(plan_) && level > 1) break;
        plan_.sharding = kShardingWords[level];
        algorithms();
      }
    }
  }

  void algorithms() {
    plan_.algorithm = algorithm_;
    space_.plans.push_back(plan_);
    const bool is_whole = plan_.tensor * plan_.context * plan_.stages == 1 && !limits_.has_experts;
    if (!is_whole || plan_.sharding != "none" || gpus_ == 1 || limits_.is_split) return;
    for (const char* other : {"ring", "tree", "hierarchical"})
      if (other != algorithm_) {
        plan_.algorithm = other;
        space_.plans.push_back(plan_);
      }
  }

  ModelLimits limits_;
  int gpus_, island_;
  std::string algorithm_, rank_order_;
  Degrees plan_;
  DegreeSpace space_;
};

/// Keys of a strategy that mean nothing without sharding.
constexpr std::array kKeysOfSharding{"reduce_scatter", "gather_bucket_size", "prefetched_units", "no_sync",
                                     "shard_group"};

}  // namespace

int smallest_island(const Scenario& scenario) {
  const std::vector<int> islands = scenario.islands();
  return *std::ranges::min_element(islands);
}

DegreeSpace degree_space(const Scenario& scenario, std::int64_t global_batch, const std::string& algorithm,
                         const std::string& rank_order) {
  return Enumeration{scenario, global_batch, algorithm, rank_order}.space();
}

DegreeSpace batch_space(const Scenario& scenario, std::int64_t global_batch) {
  DegreeSpace space{.global_batch = global_batch, .plans = {}};
  const int workers = scenario.count(Role::kWorker);
  for (const int batches : powers_of_two(kMostBatches))
    if (global_batch % (std::int64_t{workers} * batches) == 0)
      space.plans.push_back(
          {.microbatch = static_cast<int>(global_batch / workers / batches), .algorithm = {}, .accumulated = batches});
  return space;
}

bool has_degrees(const Json& scenario) {
  const std::vector<std::string>& keys =
      strategy_entry(scenario["training"]["strategy"].value("kind", Strategy{}.word)).keys;
  return std::ranges::find(keys, "global_batch") != keys.end();
}

std::int64_t microbatches(const Degrees& degrees, int gpus, std::int64_t global_batch) {
  const std::int64_t once =
      std::int64_t{gpus} / (std::int64_t{degrees.tensor} * degrees.context * degrees.stages) * degrees.microbatch;
  return global_batch % once == 0 ? global_batch / once : 0;
}

void clear_degrees(Json& scenario) {
  scenario["workload"].erase("recompute");
  for (Json& group : scenario["cluster"]["groups"]) group.erase("batch_per_worker");
  Json& strategy = scenario["training"]["strategy"];
  for (const char* key :
       {"tensor", "context", "experts", "pipeline", "sharding", "global_batch", "accumulation_steps", "rank_order"})
    strategy.erase(key);
  for (const char* key : kKeysOfSharding) strategy.erase(key);
}

void set_degrees(Json& scenario, const Degrees& degrees, std::int64_t global_batch) {
  const Json before = scenario["training"]["strategy"];
  const auto kept = [&](const char* key) { return before.value(key, Json::object()); };
  clear_degrees(scenario);
  scenario["workload"]["batch_per_worker"] = degrees.microbatch;
  if (degrees.recompute != "none") scenario["workload"]["recompute"] = degrees.recompute;
  Json& strategy = scenario["training"]["strategy"];
  if (degrees.accumulated > 0) {
    if (degrees.accumulated > 1) strategy["accumulation_steps"] = degrees.accumulated;
    return;
  }
  if (!degrees.algorithm.empty()) strategy["algorithm"] = degrees.algorithm;
  strategy["global_batch"] = global_batch;
  if (degrees.tensor > 1) {
    strategy["tensor"] = kept("tensor");
    strategy["tensor"]["degree"] = degrees.tensor;
    strategy["tensor"]["sequence_parallel"] = degrees.has_sequence_parts;
    if (!degrees.has_sequence_parts) strategy["tensor"].erase("asynchronous");
  }
  if (degrees.context > 1) {
    strategy["context"] = kept("context");
    strategy["context"]["degree"] = degrees.context;
  }
  if (degrees.experts > 1 || (degrees.experts == 1 && degrees.tensor > 1)) {
    Json& experts = strategy["experts"] = kept("experts");
    experts["degree"] = degrees.experts;
    experts["tensor_degree"] = degrees.has_sequence_parts ? 1 : degrees.tensor;
  }
  if (degrees.stages > 1) {
    Json& pipeline = strategy["pipeline"] = kept("pipeline");
    for (const char* key :
         {"microbatches", "microbatch_group", "layers_per_stage", "schedule", "chunks", "merged_passes"})
      pipeline.erase(key);
    pipeline["stages"] = degrees.stages;
    pipeline["schedule"] = degrees.schedule;
    if (degrees.schedule == "interleaved") {
      pipeline["chunks"] = degrees.chunks;
      if (degrees.merges_passes) pipeline["merged_passes"] = true;
    }
  }
  if (degrees.stages > 1)
    strategy["rank_order"] = before.value("rank_order", degrees.has_stages_first ? kStagesFirst : kDataFirst);
  if (degrees.sharding == "none") return;
  strategy["sharding"] = degrees.sharding;
  if (degrees.sharding != "optimizer") return;
  for (const char* key : {"reduce_scatter", "gather_bucket_size"})
    if (before.contains(key)) strategy[key] = before[key];
}

std::string to_text(const Degrees& degrees, int gpus) {
  if (degrees.accumulated > 0)
    return "batches of " + std::to_string(degrees.microbatch) + (degrees.microbatch == 1 ? " sample" : " samples") +
           " of each worker" +
           (degrees.accumulated > 1 ? ", " + std::to_string(degrees.accumulated) + " added up in a step" : "");
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (degrees.tensor > 1)
    add("tensor " + std::to_string(degrees.tensor) + (degrees.has_sequence_parts ? " (sequence parallel)" : ""));
  if (degrees.context > 1) add("context " + std::to_string(degrees.context));
  if (degrees.experts > 1) add("experts " + std::to_string(degrees.experts));
  if (degrees.stages > 1)
    add(std::to_string(degrees.stages) + " stages" + (degrees.has_stages_first ? " side by side" : "") +
        (degrees.schedule == "1f1b"          ? ""
         : degrees.schedule == "interleaved" ? " of " + std::to_string(degrees.chunks) + " chunks" +
                                                   (degrees.merges_passes ? " with merged passes" : "")
                                             : " (" + degrees.schedule + ")"));
  const int data = gpus / (degrees.tensor * degrees.context * degrees.stages);
  add("data " + std::to_string(data) +
      (degrees.sharding == "none" ? degrees.algorithm.empty() ? "" : " (" + degrees.algorithm + ")"
                                  : " with sharded " + degrees.sharding));
  add("micro-batches of " + std::to_string(degrees.microbatch));
  if (degrees.recompute == "full")
    add("all recomputed");
  else if (degrees.recompute != "none")
    add("every second product recomputed");
  return text;
}

}  // namespace rehearse
