#include "calibration/baselines.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/files.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

std::vector<StudyBaseline> all_baselines() {
  std::vector<StudyBaseline> baselines;
  for (const auto& entry : kStudyBaselines) baselines.push_back(entry.value);
  return baselines;
}

Study shipped_study(const std::string& name) {
  return load_studies(source_folder() + "/scenarios/studies/" + name + ".json").front();
}

BaselineComparison compare(const Study& study, StudyQuality::Of quality,
                           const std::vector<StudyBaseline>& baselines = all_baselines()) {
  return compare_baselines(study, quality, profile_of(study, test::shipped_catalog()), test::shipped_catalog(),
                           baselines);
}

const BaselineResult& result_of(const BaselineComparison& comparison, StudyBaseline baseline) {
  const auto found = std::ranges::find(comparison.results, baseline, &BaselineResult::baseline);
  REQUIRE(found != comparison.results.end());
  return *found;
}

bool is_in_fold(const StudyRow& row) {
  return row.fits({.values = {{"gpu", {"K80"}}, {"model", {"resnet32"}}, {"num_ps", {"1"}}}});
}

/// All but those of powers, which say nothing of speeds.
constexpr std::size_t kBaselinesOfSpeed = kStudyBaselines.size() - 2;

}  // namespace

TEST_CASE("predictions of a fold do not depend on what was measured in it") {
  const Study study = shipped_study("cm-dare-cluster");
  Study changed = study;
  for (StudyRow& row : changed.rows)
    if (is_in_fold(row)) row.measured *= 3;
  const BaselineComparison before = compare(study, StudyQuality::Of::kCrossValidated),
                           after = compare(changed, StudyQuality::Of::kCrossValidated);
  REQUIRE(before.results.size() == kBaselinesOfSpeed);
  REQUIRE(after.results.size() == before.results.size());
  CHECK(before.folds == 12);
  for (std::size_t b = 0; b < before.results.size(); ++b)
    for (std::size_t i = 0; i < study.rows.size(); ++i)
      if (is_in_fold(study.rows[i])) CHECK(before.results[b].values[i] == after.results[b].values[i]);
  // The other folds know these rows.
  const auto& linear = result_of(before, StudyBaseline::kRegressionLinear).values;
  const auto& linear_after = result_of(after, StudyBaseline::kRegressionLinear).values;
  for (std::size_t i = 0; i < study.rows.size(); ++i)
    if (!is_in_fold(study.rows[i])) CHECK(linear[i] != linear_after[i]);
}

TEST_CASE("predictions of rows that no fit has seen do not depend on what was measured there") {
  const Study study = shipped_study("cm-dare-latency");
  Study changed = study;
  for (StudyRow& row : changed.rows)
    if (row.use == RowUse::kPredicted) row.measured *= 3;
  const BaselineComparison before = compare(study, StudyQuality::Of::kPredicted),
                           after = compare(changed, StudyQuality::Of::kPredicted);
  REQUIRE(before.results.size() == after.results.size());
  CHECK(before.results.size() == kBaselinesOfSpeed);
  for (std::size_t b = 0; b < before.results.size(); ++b) CHECK(before.results[b].values == after.results[b].values);
}

TEST_CASE("linear scaling is the speed of one worker, as often as there are workers") {
  const Study study = shipped_study("cm-dare-cluster");
  const BaselineComparison comparison =
      compare(study, StudyQuality::Of::kCrossValidated, {StudyBaseline::kLinearScaling});
  const auto& values = result_of(comparison, StudyBaseline::kLinearScaling).values;
  // cm-dare-single-worker, which lies beside the study and is in its profile's fit, has the model on a K80 three times;
  // the first counts.
  double single = 0;
  for (const StudyRow& row : shipped_study("cm-dare-single-worker").rows)
    if (row.fits({.values = {{"gpu", {"K80"}}, {"model", {"resnet32"}}}}) && single == 0) single = row.measured;
  REQUIRE(single > 0);
  for (std::size_t i = 0; i < study.rows.size(); ++i)
    if (is_in_fold(study.rows[i]))
      CHECK(*values[i] == doctest::Approx(single * study.rows[i].row.number("num_workers")));
}

TEST_CASE("where everything takes twice as long, predictions do") {
  const Study study = shipped_study("hkbu-ddl-benchmarks-ps");
  Study slower = study;
  for (StudyRow& row : slower.rows) row.measured /= 2;  // rates
  const std::vector<StudyBaseline> baselines{StudyBaseline::kRegressionLinear, StudyBaseline::kNearestRow,
                                             StudyBaseline::kRoofline};
  Json profile = profile_of(study, test::shipped_catalog());
  profile.erase("fit");  // and with it the study beside this one
  const auto alone = [&](const Study& of) {
    return compare_baselines(of, StudyQuality::Of::kFitted, profile, test::shipped_catalog(), baselines);
  };
  const BaselineComparison before = alone(study), after = alone(slower);
  CHECK(before.results.size() == 3);
  for (std::size_t b = 0; b < before.results.size(); ++b)
    for (std::size_t i = 0; i < study.rows.size(); ++i)
      if (before.results[b].values[i])
        CHECK(*after.results[b].values[i] == doctest::Approx(*before.results[b].values[i] / 2).epsilon(1e-9));
}

TEST_CASE("which rows baselines know, and which of them is best") {
  BaselineComparison comparison = compare(shipped_study("cm-dare-checkpoint"), StudyQuality::Of::kCrossValidated);
  CHECK(comparison.known_rows == "rows with another model");
  CHECK(comparison.folds == 16);
  const BaselineResult* best = comparison.best();
  REQUIRE(best != nullptr);
  for (const BaselineResult& result : comparison.results) {
    CHECK(result.rows <= 80);
    CHECK(result.errors.rows == 80);
    CHECK(result.errors.mape >= best->errors.mape);
    // Nothing but regressions and the nearest row can be told of a checkpoint.
    CHECK(result.baseline != StudyBaseline::kLinearScaling);
    CHECK(result.baseline != StudyBaseline::kRoofline);
  }
  const Json json = to_json(comparison);
  CHECK(json["best"] == name_in(kStudyBaselines, best->baseline));
  CHECK(json["errors"]["cm-dare-linear"]["predicted_rows"] == 80);

  // CM-DARE's regressions on these checkpoints have errors of 8.0 % (linear) and 5.4 % with every model in the training
  // rows; without the model that they predict they have more.
  CHECK(result_of(comparison, StudyBaseline::kCmDareLinear).errors.mape > 8.0);
  CHECK(result_of(comparison, StudyBaseline::kCmDareRadial).errors.mape > 5.4);

  CHECK(compare(shipped_study("spotdnn-resnet110"), StudyQuality::Of::kPredicted).known_rows ==
        "all other rows of the study, though its fit knows none");
}

TEST_CASE("shares of trials have no baselines") {
  Study study = shipped_study("cm-dare-checkpoint");
  for (StudyRow& row : study.rows) row.trials = 100;
  const BaselineComparison comparison = compare(study, StudyQuality::Of::kCrossValidated);
  CHECK(comparison.results.empty());
  CHECK(comparison.best() == nullptr);
  CHECK(to_json(comparison)["best"].is_null());
}

}  // namespace rehearse
