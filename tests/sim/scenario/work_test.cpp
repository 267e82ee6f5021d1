// The size of a job in samples, however it is stated and whoever does it.

#include "sim/scenario/work.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

constexpr double kCompute = 3e-3, kAlpha = 10e-6, kSize = 1.2e6, kBeta = 1e9;
/// `passes` of 4 samples, or one of 4 `share`: 3 ms each.
double step_of(int ranks, double passes = 1) {
  const double exchange = ranks == 1 ? 0 : 2 * (ranks - 1) * (kAlpha + kSize / ranks / kBeta);
  return kCompute * passes + exchange;
}

/// Four samples of each worker take 3 ms.
Json job(int machines, const Json& strategy) {
  Json scenario = test::timed_scenario(machines, {{"1200000B"}}, strategy);
  scenario["workload"]["batch_per_worker"] = 4;
  scenario["workload"]["model"]["structure"].update({{"batch", 4}, {"scales_with_batch", true}});
  return scenario;
}

/// With the whole cluster there at the start, all but `left` machines leave at `at`.
Json leaving(const Json& strategy, int machines, int left, const std::string& at) {
  Json scenario = job(left, strategy);
  Json group = scenario["cluster"]["groups"][0];
  group.update({{"name", "leaves"}, {"count", machines - left}, {"leaves_at", at}});
  scenario["cluster"]["groups"].push_back(group);
  scenario["training"]["recovery"]["membership_change"] = "at_once";
  return scenario;
}

Json run(const Json& scenario, bool is_exact = false) {
  return test::in_child([&] {
    const Scenario resolved = test::resolved(scenario);
    const RunRecord record = simulate(resolved, {.is_exact = is_exact, .on_update = {}});
    return to_json(resolved, summarize(resolved, record));
  });
}

Json sized(Json scenario, const char* key, const Json& value) {
  scenario["training"].erase("steps");
  scenario["training"][key] = value;
  return scenario;
}

}  // namespace

TEST_CASE("a job that loses half of its machines has the rest of its samples left, in each of three ways") {
  // 4 of 8 workers leave with the end of the step under way at 1 s. 4000 steps of 32 samples.
  const double eight = step_of(8), first = std::ceil(1 / eight), left = 4000 - first;
  const std::vector<std::pair<std::string, double>> ways{{"keeps_batch_per_worker", 2 * left * step_of(4)},
                                                         {"larger_shares", left * step_of(4, 2)},
                                                         {"accumulates", left * step_of(4, 2)}};
  for (const auto& [way, rest] : ways)
    for (const bool is_exact : {false, true}) {
      const std::string& stated = way;
      CAPTURE(stated);
      CAPTURE(is_exact);
      Json scenario = sized(leaving({{"kind", "all_reduce"}, {"overlap", "none"}}, 8, 4, "1s"), "steps", 4000);
      scenario["training"]["smaller_cluster"] = way;
      const Json result = run(scenario, is_exact);
      REQUIRE_MESSAGE(!result.contains("error"), result.dump());
      CHECK(result["time_s"].get<double>() == doctest::Approx(first * eight + rest).epsilon(1e-9));
      CHECK(result["samples"] == 4000 * 32);
      CHECK(result["samples_done"] == 4000 * 32);
      CHECK(result["samples_lost"] == 0);
      CHECK(result["steps"] == first + left * (way == "keeps_batch_per_worker" ? 2 : 1));
    }
}

TEST_CASE("synchronous servers keep the global batch as all-reduce does") {
  const Json strategy{{"kind", "parameter_server"}, {"synchronization", "synchronous"}, {"overlap", "none"}};
  const auto step = [&](int machines, int batch) {
    Json scenario = test::with_servers(sized(job(machines, strategy), "steps", 1), 1);
    scenario["workload"]["batch_per_worker"] = batch;
    return run(scenario)["time_s"].get<double>();
  };
  const double full = step(6, 4), first = std::ceil(1 / full), left = 500 - first;
  const std::vector<std::pair<std::string, double>> ways{{"keeps_batch_per_worker", 2 * left * step(3, 4)},
                                                         {"larger_shares", left * step(3, 8)},
                                                         {"accumulates", left * step(3, 8)}};
  for (const auto& [way, rest] : ways) {
    const std::string& stated = way;
    CAPTURE(stated);
    Json scenario = test::with_servers(sized(leaving(strategy, 6, 3, "1s"), "steps", 500), 1);
    scenario["training"]["smaller_cluster"] = way;
    const Json result = run(scenario);
    REQUIRE_MESSAGE(!result.contains("error"), result.dump());
    CHECK(result["time_s"].get<double>() == doctest::Approx(first * full + rest).epsilon(1e-6));
    CHECK(result["samples_done"] == 500 * 24);
  }
}

TEST_CASE("steps, samples and epochs state the same job") {
  for (const Json& strategy : {Json{{"kind", "all_reduce"}}, Json{{"kind", "pairwise_averaging"}}}) {
    Json scenario = job(3, strategy);
    scenario["workload"]["samples_per_epoch"] = 48;
    const int per_step = strategy["kind"] == "all_reduce" ? 12 : 4;
    const Json by_steps = run(sized(scenario, "steps", 40));
    REQUIRE_MESSAGE(!by_steps.contains("error"), by_steps.dump());
    CHECK(by_steps["samples"] == 40 * per_step);
    CHECK(run(sized(scenario, "samples", 40 * per_step)) == by_steps);
    Json by_epochs = run(sized(scenario, "epochs", 40 * per_step / 48.0));
    CHECK(by_epochs["warnings"].empty());
    by_epochs["warnings"] = by_steps["warnings"];  // that nothing reads the size of the data set
    CHECK(by_epochs == by_steps);
  }
}

