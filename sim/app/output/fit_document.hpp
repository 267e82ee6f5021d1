#pragma once
// The page of a fit: measured against predicted, residuals, values with intervals.

#include <string>
#include <vector>

#include "calibration/fit.hpp"
#include "calibration/study.hpp"

namespace rehearse {

/// Rows of studies that are cross-validated are shown as predicted by fits that have not seen them.
std::string fit_report(const std::vector<Study>& studies, const Fit& fit, const std::string& profile_name);

}  // namespace rehearse
