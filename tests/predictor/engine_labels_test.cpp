// The simulator's answer for measured samples is that for the scenario they were measured in.

#include "predictor/engine_labels.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "predictor/features.hpp"
#include "predictor/labels.hpp"
#include "predictor/measured_studies.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

/// A study of cm-dare.json on `workers`, with `calibration`.
MeasuredStudies study_of(const test::TemporaryFolder& folder, const std::string& calibration) {
  Json scenario = test::shipped_scenario();
  scenario["calibration"] = parse_json(calibration, "calibration");
  folder.write("scenario.json", scenario.dump());
  folder.write("rows.csv", "workers,speed\n1,9.5\n2,18\n2,19\n");
  const auto file = folder.write("study.json", R"({ "format": 1, "scenario": "scenario.json",
    "measurements": "rows.csv", "columns": { "workers": "/cluster/groups/1/count" },
    "target": { "column": "speed", "metric": "steps_per_s" } })");
  return read_measured_studies(load_studies(file), test::shipped_catalog());
}

std::string with_step_time() {
  Json profile = load_json_file(source_folder() + "/calibration/profiles/cm-dare.json");
  profile["step_times"] = Json::array({{{"model", "cm-dare/resnet32"},
                                        {"accelerator", "K80"},
                                        {"precision", "fp32"},
                                        {"batch", 128},
                                        {"time", "900ms"}}});
  return profile.dump();
}

}  // namespace

TEST_CASE("each measured sample is simulated as its study describes it") {
  for (const std::string& calibration : {std::string{"\"cm-dare\""}, with_step_time()}) {
    const test::TemporaryFolder folder;
    const Dataset data = study_of(folder, calibration).dataset;
    REQUIRE(data.samples.size() == 3);
    std::size_t calls = 0;
    const EngineLabels found = engine_labels(data, std::vector<std::size_t>{0, 2, 1}, test::shipped_catalog(),
                                             [&](std::size_t, std::size_t) { ++calls; });
    CHECK(calls == 4);
    CHECK(found.without_scenario + found.without_result == 0);
    REQUIRE(found.labels.size() == 3);
    CHECK(found.labels[1] == found.labels[2]);
    Json scenario = test::shipped_scenario({{"/cluster/groups/1/count", "2"}});
    scenario["calibration"] = parse_json(calibration, "calibration");
    CHECK(found.labels[1] == simulate_labels(test::resolved(scenario)));
  }
}

TEST_CASE("what an earlier call has simulated is taken from where it was kept, of the same program alone") {
  const test::TemporaryFolder folder;
  const Dataset data = study_of(folder, "\"cm-dare\"").dataset;
  const auto labels_with = [&](ResultStore* store, const std::string& program) {
    return engine_labels(
               data, std::vector<std::size_t>{0}, test::shipped_catalog(), [](std::size_t, std::size_t) {}, store,
               program)
        .labels[0];
  };
  const std::vector<double> simulated = labels_with(nullptr, "");
  ResultStore store = ResultStore::temporary();
  CHECK(labels_with(&store, "a") == simulated);
  CHECK(labels_with(&store, "a") == simulated);
  const Scenario scenario = read_scenario(*scenario_of(data, data.samples[0]), "sample", test::shipped_catalog());
  std::vector<double> other = simulated;
  other[12] = 1234.5;
  other[0] = std::nan("");  // not known: null
  store.put(run_key(to_json_text(*scenario.effective), "b"), {.name = "x", .summary = Json(other).dump()});
  CHECK(labels_with(&store, "b")[12] == 1234.5);
  CHECK(std::isnan(labels_with(&store, "b")[0]));
  CHECK(labels_with(&store, "a") == simulated);
  store.put(run_key(to_json_text(*scenario.effective), "c"), {.name = "x", .error = "too slow"});
  CHECK(std::isnan(labels_with(&store, "c")[12]));
}

TEST_CASE("a measured step time of the profile is seen by what predicts") {
  const test::TemporaryFolder folder;
  const Dataset data = study_of(folder, with_step_time()).dataset;
  const EngineLabels found =
      engine_labels(data, std::vector<std::size_t>{0}, test::shipped_catalog(), [](std::size_t, std::size_t) {});
  const SampleFeatures features = FeatureReader{data}.read(data, data.samples[0]);
  CHECK(found.labels[0][12] > 0.9);
  CHECK(features.bases[12] == doctest::Approx(found.labels[0][12]).epsilon(0.02));
}

TEST_CASE("graphs without a model have no scenario, and what cannot be simulated says why") {
  const test::TemporaryFolder folder;
  Dataset data = study_of(folder, "\"cm-dare\"").dataset;
  data.graphs[0].provenance = R"({"graph_def": "net.pb"})";
  CHECK(!scenario_of(data, data.samples[0]));
  const auto nothing = [](std::size_t, std::size_t) {};
  EngineLabels found = engine_labels(data, std::vector<std::size_t>{0}, test::shipped_catalog(), nothing);
  CHECK(found.without_scenario == 1);
  CHECK(std::isnan(found.labels[0][12]));
  data.graphs[0].provenance = R"({"model": "unknown", "batch_per_worker": 8})";
  found = engine_labels(data, std::vector<std::size_t>{0}, test::shipped_catalog(), nothing);
  CHECK(found.without_result == 1);
  CHECK(found.last_failure.find("unknown") != std::string::npos);
}

}  // namespace rehearse
