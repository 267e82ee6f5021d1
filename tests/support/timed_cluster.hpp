#pragma once
// Scenarios of measured layers on an ideal cluster, whose times can be worked out by hand.

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/simulated.hpp"

namespace rehearse::test {

constexpr double kAlpha = 10e-6;  // s, from NIC to NIC of a timed scenario
constexpr double kBeta = 1e9;     // B/s of a NIC

inline doctest::Approx exactly(double value) { return doctest::Approx(value).epsilon(1e-9); }

struct TimedTensor {
  std::string gradient;
  std::string forward = "1ms";
  std::string backward = "2ms";
};

/// `machines` machines with `gpus` GPUs and NICs of 1 GB/s, 10 us from NIC to NIC, on one switch; software that costs
/// nothing. Without servers unless added.
/// Each gradient goes by itself unless the strategy says otherwise.
inline Json timed_scenario(int machines, const std::vector<TimedTensor>& tensors, Json strategy, int gpus = 1) {
  if (strategy.value("kind", "") == "all_reduce" && !strategy.contains("bucket_size") &&
      !strategy.contains("cycle_time"))
    strategy["bucket_size"] = "0B";
  Json layers = Json::array();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    layers.push_back({{"name", "layer" + std::to_string(i)},
                      {"gradient", tensors[i].gradient},
                      {"forward", tensors[i].forward},
                      {"backward", tensors[i].backward}});
  const Json gpu{{"peak_fp32", "1Tflops"},     {"peak_fp16", "1Tflops"},  {"memory_bandwidth", "1TBps"},
                 {"memory", "80GiB"},          {"memory_reserved", "0B"}, {"multiprocessors", 10},
                 {"host_link", "1000000TBps"}, {"source", "test"}};
  return {{"format", 1},
          {"workload",
           {{"model",
             {{"format", 1},
              {"source", "test"},
              {"structure", {{"family", "timed_layers"}, {"batch", 1}, {"layers", layers}}}}},
            {"batch_per_worker", 1}}},
          {"cluster",
           {{"groups",
             {{{"name", "workers"},
               {"role", "worker"},
               {"count", machines},
               {"region", "r"},
               {"instance",
                {{"vcpus", 4},
                 {"memory", "1GiB"},
                 {"accelerator", gpu},
                 {"accelerators", gpus},
                 {"nic", "1GBps"},
                 {"source", "test"}}}}}},
            {"network", {{"links", {{{"from", "r"}, {"to", "r"}, {"latency", "10us"}, {"source", "test"}}}}}}}},
          {"training", {{"strategy", strategy}, {"steps", 1}, {"warmup_steps", 0}}},
          {"calibration", "ideal"}};
}

/// Adds `count` parameter servers on machines of their own.
inline Json with_servers(Json scenario, int count) {
  scenario["cluster"]["groups"].push_back(
      {{"name", "ps"},
       {"role", "parameter_server"},
       {"count", count},
       {"region", "r"},
       {"instance", {{"vcpus", 4}, {"memory", "1GiB"}, {"nic", "1GBps"}, {"source", "test"}}}});
  return scenario;
}

/// A small transformer, whose sizes 2 and 4 divide, inline.
inline Json small_transformer(int layers = 4) {
  return {{"format", 1},
          {"source", "test"},
          {"structure",
           {{"family", "transformer"},
            {"layers", layers},
            {"width", 64},
            {"heads", 8},
            {"kv_heads", 4},
            {"feed_forward", 128},
            {"vocabulary", 1000},
            {"sequence_length", 32},
            {"normalisation", "pre"},
            {"fused_attention", true},
            {"dropout", false},
            {"head", "language_model"}}}};
}

/// `machines` with `gpus` each, on which the small transformer is trained with SGD by all-reduces, with more keys of these.
inline Json small_training(int machines, int gpus, const Json& strategy, int layers = 4) {
  Json scenario = timed_scenario(machines, {{"4B"}}, {{"kind", "all_reduce"}}, gpus);
  scenario["workload"]["model"] = small_transformer(layers);
  scenario["training"]["strategy"].update(strategy);
  return scenario;
}

/// problem_of() the scenario with changes: {{"/training/strategy/overlap", "none"}, ..}.
inline std::string problem_with(Json scenario, const std::vector<std::pair<std::string, Json>>& changes) {
  for (const auto& [pointer, value] : changes) set_json_pointer(scenario, pointer, value.dump());
  return problem_of(scenario);
}

/// summary.json of a scenario that has a result.
inline Json summary_with_result(const Json& scenario) {
  Json summary = simulated(scenario);
  REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
  return summary;
}

inline double number_at(const Json& summary, const char* key) { return summary.at(key).get<double>(); }

/// time_s of a run, by default and exact.
struct Times {
  double by_default = 0, exact = 0;
};

inline Times times_of(const Json& scenario) {
  Times times;
  for (const bool is_exact : {false, true}) {
    const Json result = in_child([&] {
      const Scenario resolved_scenario = resolved(scenario);
      const RunRecord record =
          simulate(resolved_scenario, {.keeps_activity = false, .is_exact = is_exact, .on_update = {}});
      return Json{{"time", record.end.value()}};
    });
    if (result.contains("error")) throw std::runtime_error{result["error"].get<std::string>()};
    (is_exact ? times.exact : times.by_default) = result["time"].get<double>();
  }
  return times;
}

inline void check_time(const Json& scenario, double expected) {
  const Times times = times_of(scenario);
  CHECK(times.by_default == exactly(expected));
  CHECK(times.exact == exactly(expected));
}

}  // namespace rehearse::test
