// Workers that share the positions of samples, with split layers, stages, sharding and data-parallel likes outside: what is sent, by
// closed forms; runs with all reductions against exact ones; what is refused.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/compile.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::small_training;

const std::vector<Json>& splits() {
  static const std::vector<Json> all{{{"degree", 4}},
                                     {{"degree", 4}, {"balance", "none"}},
                                     {{"degree", 4}, {"method", "all_gather"}},
                                     {{"degree", 4}, {"method", "all_to_all"}},
                                     {{"degree", 4}, {"method", "all_to_all_and_ring"}, {"all_to_all_degree", 2}}};
  return all;
}

}  // namespace

TEST_CASE("what all send: the exchanges of layers in each pass, and gradients over all that share samples or not") {
  for (const Json& context : splits())
    for (const int passes : {1, 3}) {
      CAPTURE(context.dump());
      const int workers = 8;
      const Json json = small_training(workers, 1, {{"context", context}, {"accumulation_steps", passes}});
      const Scenario scenario = test::resolved(json);
      double bytes = as_double(scenario.workload.parameter_bytes()) * 2 * (workers - 1) / workers;
      const ContextSplit& of = scenario.model.context;
      for (const Operator& op : scenario.workload.graph) {
        if (!op.exchange) continue;
        const double among = op.exchange->among == SplitGroup::kHeads ? of.heads : of.positions;
        bytes += passes * as_double(op.exchange->bytes) *
                 (op.exchange->kind == CollectiveKind::kShift ? 1 : (among - 1) / among);
      }
      const Json summary = test::simulated(json);
      REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
      CHECK(summary["sent_B"].get<double>() == doctest::Approx(workers * bytes).epsilon(2e-4));
      CHECK(samples_per_update(scenario) == workers / 4 * passes * scenario.first_workers().batch);
    }
}

TEST_CASE("a degree of one changes nothing") {
  const Json plain = small_training(2, 2, Json::object());
  CHECK(program_text(test::resolved(small_training(2, 2, {{"context", {{"degree", 1}}}}))) ==
        program_text(test::resolved(plain)));
}

TEST_CASE(
    "where messages take longer than blocks, a ring's steps last as long as its messages: three of keys and values") {
  const int c = 4, layers = 4;
  const auto time = [&](const char* nic) {
    Json json = small_training(c, 1, {{"context", {{"degree", c}}}, {"overlap", "none"}}, layers);
    json["cluster"]["groups"][0]["instance"]["nic"] = nic;
    return test::times_of(json);
  };
  const double gradients =
                   2.0 * (c - 1) / c *
                   as_double(
                       test::resolved(small_training(c, 1, {{"context", {{"degree", c}}}})).workload.parameter_bytes()),
               keys_and_values = 2 * 32.0 / c * (64 / 8 * 4) * 4,  // positions, features of key-value heads, fp32
      bytes = layers * (c - 1) * 3 * keys_and_values + gradients;
  const test::Times fast = time("1GBps"), slow = time("0.25GBps");
  CHECK(slow.exact - fast.exact == doctest::Approx(bytes * (4 - 1) / test::kBeta).epsilon(1e-4));
  CHECK(slow.by_default == test::exactly(slow.exact));
}

TEST_CASE("sharded states are shared by all that share samples or not") {
  Json json = small_training(2, 4, {{"sharding", "parameters"}});
  const auto weights = [&] {
    const Scenario scenario = test::resolved(json);
    return gpu_memory(scenario, scenario.first_workers()).weights;
  };
  const Bytes alone = weights();
  json["training"]["strategy"]["context"] = {{"degree", 4}};
  CHECK(weights() == alone);
  json["training"]["strategy"]["shard_group"] = 4;
  CHECK(weights() > alone);
  json["training"]["strategy"]["shard_group"] = 2;
  CHECK(
      test::problem_of(json) ==
      "/training/strategy/shard_group: expected 2 or more workers that divide the 8 data-parallel ones, in groups of 4 "
      "that share samples, such as 4; found 2");
}

