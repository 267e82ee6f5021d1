// Messages and durations that a dry run states.

#include "sim/app/estimate.hpp"

#include <doctest/doctest.h>

#include "sim/app/explain.hpp"
#include "sim/base/errors.hpp"
#include "sim/program/reductions.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using namespace test;

/// Messages of an exact run, in which each of them is recorded; without copies between a host and its own GPUs.
double recorded_messages(const Json& scenario) {
  return test::in_child([&] {
    const RunRecord record = simulate(test::resolved(scenario), {.keeps_activity = true, .is_exact = true});
    int count = 0;
    for (const MessageSpan& message : record.recorder.messages) {
      const bool is_copy = message.from.machine == message.to.machine &&
                           (message.from.gpu == Endpoint::kHost) != (message.to.gpu == Endpoint::kHost);
      count += is_copy ? 0 : 1;
    }
    return Json{{"messages", count}};
  })["messages"];
}

Json of_model(int machines, int gpus, const Json& strategy) {
  Json scenario = timed_scenario(machines, {{"10000B"}, {"300000B"}, {"5000B"}}, strategy, gpus);
  scenario["training"]["steps"] = 6;
  return scenario;
}

}  // namespace

TEST_CASE("the messages of a run are known before it") {
  std::vector<Json> scenarios;
  for (const char* synchronization : {"asynchronous", "synchronous"})
    for (const Json& exchange :
         {Json{{"placement", "sharded"}}, Json{{"bucket_size", "20KiB"}}, Json{{"partition_size", "64KiB"}}}) {
      Json strategy{{"kind", "parameter_server"}, {"synchronization", synchronization}};
      strategy.update(exchange);
      scenarios.push_back(with_servers(of_model(3, 1, strategy), 2));
    }
  for (const char* algorithm :
       {"ring", "binary_tree", "flat_double_binary_tree", "hierarchical", "star", "clique", "binary_tree_star", "tree"})
    for (const auto& [machines, gpus] : {std::pair{1, 4}, {3, 2}, {5, 1}})
      scenarios.push_back(of_model(machines, gpus, {{"kind", "all_reduce"}, {"algorithm", algorithm}}));
  scenarios.push_back(of_model(3, 1, {{"kind", "pairwise_averaging"}}));
  for (const char* aggregation : {"none", "host", "gpu"})
    scenarios.push_back(with_servers(
        of_model(2, 4,
                 {{"kind", "parameter_server"}, {"synchronization", "synchronous"}, {"aggregation", aggregation}}),
        2));
  for (const char* sharding : {"optimizer", "gradients", "parameters"})
    scenarios.push_back(of_model(
        2, 2, {{"kind", "all_reduce"}, {"sharding", sharding}, {"accumulation_steps", 3}, {"bucket_size", "20KiB"}}));
  scenarios.push_back(of_model(2, 3, {{"kind", "all_reduce"}, {"pipeline", {{"stages", 3}, {"microbatches", 4}}}}));
  for (Json& layer : scenarios.back()["workload"]["model"]["structure"]["layers"]) layer["output"] = "4B";
  for (const Json& scenario : scenarios) {
    CAPTURE(scenario["training"]);
    CAPTURE(scenario["cluster"]["groups"][0]["count"]);
    CHECK(expected_run(test::resolved(scenario)).messages == recorded_messages(scenario));
  }
}

