#pragma once
// Fits values of a profile to measurements: Levenberg-Marquardt on the logarithm of simulated / measured, Huber loss.
//
//   residual r_i = ln(simulated_i / measured_i), weight w_i = min(1, kHuber / |r_i|), parameters moved on a logarithmic
//   scale step: (J^T W J + lambda diag(J^T W J)) d = -J^T W r,  derivatives by finite differences of whole simulations
//   interval: 95 %, from s^2 (J^T W J)^-1 with s^2 = sum w r^2 / (rows - parameters)
//
// Source: Marquardt, SIAM J. Appl. Math. 11(2), 1963; Huber, Ann. Math. Statist. 35(1), 1964.

#include <functional>
#include <string>
#include <vector>

#include "calibration/study.hpp"
#include "calibration/validation.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

struct FittedValue {
  std::string pointer;
  std::string value, low, high;  // with unit; 95 % interval
};

/// Errors over rows that were each predicted by a fit which had not seen any row like them.
struct CrossValidation {
  std::string study;
  std::vector<std::string> left_out_by;  // columns
  ErrorStatistics all;
  std::vector<std::pair<std::string, ErrorStatistics>> groups;  // by the study's group_by
};

struct Fit {
  std::string profile;  // JSON text of the fitted profile file
  std::vector<FittedValue> values;
  std::size_t rows = 0;
  std::vector<ErrorStatistics> in_sample;        // [studies], all rows
  std::vector<CrossValidation> cross_validated;  // studies that ask for it
  std::vector<std::string> warnings;             // values that cannot be told apart
};

struct FitOptions {
  int parallel = 2;
  int most_iterations = 12;
  std::string command;  // provenance
  std::function<void(const std::string& line)> on_progress;
};

/// Starts from `profile` (a profile file's value). The values to fit are the union of the studies' "free" pointers.
/// Cross-validation leaves out, in turn, each combination of the study's columns, from every study that has these
/// columns (or, if the study says so, from itself alone), and fits the rest again, from the full fit and with its
/// derivatives; the left-out rows are simulated with what comes out. Throws InputError.
Fit fit_profile(const std::vector<Study>& studies, const Json& profile, const std::string& profile_file,
                const Catalog& catalog, const FitOptions& options);

}  // namespace rehearse
