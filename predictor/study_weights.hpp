#pragma once
// What each study of measured samples counts for.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "predictor/dataset.hpp"

namespace rehearse {

/// The largest share that one study has of the weight of all measured samples.
inline constexpr double kLargestStudy = 0.25;

/// Factors of some samples, [samples]: below 1 for those of studies (study_of()) that had more than kLargestStudy of the
/// weight `weight_of` of all measured ones, as far as it takes for these to have just that; 1 for all others, simulated
/// ones, and those that no study is named of. With k such studies and R the weight of the rest, each has R / (1 / share - k) then.
/// Of fewer than four studies one has more than a quarter whatever the factors: all are 1.
std::vector<double> study_factors(const Dataset& dataset, std::span<const std::size_t> samples,
                                  const std::function<double(const Sample&)>& weight_of);

/// Multiplies the weights of the samples by study_factors(), with weight x known labels as the weight of a sample: the loss
/// adds up labels, and those that follow from a step time (is_observed()) are among them.
void limit_studies(Dataset& dataset, std::span<const std::size_t> samples);

}  // namespace rehearse
