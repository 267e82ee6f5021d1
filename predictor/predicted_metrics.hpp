#pragma once
// What a predictor says of a job.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace rehearse {

/// One label of one sample.
struct LabelPrediction {
  double value = 0;          // median
  double low = 0, high = 0;  // 90 % of labels are between, as far as others show; NaN if nothing is known
};

/// Shares of labels that intervals are made for; the one that a LabelPrediction has.
inline constexpr std::array kCoverages{0.5, 0.8, 0.9, 0.95};
inline constexpr std::size_t kShown = 2;

struct PredictedMetrics {
  std::vector<LabelPrediction> labels;  // [labels]
  std::vector<double> widths;           // [labels] of ln label, before intervals were calibrated; empty: not known
  /// [labels] how far intervals of kCoverages reach to either side in ln label; empty: not known.
  std::vector<std::array<double, kCoverages.size()>> reaches;
  /// How far the sample is from the training data: above 1 it is further than all but 1 % of them. 0: not known.
  double distance = 0;
  std::string
      farthest;  // the one of FeatureReader::total_names() that is most deviations from their mean; empty: unknown
  /// What the sample has, of FeatureReader::total_names(), and no training sample had; empty: nothing.
  std::string unlearned;
  /// Of a published network: its twelve outputs as they are, before anything is done to them (Driple's own program shows
  /// them so); empty: it is none.
  std::vector<double> outputs;
  /// Of a published network: why what it says may not hold in the sample's setting (taught_settings.hpp); empty: it does.
  std::string caution;
  bool is_other_setting = false;  // it is certainly another one than those that it was taught
};

/// The factor of widths by which intervals reach, for each of kCoverages, so that this share of others is inside:
/// the smallest of `scores` that ceil(coverage (n + 1)) of them do not exceed (split-conformal prediction).
std::array<double, kCoverages.size()> conformal_quantiles(std::vector<double> scores);

/// Widths times `quantiles` [kCoverages], at most a factor of a million to either side.
std::array<double, kCoverages.size()> reaches_of(double width, std::span<const double> quantiles);

}  // namespace rehearse
