#pragma once
// JSON Schemas (draft 2020-12) of study files.

#include <string>

namespace rehearse {

/// One study, and a set of them (calibration/study.hpp).
std::string study_schema();
std::string study_set_schema();
/// Studies of their own kinds (calibration/lifetime_study.hpp, calibration/training_fit.hpp).
std::string lifetime_study_schema();
std::string training_log_study_schema();

}  // namespace rehearse
