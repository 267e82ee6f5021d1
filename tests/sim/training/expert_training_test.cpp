// Workers that each have some of the experts of a mixture, with split layers, positions, stages, sharding and data-parallel likes
// outside: what is sent, by closed forms; runs with all reductions against exact ones; what is refused.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/compile.hpp"
#include "tests/support/timed_cluster.hpp"
#include "workloads/expert_loads.hpp"

namespace rehearse {

namespace {

/// `machines` with `gpus` each, on which a small mixture of 8 experts is trained with SGD.
Json with_experts(int machines, int gpus, const Json& strategy, int layers = 4) {
  Json scenario = test::small_training(machines, gpus, strategy, layers);
  scenario["workload"]["model"]["structure"].update(
      {{"experts", 8}, {"experts_per_token", 2}, {"grouped_experts", true}, {"vocabulary", 1024}});
  return scenario;
}

struct Parameters {
  double dense = 0, of_experts = 0;  // bytes
};

Parameters parameters_of(const Scenario& scenario) {
  Parameters sum;
  for (const Variable& variable : scenario.workload.variables)
    (variable.parts_of_experts > 0 ? sum.of_experts : sum.dense) += as_double(variable.bytes);
  return sum;
}

}  // namespace

TEST_CASE(
    "what all send: tokens in each pass, gradients of experts over those that have the same, of the rest over all") {
  for (const int degree : {1, 2, 4, 8})
    for (const int passes : {1, 3}) {
      CAPTURE(degree);
      const int workers = 8, likes = workers / degree;
      const Json json = with_experts(workers, 1, {{"experts", {{"degree", degree}}}, {"accumulation_steps", passes}});
      const Scenario scenario = test::resolved(json);
      const Parameters parameters = parameters_of(scenario);
      double bytes = parameters.dense * 2 * (workers - 1) / workers + parameters.of_experts * 2 * (likes - 1) / likes;
      for (const Operator& op : scenario.workload.graph)
        if (op.exchange) bytes += passes * as_double(op.exchange->bytes) * (degree - 1) / degree;
      const Json summary = test::simulated(json);
      REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
      CHECK(summary["sent_B"].get<double>() == doctest::Approx(workers * bytes).epsilon(2e-4));
      CHECK(samples_per_update(scenario) == workers * passes);
    }
}

TEST_CASE("states of experts are shared by those that have the same") {
  Json json = with_experts(2, 4, {{"sharding", "parameters"}, {"experts", {{"degree", 4}}}});
  const auto weights = [&] {
    const Scenario scenario = test::resolved(json);
    return as_double(gpu_memory(scenario, scenario.first_workers()).weights);
  };
  const Parameters parameters = parameters_of(test::resolved(json));
  CHECK(weights() == doctest::Approx(parameters.dense / 8 + parameters.of_experts / 2).epsilon(1e-4));
  json["training"]["strategy"]["sharding"] = "none";
  CHECK(weights() == doctest::Approx(parameters.dense + parameters.of_experts).epsilon(1e-12));
  const Scenario whole = test::resolved(with_experts(2, 4, {{"experts", {{"degree", 1}}}}));
  CHECK(parameters_of(whole).dense == parameters.dense + 4 * parameters.of_experts);
  CHECK(checkpoint_bytes(test::resolved(json)) == checkpoint_bytes(whole));
}

TEST_CASE("a model that does not fit is told over how many workers its experts would") {
  Json json = with_experts(2, 4, Json::object());
  Json& structure = json["workload"]["model"]["structure"];
  structure["feed_forward"] = 4096;
  structure["width"] = 1024;
  const auto needed = [&](const Json& experts) {
    json["training"]["strategy"]["experts"] = experts;
    const Scenario scenario = test::resolved(json);
    return gpu_memory_needed(scenario, scenario.first_workers());
  };
  const Bytes four = needed({{"degree", 4}}), two = needed({{"degree", 2}});
  REQUIRE(two > four);
  json["cluster"]["groups"][0]["instance"]["accelerator"]["memory"] =
      std::to_string((four.value() + two.value()) / 2) + "B";
  json["training"]["strategy"].erase("experts");
  const Json result = test::simulated(json);
  REQUIRE(result.contains("error"));
  CHECK(result["error"].get<std::string>().find("\"experts\": { \"degree\": 4 } in the strategy") != std::string::npos);
}

TEST_CASE("workers of a stage have other experts each, then come those that have the same") {
  const Scenario scenario = test::resolved(with_experts(4, 4,
                                                        {{"tensor", {{"degree", 2}, {"sequence_parallel", true}}},
                                                         {"experts", {{"degree", 4}}},
                                                         {"pipeline", {{"stages", 2}, {"microbatches", 2}}}}));
  const RankGrid grid = expert_grid(scenario);
  CHECK(grid.along(Axis::kExperts, 0) == std::vector{0, 1, 2, 3});  // of both workers that hold other layers together
  CHECK(grid.along(Axis::kData, 1) == std::vector{1, 5});
  CHECK(grid.coordinate(8, Axis::kPipeline) == 1);
  const RankGrid held = expert_grid(test::resolved(with_experts(4, 4,
                                                                {{"tensor", {{"degree", 2}}},
                                                                 {"experts", {{"degree", 2}, {"tensor_degree", 2}}},
                                                                 {"rank_order", "tensor_pipeline_data"},
                                                                 {"pipeline", {{"stages", 2}, {"microbatches", 2}}}})));
  CHECK(held.along(Axis::kTensor, 0) == std::vector{0, 1});
  CHECK(held.along(Axis::kExperts, 0) == std::vector{0, 4});
}

TEST_CASE("a step with a fuller worker takes longer, and with one expert in all as long as without any split") {
  const auto time = [](const Json& experts) {
    return test::times_of(with_experts(8, 1, {{"experts", experts}})).exact;
  };
  CHECK(time({{"degree", 4}, {"imbalance", 2}}) > time({{"degree", 4}}));
  CHECK(time({{"degree", 4}, {"capacity_factor", 1.5}, {"pad_to_capacity", true}}) > time({{"degree", 4}}));
  CHECK(test::times_of(with_experts(8, 1, Json::object())).exact == test::exactly(time({{"degree", 1}})));
}

TEST_CASE("workers with other loads send and compute what is theirs, and all wait for the fullest") {
  constexpr int kWorkers = 8;
  const auto json = [](const Json& experts, int layers) {
    return with_experts(kWorkers, 1, {{"experts", experts}}, layers);
  };
  const Json zipf{{"degree", kWorkers}, {"zipf", 1}}, even{{"degree", kWorkers}};
  // All workers together send as much as with even loads, but for tokens that are no whole number.
  const auto sent = [&](const Json& experts) { return test::number_at(test::simulated(json(experts, 4)), "sent_B"); };
  CHECK(sent(zipf) == doctest::Approx(sent(even)).epsilon(3e-3));
  CHECK(sent({{"degree", kWorkers}, {"imbalance", 2}}) > 1.02 * sent(even));
  // A layer takes as long as where all are the fullest.
  const double fullest = std::ranges::max(ExpertLoads{{.degree = kWorkers, .zipf = 1}, {8, 2, 0}}.of_gpus);
  const test::Times own = test::times_of(json(zipf, 1)),
                    as_fullest = test::times_of(json({{"degree", kWorkers}, {"imbalance", fullest}}, 1));
  CHECK(own.exact == doctest::Approx(as_fullest.exact).epsilon(1e-9));
  CHECK(own.by_default == doctest::Approx(own.exact).epsilon(1e-9));
  CHECK(own.exact > test::times_of(json(even, 1)).exact);
  const double places = test::times_of(json({{"degree", kWorkers}, {"zipf", 1}, {"capacity_factor", 1}}, 1)).exact;
  CHECK(places < own.exact);
}

TEST_CASE("memory is that of the worker with the most tokens in all layers of a stage") {
  const auto activations = [](const Json& experts, const Json& pipeline) {
    Json strategy{{"experts", experts}};
    if (!pipeline.is_null()) strategy["pipeline"] = pipeline;
    const Scenario scenario = test::resolved(with_experts(8, 1, strategy));
    return gpu_memory(scenario, scenario.first_workers());
  };
  for (const Json& pipeline : {Json{}, Json{{"stages", 2}, {"microbatches", 2}, {"cut", "layers"}}}) {
    const int layers = pipeline.is_null() ? 4 : 2;
    const ExpertSplit split{.degree = 4, .zipf = 1};
    const auto most_of = [&](int first) {
      std::vector<double> rows(4);
      for (int layer = first; layer < first + layers; ++layer)
        for (std::size_t gpu = 0; gpu < 4; ++gpu) rows[gpu] += ExpertLoads{split, {8, 2, layer}}.of_gpus[gpu];
      return std::ranges::max(rows) / layers;
    };
    const double even = as_double(activations({{"degree", 4}}, pipeline).activations),
                 twice = as_double(activations({{"degree", 4}, {"imbalance", 2}}, pipeline).activations),
                 own = as_double(activations({{"degree", 4}, {"zipf", 1}}, pipeline).activations);
    CHECK(own == doctest::Approx(even + (twice - even) * (most_of(0) - 1)).epsilon(6e-3));  // whole tokens
  }
}

TEST_CASE("runs with reductions are exact: experts, tensor, positions, stages, sharding at random") {
  Rng rng{22, "experts"}, others{22, "dispatch"}, loads{22, "loads"};
  const auto one_of = [&]<class Value>(const std::vector<Value>& values) {
    return values[static_cast<std::size_t>(rng.uniform() * static_cast<double>(values.size()))];
  };
  int runs = 0;
  while (runs < 30) {
    const int machines = one_of(std::vector{1, 2, 4}), gpus = one_of(std::vector{2, 4}),
              tensor = one_of(std::vector{1, 1, 2}), stages = one_of(std::vector{1, 1, 2}),
              context = one_of(std::vector{1, 1, 2}), degree = one_of(std::vector{1, 2, 4, 8});
    const int held = one_of(std::vector{1, tensor});
    const int of_stage = machines * gpus / stages;
    if (of_stage % (context * tensor) != 0 || of_stage % (degree * held) != 0) continue;
    Json strategy{{"tensor", {{"degree", tensor}, {"sequence_parallel", true}}},
                  {"experts", {{"degree", degree}, {"tensor_degree", held}}},
                  {"clip_norm", one_of(std::vector<bool>{false, true})},
                  {"sharding", one_of(std::vector<std::string>{"none", "optimizer", "gradients", "parameters"})}};
    if (context > 1)
      strategy["context"] = {{"degree", context}, {"method", one_of(std::vector<std::string>{"ring", "all_to_all"})}};
    if (degree > 1 && rng.uniform() < 0.3) strategy["experts"]["imbalance"] = 1.4;
    if (degree > 1 && !strategy["experts"].contains("imbalance") && loads.below(2) == 0)
      strategy["experts"]["zipf"] = 0.8;
    const bool has_whole_machines = (degree * held % gpus == 0 || gpus % (degree * held) == 0) && gpus % held == 0;
    if (degree > 1 && has_whole_machines && others.below(2) == 0) strategy["experts"]["dispatch"] = "once_per_machine";
    if (stages > 1) strategy["pipeline"] = {{"stages", stages}, {"microbatches", one_of(std::vector{1, 3})}};
    if (stages > 1) strategy["rank_order"] = "tensor_data_pipeline";
    if (stages > 1) {
      const bool can_split = strategy["sharding"] == "none" || strategy["sharding"] == "optimizer";
      const Json schedules[] = {Json::object(),
                                {{"schedule", "interleaved"}, {"chunks", 2}, {"merged_passes", true}},
                                {{"schedule", "zbv"}},
                                {{"schedule", "dualpipev"}},
                                {{"schedule", "dualpipe"}}};
      strategy["pipeline"].update(schedules[others.below(can_split ? 5 : 2)]);
      if (strategy["pipeline"].contains("schedule")) strategy["pipeline"]["microbatches"] = 4;
    }
    Json scenario = with_experts(machines, gpus, strategy, 4);
    scenario["cluster"]["groups"][0]["instance"]["nics"] = one_of(std::vector{1, gpus});
    scenario["cluster"]["network"].update(
        one_of(std::vector<Json>{{{"topology", "star"}},
                                 {{"topology", "fat_tree"}, {"machines_per_leaf", 2}, {"oversubscription", 2}},
                                 {{"topology", "rail"}}}));
    scenario["workload"]["recompute"] = one_of(std::vector<Json>{"none", "full"});
    scenario["training"]["steps"] = 3;
    CAPTURE(scenario["training"]["strategy"].dump());
    CAPTURE(scenario["cluster"].dump());
    ++runs;
    const test::Times times = test::times_of(scenario);
    CHECK(times.by_default == doctest::Approx(times.exact).epsilon(1e-6));
  }
}

TEST_CASE("where passes are merged tokens are sent behind another micro-batch, as many as without") {
  const auto json = [](const Json& pipeline) {
    Json scenario = with_experts(
        4, 1, {{"experts", {{"degree", 2}}}, {"rank_order", "tensor_data_pipeline"}, {"pipeline", pipeline}}, 4);
    scenario["cluster"]["groups"][0]["instance"]["nic"] = "10Gbps";
    return scenario;
  };
  Json interleaved{{"stages", 2}, {"microbatches", 8}, {"schedule", "interleaved"}, {"chunks", 2}};
  Json merged = interleaved;
  merged["merged_passes"] = true;
  const test::Times plain = test::times_of(json(interleaved)), in_turns = test::times_of(json(merged));
  CHECK(in_turns.by_default == doctest::Approx(in_turns.exact).epsilon(1e-6));
  CHECK(in_turns.exact < 0.95 * plain.exact);
  const double sent = test::simulated(json(interleaved))["sent_B"].get<double>();
  CHECK(test::simulated(json(merged))["sent_B"].get<double>() == doctest::Approx(sent).epsilon(1e-9));
  // Where nothing is exchanged within layers, the one more forward pass is all that differs.
  const auto alone = [&](Json pipeline) {
    return test::times_of(test::small_training(2, 1, {{"pipeline", std::move(pipeline)}}, 4)).exact;
  };
  CHECK(alone(merged) == doctest::Approx(alone(interleaved)).epsilon(0.05));
}

TEST_CASE("experts that cannot be spread so are refused, with the nearest degree that can be") {
  const auto problem = [](const Json& experts, const std::vector<std::pair<std::string, Json>>& changes = {}) {
    return test::problem_with(with_experts(4, 4, {{"experts", experts}}), changes);
  };
  const std::string at = "/training/strategy/experts/", degree = at + "degree: expected ";
  CHECK(problem({{"degree", 3}}) ==
        degree + "a degree that divides the 8 experts; found 3, and the nearest that does is 4");
  CHECK(problem({{"degree", 8}}, {{"/cluster/groups/0/count", 3}}) ==
        degree + "a degree that divides the 12 workers of a stage; found 8, and the nearest that does is 4");
  CHECK(problem({{"degree", 0}}).starts_with(degree + "at least 1"));
  CHECK(problem({{"degree", 2}}, {{"/workload/model", test::small_transformer()}})
            .starts_with(degree + "a mixture of experts; model"));
  CHECK(problem({{"degree", 2}}, {{"/workload/model/structure/grouped_experts", false}})
            .starts_with(degree + "a model with \"grouped_experts\": true"));
  CHECK(problem({{"degree", 2}, {"machines_per_token", 2}}).starts_with(at + "machines_per_token: expected none but"));
  CHECK(problem({{"degree", 8}, {"dispatch", "once_per_machine"}},
                {{"/cluster/groups/0/instance/accelerators", 3}, {"/cluster/groups/0/count", 8}})
            .starts_with(at + "dispatch: expected \"all_to_all\": experts over 8 workers"));
  CHECK(problem({{"degree", 2}, {"imbalance", 0.5}}).starts_with(at + "imbalance: expected 1 to 1024"));
  CHECK(problem({{"degree", 1}, {"imbalance", 2}}).starts_with(at + "imbalance: expected 1 with a degree of 1"));
  CHECK(problem({{"degree", 2}, {"pad_to_capacity", true}}).starts_with(at + "pad_to_capacity: expected"));
  CHECK(problem({{"degree", 2}, {"capacity_factor", 0}}).starts_with(at + "capacity_factor: expected above 0"));
  CHECK(problem({{"degree", 2}, {"zipf", 5}}).starts_with(at + "zipf: expected 0 to 4"));
  CHECK(problem({{"degree", 1}, {"zipf", 1}}).starts_with(at + "zipf: expected 0 with a degree of 1"));
  CHECK(
      problem({{"degree", 2}, {"zipf", 1}, {"imbalance", 2}}).starts_with(at + "zipf: expected 0 with \"imbalance\""));
  CHECK(problem({{"degree", 2}, {"zipf", 1}, {"capacity_factor", 1}, {"pad_to_capacity", true}})
            .starts_with(at + "zipf: expected 0 with \"pad_to_capacity\""));
  const std::pair<std::string, Json> tensor{"/training/strategy/tensor", {{"degree", 2}}};
  CHECK(problem({{"degree", 2}}, {tensor}).starts_with(at + "tensor_degree: expected 2, or"));
  CHECK(problem({{"degree", 2}, {"tensor_degree", 4}}, {tensor})
            .starts_with(at + "tensor_degree: expected 1 or the degree of \"tensor\", 2"));
  Json without = with_experts(4, 4, {{"tensor", {{"degree", 2}}}});
  CHECK(test::problem_of(without).find("\"experts\": { \"degree\": 1 } beside \"tensor\"") != std::string::npos);
  CHECK(problem({{"degree", 2}}, {{"/training/strategy/sharding", "parameters"}, {"/training/strategy/shard_group", 8}})
            .starts_with("/training/strategy/shard_group: expected none with \"experts\""));
  CHECK(problem({{"degree", 2}}, {{"/training/strategy/algorithm", "hierarchical"}})
            .starts_with("/training/strategy/algorithm"));
  CHECK(problem({{"degree", 2}}, {{"/training/strategy/context", {{"degree", 2}}},
                                  {"/training/strategy/pipeline", {{"stages", 2}, {"microbatches", 2}}},
                                  {"/training/strategy/rank_order", "tensor_pipeline_data"}})
            .starts_with("/training/strategy/rank_order: expected \"tensor_data_pipeline\""));
}

}  // namespace rehearse
