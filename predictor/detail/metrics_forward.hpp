#pragma once
// The layers of MetricsModel, whose formula is in its header.

#include <Eigen/Core>
#include <array>
#include <string>
#include <vector>

#include "predictor/metrics_model.hpp"

namespace rehearse::detail {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::Matrix<float, 1, Eigen::Dynamic>;

// Of all programs that compute the layers.
inline constexpr std::array<int, 4> kDilations{1, 2, 4, 1};
inline constexpr int kAboutTotals = 64;  // features of them
inline constexpr float kLeastWidth = 0.001F;
inline constexpr float kTrust = 2;  // logit, before anything is learnt, that a state occurs
// Most step times and mean rates are what resources without others would show (SampleFeatures::bases), to a thousandth, and some
// are far from it. Their corrections are kFineCorrection sinh(u): fine where they are small. |u| is kMostFine at most.
inline constexpr float kFineCorrection = 0.05F, kMostFine = 8;
inline constexpr float kDrawnScale = 8, kUsesScale = 0.1F;

/// y = x weight' + bias.
struct LinearLayer {
  Rows weight;  // [outputs, inputs]
  Row bias;     // [outputs]; empty: none

  Rows operator()(const Rows& x) const;
};

class MetricsForward {
 public:
  /// Throws InputError, "where: ...", for a weight of another shape than `options` say, or of more than 1e4 to either side
  /// of 0, far beyond any of a trained network.
  MetricsForward(const MetricsNetworkOptions& options, std::size_t total_inputs, std::size_t labels,
                 const TorchValue& weights, const std::string& where);

  MetricsOutputs outputs(const MetricsInputs& in) const;

 private:
  struct Round {
    LinearLayer own_node, own_resource, flow, awaited, uses, serves;
  };
  Rows kind_;  // [kStepKinds + 1, hidden]
  LinearLayer of_node_, of_resource_, about_, shift_, enter_, first_, middle_, last_, value_, width_, presence_;
  std::vector<Round> rounds_;
  std::vector<LinearLayer> along_;
};

}  // namespace rehearse::detail
