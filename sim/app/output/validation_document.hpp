#pragma once
// report.html of a validated study.

#include <string>

#include "calibration/study.hpp"
#include "calibration/validation.hpp"

namespace rehearse {

std::string validation_report(const Study& study, const Validation& validation, const StudyQuality& quality,
                              const std::string& fitted_values);

}  // namespace rehearse