TEST_CASE("messages say how far a run is where each is started on its own, and not where some stand for others") {
  /// The largest share of the run's messages that it has told while it ran.
  const auto share_told = [](Json scenario, bool is_exact) {
    scenario["training"]["steps"] = 400;
    return test::in_child([&] {
      const Scenario resolved = test::resolved(scenario);
      std::uint64_t most = 0;
      SimulateOptions options{.is_exact = is_exact};
      options.on_progress = [&](const RunProgress& run) { most = std::max(most, run.messages); };
      (void)simulate(resolved, options);
      return Json{{"share", static_cast<double>(most) / expected_run(resolved).messages},
                  {"start_each", plan_reductions(resolved, is_exact, false).start_each_message()}};
    });
  };
  const Json servers =
                 with_servers(of_model(3, 1, {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}), 2),
             ring = of_model(3, 2, {{"kind", "all_reduce"}, {"algorithm", "ring"}});
  for (const auto& [scenario, is_exact] : {std::pair{servers, true}, {ring, true}}) {
    const Json told = share_told(scenario, is_exact);
    CHECK(told["start_each"].get<bool>());
    CHECK(told["share"].get<double>() > 0.7);
    CHECK(told["share"].get<double>() <= 1);
  }
  const Json told = share_told(ring, false);
  CHECK_FALSE(told["start_each"].get<bool>());
  CHECK(told["share"].get<double>() < 0.1);
}

TEST_CASE("rings over NVLinks count each on its own") {
  Json scenario = of_model(1, 4, {{"kind", "all_reduce"}});
  scenario["cluster"]["groups"][0]["instance"]["interconnect"] = "dgx-1-v100";
  CHECK(expected_run(test::resolved(scenario)).messages == recorded_messages(scenario));
}

TEST_CASE("what is not simulated takes no time: 1024 equal ranks less than a second, unequal ones or exact more") {
  Json scenario = of_model(128, 8, {{"kind", "all_reduce"}});
  scenario["training"]["steps"] = 100'000;
  const Scenario folded = test::resolved(scenario);
  CHECK(expected_run(folded).duration.value() < 1);
  CHECK(describe_dry_run(folded, {}, expected_run(folded), Seconds{})
            .find("since an all-reduce is one event, equal workers run once, equal steps are not repeated") !=
        std::string::npos);
  CHECK(expected_run(folded, {.is_exact = true}).duration.value() > 1e5);
  CHECK(describe_dry_run(folded, {.is_exact = true}, expected_run(folded), Seconds{}).find("since") ==
        std::string::npos);
  CHECK(expected_run(folded, {.keeps_activity = true}).duration.value() > 100);
  scenario["training"]["step_time_variation"] = 0.1;
  CHECK(expected_run(test::resolved(scenario)).duration.value() > 100);
  scenario["training"].erase("step_time_variation");
  scenario["workload"]["model"] = "gpt2";
  scenario["training"]["strategy"]["pipeline"] = {{"stages", 4}, {"microbatches", 8}};
  const Scenario pipelines = test::resolved(scenario);
  CHECK(expected_run(pipelines).duration.value() < 1);
  CHECK(describe_dry_run(pipelines, {}, expected_run(pipelines), Seconds{})
            .find("since equal pipelines run once, equal steps are not repeated") != std::string::npos);
}

TEST_CASE("a message among many workers and servers takes longer than one to a single server") {
  const auto of_servers = [](int machines, int servers) {
    Json scenario = with_servers(
        of_model(machines, 1, {{"kind", "parameter_server"}, {"synchronization", "synchronous"}}), servers);
    scenario["training"]["steps"] = 100'000;
    const Scenario one = test::resolved(scenario);
    return expected_run(one).duration.value() / expected_run(one).messages;
  };
  CHECK(of_servers(32, 32) > 5 * of_servers(32, 1));
}

TEST_CASE("a long run in which leaf switches tell all workers apart is warned of") {
  const auto warning = [](int machines_per_leaf, bool is_exact) {
    Json scenario =
        test::small_training(512, 2, {{"tensor", {{"degree", 2}}}, {"pipeline", {{"stages", 2}, {"microbatches", 2}}}});
    scenario["cluster"]["network"].update(
        {{"topology", "fat_tree"}, {"machines_per_leaf", machines_per_leaf}, {"oversubscription", 2}});
    scenario["training"]["steps"] = 3;
    return warning_of_long_run(test::resolved(scenario), {.is_exact = is_exact});
  };
  CHECK(warning(5, false).find("each of its 1024 workers is simulated") != std::string::npos);
  CHECK(warning(5, false).ends_with("whole leaf switches, here of 5"));
  CHECK(warning(4, false).empty());
  CHECK(warning(512, false).empty());
  CHECK(warning(5, true).empty());  // which is asked for
}

