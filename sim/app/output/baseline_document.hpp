#pragma once
// How what a user would try instead compares with the simulation, as validate prints it.

#include <string>

#include "calibration/baselines.hpp"

namespace rehearse {

/// A line for each baseline, the best marked, below one for the simulation; then which rows they know.
std::string baseline_text(const BaselineComparison& comparison, const ErrorStatistics& simulated);

/// "cm-dare-cluster: best baseline nearest-row, MAPE 9.1 %, simulated 5.8 %": a line.
std::string best_baseline_line(const std::string& study, const BaselineComparison& comparison,
                               const ErrorStatistics& simulated);

}  // namespace rehearse
