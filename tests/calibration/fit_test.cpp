#include "calibration/fit.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "platforms/profile.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"
#include "tests/support/predicted.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

TEST_CASE("a fit finds the values with which its measurements were made") {
  Study study = load_studies(source_folder() + "/scenarios/studies/cm-dare-single-worker.json").front();
  std::erase_if(study.rows,
                [](const StudyRow& row) { return row.row.text("gpu") != "K80" || row.row.text("run") != "sweep20"; });
  study.free = {{.pointer = "/host/step_overhead"}, {.pointer = "/gpu/peak_efficiency/K80"}};
  study.cross_validate = {};
  const Catalog& catalog = test::shipped_catalog();
  Json truth = load_json_file(source_folder() + "/calibration/profiles/cm-dare.json");
  truth.erase("fit");
  set_json_pointer(truth, "/host/step_overhead", "20ms");
  set_json_pointer(truth, "/gpu/peak_efficiency/K80", "0.5");
  for (StudyRow& row : study.rows) {
    Json scenario = parse_json(row.scenario, "row");
    scenario["calibration"] = truth;
    row.measured = *test::predict({to_json_text(scenario)}, study, catalog, 1)[0].value;
  }
  Json start = truth;
  set_json_pointer(start, "/host/step_overhead", "12ms");
  set_json_pointer(start, "/gpu/peak_efficiency/K80", "0.65");
  const Fit fit = fit_profile({study}, start, "start.json", catalog, {.command = "test"});
  const Json fitted = parse_json(fit.profile, "fitted");
  CHECK(parse_seconds(fitted["host"]["step_overhead"].get<std::string>()).value() ==
        doctest::Approx(0.020).epsilon(0.01));
  CHECK(fitted["gpu"]["peak_efficiency"]["K80"].get<double>() == doctest::Approx(0.5).epsilon(0.01));
  CHECK(fit.in_sample[0].mape < 0.2);
  CHECK(fitted["fit"]["values"].size() == 2);
  CHECK(fitted["fit"]["seen"]["accelerators"] == Json{"K80"});
  CHECK(fitted["host"]["dispatch"] == truth["host"]["dispatch"]);  // what is not free stays
  for (const std::string& warning : fit.warnings) {
    CHECK(warning.find("as simulated") == std::string::npos);
    CHECK(warning.find("ends at") == std::string::npos);
  }

  // The same speeds in steps of a thousand seconds.
  for (StudyRow& row : study.rows) row.measured /= 1000;
  const Fit misread = fit_profile({study}, start, "start.json", catalog, {.most_steps = 2, .command = "test"});
  REQUIRE_FALSE(misread.warnings.empty());
  CHECK(misread.warnings.front().find("times steps_per_s as simulated") != std::string::npos);
}

namespace {

/// Eight networks on one K80 with the speeds that `truth` gives, and short runs: simulated with known values.
Study synthetic_study(const Json& truth, const Catalog& catalog) {
  Study study = load_studies(source_folder() + "/scenarios/studies/cm-dare-single-worker.json").front();
  std::erase_if(study.rows,
                [](const StudyRow& row) { return row.row.text("gpu") != "K80" || row.row.text("run") != "sweep20"; });
  study.rows.erase(study.rows.begin() + 8, study.rows.end());
  study.cross_validate = {};
  study.free = {{.pointer = "/host/step_overhead"},
                {.pointer = "/gpu/peak_efficiency/K80", .min = "0.1", .max = "0.9"}};
  for (StudyRow& row : study.rows) {
    Json scenario = parse_json(row.scenario, "row");
    set_json_pointer(scenario, "/training/steps_per_worker", "5");
    row.scenario = to_json_text(scenario);
    scenario["calibration"] = truth;
    row.measured = *test::predict({to_json_text(scenario)}, study, catalog, 1)[0].value;
  }
  return study;
}

Json synthetic_truth() {
  Json truth = load_json_file(source_folder() + "/calibration/profiles/cm-dare.json");
  truth.erase("fit");
  set_json_pointer(truth, "/host/step_overhead", "20ms");
  set_json_pointer(truth, "/gpu/peak_efficiency/K80", "0.5");
  return truth;
}

double number_of(const std::string& text) {
  return text.ends_with("s") ? parse_seconds(text).value() : std::stod(text);
}

}  // namespace

