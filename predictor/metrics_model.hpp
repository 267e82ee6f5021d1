#pragma once
// Our own network as it predicts: from a compiled step of training to the metrics of its resource profile, one network
// for all settings. It needs no LibTorch, in which it learns (predictor/gnn/metrics_network.hpp).

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "predictor/features.hpp"
#include "predictor/metrics_predictor.hpp"
#include "predictor/torch_file.hpp"

namespace rehearse {

struct MetricsNetworkOptions {
  int hidden = 16;         // features of a node
  int message_rounds = 2;  // how far nodes see along the edges
  int channels = 48;       // features of a part of the timeline
  int readout = 160;       // width of the layers after it
  Ablation ablation = Ablation::kNone;
  std::uint64_t seed = 42;
};

/// What the layers are told of a sample.
struct MetricsInputs {
  std::vector<std::int32_t> kinds, part, resource;  // [nodes]; kinds that were not learnt are kStepKinds
  std::vector<float> nodes, resources;              // [nodes, kNodeInputs], [kStepResources, kResourceInputs]
  NodeLinks flow;
  std::vector<float> timeline;            // [kStepParts, kTimelineInputs]
  std::vector<float> totals;              // [total inputs] in deviations from their means in training, at most 4
  std::vector<float> deviations;          // the same without that limit, 10 for one that never varied and does now
  std::vector<float> bases;               // [labels] ln, of what is limited ln(base / (limit - base))
  std::vector<float> limits, is_limited;  // [labels] ln, 0 where there is none; 1 where there is one
  float window = 0;                       // ln of steps + 1
};

/// What the layers say of each label: u, b and p of the formula.
struct MetricsOutputs {
  std::vector<float> value, width, presence;
};

/// The graph of a compiled step and of the resources that it needs (features.hpp); no simulator. With s(x) = x sigmoid(x), h the
/// features of nodes, g of resources, and e: a -> b those that wait for others:
///   h_b <- h_b + s(W h_b + sum over e of W_e h_a + sum over e from b of W_e' h_c + U g of its resource)    message_rounds times
///   g   <- g + s(V g + 0.1 sum of V_e h of the nodes that need it)
///   x_t = s(W [ln(1 + loads of part t of the timelines), their sums up to it and from it on, sums of h of the nodes that
///         end in it] + V totals)
///   x <- x + s(convolution of 5 parts over x), 4 times, dilated by 1, 2, 4, 1
///   z = MLP[mean, maximum and deviation of x over t, totals, ln of mean loads, g]
/// z gives u, a width b and a logit p for each label. A label is 0 where p < 0; else base * exp(u), or for shares
/// sigmoid(logit(base) + u): what idle resources would show (SampleFeatures::bases), corrected; for step times and
/// mean rates 0.05 sinh(u) takes the place of u. No idle or active time exceeds the steps of the window, and one that
/// is never interrupted by the other takes them.
/// Intervals are as many times wider as an input is farther (distance) than 99 % of the training samples, twice at most.
class MetricsModel : public MetricsPredictor {
 public:
  /// Scales come from the samples `train` of `dataset`; it predicts after take_weights(). Throws InputError if it lacks
  /// columns or samples.
  MetricsModel(const Dataset& dataset, std::span<const std::size_t> train, const MetricsNetworkOptions& options);
  /// From the state() of a MetricsNetwork. Throws InputError, "where: ...".
  MetricsModel(const TorchValue& state, const std::string& where);
  MetricsModel(MetricsModel&&) noexcept;
  ~MetricsModel() override;

  std::vector<PredictedMetrics> predict(const Dataset& dataset, std::span<const std::size_t> samples) override;
  bool needs_step() const override { return true; }

  const MetricsNetworkOptions& options() const;
  std::size_t labels() const;
  /// [labels]: step times and mean rates, which 0.05 sinh(u) corrects.
  const std::vector<bool>& has_fine_corrections() const;
  std::size_t total_inputs() const;
  MetricsInputs inputs(const Dataset& dataset, std::size_t sample) const;
  MetricsOutputs outputs(const MetricsInputs& in) const;
  /// Split-conformal intervals from samples that were not trained on.
  void calibrate(const Dataset& dataset, std::span<const std::size_t> samples);
  /// The layers' weights and biases, by their names. Throws InputError, "where: ...", for other shapes, or numbers that no
  /// training gives.
  void take_weights(const TorchValue& weights, const std::string& where);
  /// All but the weights.
  TorchDict state() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace rehearse
