#pragma once
// How accurate the predictions of a set of studies are: the tables that validate prints and that the READMEs hold
// (cmake/refresh_readmes.sh writes them there).

#include <string>
#include <vector>

#include "calibration/study.hpp"
#include "calibration/validation.hpp"

namespace rehearse {

/// What the tables say of one study.
struct StudyAccuracy {
  std::string study;  // its name
  StudyAbout about;
  StudyQuality quality;
  std::size_t step_times = 0;   // measured ones in the profile: inputs
  std::size_t free_values = 0;  // values of the profile that were fitted, besides them
};

/// `profile`: the profile file's value that the study uses (profile_of()).
StudyAccuracy study_accuracy(const Study& study, const Validation& validation, const Json& profile);

std::string to_text(StudyQuality::Of of);  // "cross-validated", "not fitted", "fitted"

/// A row of the first table below: errors in percent of the measured value, "| study | 72 | cross-validated | ... |".
std::string accuracy_row(const StudyAccuracy& study);

/// Markdown: the errors of each study; where its measurements are from; what others have reached on like data.
std::string accuracy_tables(const std::vector<StudyAccuracy>& studies);

/// Markdown: for each headline the rows of its studies and their lowest and highest MAPE. Empty without headlines.
std::string headline_table(const std::vector<Headline>& headlines, const std::vector<StudyAccuracy>& studies);

}  // namespace rehearse
