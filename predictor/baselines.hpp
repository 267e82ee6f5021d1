#pragma once
// What any network has to beat.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "predictor/dataset.hpp"

namespace rehearse {

enum class Baseline {
  kMean,        // of the training samples of the same setting; of all where there is none
  kLinear,      // ridge regression of ln(label + 1 % of its mean) on the totals (FeatureReader)
  kNeighbours,  // mean of the five nearest training samples of the same setting, by the totals
  kSketch       // sketch_profile(): nothing is learnt
};

/// "mean", "linear", "neighbours", "sketch".
std::string to_text(Baseline baseline);

/// Predictions for `samples` from what the samples `train` show: [samples.size()][labels]. Labels that no training
/// sample knows are NaN. Throws InputError without training samples.
std::vector<std::vector<double>> predict_by(Baseline baseline, const Dataset& dataset,
                                            std::span<const std::size_t> train, std::span<const std::size_t> samples);

}  // namespace rehearse
