#include "sim/app/output/baseline_document.hpp"

#include <doctest/doctest.h>

namespace rehearse {

TEST_CASE("baselines below the simulation, the best of them marked") {
  const ErrorStatistics simulated{
      .rows = 72, .mape = 5.771, .median_ape = 4.724, .p90_ape = 12.1, .max_ape = 15, .bias = 1};
  BaselineComparison comparison{.known_rows = "rows with another model", .folds = 12, .results = {}};
  CHECK(best_baseline_line("ours", comparison, simulated) ==
        "ours: no baseline predicts a row (known rows: rows with another model)\n");
  comparison.results = {
      {.baseline = StudyBaseline::kRoofline, .values = {}, .rows = 70, .errors = {.rows = 72, .mape = 27}},
      {.baseline = StudyBaseline::kNearestRow, .values = {}, .rows = 72, .errors = {.rows = 72, .mape = 17}}};
  CHECK(baseline_text(comparison, simulated) ==
        "baseline                            rows     MAPE   median      p90      max     bias\n"
        "simulated                             72     5.77     4.72    12.10    15.00    +1.00\n"
        "roofline                              70    27.00     0.00     0.00     0.00    +0.00\n"
        "nearest-row                           72    17.00     0.00     0.00     0.00    +0.00  best\n"
        "baselines know rows with another model, in 12 folds; a row that one cannot predict counts as 100 %\n");
  CHECK(best_baseline_line("ours", comparison, simulated) ==
        "ours: best baseline nearest-row, MAPE 17 %, simulated 5.771 % (knows rows with another model)\n");
  CHECK(best_baseline_line("ours", comparison, {.mape = 20}) ==
        "ours: best baseline nearest-row, MAPE 17 %, simulated 20 %: not beaten (knows rows with another model)\n");
}

}  // namespace rehearse