TEST_CASE("what a run has to remember is estimated, and refused if no memory is that large") {
  Json scenario = of_model(128, 8, {{"kind", "all_reduce"}});
  scenario["training"]["steps"] = 10'000'000;
  const Scenario folded = test::resolved(scenario);
  CHECK(expected_memory(folded) < Bytes{1'000'000});
  CHECK_NOTHROW(require_memory(folded));
  scenario["training"]["step_time_variation"] = 0.1;
  const Scenario unequal = test::resolved(scenario);
  CHECK(expected_memory(unequal) > Bytes{1'000'000'000'000});
  CHECK_THROWS_WITH_AS(require_memory(unequal), doctest::Contains("/training/steps: what is recorded of the steps of"),
                       NoResultError);
  CHECK(describe_dry_run(unequal, {}, expected_run(unequal), Seconds{}).find(" GB of memory") != std::string::npos);
}

TEST_CASE("--explain says what adapters between machines leave of a library's protocols") {
  Json scenario = load_json_file(source_folder() + "/scenarios/collective.json");
  scenario["calibration"] = "nccl";
  scenario["cluster"]["groups"][0]["instance"] = "p4de.24xlarge";
  const auto says = [&](const char* words) {
    return explain(test::resolved(scenario)).find(words) != std::string::npos;
  };
  CHECK(!says("between machines:"));  // there is one
  scenario["cluster"]["groups"][0]["count"] = 2;
  CHECK(
      says("between machines: written out of order, so of a library's protocols those without flags in the data; the "
           "library "
           "expects 75us more for a message when it chooses\n"));
  scenario["cluster"]["groups"][0]["instance"] = "p6-b200.48xlarge";
  CHECK(says("between machines: the library expects 35us more for a message when it chooses\n"));
  scenario["cluster"]["groups"][0]["instance"] = "hgx-b200";
  CHECK(!says("between machines:"));
}

TEST_CASE("--explain describes strategy, fabric and interconnect") {
  Json scenario = of_model(4, 4, {{"kind", "all_reduce"}, {"algorithm", "binary_tree"}, {"bucket_size", "20KiB"}});
  scenario["cluster"]["groups"][0]["instance"]["interconnect"] = "dgx-1-v100";
  scenario["cluster"]["network"].update({{"topology", "fat_tree"}, {"machines_per_leaf", 2}});
  const std::string text = explain(test::resolved(scenario));
  for (const char* part :
       {"strategy: binary tree all-reduce over all GPUs; in each step all workers add up 0.315 MB in 2 units, the "
        "largest of 0.305 MB; "
        "one all-reduce is 30 messages; during the backward pass\n",
        "network: fat_tree, leaf switches of machines_per_leaf machines under a spine; oversubscription, uplinks: "
        "machines_per_leaf 2, oversubscription 1.0, uplinks 1\n",
        "  4 GPUs per machine (dgx-1-v100): PCIe 12GBps each, 48GBps for all of them; 16 pairs with NVLinks of 25GBps\n"
        "  source: NVIDIA DGX-1 with Tesla V100"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  scenario = with_servers(of_model(3, 1, {{"kind", "parameter_server"}, {"synchronization", "synchronous"}}), 2);
  CHECK(explain(test::resolved(scenario))
            .find("strategy: synchronous parameter servers; in each step a worker receives 0.315 MB in 3 units, the "
                  "largest of 0.3 MB, and sends 0.315 MB in 3 units, the largest of 0.3 MB, with 2 servers") !=
        std::string::npos);
}

}  // namespace rehearse
