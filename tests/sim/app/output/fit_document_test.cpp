#include "sim/app/output/fit_document.hpp"

#include <doctest/doctest.h>

#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("the page of a fit has values, measured against predicted, and residuals by each group") {
  Study study = load_studies(source_folder() + "/scenarios/studies/cm-dare-single-worker.json").front();
  study.rows.erase(study.rows.begin() + 3, study.rows.end());
  Fit fit{.profile = {},
          .values = {{.pointer = "/host/dispatch<",
                      .value = "200us",
                      .interval = {"150us", "260us"},
                      .by_rows = ValueInterval{"151us", "261us"},
                      .by_folds = ValueInterval{"152us", "262us"}}},
          .rows = 3,
          .validation = {{}},
          .in_sample = {{.rows = 3, .mape = 4.5}},
          .cross_validated = {},
          .warnings = {"no row depends on /x"},
          .simulations = 7};
  for (const StudyRow& row : study.rows)
    fit.validation[0].push_back(
        {.measured = row.measured, .simulated = row.measured * 1.1, .error_pct = 10, .problem = {}});
  const std::string seen = fit_report({study}, fit, "mine");
  for (const char* text :
       {"Fit of profile mine", "1 value fitted to 3 rows by 7 simulations", R"(/host/dispatch\u003c)", "150us to 260us",
        "151us to 261us", "152us to 262us", "no row depends on /x", "4.5 %", "Predicted against measured",
        "Residuals by gpu", "Residuals by run"})
    CHECK_MESSAGE(seen.find(text) != std::string::npos, text);
  CHECK(count(seen, R"("points":true)") == 1 + study.group_by.size());
  CHECK(seen.find("predicted by fits without it") == std::string::npos);

  fit.cross_validated = {
      {.study = study.name, .left_out_by = {"model"}, .rows = fit.validation[0], .all = {.mape = 6.25}, .groups = {}}};
  const std::string unseen = fit_report({study}, fit, "mine");
  CHECK(unseen.find("6.25 %") != std::string::npos);
  CHECK(count(unseen, R"("points":true)") == 2 + study.group_by.size());
}

}  // namespace rehearse
