#include "calibration/predicted_computation.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

Study loaded_study(const std::string& name) {
  return load_studies(source_folder() + "/scenarios/studies/" + name + ".json").front();
}

Scenario scenario_of_row(const Study& study, std::size_t row) {
  return read_scenario(parse_json(study.rows[row].scenario, study.scenario_file), study.scenario_file,
                       test::shipped_catalog(), study.rows[row].origins);
}

}  // namespace

TEST_CASE("computation by kernels replaces host, GPUs and step times, and leaves the exchange") {
  const Study study = loaded_study("hkbu-ddl-benchmarks");
  const Study predicted = with_predicted_computation(study, test::shipped_catalog());
  REQUIRE(predicted.rows.size() == study.rows.size());
  const Scenario before = scenario_of_row(study, 0), after = scenario_of_row(predicted, 0);
  CHECK_FALSE(before.profile.step_times.empty());
  CHECK_FALSE(before.profile.kernels);
  CHECK(after.profile.step_times.empty());
  CHECK(after.profile.kernels);
  CHECK_FALSE(after.copies_input.value_or(true));
  CHECK(after.profile.network.nic_efficiency_for("hkbu-4xv100-10gbe") ==
        before.profile.network.nic_efficiency_for("hkbu-4xv100-10gbe"));
  // Everything else of the scenario stays.
  Json left = parse_json(study.rows[0].scenario, "before"), right = parse_json(predicted.rows[0].scenario, "after");
  for (Json* scenario : {&left, &right}) {
    scenario->erase("calibration");
    (*scenario)["workload"].erase("copies_input");
  }
  CHECK(left == right);
}

TEST_CASE("rows that only step times tell of are not predicted") {
  Study study = loaded_study("cm-dare-latency");
  study.only_by_step_times = {{{.values = {{"gpu", {"K80"}}}}, "another model ran"}};
  const Study predicted = with_predicted_computation(study, test::shipped_catalog());
  for (const StudyRow& row : predicted.rows) {
    CHECK(row.scenario.empty() == row.fits({.values = {{"gpu", {"K80"}}}}));
    CHECK(row.problem == (row.scenario.empty() ? "another model ran" : ""));
  }
  const Study shipped = loaded_study("nvidia-deeplearningexamples");
  REQUIRE(shipped.only_by_step_times.size() == 1);
  CHECK(shipped.only_by_step_times.front().second.starts_with("sequences of 384 or 512 tokens"));
}

TEST_CASE("a model with durations instead of layers is not predicted") {
  for (const char* name : {"spotdnn-resnet110", "spotdnn-resnet110-speed", "spotdnn-others"}) {
    const Study predicted = with_predicted_computation(loaded_study(name), test::shipped_catalog());
    for (const StudyRow& row : predicted.rows) {
      CHECK(row.scenario.empty());
      CHECK(row.problem.starts_with("the model has durations"));
    }
  }
}

TEST_CASE("the framework of a predicted computation is the study's, not the label of its step times") {
  const Study study = loaded_study("mxnet-perf-ps");
  CHECK(study.predicted_framework == "MXNet");
  const Study predicted = with_predicted_computation(study, test::shipped_catalog());
  for (const StudyRow& row : predicted.rows) CHECK(parse_json(row.scenario, "row")["workload"]["framework"] == "MXNet");
}

TEST_CASE("errors are those of rows that kernels can do; others are named and counted") {
  Study study = loaded_study("cm-dare-latency");  // six rows that no fit has seen
  std::vector<Prediction> predictions;
  for (const StudyRow& row : study.rows) predictions.push_back({.value = 1.1 * row.measured, .problem = {}});
  std::vector<std::size_t> lines;
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    if (study.rows[i].use != RowUse::kPredicted || lines.size() == 2) continue;
    lines.push_back(study.rows[i].row.line());
    predictions[i] = {.value = {}, .problem = "the GPU's entry does not state \"l2\""};
  }
  const PredictedComputation predicted = score_predicted_computation(study, StudyQuality::Of::kPredicted, predictions);
  CHECK(predicted.errors.rows == 4);
  CHECK(predicted.errors.median_ape == doctest::Approx(10));
  CHECK(predicted.rows_without() == 2);
  REQUIRE(predicted.without.size() == 1);
  CHECK(predicted.without.front().reason == "the GPU's entry does not state \"l2\"");
  CHECK(predicted.without.front().lines == lines);
  CHECK(predicted.values.size() == study.rows.size());
  CHECK(to_json(predicted)["without"]["the GPU's entry does not state \"l2\""].size() == 2);
}

TEST_CASE("a study with more step times than a third of its rows interpolates") {
  CHECK_FALSE(interpolates(31, 93));
  CHECK(interpolates(32, 93));
  CHECK_FALSE(interpolates(0, 0));
  CHECK(interpolates(11, 7));
}

TEST_CASE("an exchange from elsewhere leaves the study's computation, and nothing of its network and collectives") {
  const Study study = load_studies(source_folder() + "/scenarios/studies/hkbu-ddl-benchmarks.json").front();
  const Study predicted = with_predicted_exchange(study, test::shipped_catalog());
  const Json profile = parse_json(predicted.rows.front().scenario, "row").at("calibration");
  for (const char* exchange : {"network", "servers", "collectives"}) CHECK(!profile.contains(exchange));
  CHECK(profile.at("step_times").size() == 2);
  CHECK(profile_of(predicted, test::shipped_catalog()).empty());
}

TEST_CASE("rows that only step times tell of are left out for whoever has none") {
  const Study study = load_studies(source_folder() + "/scenarios/studies/nvidia-deeplearningexamples.json").front();
  const Study left = without_unmapped_rows(without_step_times(study, test::shipped_catalog()));
  std::size_t lines = 0;
  for (const ExcludedRows& some : left.excluded) lines += some.lines.size();
  for (const ExcludedRows& some : study.excluded) lines -= some.lines.size();
  CHECK(left.rows.size() < study.rows.size());
  CHECK(lines == study.rows.size() - left.rows.size());
}

}  // namespace rehearse