TEST_CASE("intervals of fits to noisy measurements hold the values that these were made with in 95 % of repetitions") {
  constexpr int kRepetitions = 24;
  const Catalog& catalog = test::shipped_catalog();
  const Json truth = synthetic_truth();
  const Study exact = synthetic_study(truth, catalog);
  Json start = truth;
  set_json_pointer(start, "/host/step_overhead", "14ms");
  set_json_pointer(start, "/gpu/peak_efficiency/K80", "0.65");
  int held = 0, values = 0;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    Study study = exact;
    Rng noise{static_cast<std::uint64_t>(repetition), "noise"};
    for (StudyRow& row : study.rows) row.measured *= std::exp(0.02 * noise.normal());
    const Fit fit = fit_profile({study}, start, "start.json", catalog, {});
    for (const FittedValue& value : fit.values) {
      const Json& true_value = *json_pointer_find(truth, value.pointer);
      const double expected =
          true_value.is_string() ? number_of(true_value.get<std::string>()) : true_value.get<double>();
      held += number_of(value.interval.low) <= expected && expected <= number_of(value.interval.high) ? 1 : 0;
      ++values;
    }
  }
  // 48 trials, of which the two of a repetition depend on each other: a standard deviation of 3.1 to 4.4 %.
  MESSAGE("held: ", held, " of ", values);
  CHECK(held >= 0.84 * values);
  CHECK(held < values);
}

TEST_CASE("a fitted value stays within its limits") {
  const Catalog& catalog = test::shipped_catalog();
  const Json truth = synthetic_truth();
  Study study = synthetic_study(truth, catalog);
  study.free = {{.pointer = "/gpu/peak_efficiency/K80", .min = "0.55", .max = "0.8"}};
  const Fit fit = fit_profile({study}, truth, "truth.json", catalog, {});
  CHECK(fit.values[0].value == "0.55");
  CHECK(fit.values[0].interval.low == "0.55");
  REQUIRE_FALSE(fit.warnings.empty());
  CHECK(fit.warnings.front() ==
        "/gpu/peak_efficiency/K80 ends at 0.55, the least that it may be: the rows would have it beyond");
}

TEST_CASE("values that the rows cannot tell apart, or do not depend on, are named") {
  const Catalog& catalog = test::shipped_catalog();
  const Json truth = synthetic_truth();
  Study study = synthetic_study(truth, catalog);
  study.rows.erase(study.rows.begin() + 4, study.rows.end());
  study.free = {{.pointer = "/gpu/peak_efficiency/K80"}, {.pointer = "/gpu/peak_efficiency/P100"}};
  const Fit fit = fit_profile({study}, truth, "truth.json", catalog, {});
  REQUIRE(fit.warnings.size() == 1);
  CHECK(fit.warnings[0] == "no row depends on /gpu/peak_efficiency/P100");
  study.free = {{.pointer = "/gpu/peak_efficiency/K80"}, {.pointer = "/gpu/winograd_gain"}};
  std::erase_if(study.rows, [](const StudyRow& row) { return !row.row.text("model").starts_with("resnet"); });
  const Fit alike = fit_profile({study}, truth, "truth.json", catalog, {});
  REQUIRE(alike.warnings.size() == 1);
  CHECK(alike.warnings[0].starts_with(
      "the data can hardly tell /gpu/peak_efficiency/K80 and /gpu/winograd_gain apart (correlation "));
}

