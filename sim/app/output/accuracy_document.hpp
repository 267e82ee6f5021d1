#pragma once
// How accurate the predictions of a set of studies are: the tables that validate prints and that the READMEs hold
// (cmake/refresh_readmes.sh writes them there).

#include <optional>
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
  bool has_record = true;       // of that; a profile that was not fitted, or does not say so, has none
  std::size_t own_values = 0, own_rows = 0,
              rows = 0;  // that the study's own fit leaves free, rows of it that the fit sees, all rows
  /// The best of those that were asked for (calibration/baselines.hpp); empty: none predicts a row.
  struct BestBaseline {
    std::string name;
    ErrorStatistics errors;
  };
  std::optional<BestBaseline> best_baseline{};  // none if none was asked for
  /// The same rows with their computation predicted (calibration/predicted_computation.hpp).
  struct Computation {
    ErrorStatistics errors;        // over those that can be
    std::size_t rows_without = 0;  // others
  };
  std::optional<Computation> computation{};  // none without step times, or if it was not asked for

  /// Whether it has so many step times that it interpolates between them.
  bool interpolates() const;

  /// Step times among them; none without a record.
  std::optional<std::size_t> fitted_values() const;
  std::string fitted_values_text()
      const;  // "12", "not recorded, 3 of them in this study's fit, which sees 4 of 9 rows"
};

/// At most `most` rows of a study, as evenly spread as can be.
std::vector<std::size_t> sampled_rows(const Study& study, std::size_t most = 6);

/// What was simulated of a row: by the study's own profile, and with its computation predicted; none where it was not.
struct SampledRow {
  std::string study;
  std::size_t line = 0;  // of the measurements' file
  std::optional<double> simulated, computation_predicted;
};

/// CSV: "study,line,simulated,computation_predicted", six digits each. By a few rows of each study, simulated again, one
/// sees whether the tables are of the program as it is, without simulating all.
std::string sampled_rows_csv(const std::vector<SampledRow>& rows);

/// `profile`: the profile file's value that the study uses (profile_of()).
StudyAccuracy study_accuracy(const Study& study, const Validation& validation, const Json& profile);

std::string to_text(StudyQuality::Of of);  // "cross-validated", "not fitted", "fitted"

/// Markdown: the errors of each study in percent of the measured value, "| study | 72 | cross-validated | ... |", with
/// the predicted computation and the best baseline if a study has them; where its measurements are from; what others have
/// reached on like data.
std::string accuracy_tables(const std::vector<StudyAccuracy>& studies);

/// Markdown: for each headline the rows of its studies and their lowest and highest MAPE. Empty without headlines.
std::string headline_table(const std::vector<Headline>& headlines, const std::vector<StudyAccuracy>& studies);

}  // namespace rehearse
