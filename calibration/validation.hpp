#pragma once
// Measured beside simulated: the errors of a study's rows and what follows from them.

#include <optional>
#include <string>
#include <vector>

#include "calibration/study.hpp"

namespace rehearse {

/// Errors in percent of the measured value, of shares in percentage points. A row that could not be simulated counts as
/// 100 %.
struct ErrorStatistics {
  std::size_t rows = 0;
  double mape = 0;  // mean of the absolute errors
  double median_ape = 0;
  double p90_ape = 0;
  double max_ape = 0;
  double bias = 0;                    // mean of the signed errors
  std::optional<double> noise_floor;  // mean of (standard deviation / mean) of the measurements, where known
};

struct ValidationRow {
  double measured = 0;
  std::optional<double> simulated;
  double error_pct = 0;  // signed; -100 if there is no simulated value
  std::string problem;
  std::string profile{}, kind{};                        // of the prediction
  std::optional<std::pair<double, double>> interval{};  // of 90 %, around `simulated`

  bool is_inside() const { return interval && measured >= interval->first && measured <= interval->second; }
};

/// Where a curve saturates: w* = (mean of the three largest speeds) / (median of X(w)/w over w <= 2), if the measured
/// curve ends below 0.9 of linear.
struct CurveSaturation {
  std::string curve;
  std::vector<double> x, measured, simulated;
  bool is_saturated = false;  // the measured curve ends below 0.9 of linear
  double measured_workers = 0, simulated_workers = 0;
};

struct RatioResult {
  std::string label;
  double measured_gain_pct = 0, simulated_gain_pct = 0;  // 100 (numerator / denominator - 1)
};

/// Rows that a user would choose between, such as plans for one model and number of GPUs.
struct ChoiceResult {
  std::string label;
  std::size_t rows = 0;  // that could be simulated, at least two
  /// By how much the row that simulates best is worse than the best one, as measured, in percent of the best one's time.
  double regret_pct = 0;
  std::optional<double> rank_correlation;  // of measured and simulated values
};

/// Values of one distribution beside the simulated quantiles that belong to them.
struct SampleComparison {
  std::string label;
  std::size_t values = 0;
  double measured_mean = 0, simulated_mean = 0;
  double ks_distance = 0;  // Kolmogorov-Smirnov: the largest difference of the two cumulative shares
};

/// How many rows hold, of those that could be simulated and are asked.
struct RowCount {
  std::size_t inside = 0, rows = 0;
};

struct Validation {
  std::vector<ValidationRow> rows;                              // [study rows]
  ErrorStatistics all;                                          // but those that give step times
  ErrorStatistics fitted, predicted;                            // parts of it
  std::vector<std::pair<std::string, ErrorStatistics>> groups;  // as group_statistics()
  std::vector<CurveSaturation> curves;
  std::vector<RatioResult> ratios;
  std::vector<ChoiceResult> choices;
  RowCount within_bounds;  // simulated shares in the bounds of 95 % of the measured counts (Clopper, Pearson)
  std::vector<SampleComparison> samples;  // of a study with samples: each, then all together; fitted and others apart
};

ErrorStatistics error_statistics(const std::vector<ValidationRow>& rows,
                                 const std::vector<std::optional<double>>& noise);
/// The same for the rows of a study, [study rows], that are for `use`; for all but those that give step times; and the
/// latter for each value of each of its group_by columns: "gpu K80".
ErrorStatistics error_statistics(const Study& study, const std::vector<ValidationRow>& rows, RowUse use);
ErrorStatistics error_statistics(const Study& study, const std::vector<ValidationRow>& rows);
std::vector<std::pair<std::string, ErrorStatistics>> group_statistics(const Study& study,
                                                                      const std::vector<ValidationRow>& rows);

/// Measured values that are in the median more than five times as large as simulated ones, or less than a fifth, are hardly in
/// the unit of the study's metric, or hardly of its scenario: says so, and by how much. None where they are nearer.
std::optional<std::string> remark_on_scale(const Study& study, const std::vector<ValidationRow>& rows);
/// The same of ratios of measured to simulated values of `metric`; `what` was measured: "runs.csv: samples_per_s".
std::optional<std::string> remark_on_scale(const std::string& what, const std::string& metric,
                                           const std::vector<double>& ratios);

/// Saturation point of one curve; `x` in workers, at least one point with x <= 2. Zero if there is none.
double saturation_workers(const std::vector<double>& x, const std::vector<double>& speed);

/// sup |F_a - F_b| of two samples, neither empty.
double ks_distance(std::vector<double> a, std::vector<double> b);

/// Spearman's: the correlation of the ranks of two samples of one size, where equal values have their mean rank. None if all values
/// of one of them are equal.
std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

/// None without choices.
std::optional<ChoiceStatistics> choice_statistics(const Validation& validation);

Validation validate(const Study& study, const std::vector<Prediction>& predictions);

/// How good a study's predictions are: of rows that no fit had seen, if there are any.
struct StudyQuality {
  enum class Of { kCrossValidated, kPredicted, kFitted } of = Of::kPredicted;
  ErrorStatistics errors;
};

/// Whether a row counts for a quality of this kind.
bool is_scored(const StudyRow& row, StudyQuality::Of quality);

/// Cross-validated errors are those that `profile` (a profile file's value) has kept from its fit to this study with
/// the same measurements.
StudyQuality study_quality(const Study& study, const Validation& validation, const Json& profile);

/// How many of the scored rows that could be simulated lie within the interval of 90 % of their prediction. Without the
/// uncertainty of the profile's values, which simulate adds, intervals are narrower and hold fewer.
RowCount interval_coverage(const Study& study, const Validation& validation);

/// Why rows are not scored, and the lines of the measurements' file that they stand in: what the study leaves out, what
/// gives the profile's step times, and what cannot be simulated (which is scored as an error of 100 %).
std::vector<ExcludedRows> unscored_rows(const Study& study, const Validation& validation);

/// Other predictions of the rows, by the name of their column.
struct PredictedColumn {
  std::string name;
  std::vector<std::optional<double>> values;  // [study rows]
};

/// validation.csv: the measured columns, `use` (step_time, fitted or predicted), `measured`, `simulated`, `error_pct`,
/// `problem`, `profile`, `kind`, `low` and `high` of the interval, and `others`.
std::string validation_csv(const Study& study, const Validation& validation,
                           const std::vector<PredictedColumn>& others = {});
Json to_json(const ErrorStatistics& statistics);
Json to_json(const ChoiceStatistics& statistics);
Json to_json(const Study& study, const Validation& validation);

}  // namespace rehearse