TEST_CASE("a value of which no row tells is at its prior, and rows of two studies count once") {
  const Catalog& catalog = test::shipped_catalog();
  const Json truth = synthetic_truth();
  Study study = synthetic_study(truth, catalog);
  study.free = {{.pointer = "/host/step_overhead"}, {.pointer = "/gpu/peak_efficiency/P100", .prior = "0.4"}};
  const Fit fit = fit_profile({study, study}, truth, "truth.json", catalog, {});
  const Json fitted = parse_json(fit.profile, "fitted");
  CHECK(fitted["gpu"]["peak_efficiency"]["P100"].get<double>() == doctest::Approx(0.4).epsilon(0.001));
  CHECK(parse_seconds(fitted["host"]["step_overhead"].get<std::string>()).value() ==
        doctest::Approx(parse_seconds(truth["host"]["step_overhead"].get<std::string>()).value()).epsilon(0.01));
  CHECK(fit.rows == study.rows.size());
  CHECK(fit.in_sample[1].rows == study.rows.size());
}

TEST_CASE("rows that are left out do not change the fit that predicts them") {
  const Catalog& catalog = test::shipped_catalog();
  const Json truth = synthetic_truth();
  Study study = synthetic_study(truth, catalog);
  study.cross_validate = {"model"};
  const Fit fit = fit_profile({study}, truth, "truth.json", catalog, {});
  REQUIRE(fit.cross_validated.size() == 1);
  CHECK(fit.cross_validated[0].all.mape < 0.1);
  Study wrong = study;
  wrong.rows[3].measured *= 1.3;
  const Fit misled = fit_profile({wrong}, truth, "truth.json", catalog, {});
  // Its row is predicted by the others: simulated / measured - 1 = 1 / 1.3 - 1. A fit that had seen it would come
  // nearer.
  CHECK(misled.cross_validated[0].rows[3].error_pct == doctest::Approx(100 * (1 / 1.3 - 1)).epsilon(0.02));
  CHECK(misled.validation[0][3].error_pct > 100 * (1 / 1.3 - 1) + 1);
}

TEST_CASE("an interval is of what a new row may share with none of those fitted, such as the session of measuring") {
  const Catalog& catalog = test::shipped_catalog();
  const Json truth = synthetic_truth();
  Study study = load_studies(source_folder() + "/scenarios/studies/cm-dare-single-worker.json").front();
  std::map<std::string, int> rows;
  std::erase_if(study.rows, [&](const StudyRow& row) {
    return row.row.text("run") != "sweep20" || ++rows[std::string{row.row.text("gpu")}] > 5;
  });
  REQUIRE(study.rows.size() == 10);
  study.free = {{.pointer = "/host/step_overhead"}};
  study.cross_validate = {"model"};
  for (StudyRow& row : study.rows) {
    Json scenario = parse_json(row.scenario, "row");
    set_json_pointer(scenario, "/training/steps_per_worker", "5");
    row.scenario = to_json_text(scenario);
    scenario["calibration"] = truth;
    // All networks with one GPU were measured in one session, which was faster or slower as a whole.
    row.measured = (row.row.text("gpu") == "K80" ? 1.1 : 0.9) *
                   *test::predict({to_json_text(scenario)}, study, catalog, 1)[0].value;
  }
  const Fit by_model = fit_profile({study}, truth, "truth.json", catalog, {});
  CHECK(by_model.left_out_for_interval.empty());
  study.interval_by = {"gpu"};
  const Fit by_session = fit_profile({study}, truth, "truth.json", catalog, {});
  REQUIRE(by_session.left_out_for_interval.size() == 1);
  CHECK(by_session.cross_validated[0].all.mape == by_model.cross_validated[0].all.mape);
  CHECK(by_session.left_out_for_interval[0].all.mape > 1.2 * by_model.cross_validated[0].all.mape);
  const auto width = [](const Fit& fit) {
    return fit.uncertainty.residual * (fit.uncertainty.high - fit.uncertainty.low);
  };
  CHECK(width(by_session) > 1.1 * width(by_model));
  const Json record = parse_json(by_session.profile, "fitted")["fit"]["studies"][0];
  CHECK(record["left_out_by"] == Json{"model"});
  CHECK(record["interval_left_out_by"]["columns"] == Json{"gpu"});
  CHECK(record["interval_left_out_by"]["error_quantiles"]["p5"].is_number());
}

