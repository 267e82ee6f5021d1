// The studies of spotDNN's measurements, and the plans that they are written in.

#include <doctest/doctest.h>

#include "calibration/validation.hpp"
#include "sim/base/parse_quantity.hpp"
#include "tests/support/predicted.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

const std::string kStudies = source_folder() + "/scenarios/studies/";

Validation validated(const Study& study) {
  std::vector<std::string> scenarios;
  for (const StudyRow& row : study.rows) scenarios.push_back(row.scenario);
  return validate(study, test::predict(scenarios, study, test::shipped_catalog(), 2));
}

/// The study's rows for other plans.
Study with_plans(const std::string& rows) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("plans.csv", "source,strategy,plan,target,training_time_s,sd_s,repeats\n" + rows);
  return load_studies(kStudies + "spotdnn-resnet110.json", file).front();
}

}  // namespace

TEST_CASE("training times of plans that nobody fitted are met within 4 %, speeds before and after a revocation too") {
  const Validation times = validated(load_studies(kStudies + "spotdnn-resnet110.json").front());
  CHECK(times.predicted.rows == 7);
  CHECK(times.predicted.mape <= 4);
  const Validation speeds = validated(load_studies(kStudies + "spotdnn-resnet110-speed.json").front());
  CHECK(speeds.predicted.rows == 74);
  CHECK(speeds.predicted.mape <= 4);
}

TEST_CASE("a lone worker of each type has the speed of spotDNN's profile") {
  const CsvTable profile = load_csv_file(source_folder() + "/calibration/data/spotdnn/resnet110_profile.csv");
  std::string rows;
  for (const CsvRow row : profile.rows())
    rows += "profile,-,1*" + std::string{row.text("likely_real_instance")} + ",10 epochs," +
            to_text(500000 / row.number("profiled_speed_samples_per_s")) + ",,no\n";
  for (const ValidationRow& row : validated(with_plans(rows)).rows) CHECK(std::abs(row.error_pct) < 0.01);
}

TEST_CASE("a plan is a group of workers for each of its parts") {
  const Study study = with_plans("a,-,5*g3.8xlarge;3*g3.16xlarge,loss 0.8,1,,no\n");
  const Scenario scenario = test::resolved(parse_json(study.rows.at(0).scenario, "row"));
  REQUIRE(scenario.groups.size() == 3);
  CHECK(scenario.groups[1].count == 5);
  CHECK(scenario.groups[1].gpus_per_worker == 2);
  CHECK(scenario.groups[2].instance.name == "g3.16xlarge");
  CHECK(scenario.groups[2].batch == 2048);
  const auto problem_of = [](const std::string& plan) {
    return with_plans("a,-," + plan + ",loss 0.8,1,,no\n").rows.at(0).problem;
  };
  CHECK(problem_of("5xg3.8xlarge") == "expected a plan such as \"5*g3.8xlarge;3*g3.16xlarge\"; found \"5xg3.8xlarge\"");
  CHECK(problem_of("") == "expected a plan such as \"5*g3.8xlarge;3*g3.16xlarge\"; found \"\"");
  CHECK(problem_of("1*g3.8xlarge;") ==
        "expected a plan such as \"5*g3.8xlarge;3*g3.16xlarge\"; found \"1*g3.8xlarge;\"");
  CHECK(problem_of("1*g3.8xlarg") == "unknown instance \"g3.8xlarg\"; did you mean \"g3.8xlarge\"?");
}

}  // namespace rehearse
