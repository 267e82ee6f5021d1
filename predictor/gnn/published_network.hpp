#pragma once
// The graph neural networks that Driple published, trained and applied.
//
// A graph of N nodes with features x^0 [N, 3] goes through K iterations (PublishedOptions::iterations)
//   y^t = convolution_t(x^{t-1}),   x^t = GRU(input x^{t-1}, state y^t),
// in which the first convolution has weights of its own and all others share one set; x^0 is padded with zeros to
// `hidden` columns for the GRU. Set2Set over the nodes and fully connected layers (ReLU, at the end leaky ReLU 0.01)
// give the outputs. D: degrees of A + I; d_i: number of neighbours of node i.
//   gcn   y = leaky_0.01(D^-1/2 (A + I) D^-1/2 x W + b)
//   gin   y = MLP((A + (1 + eps) I) x), 2 layers, ReLU after both, eps trainable
//   mpnn  4 towers:  m_ij = P [x_i, x_j],  u_i = Q [x_i, aggregates of m_ij over neighbours j],  leaky_0.01(linear(u))
//   gat   4 heads:  y_i = ELU(sum_j a_ij h_j), h = x W, with Driple's own pairing and softmax
//   gat-textbook    with those of the paper. Pairs of nodes are never formed: a . [h_u, h_v] is a sum of two terms, and
//                   only links are visited.
// Sources: Yang et al., Proc. ACM Meas. Anal. Comput. Syst. 6(2), art. 29, 2022, and its program. Checked against
// tests/predictor/data/driple in published_network_test.cpp.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "predictor/gnn/graph_batch.hpp"
#include "predictor/gnn/published_options.hpp"
#include "predictor/torch_file.hpp"

namespace rehearse {

enum class Arithmetic { kSinglePrecision, kDoublePrecision };

/// How a network computes; no part of what it is.
struct ComputeSettings {
  Arithmetic precision = Arithmetic::kSinglePrecision;  // of weights, losses and training; predictions have the double
  std::string device = "cpu";                           // or "cuda", "cuda:1", if this LibTorch has it
};

struct AdamOptions {
  double learning_rate = 0.003;
  double weight_decay = 1e-6;  // times the parameter, added to the gradient
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

/// By which labels become standardised logarithms, (log(max(label, smallest)) - mean) / deviation, each [outputs].
struct LabelLogs {
  std::vector<double> smallest, mean, deviation;  // smallest and deviation > 0
};

struct ParameterInfo {
  std::string name;  // as in the published checkpoints, such as "conv_layers.0.W"
  std::vector<std::int64_t> shape;
  bool learns = true;
};

/// All functions that take a batch throw InputError as check_batch() does; graphs may differ in size.
class PublishedNetwork {
 public:
  /// Starts with random weights. InputError as check_options(), or for a device that is not there.
  PublishedNetwork(const PublishedOptions& options, std::uint64_t seed, const ComputeSettings& settings = {});
  PublishedNetwork(PublishedNetwork&&) noexcept;
  PublishedNetwork& operator=(PublishedNetwork&&) noexcept;
  ~PublishedNetwork();

  /// A predictor's file: a torch file of a dict with the options, the scales of the labels, the state of the optimizer, and
  /// under "state" a state_dict that Driple's program loads. from_state() continues where state() stopped. InputError,
  /// "where: ...".
  TorchValue state() const;
  static PublishedNetwork from_state(const TorchValue& file, const std::string& where,
                                     const ComputeSettings& settings = {});
  /// Takes the weights of a predictor's file or of a bare state_dict, such as Driple's pre-train.pkl, by their names; what
  /// they lack keeps its value and is returned, except that a third convolution as intended then starts as the second.
  /// InputError if a shape differs or no name is known.
  std::vector<std::string> take_weights(const TorchValue& file, const std::string& where);

  const PublishedOptions& options() const;
  std::vector<ParameterInfo> parameters() const;
  /// Row-major values of a parameter. std::out_of_range, std::invalid_argument for a wrong name or size.
  std::vector<double> values(const std::string& parameter) const;
  void set_values(const std::string& parameter, std::span<const double> values);

  /// Labels are divided by these maxima (of the training data, > 0; all 1 at the start) before they are learnt, and
  /// predictions multiplied by them. InputError for another number of them than outputs.
  void set_label_maxima(const std::vector<double>& maxima);
  const std::vector<double>& label_maxima() const;
  /// The same for LabelScaling::kStandardisedLogs, at the start the logarithms themselves.
  void set_label_logs(const LabelLogs& logs);
  const LabelLogs& label_logs() const;

  /// What comes out of the last layer [graphs][outputs], which Driple's program prints. Always computed in float64: raw
  /// features of 1e6 make scores as large, of which float32 keeps tenths, and the softmax of Set2Set and of attention needs
  /// their differences.
  std::vector<double> outputs(const GraphBatch& batch) const;
  /// Outputs [graphs][outputs] in the units of the labels; those of kMaxima can be a little below 0 (leaky ReLU).
  std::vector<double> labels_of(std::span<const double> outputs) const;
  /// labels_of() the outputs().
  std::vector<double> predict(const GraphBatch& batch) const;
  /// Whether the maxima were ever set, or are not used; if not, labels are shares of largest ones that are not known.
  bool has_label_scales() const;
  /// Mean over graphs and outputs of weight * (prediction - label)^2, both scaled as the options say. The batch has labels.
  double loss(const GraphBatch& batch) const;
  /// One step of Adam; returns the loss before it. Where only the fully connected layers learn
  /// (Transfer::kAsPublished), what lies before them is computed once for each batch and kept. Source: Kingma and Ba,
  /// ICLR 2015.
  double train(const GraphBatch& batch, const AdamOptions& adam = {});

  /// For tests and diagnosis: the L2 norm of the gradient by each parameter that learns and is used; all intermediate
  /// values of one graph, named "conv 0", "gru 0", ..., "set2set 0", "mlp 0", ....
  std::vector<std::pair<std::string, double>> gradient_norms(const GraphBatch& batch) const;
  std::vector<std::pair<std::string, std::vector<double>>> trace(const GraphBatch& one_graph) const;

 private:
  struct Network;
  std::unique_ptr<Network> network_;
};

}  // namespace rehearse