TEST_CASE("a fitted profile says where it comes from and how far its predictions were off") {
  const Catalog& catalog = test::shipped_catalog();
  const Json truth = synthetic_truth();
  Study study = synthetic_study(truth, catalog);
  study.cross_validate = {"model"};
  study.rows.back().use = RowUse::kPredicted;
  Rng noise{1, "noise"};
  for (StudyRow& row : study.rows) row.measured *= std::exp(0.05 * noise.normal());
  const Fit fit = fit_profile({study}, truth, "truth.json", catalog, {.bootstrap_draws = 50, .command = "the command"});
  const Json record = parse_json(fit.profile, "fitted")["fit"];
  CHECK(record["command"] == "the command");
  CHECK(record["rows"] == 7);
  CHECK(record["free_values"] == 2);
  const Json& of_study = record["studies"][0];
  CHECK(of_study["rows"] == 7);
  CHECK(of_study["measurements_fnv1a"].get<std::string>().size() == 16);
  std::string lines = std::to_string(study.rows[0].row.line()) + "..";
  CHECK(of_study["fitted_lines"].get<std::string>().starts_with(lines));
  const Json& quantiles = of_study["cross_validated_error_quantiles"];
  CHECK(quantiles["p5"].get<double>() < quantiles["p50"].get<double>());
  CHECK(quantiles["p50"].get<double>() < quantiles["p95"].get<double>());
  std::vector<double> errors;
  for (const ValidationRow& row : fit.cross_validated[0].rows) errors.push_back(row.error_pct / 100);
  CHECK(quantiles["p10"].get<double>() == doctest::Approx(percentile(errors, 10)).epsilon(1e-2));
  CHECK(record["spread"]["residual"].get<double>() > 0);
  CHECK(record["spread"]["components"].size() == 2);
  REQUIRE(fit.values[0].by_rows);
  CHECK(number_of(fit.values[0].by_rows->low) < number_of(fit.values[0].by_rows->high));
  CHECK(read_profile(JsonReader{parse_json(fit.profile, "fitted"), "fitted"}).free_parameters.size() == 2);
}

TEST_CASE("an interval is of speeds, also of a fit to times") {
  const Catalog& catalog = test::shipped_catalog();
  const Json truth = synthetic_truth();
  Study speeds = synthetic_study(truth, catalog);
  speeds.free = {{.pointer = "/host/step_overhead"}};
  speeds.cross_validate = {"model"};
  for (std::size_t i = 0; i < speeds.rows.size(); ++i) speeds.rows[i].measured *= i == 3 ? 0.5 : 1;  // one is slow
  Study times = speeds;
  times.metric = "iteration_time_s";
  for (StudyRow& row : times.rows) row.measured = 1 / row.measured;
  const Fit of_speeds = fit_profile({speeds}, truth, "truth.json", catalog, {});
  const Fit of_times = fit_profile({times}, truth, "truth.json", catalog, {});
  CHECK(of_speeds.uncertainty.high > -2 * of_speeds.uncertainty.low);  // who is told too high a speed has a slower run
  CHECK(of_times.uncertainty.high == doctest::Approx(of_speeds.uncertainty.high).epsilon(0.05));
  CHECK(of_times.uncertainty.low == doctest::Approx(of_speeds.uncertainty.low).epsilon(0.05));
}

