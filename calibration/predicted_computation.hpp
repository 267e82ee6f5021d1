#pragma once
// A study of which the computation is predicted, too, instead of taken from measured step times.

#include "calibration/study.hpp"
#include "calibration/validation.hpp"
#include "platforms/catalog.hpp"

namespace rehearse {

/// The study as it is for whoever has no step times of its workloads: rows that nothing else tells of have a problem instead,
/// those of models that are durations among them; the framework is Study::predicted_framework; inputs are not copied, as
/// step times have it.
Study without_step_times(const Study& study, const Catalog& catalog);

/// The study as a user of another cluster sees it, in a catalog that withholds its own profiles (profiles_fitted_on()): each
/// row by the profile that it is given, and none that only step times of the study tell of.
Study without_own_profiles(Study study, const Catalog& catalog);

/// The study without the rows that have no scenario but a problem: they are excluded for it.
Study without_unmapped_rows(Study study);

/// The study with the computation of profile "kernels" (sim/scenario/kernel_plan.hpp): kernels and frameworks come from
/// there, host, GPUs and step times go; the exchange stays as the study's profile has it. Inputs are not copied unless
/// the scenario says so, as with step times. Rows that only step times tell of, among them those of models with durations
/// instead of layers, have no scenario, but a reason.
Study with_predicted_computation(const Study& study, const Catalog& catalog);

/// A profile with the computation of profile "kernels" in the place of its own.
Json with_computation_by_kernels(Json profile, const Catalog& catalog, const std::string& file_name);

/// The study with the computation of its own profile, and without what that states of NICs, servers and collectives: this
/// comes from elsewhere (sim/scenario/substitutes.hpp), by a catalog that withholds the study's own profiles from others.
Study with_predicted_exchange(const Study& study, const Catalog& catalog);

/// How such predictions are off, over the rows that count for the study's quality and that the kernels can do.
struct PredictedComputation {
  std::vector<std::optional<double>> values;  // [study rows] the metric
  ErrorStatistics errors;
  std::vector<ExcludedRows>
      without;  // scored rows that kernels cannot do: reasons, and lines of the measurements' file

  std::size_t rows_without() const;
};
PredictedComputation score_predicted_computation(const Study& study, StudyQuality::Of quality,
                                                 const std::vector<Prediction>& predictions);

/// Whether so many step times are measured for so many scored rows, more than a third, that a study interpolates rather
/// than predicts.
bool interpolates(std::size_t step_times, std::size_t rows);

Json to_json(const PredictedComputation& predicted);

}  // namespace rehearse
