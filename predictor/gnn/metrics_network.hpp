#pragma once
// Our own network as it learns: its layers and what they say are those of predictor/metrics_model.hpp.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "predictor/gnn/predictor.hpp"
#include "predictor/metrics_model.hpp"

namespace rehearse {

/// Kinds of operations that no training sample has are one kind, unknown, which each kind is in a tenth of the steps of
/// training. Steps of AdamW (weight decay 0.03) on gradients of norm 2 at most. Loss: |ln label - ln prediction| / b + ln b
/// (a Laplace distribution, whose median the prediction is), and the cross-entropy of p, times 0.5. Labels that are not
/// known count nothing.
class MetricsNetwork : public Predictor {
 public:
  /// Scales come from the samples `train` of `dataset`. Throws InputError if it lacks columns or samples.
  MetricsNetwork(const Dataset& dataset, std::span<const std::size_t> train, const MetricsNetworkOptions& options);
  /// From state(). Throws InputError, "where: ...".
  MetricsNetwork(const TorchValue& state, const std::string& where);
  MetricsNetwork(MetricsNetwork&&) noexcept;
  ~MetricsNetwork() override;

  double learn(const Dataset& dataset, std::span<const std::size_t> samples, double learning_rate) override;
  double loss(const Dataset& dataset, std::span<const std::size_t> samples) override;
  std::vector<PredictedMetrics> predict(const Dataset& dataset, std::span<const std::size_t> samples) override;
  void calibrate(const Dataset& dataset, std::span<const std::size_t> samples) override;
  std::int64_t parameters() const override;
  bool needs_step() const override { return true; }
  TorchValue state() const override;
  /// Only what follows the timeline learns from now on.
  void freeze_operators();
  /// Forgets what the optimizer kept of earlier training.
  void forget_optimizer();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace rehearse
