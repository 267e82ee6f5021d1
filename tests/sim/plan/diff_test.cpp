// Differences between runs: places, results, and effects that add up.

#include "sim/plan/diff.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "tests/support/simulated.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

ComparedRun run_of(const Changes& changes) {
  Changes all{{"/training/steps", "24"}};
  all.insert(all.end(), changes.begin(), changes.end());
  return {.label = "run", .scenario = test::resolved(test::shipped_scenario(all)).effective, .summary = nullptr};
}

RunDiff diff_of(const Changes& a, const Changes& b) {
  return compare_runs(run_of(a), run_of(b), test::shipped_catalog(), 2).value();
}

const MechanismEffect& effect(const RunDiff& diff, const std::string& name) {
  const auto found = std::find_if(diff.mechanisms.begin(), diff.mechanisms.end(),
                                  [&](const MechanismEffect& each) { return each.name == name; });
  REQUIRE_MESSAGE(found != diff.mechanisms.end(), name);
  return *found;
}

}  // namespace

TEST_CASE("a run does not differ from itself") {
  const RunDiff diff = diff_of({}, {});
  CHECK(diff.inputs.empty());
  CHECK(diff.results.empty());
  CHECK(diff.mechanisms.empty());
  CHECK(diff.interaction->steps_per_s == 0);
}

TEST_CASE("a single difference makes all of the difference") {
  const RunDiff diff = diff_of({}, {{"/cluster/groups/1/count", "2"}});
  REQUIRE(diff.inputs.size() == 1);
  CHECK(diff.inputs[0].pointer == "/cluster/groups/1/count");
  CHECK(*diff.inputs[0].a == 4);
  CHECK(*diff.inputs[0].b == 2);
  CHECK(diff.inputs[0].mechanism == "number of workers");
  REQUIRE(diff.mechanisms.size() == 1);
  CHECK(diff.mechanisms[0].speed->steps_per_s == diff.b.steps_per_s);
  CHECK(diff.interaction->steps_per_s == 0);
  CHECK(diff.interaction->iteration_time_s == 0);
}

TEST_CASE("each mechanism's speed is that of A with it alone, and the rest is interaction") {
  const RunDiff diff = diff_of({}, {{"/cluster/groups/1/count", "8"},
                                    {"/cluster/groups/1/instance", "gce-custom-8-p100"},
                                    {"/workload/batch_per_worker", "64"},
                                    {"/training/strategy/placement", "greedy_by_bytes"},
                                    {"/seed", "2"},
                                    {"/name", "B"}});
  CHECK(diff.mechanisms.size() == 5);
  CHECK(effect(diff, "number of workers").speed->steps_per_s ==
        test::steps_per_s({{"/training/steps", "24"}, {"/cluster/groups/1/count", "8"}}));
  CHECK(effect(diff, "worker machines and GPUs").speed->steps_per_s ==
        test::steps_per_s({{"/training/steps", "24"}, {"/cluster/groups/1/instance", "gce-custom-8-p100"}}));
  CHECK(effect(diff, "batch").places == std::vector<std::string>{"/workload/batch_per_worker"});
  CHECK(effect(diff, "seed").speed->steps_per_s == doctest::Approx(diff.a.steps_per_s).epsilon(1e-2));  // starts
  double sum = diff.interaction->steps_per_s;
  for (const MechanismEffect& each : diff.mechanisms) sum += each.speed->steps_per_s - diff.a.steps_per_s;
  CHECK(sum == doctest::Approx(diff.b.steps_per_s - diff.a.steps_per_s).epsilon(1e-12));
  CHECK(diff.mechanisms[0].name == "worker machines and GPUs");  // the largest effect on a step
}

TEST_CASE("profile parameters are grouped by what they describe") {
  Json profile = run_of({}).scenario->at("calibration");
  profile["host"]["dispatch"] = "500us";
  profile["servers"]["time_per_variable"] = "1ms";
  const RunDiff diff = diff_of({}, {{"/calibration", profile.dump()}});
  CHECK(diff.mechanisms.size() == 2);
  CHECK(effect(diff, "profile: host").places == std::vector<std::string>{"/calibration/host"});
  CHECK(effect(diff, "profile: servers").speed.has_value());
}

TEST_CASE("clusters of different groups are exchanged as a whole") {
  const Json other = load_json_file(source_folder() + "/scenarios/cm-dare-heterogeneous.json");
  ComparedRun b = run_of({});
  Json scenario = test::shipped_scenario({{"/training/steps", "24"}});
  scenario["cluster"] = other["cluster"];
  b.scenario = test::resolved(scenario).effective;
  const RunDiff diff = compare_runs(run_of({}), b, test::shipped_catalog(), 1).value();
  CHECK(effect(diff, "groups of machines").places == std::vector<std::string>{"/cluster/groups"});
}

