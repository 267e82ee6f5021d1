#pragma once
// What a fitted profile says of its fit, under "fit": where its values come from, how far its predictions were off, and
// what it has seen, so that a scenario outside of it gets a warning.

#include <Eigen/Core>
#include <cstddef>
#include <string>
#include <vector>

#include "calibration/detail/row_simulator.hpp"
#include "calibration/fit.hpp"
#include "calibration/study.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

/// What a fit was made from.
struct FittedRows {
  const std::vector<Study>& studies;
  const RowSimulator& simulator;
  const Eigen::VectorXd& counts;  // [rows of the simulator] above 0 for those that were fitted
  std::size_t free_values = 0;    // step times included
  const std::string& command;
};

/// "seen": what the scenarios of the fitted and predicted rows are.
Json seen_in(const std::vector<const Scenario*>& scenarios);

/// Numbers are rounded to four decimals.
Json fit_record(const Fit& fit, const FittedRows& fitted);

}  // namespace rehearse
