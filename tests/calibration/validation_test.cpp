#include "calibration/validation.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "sim/base/files.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

TEST_CASE("error statistics of known errors") {
  const std::vector<ValidationRow> rows{
      {.measured = 1, .error_pct = 10}, {.measured = 2, .error_pct = -20}, {.measured = 4, .error_pct = 30}};
  const ErrorStatistics statistics = error_statistics(rows, {0.1, {}, 0.4});
  CHECK(statistics.mape == doctest::Approx(20));
  CHECK(statistics.median_ape == 20);
  CHECK(statistics.p90_ape == doctest::Approx(28));
  CHECK(statistics.max_ape == 30);
  CHECK(statistics.bias == doctest::Approx(20.0 / 3));
  CHECK(statistics.noise_floor == doctest::Approx(10));
  CHECK_FALSE(error_statistics(rows, {{}, {}, {}}).noise_floor);
}

TEST_CASE("the saturation point is the plateau over the speed of one worker") {
  // Linear to 4 workers at 10 each, then flat at 40: 40 / 10.
  CHECK(saturation_workers({1, 2, 3, 4, 5, 6, 7, 8}, {10, 20, 30, 40, 40, 40, 40, 40}) == doctest::Approx(4));
  CHECK(saturation_workers({3, 4}, {30, 40}) == 0);
}

namespace {

/// Studies of CM-DARE with the shipped profile.
std::pair<Study, Validation> shipped(const char* name) {
  Study study = load_studies(test::source_folder() + "/scenarios/studies/" + name).front();
  const Catalog catalog = test::shipped_catalog();
  std::vector<std::string> scenarios;
  for (const StudyRow& row : study.rows) scenarios.push_back(row.scenario);
  Validation validation = validate(study, predict(scenarios, study.scenario_file, study.metric, catalog, 2));
  return {std::move(study), std::move(validation)};
}

}  // namespace

TEST_CASE(
    "CM-DARE's clusters are reproduced within 6 %, saturation within one worker, the second server's gain within 12 "
    "points") {
  const auto [study, validation] = shipped("cm-dare-cluster.json");
  CHECK(validation.rows.size() == 72);
  CHECK(validation.all.mape <= 6);
  int saturated = 0;
  for (const CurveSaturation& curve : validation.curves) {
    if (!curve.is_saturated) continue;
    ++saturated;
    CHECK_MESSAGE(std::abs(curve.simulated_workers - curve.measured_workers) <= 1, curve.curve);
  }
  CHECK(saturated == 5);
  REQUIRE(validation.ratios.size() == 2);
  for (const RatioResult& ratio : validation.ratios)
    CHECK_MESSAGE(std::abs(ratio.simulated_gain_pct - ratio.measured_gain_pct) <= 12, ratio.label);
}

TEST_CASE("CM-DARE's single workers are reproduced: K80 within 6 %, P100 within 9 %, V100 within 15 %") {
  const auto [study, validation] = shipped("cm-dare-single-worker.json");
  CHECK(validation.rows.size() == 42);
  for (const auto& [label, statistics] : validation.groups) {
    if (label == "gpu K80") CHECK(statistics.mape <= 6);
    if (label == "gpu P100") CHECK(statistics.mape <= 9);
    if (label == "gpu V100") CHECK(statistics.mape <= 15);
  }
}

TEST_CASE("the profile's cross-validated errors are within the bars, and it has at most 12 free values") {
  const Json profile = load_json_file(test::source_folder() + "/calibration/profiles/cm-dare.json");
  CHECK(profile["fit"]["values"].size() <= 12);
  const Json& studies = profile["fit"]["studies"];
  REQUIRE(studies.size() == 2);
  CHECK(studies[0]["cross_validated_mape"].get<double>() <= 7);
  CHECK(studies[1]["cross_validated_mape_by_group"]["gpu K80"].get<double>() <= 6);
  CHECK(studies[1]["cross_validated_mape_by_group"]["gpu P100"].get<double>() <= 9);
}

