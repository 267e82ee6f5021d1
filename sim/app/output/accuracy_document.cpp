#include "sim/app/output/accuracy_document.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "calibration/predicted_computation.hpp"
#include "sim/app/output/document.hpp"
#include "sim/base/csv.hpp"

namespace rehearse {

namespace {

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += " " + cell + " |";
  return row + "\n";
}

std::string markdown_header(const std::vector<std::string>& names) {
  return markdown_row(names) + markdown_row(std::vector<std::string>(names.size(), "---"));
}

/// "roofline: 12.1 / 13.4".
std::string best_baseline_text(const StudyAccuracy::BestBaseline& best) {
  if (best.name.empty()) return "none";
  return best.name + ": " + display(best.errors.median_ape) + " / " + display(best.errors.mape);
}

/// "15.5 / 30.1, without 5 rows".
std::string computation_text(const StudyAccuracy::Computation& computation) {
  if (computation.errors.rows == 0) return "no row";
  std::string text = display(computation.errors.median_ape) + " / " + display(computation.errors.p90_ape);
  if (computation.rows_without > 0) text += ", without " + std::to_string(computation.rows_without) + " rows";
  return text;
}

/// One digit after the point: a headline's percent.
std::string rounded(double percent) { return formatted("%.1f", percent); }

std::string six_digits(const std::optional<double>& value) { return value ? formatted("%.6g", *value) : ""; }

/// Columns that not every table has.
struct AddedColumns {
  bool has_baselines = false, has_computation = false;
};

std::string accuracy_row(const StudyAccuracy& study, const AddedColumns& columns) {
  const ErrorStatistics& errors = study.quality.errors;
  std::string values = std::to_string(study.free_values);
  if (study.step_times > 0) values += " + " + std::to_string(study.step_times) + " step times";
  if (study.interpolates()) values += ": interpolates";
  std::vector<std::string> cells{study.study,
                                 std::to_string(errors.rows),
                                 to_text(study.quality.of),
                                 values,
                                 display(errors.median_ape),
                                 display(errors.mape),
                                 display(errors.p90_ape),
                                 errors.noise_floor ? display(*errors.noise_floor) : std::string{}};
  if (columns.has_computation) cells.push_back(study.computation ? computation_text(*study.computation) : "");
  if (columns.has_baselines) cells.push_back(study.best_baseline ? best_baseline_text(*study.best_baseline) : "");
  return markdown_row(cells);
}

}  // namespace

std::vector<std::size_t> sampled_rows(const Study& study, std::size_t most) {
  const std::size_t count = std::min(most, study.rows.size());
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < count; ++i) rows.push_back((2 * i + 1) * study.rows.size() / (2 * count));
  return rows;
}

std::string sampled_rows_csv(const std::vector<SampledRow>& rows) {
  CsvWriter csv{{"study", "line", "simulated", "computation_predicted"}};
  for (const SampledRow& row : rows)
    csv.row({row.study, row.line, six_digits(row.simulated), six_digits(row.computation_predicted)});
  return csv.text();
}

StudyAccuracy study_accuracy(const Study& study, const Validation& validation, const Json& profile) {
  StudyAccuracy accuracy{.study = study.name,
                         .about = study.about,
                         .quality = study_quality(study, validation, profile),
                         .step_times = profile.value("step_times", Json::array()).size(),
                         .has_record = profile.contains("fit")};
  for (const Json& value : profile.value("/fit/values"_json_pointer, Json::array()))
    accuracy.free_values += value.at("pointer").get<std::string>().starts_with("/step_times/") ? 0 : 1;
  accuracy.own_values = study.free.size();
  accuracy.rows = study.rows.size();
  accuracy.own_rows = static_cast<std::size_t>(std::ranges::count(study.rows, RowUse::kFitted, &StudyRow::use));
  return accuracy;
}

bool StudyAccuracy::interpolates() const { return rehearse::interpolates(step_times, quality.errors.rows); }

std::optional<std::size_t> StudyAccuracy::fitted_values() const {
  if (!has_record && step_times == 0) return {};
  return free_values + step_times;
}

std::string StudyAccuracy::fitted_values_text() const {
  const std::optional<std::size_t> values = fitted_values();
  if (values) return std::to_string(*values);
  if (own_values == 0) return "not recorded";
  return "not recorded, " + std::to_string(own_values) + " of them in this study's fit, which sees " +
         std::to_string(own_rows) + " of " + std::to_string(rows) + " rows";
}

std::string to_text(StudyQuality::Of of) {
  switch (of) {
    case StudyQuality::Of::kCrossValidated:
      return "cross-validated";
    case StudyQuality::Of::kPredicted:
      return "not fitted";
    case StudyQuality::Of::kFitted:
      return "fitted";
  }
  return {};
}

std::string accuracy_tables(const std::vector<StudyAccuracy>& studies) {
  const AddedColumns columns{
      .has_baselines = std::ranges::any_of(studies, [](const auto& study) { return study.best_baseline.has_value(); }),
      .has_computation = std::ranges::any_of(studies, [](const auto& study) { return study.computation.has_value(); })};
  std::vector<std::string> header{"study", "rows", "of them", "free values", "median", "MAPE", "p90", "noise"};
  if (columns.has_computation) header.emplace_back("computation predicted: median / p90");
  if (columns.has_baselines) header.emplace_back("best baseline: median / MAPE");
  std::string errors = markdown_header(header);
  std::string sources = markdown_header({"study", "source", "hardware"});
  std::vector<std::pair<std::string, std::string>> published;  // the text, and the studies that it goes with
  for (const StudyAccuracy& study : studies) {
    errors += accuracy_row(study, columns);
    sources += markdown_row({study.study, study.about.source, study.about.hardware});
    if (study.about.best_published.empty()) continue;
    const auto known =
        std::ranges::find(published, study.about.best_published, &decltype(published)::value_type::first);
    if (known == published.end())
      published.emplace_back(study.about.best_published, study.study);
    else
      known->second += ", " + study.study;
  }
  std::string text = errors + "\n" + sources;
  if (!published.empty()) text += "\nBest published on like data:\n\n";
  for (const auto& [what, names] : published) text += "- " + names + ":\n  " + what + "\n";
  return text;
}

std::string headline_table(const std::vector<Headline>& headlines, const std::vector<StudyAccuracy>& studies) {
  if (headlines.empty()) return {};
  std::string text = markdown_header({"what", "rows", "MAPE"});
  for (const Headline& headline : headlines) {
    std::size_t rows = 0;
    std::vector<double> errors;
    bool is_cross_validated = true;
    for (const StudyAccuracy& study : studies) {
      if (std::ranges::find(headline.studies, study.study) == headline.studies.end()) continue;
      rows += study.quality.errors.rows;
      errors.push_back(study.quality.errors.mape);
      is_cross_validated &= study.quality.of == StudyQuality::Of::kCrossValidated;
    }
    const auto [low, high] = std::ranges::minmax(errors);
    text += markdown_row(
        {headline.of + (is_cross_validated ? ", cross-validated" : ""), std::to_string(rows),
         errors.size() == 1 ? rounded(low) + " %" : rounded(low) + " to " + rounded(high) + " %, by study"});
  }
  return text;
}

}  // namespace rehearse
