#pragma once
// Fits values of a profile to measurements.
//
//   residual r_i = ln(simulated_i / measured_i) of each row, x = logarithms of the free values, Huber loss
//   a prior of a free value counts as a row: r = kHuber ln(value / prior) / ln(factor)
//   interval: 95 %, x +- t s sqrt(diag (J^T W J)^-1) with s^2 = sum w r^2 / (rows - values), t: Student's
//
// detail/least_squares.hpp is the method, detail/free_values.hpp what x is, detail/row_simulator.hpp what r is.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibration/study.hpp"
#include "calibration/validation.hpp"
#include "platforms/profile.hpp"
#include "sim/base/budget.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

/// The value with its unit, as a profile has it.
struct ValueInterval {
  std::string low, high;
};

struct FittedValue {
  std::string pointer;
  std::string value;
  ValueInterval interval;                          // 95 %, from the Jacobian
  std::optional<ValueInterval> by_rows, by_folds;  // by the bootstrap over rows, over cross-validation's folds
};

/// Errors over rows that were each predicted by a fit which had not seen any row like them.
struct CrossValidation {
  std::string study;
  std::vector<std::string> left_out_by;  // columns
  std::vector<ValidationRow> rows;       // [study rows]
  ErrorStatistics all;
  std::vector<std::pair<std::string, ErrorStatistics>> groups;  // by the study's group_by
};

struct Fit {
  std::string profile;  // JSON text of the fitted profile file
  std::vector<FittedValue> values;
  std::size_t rows = 0;                                // that were fitted
  std::vector<std::vector<ValidationRow>> validation;  // [studies][rows] with the fitted profile
  std::vector<ErrorStatistics> in_sample, predicted;   // [studies] of these, seen by the fit or not
  std::vector<CrossValidation> cross_validated;        // studies that ask for it
  std::vector<CrossValidation> left_out_for_interval;  // those whose interval_by is not their cross_validate
  /// From rows that were predicted without having been seen: cross-validated ones, and those that their study does not
  /// fit; from the fitted rows if there are none. `residual`: the larger of the deviation of the fitted rows, and of what
  /// the uncertainty of the values does not explain of the unseen ones.
  PredictionUncertainty uncertainty;
  std::size_t interval_rows = 0;
  double interval_coverage = 0;       // share of them within the interval that follows from the other folds' rows
  std::vector<std::string> warnings;  // values that cannot be told apart
  std::size_t simulations = 0;
};

struct FitOptions {
  Pool pool = 2;
  int most_steps = 20;
  int bootstrap_draws = 0;
  std::string command;  // provenance
  std::function<void(const std::string& line)> on_progress;
  /// Called after each simulation of a stage of the work.
  std::function<void(const std::string& stage, std::size_t done, std::size_t total)> on_simulated;
  Budget budget = {};  // of the whole fit, which its stop() ends
};

/// Starts from `profile` (a profile file's value). The values to fit are the union of those that the studies declare
/// free; a measured value that several of them have counts once. Cross-validation leaves out, in turn, each combination of the study's columns, from every study that has these
/// columns (or, if the study says so, from itself alone), and moves the full fit to the minimum of the other rows, by
/// the full fit's derivatives and checked by simulations; the left-out rows are simulated there. Throws InputError.
Fit fit_profile(const std::vector<Study>& studies, const Json& profile, const std::string& profile_file,
                const Catalog& catalog, const FitOptions& options);

}  // namespace rehearse
