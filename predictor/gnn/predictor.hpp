#pragma once
// A network that learns from the samples of a dataset, whatever it is inside.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "predictor/dataset.hpp"
#include "predictor/operator_types.hpp"
#include "predictor/predicted_metrics.hpp"
#include "predictor/torch_file.hpp"

namespace rehearse {

class Predictor {
 public:
  virtual ~Predictor() = default;

  /// One step of its optimizer on these samples, given by their indices. Returns the loss before it.
  virtual double learn(const Dataset& dataset, std::span<const std::size_t> samples, double learning_rate) = 0;
  virtual double loss(const Dataset& dataset, std::span<const std::size_t> samples) = 0;
  virtual std::vector<PredictedMetrics> predict(const Dataset& dataset, std::span<const std::size_t> samples) = 0;
  /// Split-conformal intervals: sets the reach of each label's so that the share of `samples` that is inside is what
  /// it says. They must not have been trained on.
  virtual void calibrate(const Dataset& /*dataset*/, std::span<const std::size_t> /*samples*/) {}
  /// The frequencies of operator types by which a predictor of groups of operators makes them; such a one also takes
  /// datasets of groups (group_feature_names()). Null: it sees operators.
  virtual const TypeFrequencies* type_frequencies() const { return nullptr; }
  /// Whether it is told of the step (Sample::step), without which it says nothing.
  virtual bool needs_step() const { return false; }
  /// Whether its labels have their units; a network with Driple's bare weights says shares of the largest labels, which
  /// nobody has told it: PredictedMetrics::outputs alone.
  virtual bool has_units() const { return true; }
  virtual std::int64_t parameters() const = 0;  // that learn
  /// All of it, with its optimizer: what load_predictor() makes the same predictor from.
  virtual TorchValue state() const = 0;
};

}  // namespace rehearse
