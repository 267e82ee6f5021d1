#pragma once
// A network that learns from the samples of a dataset, whatever it is inside.

#include <cstddef>
#include <cstdint>
#include <span>

#include "predictor/metrics_predictor.hpp"
#include "predictor/torch_file.hpp"

namespace rehearse {

class Predictor : public MetricsPredictor {
 public:
  /// One step of its optimizer on these samples, given by their indices. Returns the loss before it.
  virtual double learn(const Dataset& dataset, std::span<const std::size_t> samples, double learning_rate) = 0;
  virtual double loss(const Dataset& dataset, std::span<const std::size_t> samples) = 0;
  /// Split-conformal intervals: sets the reach of each label's so that the share of `samples` that is inside is what
  /// it says. They must not have been trained on.
  virtual void calibrate(const Dataset& /*dataset*/, std::span<const std::size_t> /*samples*/) {}
  virtual std::int64_t parameters() const = 0;  // that learn
  /// All of it, with its optimizer: what load_predictor() makes the same predictor from.
  virtual TorchValue state() const = 0;
};

}  // namespace rehearse
