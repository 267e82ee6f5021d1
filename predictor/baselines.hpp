#pragma once
// What any network has to beat.

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "predictor/dataset.hpp"
#include "sim/base/named.hpp"

namespace rehearse {

enum class Baseline {
  kMean,              // of the training samples of the same setting; of all where there is none
  kLinear,            // ridge regression of ln(label + 1 % of its mean) on the totals (FeatureReader), but the sketch's
  kNeighbours,        // mean of the five nearest training samples of the same setting, by the same totals
  kLinearWithSketch,  // as kLinear, on all totals: what our own network is given, too
  kSketch             // sketch_metrics(): nothing is learnt
};
inline constexpr std::array kBaselines{
    Named{"mean", Baseline::kMean}, Named{"linear", Baseline::kLinear}, Named{"neighbours", Baseline::kNeighbours},
    Named{"linear+sketch", Baseline::kLinearWithSketch}, Named{"sketch", Baseline::kSketch}};

/// What simple predictors say of samples, from what other samples show. Features are read once for all of them.
class Baselines {
 public:
  /// Predicts `samples` from what the samples `train` show. Throws InputError without training samples.
  Baselines(const Dataset& dataset, std::span<const std::size_t> train, std::span<const std::size_t> samples);
  /// The predicted labels [samples][labels], each in its unit; one that no training sample knows is NaN.
  std::vector<std::vector<double>> predict(Baseline baseline);

 private:
  struct Features {
    std::vector<std::vector<double>> totals, guesses;  // [samples][...]
    std::vector<std::vector<double>> plain;            // totals without those of the sketch
  };
  Features read(const std::vector<std::size_t>& samples) const;
  const Features& of_train();
  const Features& of_samples();
  std::vector<std::vector<double>> by_regression(bool has_sketch);
  std::vector<std::vector<double>> by_neighbours();

  const Dataset& dataset_;
  std::vector<std::size_t> train_, samples_;
  std::optional<Features> train_features_, sample_features_;
};

}  // namespace rehearse
