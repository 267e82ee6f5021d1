#include "calibration/fit.hpp"

#include <doctest/doctest.h>

#include "sim/base/parse_quantity.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

TEST_CASE("a fit finds the values with which its measurements were made") {
  Study study = load_studies(test::source_folder() + "/scenarios/studies/cm-dare-single-worker.json").front();
  std::erase_if(study.rows,
                [](const StudyRow& row) { return row.row.text("gpu") != "K80" || row.row.text("run") != "sweep20"; });
  study.free = {{.pointer = "/host/step_overhead"}, {.pointer = "/gpu/peak_efficiency/K80"}};
  study.cross_validate = {};
  const Catalog catalog = test::shipped_catalog();
  Json truth = load_json_file(test::source_folder() + "/calibration/profiles/cm-dare.json");
  truth.erase("fit");
  set_json_pointer(truth, "/host/step_overhead", "20ms");
  set_json_pointer(truth, "/gpu/peak_efficiency/K80", "0.5");
  for (StudyRow& row : study.rows) {
    Json scenario = parse_json(row.scenario, "row");
    scenario["calibration"] = truth;
    row.measured = *predict({to_json_text(scenario)}, study.scenario_file, study.metric, catalog, 1)[0].value;
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
}

TEST_CASE("what cannot be fitted is refused") {
  Study study = load_studies(test::source_folder() + "/scenarios/studies/cm-dare-single-worker.json").front();
  const Json profile = load_json_file(test::source_folder() + "/calibration/profiles/cm-dare.json");
  const Catalog catalog = test::shipped_catalog();
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