TEST_CASE("runs with reductions are exact: context, tensor, stages, sharding at random") {
  Rng rng{21, "context"};
  const auto one_of = [&]<class Value>(const std::vector<Value>& values) {
    return values[static_cast<std::size_t>(rng.uniform() * static_cast<double>(values.size()))];
  };
  int runs = 0;
  while (runs < 30) {
    const int machines = one_of(std::vector{1, 2, 4}), gpus = one_of(std::vector{2, 4}),
              tensor = one_of(std::vector{1, 1, 2}), stages = one_of(std::vector{1, 1, 2});
    Json context{
        {"degree", one_of(std::vector{2, 4})},
        {"method", one_of(std::vector<std::string>{"ring", "all_gather", "all_to_all", "all_to_all_and_ring"})}};
    if (context["method"] == "all_to_all_and_ring") {
      context["degree"] = 4;
      context["all_to_all_degree"] = 2;
    }
    const int degree = context["degree"];
    if (machines * gpus % (degree * tensor * stages) != 0) continue;
    if (context["method"] == "all_to_all" && 8 / tensor % degree != 0) continue;  // heads
    Json strategy{{"tensor", {{"degree", tensor}, {"sequence_parallel", one_of(std::vector<bool>{false, true})}}},
                  {"context", context},
                  {"rank_order", one_of(std::vector<std::string>{"tensor_data_pipeline", "tensor_pipeline_data"})},
                  {"clip_norm", one_of(std::vector<bool>{false, true})},
                  {"sharding", one_of(std::vector<std::string>{"none", "optimizer", "gradients", "parameters"})}};
    if (stages > 1) strategy["pipeline"] = {{"stages", stages}, {"microbatches", one_of(std::vector{1, 3})}};
    const int likes = machines * gpus / tensor / stages;
    if (strategy["sharding"] != "none" && likes > degree && rng.uniform() < 0.5) strategy["shard_group"] = degree;
    Json scenario = small_training(machines, gpus, strategy, 4);
    scenario["cluster"]["groups"][0]["instance"]["nics"] = one_of(std::vector{1, gpus});
    scenario["cluster"]["network"].update(
        one_of(std::vector<Json>{{{"topology", "star"}},
                                 {{"topology", "fat_tree"}, {"machines_per_leaf", 2}, {"oversubscription", 2}},
                                 {{"topology", "rail"}}}));
    scenario["workload"]["recompute"] = one_of(std::vector<Json>{"none", "full", "every_second_product"});
    scenario["training"]["steps"] = 3;
    CAPTURE(scenario["training"]["strategy"].dump());
    CAPTURE(scenario["cluster"].dump());
    CAPTURE(machines);
    CAPTURE(gpus);
    ++runs;
    const test::Times times = test::times_of(scenario);
    CHECK(times.by_default == doctest::Approx(times.exact).epsilon(1e-6));
  }
}

TEST_CASE("what cannot be split so is refused, with the nearest degree that can be") {
  const auto problem = [](const Json& context, const std::vector<std::pair<std::string, Json>>& changes = {}) {
    return test::problem_with(small_training(4, 4, {{"context", context}}), changes);
  };
  const std::string at = "/training/strategy/context/", degree = at + "degree: expected ";
  CHECK(problem({{"degree", 3}}) ==
        degree + "a degree that divides the 16 workers; found 3, and the nearest that does is 4");
  CHECK(problem({{"degree", 16}, {"method", "all_to_all"}}) ==
        degree + "a degree that divides the 8 attention heads; found 16, and the nearest that does is 8");
  CHECK(problem({{"degree", 8}}, {{"/training/strategy/tensor", {{"degree", 4}}}}) ==
        degree +
            "a degree that divides the 16 workers, in tensor groups of 4; found 8, and the nearest that does is 4");
  CHECK(problem({{"degree", 4}}, {{"/workload/model/structure/sequence_length", 36}}) ==
        degree + "a degree that divides the 36 positions, in two parts each; found 4, and the nearest that does is 2");
  CHECK(problem({{"degree", 0}}).starts_with(degree + "at least 1"));
  CHECK(problem({{"degree", 2}}, {{"/workload/model", "resnet50"}})
            .starts_with(degree + "1 for model \"resnet50\", which is no transformer"));
  CHECK(problem({{"degree", 2}}, {{"/workload/model/structure/fused_attention", false}})
            .find(", whose attention keeps all scores") != std::string::npos);
  CHECK(problem({{"degree", 4}, {"all_to_all_degree", 2}}).starts_with(at + "all_to_all_degree: expected none"));
  CHECK(problem({{"degree", 4}, {"method", "all_to_all_and_ring"}, {"all_to_all_degree", 4}})
            .starts_with(at + "all_to_all_degree: expected 2 or more workers"));
  CHECK(problem({{"degree", 4}, {"method", "all_to_all"}, {"balance", "none"}})
            .starts_with(at + "balance: expected none"));
  CHECK(problem({{"degree", 2}}, {{"/training/strategy/overlap", "forward"}}).find("overlap") != std::string::npos);
  CHECK(problem({{"degree", 2}}, {{"/training/strategy/algorithm", "hierarchical"}}).find("algorithm") !=
        std::string::npos);
}

}  // namespace rehearse
