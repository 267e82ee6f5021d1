// The same space and seed give the same bytes, whatever the number of threads and however often it was interrupted.

#include "predictor/generate.hpp"

#include "predictor/described_step.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "predictor/engine_labels.hpp"
#include "predictor/labels.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

Space small_space() { return load_space(source_folder() + "/scenarios/spaces/small.json"); }

GenerateRequest request(const std::filesystem::path& output, std::int64_t count, int parallel) {
  return {.seed = 3, .count = count, .pool = parallel, .output = output, .program = "rehearse test 1"};
}

std::string bytes(const std::filesystem::path& file) { return read_file(file, 64 * kMiB); }

}  // namespace

TEST_CASE("a dataset is the same whatever the number of threads") {
  const test::TemporaryFolder folder;
  const Catalog& catalog = test::shipped_catalog();
  const Generated one = generate_dataset(small_space(), catalog, request(folder / "one", 30, 1));
  const Generated three = generate_dataset(small_space(), catalog, request(folder / "three", 30, 3));
  CHECK(one.is_complete);
  CHECK(one.samples.size() == 30);
  CHECK(bytes(folder / "one") == bytes(folder / "three"));
  CHECK(folder.entry_count() == 2);  // no part file is left
  GenerateRequest other = request(folder / "other", 30, 1);
  other.seed = 4;
  (void)generate_dataset(small_space(), catalog, other);
  CHECK(bytes(folder / "one") != bytes(folder / "other"));
}

TEST_CASE("a dataset has every setting equally often, splits by model, and no graph twice") {
  const test::TemporaryFolder folder;
  (void)generate_dataset(small_space(), test::shipped_catalog(), request(folder / "data", 120, 2));
  const Dataset data = load_dataset(folder / "data");
  CHECK(data.settings.size() == 4);
  CHECK(data.graphs.size() == 30);
  std::map<int, int> by_setting;
  std::map<Split, int> by_split;
  for (const Sample& sample : data.samples) ++by_setting[sample.setting], ++by_split[sample.split];
  for (const auto& [setting, count] : by_setting) CHECK(count == 30);
  CHECK(by_split.size() == 3);
  CHECK(by_split[Split::kTrain] > by_split[Split::kTest]);
  std::set<std::vector<float>> features;
  for (const DatasetGraph& graph : data.graphs) CHECK(features.insert(graph.features).second);
  for (const Sample& sample : data.samples) {
    CHECK(sample.labels[12] > 0);
    CHECK(sample.labels[2] <= 1 + 1e-9);
  }
}

TEST_CASE("workers on Google Cloud, rings and Driple's machines are settings of one dataset") {
  const test::TemporaryFolder folder;
  const Space space = load_space(source_folder() + "/scenarios/spaces/clusters.json");
  CHECK(space.settings.size() == 32);
  const Generated generated = generate_dataset(space, test::shipped_catalog(), request(folder / "data", 32, 2));
  CHECK(generated.without_result == 0);
  const Dataset data = load_dataset(folder / "data");
  std::map<std::string, int> kinds;
  for (const Sample& sample : data.samples) {
    const std::string& name = data.settings[static_cast<std::size_t>(sample.setting)].name;
    CAPTURE(name);
    ++kinds[name.substr(0, name.find('/'))];
    CHECK(sample.labels[12] > 0);
    CHECK(sample.labels[13] > 0);
  }
  CHECK(kinds == std::map<std::string, int>{{"cm-dare", 14}, {"driple", 6}, {"ring", 12}});
}

TEST_CASE("an interrupted dataset goes on where it stopped and has the same bytes") {
  const test::TemporaryFolder folder;
  const Catalog& catalog = test::shipped_catalog();
  (void)generate_dataset(small_space(), catalog, request(folder / "whole", 40, 2));
  GenerateRequest stopped = request(folder / "parts", 40, 1);
  std::int64_t finished = 0;
  stopped.on_progress = [&](std::int64_t done, std::int64_t) { finished = done; };
  stopped.is_stopped = [&] { return finished >= 10; };
  CHECK(!generate_dataset(small_space(), catalog, stopped).is_complete);
  CHECK(!std::filesystem::exists(folder / "parts"));
  GenerateRequest other_seed = request(folder / "parts", 40, 1);
  other_seed.seed = 9;
  CHECK_THROWS_AS(generate_dataset(small_space(), catalog, other_seed), InputError);
  const Generated resumed = generate_dataset(small_space(), catalog, request(folder / "parts", 40, 2));
  CHECK(resumed.kept >= 10);
  CHECK(bytes(folder / "whole") == bytes(folder / "parts"));
}

TEST_CASE("a part of something else is refused and stays as it is") {
  const Catalog& catalog = test::shipped_catalog();
  const test::TemporaryFolder folder;
  CHECK(generate_dataset(small_space(), catalog, request(folder / "whole", 4, 1)).is_complete);
  std::filesystem::copy_file(folder / "whole", folder / "other.part");
  CHECK_THROWS_AS((void)generate_dataset(small_space(), catalog, request(folder / "other", 4, 1)), InputError);
  CHECK(bytes(folder / "other.part") == bytes(folder / "whole"));
  CHECK(folder.entry_count() == 2);
}

