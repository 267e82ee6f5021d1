// Goals of trainings that are not all-reduces of workers alone: servers, pairs, orders of ranks, intervals of checkpoints.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.hpp"
#include "sim/plan/goal.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse::goal_strategies_test {

namespace {

constexpr const char* kFile = "scenario.json";

/// ResNet-32 on CIFAR-10: four K80, each of them a machine, and one server; asynchronous.
Json with_servers() { return load_json_file(source_folder() + "/scenarios/cm-dare.json"); }

MachineChoice machines(const std::string& instance, int count, const std::string& gpu) {
  return {.instance = instance,
          .count = count,
          .is_spot = false,
          .gpus = count,
          .gpu = gpu,
          .usd_per_hour = 1,
          .region = "us-east-1"};
}

std::vector<std::string> roles(const Json& scenario) {
  std::vector<std::string> all;
  for (const Json& group : scenario["cluster"]["groups"])
    all.push_back(group["role"].get<std::string>() + " " + group["instance"].get<std::string>());
  return all;
}

GoalAnswer answer_of(const GoalCandidate& candidate, const TrainingGoal& goal) {
  ResultStore store = ResultStore::temporary();
  return search_goal({candidate}, goal, test::shipped_catalog(), {.degrees = {.least = 4}, .runs = 40},
                     {.pool = 2, .store = store, .program = "test"});
}

GoalCandidate candidate_of(Json scenario, std::int64_t global_batch, int gpus, double samples) {
  scenario["training"]["target"] = {{"samples", samples}};
  return {.machines = "these",
          .scenario = share(scenario),
          .file_name = kFile,
          .global_batch = global_batch,
          .gpus = gpus,
          .usd_per_hour = 1};
}

/// Asynchronous, so many samples of the four workers together.
GoalPlan asynchronous_plan(std::int64_t global_batch) {
  Json scenario = with_servers();
  scenario["training"].erase("steps");
  scenario["training"]["steps_per_worker"] = 20;
  return answer_of(candidate_of(scenario, global_batch, 4, 1e6), {.samples = 1e6}).plans.front();
}

}  // namespace

TEST_CASE("a strategy that a scenario has is kept with its servers, another one takes its place") {
  const Catalog& catalog = test::shipped_catalog();
  const Json before = with_servers();
  Json same = before;
  set_strategy(same, "asynchronous_servers", catalog, kFile);
  choose_server(same, "", catalog, kFile);
  CHECK(same == before);

  Json alone = before;
  set_strategy(alone, "all_reduce", catalog, kFile);
  CHECK(roles(alone) == std::vector<std::string>{"worker gce-custom-4-k80"});
  CHECK(alone["training"]["strategy"] == Json{{"kind", "all_reduce"}, {"algorithm", "library"}});

  Json back = alone;
  set_strategy(back, "synchronous_servers", catalog, kFile);
  choose_server(back, "", catalog, kFile);
  CHECK(roles(back) == std::vector<std::string>{"worker gce-custom-4-k80", "parameter_server gce-custom-4"});
  CHECK(back["training"]["strategy"]["synchronization"] == "synchronous");
  choose_server(back, "m5.xlarge", catalog, kFile);
  CHECK(roles(back).back() == "parameter_server m5.xlarge");

  // Every word gives a scenario that can be read.
  for (const std::string& word : strategy_words()) {
    CAPTURE(word);
    Json any = before;
    any["training"]["strategy"]["gradient_precision"] = "fp16";
    set_strategy(any, word, catalog, kFile);
    choose_server(any, "", catalog, kFile);
    CHECK_NOTHROW((void)read_scenario(any, kFile, catalog));
  }
  CHECK(test::error_of([&] { set_strategy(back, "ring", catalog, kFile); }) ==
        "--strategy: unknown strategy \"ring\"; known: \"all_reduce\", \"synchronous_servers\", "
        "\"asynchronous_servers\", \"pairwise_averaging\"");
}

TEST_CASE("machines of another provider take the servers along, to its region") {
  const Catalog& catalog = test::shipped_catalog();
  Json scenario = with_servers();
  set_machines(scenario, machines("p2.xlarge", 3, "K80"), catalog, kFile);
  choose_server(scenario, "", catalog, kFile);
  CHECK(roles(scenario) == std::vector<std::string>{"parameter_server m5.xlarge", "worker p2.xlarge"});
  for (const Json& group : scenario["cluster"]["groups"]) CHECK(group["region"] == "us-east-1");
  CHECK_NOTHROW((void)read_scenario(scenario, kFile, catalog));

  Json azure = with_servers();
  set_machines(azure, machines("NC24r", 3, "K80"), catalog, kFile);
  CHECK(test::error_of([&] {
          choose_server(azure, "", catalog, kFile);
        }).starts_with("--server: expected the machine of parameter servers: "));
}