TEST_CASE("an interval of speeds is not made of errors of memory") {
  const Catalog& catalog = test::shipped_catalog();
  const Json truth = synthetic_truth();
  Study speeds = synthetic_study(truth, catalog);
  speeds.cross_validate = {"model"};
  Rng noise{1, "noise"};
  for (StudyRow& row : speeds.rows) row.measured *= std::exp(0.05 * noise.normal());
  Study memory = speeds;
  memory.name += ".memory";
  memory.metric = "gpu_memory_bytes";
  memory.target_column = "memory";
  memory.free = {};
  memory.cross_validate = {};
  for (StudyRow& row : memory.rows) {
    row.use = RowUse::kPredicted;
    row.measured = 1e12;  // far off
  }
  const Fit alone = fit_profile({speeds}, truth, "truth.json", catalog, {});
  const Fit both = fit_profile({speeds, memory}, truth, "truth.json", catalog, {});
  CHECK(both.predicted[1].mape > 50);
  CHECK(both.uncertainty.residual == doctest::Approx(alone.uncertainty.residual).epsilon(1e-9));
  CHECK(both.uncertainty.low == doctest::Approx(alone.uncertainty.low).epsilon(1e-9));
  CHECK(both.uncertainty.high == doctest::Approx(alone.uncertainty.high).epsilon(1e-9));
  CHECK(both.interval_rows == alone.interval_rows);
}

TEST_CASE("rows of one worker give step times, with which other rows are predicted") {
  const Catalog& catalog = test::shipped_catalog();
  Study study = load_studies(source_folder() + "/scenarios/studies/cm-dare-single-worker.json").front();
  std::erase_if(study.rows,
                [](const StudyRow& row) { return row.row.text("gpu") != "K80" || row.row.text("run") != "sweep20"; });
  study.rows.erase(study.rows.begin() + 3, study.rows.end());
  study.free.clear();
  study.cross_validate.clear();
  study.metric = "samples_per_s";
  for (StudyRow& row : study.rows) {
    Json scenario = parse_json(row.scenario, "row");
    scenario["training"]["strategy"] = Json{{"kind", "all_reduce"}};
    scenario["cluster"]["groups"].erase(0);
    row.scenario = to_json_text(scenario);
    row.measured = 128 * row.measured;
    row.use = RowUse::kStepTime;
  }
  StudyRow twice = study.rows[1];
  twice.measured *= 3;  // the mean of the two step times is 2 / 3 of the first
  study.rows.push_back(twice);
  StudyRow other = study.rows[0];
  other.use = RowUse::kPredicted;
  study.rows.push_back(other);
  const Json profile = load_json_file(source_folder() + "/calibration/profiles/cm-dare.json");
  const Fit fit = fit_profile({study}, profile, "cm-dare.json", catalog, {});
  const Json fitted = parse_json(fit.profile, "fitted");
  REQUIRE(fitted["step_times"].size() == 3);
  CHECK(fitted["fit"]["free_values"] == 3);
  CHECK(fit.rows == 0);
  CHECK(fit.predicted[0].rows == 1);
  CHECK(fit.predicted[0].mape < 1e-3);
  CHECK(fit.validation[0][1].error_pct == doctest::Approx(50));
  CHECK(fitted["host"] == profile["host"]);
  // A second fit replaces what it measures again and keeps the rest.
  study.rows.erase(study.rows.begin() + 1, study.rows.end());
  study.rows[0].measured *= 2;
  const Json again = parse_json(fit_profile({study}, fitted, "fitted", catalog, {}).profile, "again");
  CHECK(again["step_times"].size() == 3);
  study.rows[0].measured = 1;
  study.metric = "gpu_utilization";
  CHECK_THROWS_AS(fit_profile({study}, profile, "cm-dare.json", catalog, {}), InputError);
}

TEST_CASE("what cannot be fitted is refused") {
  Study study = load_studies(source_folder() + "/scenarios/studies/cm-dare-single-worker.json").front();
  const Json profile = load_json_file(source_folder() + "/calibration/profiles/cm-dare.json");
  const Catalog& catalog = test::shipped_catalog();
  const auto refusal = [&](const std::string& pointer) -> std::string {
    study.free = {{.pointer = pointer}};
    try {
      (void)fit_profile({study}, profile, "p.json", catalog, {});
    } catch (const InputError& error) { return error.what(); }
    return "accepted";
  };
  CHECK(refusal("/host/dispatsh") ==
        "p.json: /host/dispatsh: a study wants to fit this value, but the profile has none");
  CHECK(refusal("/servers/split_update_threshold").find("only plain numbers, times and rates can be fitted") !=
        std::string::npos);
}

}  // namespace rehearse