TEST_CASE("a killed dataset goes on where it stopped and has the same bytes") {
  const test::TemporaryFolder folder;
  const Catalog& catalog = test::shipped_catalog();
  (void)generate_dataset(small_space(), catalog, request(folder / "whole", 40, 1));
  const pid_t child = ::fork();
  if (child == 0) {
    GenerateRequest killed = request(folder / "parts", 40, 1);
    killed.on_progress = [](std::int64_t done, std::int64_t) {
      if (done >= 20) ::raise(SIGKILL);
    };
    (void)generate_dataset(small_space(), test::shipped_catalog(), killed);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(generate_dataset(small_space(), catalog, request(folder / "parts", 40, 1)).is_complete);
  CHECK(bytes(folder / "whole") == bytes(folder / "parts"));
}

TEST_CASE("the reference space: half of the graphs have 500 operators or more") {
  const Space space = load_space(source_folder() + "/scenarios/spaces/reference.json");
  const Generated planned = plan_dataset(space, test::shipped_catalog(), request("", 28 * 150, 1));
  CHECK(planned.graphs == 1050);
  CHECK(planned.median_operators >= 500);
}

TEST_CASE("a space without further graphs says why") {
  Json json = load_json_file(source_folder() + "/scenarios/spaces/small.json");
  json["workloads"] = parse_json(R"([{ "family": "a", "model": "resnet18", "batch": 4 }])", "workloads");
  const Space space = read_space(json, source_folder() + "/scenarios/spaces/x.json");
  CHECK_THROWS_WITH_AS(
      plan_dataset(space, test::shipped_catalog(), request("", 8, 1)),
      doctest::Contains("x.json: /workloads: 1000 random workloads in a row gave no new graph: in all 1000 duplicates, "
                        "0 too large for a GPU, 0 with another number of operators, 0 that cannot be built"),
      NoResultError);
}

TEST_CASE("what a dataset would not hold as it is said is refused or has no labels") {
  Json json = load_json_file(source_folder() + "/scenarios/spaces/small.json");
  const std::string file = source_folder() + "/scenarios/spaces/x.json";
  json["sampling_period"] = "10s";
  const test::TemporaryFolder folder;
  const Generated slow = generate_dataset(read_space(json, file), test::shipped_catalog(), request(folder / "a", 4, 2));
  CHECK(slow.without_result == 4);
  CHECK(
      slow.last_failure.ends_with("no sample of 10s lies within the steps: a shorter sampling_period, or more steps"));

  Json half = load_json_file(source_folder() + "/scenarios/driple/01-v100-ps1-w2.json");
  half["workload"]["precision"] = "fp16";
  folder.write("half.json", half.dump());
  json["clusters"] = Json::array({Json{{"name", "half"}, {"scenario", "half.json"}}});
  CHECK_THROWS_WITH_AS(
      generate_dataset(read_space(json, folder / "space.json"), test::shipped_catalog(), request(folder / "b", 4, 2)),
      doctest::Contains("/workload/precision: expected \"fp32\", in which random workloads compute; found \"fp16\""),
      InputError);
}

TEST_CASE("groups with their own batch keep its ratio, and machines join and leave") {
  Json scenario = load_json_file(source_folder() + "/scenarios/driple/07-2080ti-ps2-w2.json");
  Json& groups = scenario["cluster"]["groups"];
  REQUIRE(groups.front()["role"] == "worker");
  const int own = scenario["workload"]["batch_per_worker"].get<int>();
  Json other = groups.front();
  other["name"] = "others";
  other["batch_per_worker"] = 2 * own;
  other["leaves_at"] = "300ms";
  groups.push_back(other);
  other["name"] = "late";
  other["joins_at"] = "100ms";
  other.erase("leaves_at");
  groups.push_back(other);
  const test::TemporaryFolder folder;
  folder.write("scenario.json", scenario.dump());
  Json json = load_json_file(source_folder() + "/scenarios/spaces/small.json");
  json["clusters"] = parse_json(R"([{ "name": "mixed", "scenario": "scenario.json" }])", "clusters");
  const Space space = read_space(json, folder / "space.json");
  const Catalog& catalog = test::shipped_catalog();
  REQUIRE(generate_dataset(space, catalog, request(folder / "data", 12, 2)).without_result == 0);
  const Dataset data = load_dataset(folder / "data");
  const auto value = [&](const Sample& sample, const std::string& name) {
    const std::span<const StepTotal> totals = step_totals();
    const auto at = std::find_if(totals.begin(), totals.end(), [&](const StepTotal& t) { return t.name == name; });
    return described_step(sample.step, "sample").totals[static_cast<std::size_t>(at - totals.begin())];
  };
  bool changes_labels = false;
  for (const Sample& sample : data.samples) {
    Json described = *scenario_of(data, sample);
    const int batch = described["workload"]["batch_per_worker"].get<int>();
    CHECK(described["cluster"]["groups"].back()["batch_per_worker"] == 2 * batch);
    CHECK(value(sample, "other_batch_workers") == 4);
    CHECK(value(sample, "joins_at_s") == doctest::Approx(0.1));
    CHECK(value(sample, "joining_workers") == 2);
    CHECK(value(sample, "leaves_at_s") == doctest::Approx(0.3));
    CHECK(value(sample, "leaving_workers") == 2);
    const std::vector<double> labels = simulate_labels(read_scenario(described, "sample", catalog));
    CHECK(labels == sample.labels);
    for (Json& group : described["cluster"]["groups"])
      for (const char* key : {"joins_at", "leaves_at", "batch_per_worker"}) group.erase(key);
    changes_labels = changes_labels || simulate_labels(read_scenario(described, "sample", catalog)) != labels;
  }
  CHECK(changes_labels);
}

}  // namespace rehearse