TEST_CASE("validation.csv keeps the measured columns and adds the simulated ones") {
  Study study = load_studies(test::source_folder() + "/scenarios/studies/cm-dare-single-worker.json").front();
  study.rows.erase(study.rows.begin() + 1, study.rows.end());
  const Validation validation = validate(study, {{.value = study.rows[0].measured * 1.1, .problem = ""}});
  const CsvTable table = parse_csv(validation_csv(study, validation), "validation.csv");
  CHECK(table.columns().size() == study.table->columns().size() + 5);
  CHECK(table.row(0).number("error_pct") == doctest::Approx(10));
  CHECK(table.row(0).text("model") == "resnet15");
}

TEST_CASE("a free value is a pointer, or a pointer with limits") {
  const test::TemporaryFolder folder;
  folder.write("data.csv", "workers,speed\n1,10\n");
  const auto free_of = [&](const std::string& free) {
    const std::filesystem::path study = folder.write(
        "study.json", R"({"format": 1, "scenario": ")" + test::source_folder() +
                          R"(/scenarios/cm-dare.json", "measurements": "data.csv", "columns": {"workers": )"
                          R"("/cluster/groups/1/count"}, "target": {"column": "speed", "metric": "steps_per_s"}, )"
                          R"("fit": {"free": [)" +
                          free + "]}}");
    return load_studies(study).front().free;
  };
  const auto values = free_of(R"("/host/dispatch", {"value": "/gpu/memory_efficiency", "min": 0.05, "max": 1},
                                {"value": "/host/step_overhead", "max": "1s"})");
  REQUIRE(values.size() == 3);
  CHECK(values[0].pointer == "/host/dispatch");
  CHECK(values[0].min.empty());
  CHECK(values[1].pointer == "/gpu/memory_efficiency");
  CHECK(values[1].min == "0.05");
  CHECK(values[1].max == "1");
  CHECK(values[1].place == (folder / "study.json").string() + ": /fit/free/1");
  CHECK(values[2].min.empty());
  CHECK(values[2].max == "1s");
  try {
    (void)free_of(R"({"value": "/host/dispatch", "minimum": 0})");
    FAIL("accepted");
  } catch (const InputError& error) {
    CHECK(std::string{error.what()}.find("/fit/free/0: unknown key \"minimum\"") != std::string::npos);
  }
}

TEST_CASE("mistakes in a study are named") {
  const auto refusal = [](const std::string& from, const std::string& to) -> std::string {
    const std::filesystem::path shipped_study = test::source_folder() + "/scenarios/studies/cm-dare-cluster.json";
    std::string text = read_file(shipped_study, kMiB);
    text.replace(text.find(from), from.size(), to);
    const test::TemporaryFolder folder;
    // Paths inside the study are relative to its folder.
    for (const auto& [path, target] :
         {std::pair<std::string, std::string>{"../cm-dare.json", "/scenarios/cm-dare.json"},
          {"../../calibration/data", "/calibration/data"}})
      if (const auto at = text.find(path); at != std::string::npos)
        text.replace(at, path.size(), test::source_folder() + target);
    const std::filesystem::path study = folder.write("study.json", text);
    std::string message = "accepted";
    try {
      (void)load_studies(study);
    } catch (const InputError& error) {
      message = error.what();
      if (message.starts_with(folder.path.string() + "/")) message.erase(0, folder.path.string().size() + 1);
    }
    return message;
  };
  CHECK(refusal("\"group_by\": [", "\"group_by\": [") == "accepted");
  CHECK(refusal("\"group_by\": [\"gpu\"", "\"group_by\": [\"gpus\"") ==
        "study.json: /group_by: unknown column \"gpus\"; did you mean \"gpu\"?");
  CHECK(refusal("\"ratios\"", "\"ratio\"") == "study.json: unknown key \"ratio\"; did you mean \"ratios\"?");
  CHECK(refusal("\"steps_per_s_mean\", \"metric\"", "\"speed\", \"metric\"").find("unknown column \"speed\"") !=
        std::string::npos);
}

TEST_CASE("another metric than summary.json has is a problem of each row, not a crash") {
  Study study = load_studies(test::source_folder() + "/scenarios/studies/cm-dare-single-worker.json").front();
  const Catalog catalog = test::shipped_catalog();
  const auto predictions = predict({study.rows[0].scenario, ""}, study.scenario_file, "steps_per_sec", catalog, 1);
  CHECK(predictions[0].problem == "unknown metric \"steps_per_sec\"; did you mean \"steps_per_s\"?");
  CHECK_FALSE(predictions[1].value);
}

}  // namespace rehearse
