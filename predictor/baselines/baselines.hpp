#pragma once
// What any network has to beat.

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "predictor/dataset.hpp"
#include "sim/base/named.hpp"

namespace rehearse {

/// All of them learn the logarithms of what the network learns (SampleFeatures::bases), from its totals: none sees less.
enum class Baseline {
  kMedian,      // of the training samples of the same setting; of all where there is none
  kClosedForm,  // SampleFeatures::bases: what steps show on resources as busy as they are in the mean
  kLinear,      // ridge regression on the totals (FeatureReader)
  kTrees,       // gradient-boosted trees (XGBoost) on them
  kNeighbours   // mean of the five nearest training samples of the same setting, by the totals
};
inline constexpr std::array kBaselines{Named{"median", Baseline::kMedian}, Named{"closed form", Baseline::kClosedForm},
                                       Named{"linear", Baseline::kLinear}, Named{"trees", Baseline::kTrees},
                                       Named{"neighbours", Baseline::kNeighbours}};

/// What simple predictors say of samples, from what other samples show. Features are read once for all of them.
class Baselines {
 public:
  /// Predicts `samples` from what the samples `train` show. Throws InputError without training samples.
  Baselines(const Dataset& dataset, std::span<const std::size_t> train, std::span<const std::size_t> samples);
  /// The predicted labels [samples][labels], each in its unit; one that no training sample knows is NaN.
  std::vector<std::vector<double>> predict(Baseline baseline);

 private:
  struct Features {
    std::vector<std::vector<double>> totals, bases;  // [samples][...]
  };
  /// Says of one label of the samples asked for what was learnt: logarithms over their bases.
  using Regression =
      std::function<std::vector<double>(const std::vector<std::size_t>& known, const std::vector<double>& logs)>;
  Features read(const std::vector<std::size_t>& samples) const;
  std::vector<std::vector<double>> by(const Regression& regression);
  std::vector<std::vector<double>> by_regression();
  std::vector<std::vector<double>> by_trees();
  std::vector<std::vector<double>> by_neighbours();

  const Dataset& dataset_;
  std::vector<std::size_t> train_, samples_;
  std::optional<Features> train_features_, sample_features_;
};

}  // namespace rehearse
