#include <nlohmann/json.hpp>

#include "sim/scenario/scenario_readers.hpp"

namespace rehearse {

namespace {

/// Bounds the number of messages of a step and what has to be kept for them.
void check_units(const JsonReader& json, const Scenario& scenario) {
  constexpr double kMostUnits = 200'000, kMostMessages = 2.5e8, kMostConnections = 1e6;
  const GradientExchange& exchange = scenario.training.strategy.exchange;
  const int servers = scenario.count(Role::kParameterServer);
  double units = static_cast<double>(scenario.workload.variables.size());
  if (exchange.partition_size)
    units += as_double(scenario.workload.variable_bytes()) / as_double(*exchange.partition_size);
  if (scenario.training.strategy.server_rules().placement == Placement::kSharded) units *= servers;
  if (units > kMostUnits)
    json.fail("expected a step of at most 200000 messages of each worker; found about " +
              std::to_string(static_cast<long long>(units)) + ": choose a larger partition_size or another placement");
  const double workers = scenario.count(Role::kWorker);
  if (units * workers > kMostMessages)
    json.fail("expected a step of at most 250000000 messages of all workers; found about " +
              std::to_string(static_cast<long long>(units * workers)) +
              ": choose fewer workers, a larger partition_size or another placement");
  if (workers * servers > kMostConnections)
    json.fail("expected at most 1000000 connections between workers and parameter servers; found " +
              std::to_string(static_cast<long long>(workers) * servers));
}

void read_exchange(const JsonReader& json, Scenario& scenario, Json& effective) {
  Strategy& strategy = scenario.training.strategy;
  GradientExchange& exchange = strategy.exchange;
  constexpr const char* kAccumulation = "accumulation_steps";
  if (strategy.kind->accumulation_key() == kAccumulation) {
    exchange.accumulation_steps = json.optional<int>(kAccumulation, exchange.accumulation_steps);
    if (json.has(kAccumulation))
      json.expect(exchange.accumulation_steps >= 1 && exchange.accumulation_steps <= kMaxPasses, kAccumulation,
                  "1 to 10000 batches");
    if (!json.has("global_batch")) effective[kAccumulation] = exchange.accumulation_steps;
  }
  if (strategy.kind->exchanges_models()) return;  // whole models are exchanged
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
  if (!json.has("bucket_size")) strategy.kind->choose_units(exchange);
  check_units(json, scenario);
}

}  // namespace

void read_strategy(const JsonReader& json, Scenario& scenario, Json& effective) {
  Strategy& strategy = scenario.training.strategy;
  std::vector<std::pair<std::string, const StrategyEntry*>> known;
  for (const StrategyEntry& entry : strategies()) known.emplace_back(entry.word, &entry);
  const StrategyEntry& entry = *read_word<const StrategyEntry*>(json, "kind", known);
  strategy.word = entry.word;
  strategy.kind = entry.read(json, scenario, effective);
  read_exchange(json, scenario, effective);
  std::vector<std::string> modelled;  // by any
  for (const StrategyEntry& any : strategies()) modelled.insert(modelled.end(), any.keys.begin(), any.keys.end());
  for (const std::string& key : modelled) (void)json.has(key);
  know_keys(json, {"accumulation_steps", "bucket_size", "first_bucket_size", "partition_size", "cycle_time", "order",
                   "overlap", "gradient_precision"});
  refuse_unmodelled_keys(json, modelled);
  json.reject_unknown_keys();
}

}  // namespace rehearse