TEST_CASE("the last step takes as long as the others and counts what was left") {
  const Json result = run(sized(job(4, {{"kind", "all_reduce"}}), "samples", 10 * 16 + 1));
  CHECK(result["time_s"].get<double>() == doctest::Approx(11 * step_of(4)).epsilon(1e-9));
  CHECK(result["steps"] == 11);
  CHECK(result["samples_done"] == 161);
}

TEST_CASE("asynchronous workers with unequal batches do the job's samples, each its own in a step") {
  Json scenario = test::with_servers(job(1, {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}), 1);
  Json other = scenario["cluster"]["groups"][0];
  other.update({{"name", "large"}, {"batch_per_worker", 12}});
  scenario["cluster"]["groups"].push_back(other);
  const Json result = run(sized(scenario, "steps", 1000));
  REQUIRE_MESSAGE(!result.contains("error"), result.dump());
  CHECK(result["samples"] == 8000);  // a mean of 8
  CHECK(result["samples_done"] == 8000);
  CHECK(result["steps"] > 1000);  // the small one does more of them
}

TEST_CASE("what backup workers compute is dropped") {
  Json scenario = test::with_servers(
      job(4, {{"kind", "parameter_server"}, {"synchronization", "synchronous"}, {"backup_workers", 1}}), 1);
  scenario["training"]["step_time_variation"] = 0.3;
  const Json result = run(sized(scenario, "steps", 200));
  REQUIRE_MESSAGE(!result.contains("error"), result.dump());
  CHECK(result["samples"] == 200 * 12);
  CHECK(result["steps"] == 200);
  CHECK(result["samples_dropped"].get<int>() > 0);
  CHECK(result["samples_dropped"].get<int>() <= 200 * 4);
}

TEST_CASE("a share that does not fit the memory ends the job; a warning says from how many workers on it does") {
  Json scenario = sized(leaving({{"kind", "all_reduce"}}, 8, 1, "1s"), "steps", 4000);
  scenario["workload"].update({{"model", "resnet50"}, {"batch_per_worker", 64}});
  for (Json& group : scenario["cluster"]["groups"]) group["instance"]["accelerator"]["memory"] = "16GiB";
  scenario["training"]["smaller_cluster"] = "larger_shares";
  const Scenario resolved = test::resolved(scenario);
  const std::int64_t fewest = fewest_workers_for_shares(resolved);
  REQUIRE(fewest > 1);
  REQUIRE(fewest <= 8);
  CHECK(std::any_of(resolved.warnings.begin(), resolved.warnings.end(), [&](const std::string& warning) {
    return warning.starts_with("larger shares fit the GPUs' memory with " + std::to_string(fewest) + " workers");
  }));
  const Group& group = resolved.groups[0];
  const int fits = step_shares(resolved, {1, fewest - 1})[0].batch;
  CHECK(fits == static_cast<int>(std::ceil(64 * 8.0 / static_cast<double>(fewest))));
  CHECK_NOTHROW((void)with_batch(resolved, group, fits, fewest));
  const int too_large = step_shares(resolved, {1, fewest - 2})[0].batch;
  CHECK_THROWS_AS((void)with_batch(resolved, group, too_large, fewest - 1), NoResultError);
  const Json result = run(scenario);
  REQUIRE(result.contains("error"));
  CHECK(result["error"].get<std::string>().find(
            "GPU memory exceeded: with 1 workers the share of each of group \"workers\" is 512 samples, which need ") !=
        std::string::npos);
}

TEST_CASE("a size that cannot be is refused") {
  const Json scenario = job(2, {{"kind", "all_reduce"}});
  Json both = sized(scenario, "steps", 10);
  both["training"]["samples"] = 10;
  CHECK(test::problem_of(both) ==
        "/training/samples: expected one of \"steps\", \"steps_per_worker\", \"samples\" and \"epochs\"; found "
        "\"steps\" as well");
  CHECK(test::problem_of(sized(scenario, "epochs", 2)) ==
        "/training/epochs: expected \"samples_per_epoch\" in the workload beside it; found none");
  CHECK(test::problem_of(sized(scenario, "samples", 0)).starts_with("/training/samples: expected 1 to"));
  CHECK(test::problem_of(sized(scenario, "samples", 1'000'000'000)) ==
        "/training/samples: expected at most 10000000 steps of the full cluster; found 125000000 of 8 samples");
  Json large = sized(job(20'000, {{"kind", "all_reduce"}, {"accumulation_steps", 10'000}}), "steps", 10'000'000);
  large["workload"]["batch_per_worker"] = 65536;
  CHECK(test::problem_of(large) == "/training/steps: expected at most 1000000000000000 samples; found 10000000");
}

TEST_CASE("samples are split to the last one") {
  for (const std::int64_t samples : {0, 1, 5, 100, 1'000'003})
    for (const std::vector<std::int64_t>& weights :
         {std::vector<std::int64_t>{1}, {1, 1, 1}, {3, 5, 7, 11}, std::vector<std::int64_t>(1000, 7)}) {
      const std::vector<std::int64_t> parts = split_samples(samples, weights);
      CHECK(std::accumulate(parts.begin(), parts.end(), std::int64_t{}) == samples);
      for (const std::int64_t part : parts) CHECK(part >= 0);
    }
  CHECK(split_samples(36, {4, 8, 24}) == std::vector<std::int64_t>{4, 8, 24});
}

}  // namespace rehearse
