#pragma once
// What says the metrics of jobs, whatever it is inside.

#include <cstddef>
#include <span>
#include <vector>

#include "predictor/dataset.hpp"
#include "predictor/operator_types.hpp"
#include "predictor/predicted_metrics.hpp"

namespace rehearse {

class MetricsPredictor {
 public:
  virtual ~MetricsPredictor() = default;

  /// The samples are given by their indices. Throws InputError for a dataset with other labels.
  virtual std::vector<PredictedMetrics> predict(const Dataset& dataset, std::span<const std::size_t> samples) = 0;
  /// The frequencies of operator types by which a predictor of groups of operators makes them; such a one also takes
  /// datasets of groups (group_feature_names()). Null: it sees operators.
  virtual const TypeFrequencies* type_frequencies() const { return nullptr; }
  /// Whether it is told of the step (Sample::step), without which it says nothing.
  virtual bool needs_step() const { return false; }
  /// Whether its labels have their units; a network with Driple's bare weights says shares of the largest labels, which
  /// nobody has told it: PredictedMetrics::outputs alone.
  virtual bool has_units() const { return true; }
};

}  // namespace rehearse
