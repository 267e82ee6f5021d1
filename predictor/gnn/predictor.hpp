#pragma once
// A network that learns from the samples of a dataset, whatever it is inside.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "predictor/dataset.hpp"
#include "predictor/operator_types.hpp"
#include "predictor/torch_file.hpp"

namespace rehearse {

/// One label of one sample.
struct LabelPrediction {
  double value = 0;          // median
  double low = 0, high = 0;  // 5th and 95th percentile, as far as the training data tell; equal to the value if nothing
                             // is known
};

struct PredictedMetrics {
  std::vector<LabelPrediction> labels;  // [labels]
  /// How far the sample is from the training data: above 1 it is further than all but 1 % of them. 0: not known.
  double distance = 0;
};

class Predictor {
 public:
  virtual ~Predictor() = default;

  /// One step of its optimizer on these samples, given by their indices. Returns the loss before it.
  virtual double learn(const Dataset& dataset, std::span<const std::size_t> samples, double learning_rate) = 0;
  virtual double loss(const Dataset& dataset, std::span<const std::size_t> samples) = 0;
  virtual std::vector<PredictedMetrics> predict(const Dataset& dataset, std::span<const std::size_t> samples) = 0;
  /// The frequencies of operator types by which a predictor of groups of operators makes them; such a one also takes
  /// datasets of groups (group_feature_names()). Null: it sees operators.
  virtual const TypeFrequencies* type_frequencies() const { return nullptr; }
  virtual std::int64_t parameters() const = 0;  // that learn
  /// All of it, with its optimizer: what load_predictor() makes the same predictor from.
  virtual TorchValue state() const = 0;
};

}  // namespace rehearse
