#include <nlohmann/json.hpp>

#include "sim/collective/collective.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "sim/scenario/strategy_words.hpp"

namespace rehearse {

namespace {

constexpr int kMaxPasses = 10'000;

ParameterServerStrategy read_parameter_server(const JsonReader& json, const Scenario& scenario, Json& effective) {
  ParameterServerStrategy strategy;
  strategy.synchronization = read_word<Synchronization>(json, "synchronization",
                                                        {{"asynchronous", Synchronization::kAsynchronous},
                                                         {"synchronous", Synchronization::kSynchronous},
                                                         {"stale_synchronous", Synchronization::kStaleSynchronous}});
  if (json.has("placement"))
    strategy.placement = read_word<Placement>(json, "placement",
                                              {{"round_robin", Placement::kRoundRobin},
                                               {"greedy_by_bytes", Placement::kGreedyByBytes},
                                               {"sharded", Placement::kSharded}});
  else
    effective["placement"] = "round_robin";
  if (json.has("variables"))
    strategy.variables = read_word<VariableHome>(json, "variables",
                                                 {{"server_process", VariableHome::kServerProcess},
                                                  {"worker_process", VariableHome::kWorkerProcess},
                                                  {"gpus", VariableHome::kGpus}});
  const int workers = scenario.count(Role::kWorker);
  strategy.backup_workers = json.optional<int>("backup_workers", 0);
  if (json.has("backup_workers"))
    json.expect(strategy.backup_workers >= 0 && strategy.backup_workers < workers, "backup_workers",
                "0 or more, and fewer than the " + std::to_string(workers) + " workers");
  strategy.pushes_back_each_variable = json.optional<bool>("pushes_back_each_variable", false);
  if (json.has("aggregation"))
    strategy.aggregation = read_word<Aggregation>(
        json, "aggregation", {{"none", Aggregation::kNone}, {"host", Aggregation::kHost}, {"gpu", Aggregation::kGpu}});
  switch (strategy.synchronization) {
    case Synchronization::kAsynchronous:
      break;
    case Synchronization::kSynchronous:
      strategy.staleness_bound = 0;
      effective["backup_workers"] = strategy.backup_workers;
      effective["pushes_back_each_variable"] = strategy.pushes_back_each_variable;
      if (!json.has("aggregation")) effective["aggregation"] = "none";
      break;
    case Synchronization::kStaleSynchronous:
      strategy.staleness_bound = json.required<std::int64_t>("staleness_bound");
      json.expect(*strategy.staleness_bound >= 0, "staleness_bound", "0 steps or more");
      break;
  }
  return strategy;
}

void read_sharding(const JsonReader& json, AllReduceStrategy& strategy) {
  if (!json.has("sharding")) return;
  strategy.sharding = read_word<Sharding>(json, "sharding",
                                          {{"none", Sharding::kNone},
                                           {"optimizer", Sharding::kOptimizer},
                                           {"gradients", Sharding::kGradients},
                                           {"parameters", Sharding::kParameters}});
  const bool overlaps = !json.has("overlap") || json.required<std::string>("overlap") != "none";
  if (strategy.sharding == Sharding::kParameters && !overlaps) strategy.prefetched_units = 0;
  strategy.prefetched_units = json.optional<int>("prefetched_units", strategy.prefetched_units);
  if (json.has("prefetched_units"))
    json.expect(strategy.prefetched_units >= 0 && strategy.prefetched_units <= 1000, "prefetched_units", "0 to 1000");
}

/// Its micro-batches are the batches that a step accumulates. Nothing if it has one stage: a worker with the whole model.
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

AllReduceStrategy read_all_reduce(const JsonReader& json, Scenario& scenario, Json& effective) {
  AllReduceStrategy strategy;
  if (const auto kind = json.required<std::string>("kind"); kind != "all_reduce") strategy.registered_as = kind;
  if (json.has("algorithm"))
    strategy.algorithm = read_collective_algorithm(json, "algorithm", true);
  else
    effective["algorithm"] = "ring";
  read_sharding(json, strategy);
  if (json.has("pipeline")) strategy.pipeline = read_pipeline(json.child("pipeline"), scenario, effective["pipeline"]);
  constexpr int kMaxClique = 1024;
  if (strategy.algorithm == CollectiveAlgorithm::kClique && scenario.count(Role::kWorker) > kMaxClique)
    json.fail("algorithm", "expected at most 1024 workers for a clique, which sends between every two of them; found " +
                               std::to_string(scenario.count(Role::kWorker)));
  return strategy;
}

/// Bounds the number of messages of a step and what has to be kept for them.
void check_units(const JsonReader& json, const Scenario& scenario) {
  constexpr double kMostUnits = 200'000, kMostMessages = 1e8, kMostConnections = 1e6;
  const GradientExchange& exchange = scenario.training.strategy.exchange;
  const auto* servers = std::get_if<ParameterServerStrategy>(&scenario.training.strategy.kind);
  double units = static_cast<double>(scenario.workload.variables.size());
  if (exchange.partition_size)
    units += as_double(scenario.workload.variable_bytes()) / as_double(*exchange.partition_size);
  if (servers != nullptr && servers->placement == Placement::kSharded) units *= scenario.count(Role::kParameterServer);
  if (units > kMostUnits)
    json.fail("expected a step of at most 200000 messages of each worker; found about " +
              std::to_string(static_cast<long long>(units)) + ": choose a larger partition_size or another placement");
  const double workers = scenario.count(Role::kWorker);
  if (units * workers > kMostMessages)
    json.fail("expected a step of at most 100000000 messages of all workers; found about " +
              std::to_string(static_cast<long long>(units * workers)) +
              ": choose fewer workers, a larger partition_size or another placement");
  if (servers != nullptr && workers * scenario.count(Role::kParameterServer) > kMostConnections)
    json.fail("expected at most 1000000 connections between workers and parameter servers; found " +
              std::to_string(static_cast<long long>(workers) * scenario.count(Role::kParameterServer)));
}

/// What is sent in one piece, if the scenario does not say it: blocks of what is sharded, as FSDP; and of all-reduces that start
/// during the backward pass PyTorch's buckets. By cycles, priorities, pieces or forward overlap each gradient goes by itself.
void choose_units(Strategy& strategy) {
  const auto* all_reduce = std::get_if<AllReduceStrategy>(&strategy.kind);
  GradientExchange& exchange = strategy.exchange;
  if (all_reduce == nullptr || exchange.cycle_time) return;
  if (all_reduce->sharding != Sharding::kNone) {
    exchange.by_blocks = true;
  } else if (!exchange.partition_size && exchange.order == Order::kFifo && exchange.overlap != Overlap::kForward) {
    exchange.bucket_size = kUsualBucket;
    if (!exchange.first_bucket_size) exchange.first_bucket_size = kUsualFirstBucket;
  }
}

void read_exchange(const JsonReader& json, Scenario& scenario, Json& effective) {
  Strategy& strategy = scenario.training.strategy;
  GradientExchange& exchange = strategy.exchange;
  const bool is_pairwise = std::holds_alternative<PairwiseAveragingStrategy>(strategy.kind);
  if (!json.has("pipeline")) {
    exchange.accumulation_steps = json.optional<int>("accumulation_steps", 1);
    if (json.has("accumulation_steps"))
      json.expect(exchange.accumulation_steps >= 1 && exchange.accumulation_steps <= kMaxPasses, "accumulation_steps",
                  "1 to 10000 batches");
    effective["accumulation_steps"] = exchange.accumulation_steps;
  }
  if (is_pairwise) return;  // whole models are exchanged
  const auto size = [&](const char* key) -> std::optional<Bytes> {
    if (!json.has(key)) return {};
    const auto value = json.required<Bytes>(key);
    json.expect(value >= Bytes{1024}, key, "at least 1KiB");
    return value;
  };
  const bool are_apart = json.has("bucket_size") && json.required<Bytes>("bucket_size") == Bytes{};
  if (!are_apart) exchange.bucket_size = size("bucket_size");
  exchange.first_bucket_size = size("first_bucket_size");
  exchange.partition_size = size("partition_size");
  if (json.has("cycle_time")) {
    exchange.cycle_time = json.required<Seconds>("cycle_time");
    json.expect(*exchange.cycle_time >= Seconds{1e-6}, "cycle_time", "at least 1us");
  }
  if (json.has("order"))
    exchange.order = read_word<Order>(json, "order", {{"fifo", Order::kFifo}, {"priority", Order::kPriority}});
  else
    effective["order"] = "fifo";
  if (json.has("overlap"))
    exchange.overlap = read_word<Overlap>(
        json, "overlap", {{"none", Overlap::kNone}, {"backward", Overlap::kBackward}, {"forward", Overlap::kForward}});
  else
    effective["overlap"] = "backward";
  if (json.has("gradient_precision"))
    exchange.gradient_precision = read_precision(json, "gradient_precision", kStoredPrecisions);
  if (!json.has("bucket_size")) choose_units(strategy);
  check_units(json, scenario);
}

}  // namespace

void read_strategy(const JsonReader& json, Scenario& scenario, Json& effective) {
  Strategy& strategy = scenario.training.strategy;
  enum class Kind { kParameterServer, kAllReduce, kPairwiseAveraging };
  std::vector<std::pair<std::string, Kind>> kinds{{"parameter_server", Kind::kParameterServer},
                                                  {"all_reduce", Kind::kAllReduce},
                                                  {"pairwise_averaging", Kind::kPairwiseAveraging}};
  for (const auto& [word, title] : added_strategies()) kinds.emplace_back(word, Kind::kAllReduce);
  switch (read_word<Kind>(json, "kind", kinds)) {
    case Kind::kParameterServer:
      strategy.kind = read_parameter_server(json, scenario, effective);
      break;
    case Kind::kAllReduce:
      strategy.kind = read_all_reduce(json, scenario, effective);
      break;
    case Kind::kPairwiseAveraging:
      strategy.kind = PairwiseAveragingStrategy{};
      break;
  }
  read_exchange(json, scenario, effective);
  know_keys(json, {"synchronization", "staleness_bound", "backup_workers", "pushes_back_each_variable", "placement",
                   "aggregation", "variables", "algorithm", "sharding", "prefetched_units", "pipeline",
                   "accumulation_steps", "bucket_size", "first_bucket_size", "partition_size", "cycle_time", "order",
                   "overlap", "gradient_precision"});
  refuse_unmodelled_keys(json);
  json.reject_unknown_keys();
}

}  // namespace rehearse