TEST_CASE("a strategy that needs other machines is one thing with them") {
  const RunDiff diff =
      diff_of({}, {{"/cluster/groups", R"([{"name": "all", "role": "worker", "instance": "gce-custom-4-k80", "count": 4,
                                    "region": "us-west1"}])"},
                   {"/training/strategy", R"({"kind": "all_reduce"})"},
                   {"/workload/batch_per_worker", "64"}});
  CHECK(diff.mechanisms.size() == 2);
  CHECK(effect(diff, "strategy and its machines").places ==
        std::vector<std::string>{"/cluster/groups", "/training/strategy", "/training/start_interval",
                                 "/training/share_variation"});
  CHECK(effect(diff, "strategy and its machines").speed.has_value());
  CHECK(diff.interaction.has_value());
}

TEST_CASE("a mechanism that cannot stand alone says why, and leaves the interaction open") {
  // 3000 samples need a P100: on the K80 of A they exceed the memory.
  const RunDiff diff =
      diff_of({}, {{"/workload/batch_per_worker", "3000"}, {"/cluster/groups/1/instance", "gce-custom-8-p100"}});
  CHECK_FALSE(effect(diff, "batch").speed);
  CHECK(effect(diff, "batch").error.find("/cluster/groups/1: GPU memory exceeded") != std::string::npos);
  CHECK(diff.mechanisms.back().name == "batch");
  CHECK_FALSE(diff.interaction);
}

TEST_CASE("what one side lacks is taken away or added") {
  const Changes checkpoint{{"/training/checkpoint", R"({"every_steps": 5, "fixed_time": "1s", "rate": "100MBps"})"}};
  const RunDiff added = diff_of({}, checkpoint), removed = diff_of(checkpoint, {});
  CHECK(added.inputs[0].a == nullptr);
  CHECK(removed.inputs[0].b == nullptr);
  CHECK(added.b.steps_per_s == removed.a.steps_per_s);
  CHECK(effect(removed, "training: checkpoint").speed->steps_per_s == removed.b.steps_per_s);
}

TEST_CASE("results are ordered by relative change, but speed, time and cost come first and texts last") {
  const RunDiff diff = diff_of({}, {{"/cluster/groups/1/instance", "gce-custom-8-p100"}});
  REQUIRE(diff.results.size() > 4);
  const std::vector<std::string> first{"steps_per_s", "samples_per_s", "iteration_time_s",
                                       "time_s",      "cost_usd",      "usd_per_million_samples"};
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(diff.results[i].key == first[i]);
  double last = INFINITY;
  bool had_text = false;
  for (const ResultDifference& result : std::span{diff.results}.subspan(first.size())) {
    if (!result.change) {
      had_text = true;
      continue;
    }
    CHECK_FALSE(had_text);
    const double size = result.relative_change ? std::abs(*result.relative_change) : INFINITY;
    CHECK(size <= last);
    last = size;
  }
  CHECK(had_text);
}

TEST_CASE("a change from 0, or from next to it, is no share of it") {
  const test::TemporaryFolder folder;
  const ComparedRun own = run_of({});
  folder.write("scenario.json", to_json_text(*own.scenario));
  Json summary = test::simulated(*own.scenario);
  summary["steps_per_s"] = 4.941e-324;
  folder.write("summary.json", summary.dump());
  const auto diff =
      compare_runs(load_compared_run(folder.path, test::shipped_catalog()), own, test::shipped_catalog(), 2);
  for (const ResultDifference& result : diff->results)
    if (result.key == "steps_per_s") CHECK_FALSE(result.relative_change.has_value());
}

TEST_CASE("an output folder is compared as recorded; one that another program wrote is told") {
  const test::TemporaryFolder folder;
  const ComparedRun own = run_of({});
  folder.write("scenario.json", to_json_text(*own.scenario));
  Json summary = test::simulated(*own.scenario);
  folder.write("summary.json", summary.dump());
  const auto is_of_another_program = [&] {
    const auto recorded = load_compared_run(folder.path, test::shipped_catalog());
    const RunDiff diff = compare_runs(recorded, own, test::shipped_catalog(), 2).value();
    return std::ranges::any_of(diff.warnings, [](const std::string& warning) {
      return warning.find("its summary.json is not what this program gives") != std::string::npos;
    });
  };
  CHECK_FALSE(is_of_another_program());
  summary["fingerprint"] = "0";
  summary["steps_per_s"] = 1.0;
  folder.write("summary.json", summary.dump());
  const RunDiff diff =
      compare_runs(load_compared_run(folder.path, test::shipped_catalog()), own, test::shipped_catalog(), 2).value();
  CHECK(is_of_another_program());
  CHECK(diff.results[0].key == "steps_per_s");
  CHECK(diff.results[0].a->dump() == "1.0");
  folder.write("summary.json", "{\"format\": 1}");
  CHECK_THROWS_AS(load_compared_run(folder.path, test::shipped_catalog()), InputError);
}

}  // namespace rehearse
