#pragma once
// Our own network: from a compiled step of training to the metrics of its resource profile, one network
// for all settings.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "predictor/features.hpp"
#include "predictor/gnn/predictor.hpp"

namespace rehearse {

struct MetricsNetworkOptions {
  int hidden = 16;         // features of a node
  int message_rounds = 2;  // how far nodes see along the edges
  int channels = 48;       // features of a part of the timeline
  int readout = 160;       // width of the layers after it
  Ablation ablation = Ablation::kNone;
  std::uint64_t seed = 42;
};

/// The graph of a compiled step and of the resources that it needs (features.hpp); no simulator. With s(x) = x sigmoid(x), h the
/// features of nodes, g of resources, and e: a -> b those that wait for others:
///   h_b <- h_b + s(W h_b + sum over e of W_e h_a + sum over e from b of W_e' h_c + U g of its resource)    message_rounds times
///   g   <- g + s(V g + sum of V_e h of the nodes that need it)
///   x_t = s(W [loads of part t of the timelines, their sums up to it and from it on, sums of h of the nodes that end in it] + V totals)
///   x <- x + s(convolution of 5 parts over x), 4 times, dilated by 1, 2, 4, 1
///   z = MLP[mean, maximum and deviation of x over t, totals, sums of loads, g]
/// z gives u, a width b and a logit p for each label. A label is 0 where p < 0; else base * exp(u), or for shares
/// sigmoid(logit(base) + u): what idle resources would show (SampleFeatures::bases), corrected. Totals are in deviations from their
/// means in training, at most 4. No idle or active time exceeds the steps of the window, and one that is never interrupted by the
/// other takes them.
/// Kinds of operations that no training sample has are one kind, unknown, which each kind is in a tenth of the steps of training.
/// Intervals are as many times wider as an input is farther (distance) than 99 % of the training samples, twice at most.
/// Steps of AdamW (weight decay 1e-3) on gradients of norm 2 at most. Loss: |ln label - ln prediction| / b + ln b (a
/// Laplace distribution, whose median the prediction is), and the cross-entropy of p, times 0.5. Labels that are not
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
