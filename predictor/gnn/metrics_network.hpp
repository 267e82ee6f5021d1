#pragma once
// Our own network: from a training step's operators and a cluster's description to the metrics of its resource profile, one network
// for all settings.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "predictor/gnn/predictor.hpp"

namespace rehearse {

struct MetricsNetworkOptions {
  int hidden = 32;         // features of an operator
  int message_rounds = 2;  // how far operators see along the edges, in either direction
  int readout = 128;       // width of the layers after the sum over operators
  int heads = 4;           // learned weightings of each cost
  std::uint64_t seed = 42;
};

/// With x_i the inputs of operator i (FeatureReader), c_ik its costs:
///   h_i = s(W x_i);  h_i <- h_i + s(W_0 h_i + W_1 mean of h over predecessors + W_2 the same over successors), twice
///   T_km = sum_i c_ik exp(2 tanh(w_km . h_i))      learned sums of seconds, so that time is additive in operators
///   z = MLP[ln T, mean of h, totals]               gives u, width b and a logit p for each label
///   g = sketch_metrics(); half the window for the active time of a resource that only p says is ever idle
///   label = 0 where p says that the state never occurs, else g exp(u), or for a bounded label
///   bound * sigmoid(u + logit(g / bound)): utilizations stay in [0, 1], rates below the link. No idle or active time
///   exceeds the window over which metrics are taken, and what is never idle is active all of it.
/// u and p start at 0 and at what g says, so that an untrained network gives the sketch. The least width b is 0.002,
/// and predictions leave out as much of u, which training does not tell from 0. Steps of AdamW (weight decay 1e-3) on
/// gradients of norm 5 at most. Loss: |ln label - ln prediction| / b + ln b (a Laplace distribution, whose median the
/// prediction is), and the cross-entropy of p, times 0.5. Labels that are not known count nothing.
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
  std::int64_t parameters() const override;
  TorchValue state() const override;
  /// Only what follows the sum over operators learns from now on.
  void freeze_operators();
  /// Forgets what the optimizer kept of earlier training.
  void forget_optimizer();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace rehearse
