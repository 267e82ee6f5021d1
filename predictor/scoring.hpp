#pragma once
// How good predictions are.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "predictor/dataset.hpp"

namespace rehearse {

/// Errors of the predictions of one label.
struct LabelScore {
  std::string label;
  std::size_t samples = 0;   // whose label is_observed() and predicted
  std::size_t on_scale = 0;  // of them, scored by absolute error on the scale of their setting
  double median_ape = 0;     // absolute percentage errors: |prediction - label| / max(label, 1 % of the median)
  double mape = 0;
  double p90_ape = 0;
  double r2 = 0;             // 1 - sum of squared errors / sum of squared deviations from the mean label
  std::size_t models = 0;    // of their graphs and studies: model_of(), study_of()
  double by_model_ape = 0;   // mean over them of the median APE of each one's samples
  double by_model_mape = 0;  // mean over them of the mean APE of each one's samples
};

/// Predictions against the labels of some samples.
struct Score {
  std::vector<LabelScore> labels;  // [labels] that any of the samples knows
  /// Means over the twelve burst metrics that are known, or over the other labels if none of them is; the worst one.
  double median_ape = 0, worst_median_ape = 0, r2 = 0, by_model_ape = 0, mape = 0, by_model_mape = 0;
  std::size_t samples = 0, models = 0;  // the most that any of these metrics has
  std::size_t on_scale = 0;
};

/// `predictions` [samples.size()][labels]. The median of a label in a setting is that over all samples of `dataset` of
/// that setting; a label below 1 % of it is scored by its absolute error on that scale, and counted in `on_scale`.
/// Where that median is 0 an error is 0 % or 100 %. Predictions that are NaN are left out.
Score score(const Dataset& dataset, std::span<const std::size_t> samples,
            std::span<const std::vector<double>> predictions);

}  // namespace rehearse