TEST_CASE("servers on the workers' machines stay there, as many on each") {
  Json scenario = with_servers();
  Json& groups = scenario["cluster"]["groups"];
  groups[0] = {{"name", "ps"}, {"role", "parameter_server"}, {"colocated_with", "workers"}, {"count", 4}};
  set_machines(scenario, machines("gce-custom-8-v100", 8, "V100"), test::shipped_catalog(), kFile);
  CHECK(groups[0]["count"] == 8);
  CHECK(server_counts(scenario, 8).empty());
  CHECK_NOTHROW((void)read_scenario(scenario, kFile, test::shipped_catalog()));
}

TEST_CASE("servers in question are powers of two up to half of the workers, and as many as there are") {
  Json scenario = with_servers();
  CHECK(server_counts(scenario, 1) == std::vector<int>{1});
  CHECK(server_counts(scenario, 12) == std::vector<int>{1, 2, 4});
  set_servers(scenario, 3);
  CHECK(server_counts(scenario, 8) == std::vector<int>{1, 2, 3, 4});
  set_strategy(scenario, "all_reduce", test::shipped_catalog(), kFile);
  CHECK(server_counts(scenario, 8).empty());
}

TEST_CASE(
    "a goal is met with asynchronous servers: time by the samples of all workers, batches as large as memory allows") {
  const GoalPlan plan = asynchronous_plan(4 * 128);
  REQUIRE(plan.best() != nullptr);
  CHECK(plan.best()->degrees == Degrees{.microbatch = 128, .algorithm = {}, .accumulated = 1});
  const Json run = test::simulated(plan_scenario(plan, plan.best()->degrees, false));
  CHECK(run["training_time_s"].get<double>() == doctest::Approx(plan.time_s).epsilon(1e-12));
  CHECK(plan.best()->step_s == doctest::Approx(4 * 128 / run["samples_per_s"].get<double>()).epsilon(1e-12));
  CHECK(plan.search->plans.size() == 1);

  // What does not fit is cut into batches whose gradients are added up.
  const GoalPlan large = asynchronous_plan(4 * 32'768);
  REQUIRE(large.best() != nullptr);
  CHECK(large.best()->degrees.accumulated > 1);
  CHECK(large.best()->degrees.accumulated * large.best()->degrees.microbatch == 32'768);
  CHECK(large.search->too_large > 0);
  CHECK(large.search->simulated == 1);
}

TEST_CASE("the interval of checkpoints that does best is the answer's, if it is not Young and Daly's") {
  constexpr int kGpus = 20;
  constexpr double kSamples = 1e6;
  MachineChoice choice = machines("p3.2xlarge", kGpus, "V100");
  choice.is_spot = true;
  Json scenario = scenario_of_model("resnet50", choice, test::shipped_catalog());
  scenario["calibration"] = "kernels";
  scenario["training"]["warmup_steps"] = 0;
  GoalCandidate candidate = candidate_of(scenario, 1280, kGpus, kSamples);
  candidate.spot_pool = "bamboo/p3";
  const GoalAnswer answer = answer_of(candidate, {.samples = kSamples});
  REQUIRE(answer.answer);
  const GoalPlan& plan = answer.plans.front();
  REQUIRE(plan.risk);
  REQUIRE(plan.checkpoint_every);
  const Json best = plan_scenario(plan, plan.best()->degrees, true);
  CHECK(best["training"]["checkpoint"].contains("every"));
  GoalPlan by_rule = plan;
  by_rule.checkpoint_every.reset();
  const Json rule = plan_scenario(by_rule, plan.best()->degrees, true);
  CHECK(rule["training"]["checkpoint"]["interval"] == "young_daly");
  const SimulationMeans means{.pool = 2, .on_done = {}, .limits = {}};
  const auto runs = evaluate_by_monte_carlo(test::shipped_catalog(), kFile, means, 40)({share(best), share(rule)},
                                                                                       {Seconds{1e6}, Seconds{1e6}});
  CHECK(runs[0].time_s.p50 == doctest::Approx(plan.time_s));
  CHECK(runs[0].cost_usd.p50 <= runs[1].cost_usd.p50);
}

}  // namespace rehearse::goal_strategies_test
