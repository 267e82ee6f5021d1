#include "sim/app/output/baseline_document.hpp"

#include "sim/app/output/document.hpp"

namespace rehearse {

namespace {

std::string error_line(const std::string& label, std::size_t predicted, const ErrorStatistics& errors,
                       const char* after) {
  return formatted("%-34s %5zu %8.2f %8.2f %8.2f %8.2f %+8.2f%s\n", label.c_str(), predicted, errors.mape,
                   errors.median_ape, errors.p90_ape, errors.max_ape, errors.bias, after);
}

}  // namespace

std::string baseline_text(const BaselineComparison& comparison, const ErrorStatistics& simulated) {
  if (comparison.results.empty()) return "baselines: none predicts a row; known rows: " + comparison.known_rows + "\n";
  std::string text =
      formatted("%-34s %5s %8s %8s %8s %8s %8s\n", "baseline", "rows", "MAPE", "median", "p90", "max", "bias") +
      error_line("simulated", simulated.rows, simulated, "");
  for (const BaselineResult& result : comparison.results)
    text += error_line(name_in(kStudyBaselines, result.baseline), result.rows, result.errors,
                       &result == comparison.best() ? "  best" : "");
  text += "baselines know " + comparison.known_rows;
  if (comparison.folds > 1) text += ", in " + std::to_string(comparison.folds) + " folds";
  return text + "; a row that one cannot predict counts as 100 %\n";
}

std::string best_baseline_line(const std::string& study, const BaselineComparison& comparison,
                               const ErrorStatistics& simulated) {
  const BaselineResult* best = comparison.best();
  if (best == nullptr) return study + ": no baseline predicts a row (known rows: " + comparison.known_rows + ")\n";
  return study + ": best baseline " + name_in(kStudyBaselines, best->baseline) + ", MAPE " +
         display(best->errors.mape) + " %, simulated " + display(simulated.mape) + " %" +
         (best->errors.mape < simulated.mape ? ": not beaten" : "") + " (knows " + comparison.known_rows + ")\n";
}

}  // namespace rehearse
