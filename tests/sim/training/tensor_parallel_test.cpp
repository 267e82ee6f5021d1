// A strategy of one's own, tensor_parallel.hpp, does what those of Rehearse do, without an edit elsewhere.

#include "tests/sim/training/tensor_parallel.hpp"

#include <doctest/doctest.h>

#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/step_size.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::exactly;

const bool kHasTensorParallel = [] {
  using test::TensorParallel;
  register_strategy({"tensor_parallel", TensorParallel::read, {{TensorParallel::schema, TensorParallel::refusals}}});
  return true;
}();

/// Four GPUs with PCIe of 1 GB/s; of four layers, of 1 ms forward and 2 ms backward, the two in the middle are cut.
Json four_gpus(const std::vector<std::pair<std::string, Json>>& changes = {}) {
  REQUIRE(kHasTensorParallel);
  Json scenario =
      test::timed_scenario(1, {{"4000000B"}, {"8000000B"}, {"8000000B"}, {"4000000B"}},
                           {{"kind", "tensor_parallel"}, {"degree", 4}, {"columns", "layer1"}, {"rows", "layer2"}}, 4);
  for (Json& layer : scenario["workload"]["model"]["structure"]["layers"]) layer["output"] = "4000000B";
  scenario["cluster"]["groups"][0]["instance"]["interconnect"] = {{"pcie", "1GBps"}};
  for (const auto& [pointer, value] : changes) set_json_pointer(scenario, pointer, value.dump());
  return scenario;
}

std::string problem_with(const std::string& pointer, const Json& value) {
  return test::problem_of(four_gpus({{pointer, value}}));
}

}  // namespace

TEST_CASE("tensor parallelism: products take their part of the time, and wait for one all-reduce each") {
  // A ring of 4 MB takes 6 ms.
  const double step = 1e-3 + 2 * 0.25e-3 + 6e-3 + 1e-3 + 2e-3 + 2 * 0.5e-3 + 6e-3 + 2e-3;
  test::check_time(four_gpus({{"/training/steps", 3}}), 3 * step);
  const double of_a_pass = step;
  test::check_time(four_gpus({{"/training/strategy/accumulation_steps", 2}}), 2 * of_a_pass);
  const std::string program = program_text(test::resolved(four_gpus()));
  CHECK(program.find("outputs of layer2") != std::string::npos);
  CHECK(program.find("gradients of layer1") != std::string::npos);
}

TEST_CASE("tensor parallelism: a GPU has a part of the cut layers' states, updates that, and all share a batch") {
  const Scenario scenario = test::resolved(four_gpus());
  const GpuMemory memory = gpu_memory(scenario, scenario.first_workers());
  CHECK(memory.weights == Bytes{2 * 4'000'000 + 2 * 8'000'000 / 4});
  CHECK(memory.optimizer == memory.weights);
  CHECK(samples_per_update(scenario) == 1);
  Json adds = four_gpus();
  adds["workload"]["model"]["structure"]["optimizer_time"] = "3ms";
  CHECK(plan_step(test::resolved(adds), scenario.first_workers()).update.value() == exactly(3e-3 * 12 / 24));
}

TEST_CASE("tensor parallelism: what it does not go with is refused at its place") {
  CHECK(test::problem_of(four_gpus()).empty());
  for (const char* key : {"bucket_size", "first_bucket_size", "partition_size"})
    CHECK(problem_with(std::string{"/training/strategy/"} + key, "1MiB") ==
          std::string{"/training/strategy/"} + key +
              ": expected none with \"tensor_parallel\": activations are added up, and no gradients");
  CHECK(test::problem_of(four_gpus({{"/cluster/groups/0/count", 2}, {"/training/strategy/degree", 8}})) ==
        "/cluster/groups: expected all workers on one machine, or in one \"nvlink_domain\": nothing hides the sums of "
        "products");
  CHECK(problem_with("/training/strategy/degree", 2) ==
        "/training/strategy/degree: expected the number of workers, at least 2; found 2");
  CHECK(problem_with("/training/strategy/rows", "layer9") ==
        "/training/strategy/rows: expected a layer with variables; found \"layer9\"");
  CHECK(problem_with("/training/strategy/sharding", "optimizer") ==
        "/training/strategy/sharding: expected none of them with this strategy: its own program says what workers keep "
        "and exchange");
  CHECK(problem_with("/training/strategy/placement", "round_robin") ==
        "/training/strategy/placement: expected none without parameter servers: it says what servers do");
  CHECK(problem_with("/training/recovery", {{"minimum_workers", 1}})
            .starts_with("/training/recovery/minimum_workers: expected none with sharding or a pipeline"));
  Json others = test::timed_scenario(2, {{"4B"}}, {{"kind", "all_reduce"}, {"degree", 2}});
  CHECK(test::problem_of(others).starts_with("/training/strategy/degree: expected none of them with this strategy"));
}

TEST_CASE("tensor parallelism: its keys and words are where those of other strategies are") {
  const Json schema = parse_json(scenario_schema(), "schema");
  const Json& keys = schema["properties"]["training"]["properties"]["strategy"]["properties"];
  CHECK(keys["kind"]["enum"].back() == "tensor_parallel");
  CHECK(keys.contains("degree"));
  const Scenario scenario = test::resolved(four_gpus({{"/training/steps", 20}}));
  const StrategyKind& strategy = *scenario.training.strategy.kind;
  CHECK(describe_strategy(scenario.training.strategy) == "tensor parallel over 4 workers");
  CHECK(strategy.explain(scenario) ==
        "in each pass 4 workers add up what layer2 computes, and the gradients of layer1");
  CHECK(step_size(scenario).collectives == 2 * 4);
  const std::vector<StrategyRemedy> remedies = strategy.remedies(scenario, Json::object());
  REQUIRE(remedies.size() == 1);
  CHECK(remedies.front().change == "data parallel instead");
  const Json summary = test::in_child([&] { return to_json(scenario, summarize(scenario, simulate(scenario))); });
  CAPTURE(summary.dump());
  CHECK(summary["bottleneck"].get<std::string>().find("fewer workers that share a product") != std::string::npos);
  CHECK(summary["samples"] == 20);
}

TEST_CASE("a strategy may not take a word or a key of another meaning") {
  REQUIRE(kHasTensorParallel);
  const auto keys = [] { return std::string{R"({ "properties": { "degree": { "type": "string" } } })"}; };
  CHECK_THROWS_WITH(register_strategy({"another", test::TensorParallel::read, {{keys, nullptr}}}),
                    "there is a key \"degree\" of strategies already");
  CHECK_THROWS_WITH(register_strategy({"tensor_parallel", test::TensorParallel::read, {}}),
                    "there is a strategy \"tensor_parallel\" already");
}

}  // namespace rehearse
