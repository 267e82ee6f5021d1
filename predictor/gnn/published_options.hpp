#pragma once
// Choices of the published networks.

#include <cstdint>
#include <string>
#include <vector>

#include "predictor/torch_file.hpp"

namespace rehearse {

enum class Convolution { kGcn, kGin, kGat, kGatTextbook, kMpnn };

/// "gcn", "gin", "gat" (as published, which is not the attention of its paper), "gat-textbook", "mpnn".
Convolution parse_convolution(const std::string& name);
std::string to_text(Convolution convolution);

/// What learns when a network is carried over to another setting.
enum class Transfer {
  kNone,         // everything learns
  kAsPublished,  // only the last, fully connected layers; a third convolution is in the state and never used
  kAsIntended  // those, and a third convolution that takes the place of the second in the later half of its iterations
};

/// "none", "as-published", "as-intended".
Transfer parse_transfer(const std::string& name);
std::string to_text(Transfer transfer);

/// What a network learns of labels.
enum class LabelScaling {
  kMaxima,           // labels divided by the largest of the training data, as published
  kStandardisedLogs  // their logarithms, of mean 0 and standard deviation 1; the last layer then has no leaky ReLU
};

/// "maxima", "standardised-logs".
LabelScaling parse_label_scaling(const std::string& name);
std::string to_text(LabelScaling scaling);

/// The defaults are those of Driple's README. InputError of the constructor of a network for values out of range.
struct PublishedOptions {
  Convolution convolution = Convolution::kGcn;
  int features = 3;    // per node, at most `hidden`
  int outputs = 12;    // per graph
  int hidden = 64;     // a multiple of the 4 heads of GAT and of the 4 towers of MPNN
  int mlp_layers = 3;  // fully connected layers after Set2Set
  /// Convolutions in a graph of N nodes: "Nover2", "N", "Nover3", "log2N" .. "4log2N", "3sqrtN", "log10N", or a number.
  std::string iterations = "Nover2";
  int set2set_steps = 0;  // 0: as many as nodes, as published
  double dropout = 0.0;   // after every iteration but the last
  int gin_mlp_layers = 2;
  /// MPNN, of the messages m over a node's neighbours, element by element (Corso et al., NeurIPS 2020, section 2):
  ///   sum, mean, max, min, var, std    of them; std is the root of var + 1e-5
  ///   normalised_mean                  sum of m_ij / sqrt(d_i d_j), d the numbers of neighbours
  ///   softmax, softmin                 sum of m with shares as exp(m), or exp(-m)
  ///   moment3, moment4, moment5        the n-th root of M = mean of (m - mean)^n, as M (|M| + 1e-5)^(1/n - 1)
  ///   identity                         the message of the node to itself
  /// each scaled by, for d neighbours: identity 1, amplification log(d + 1) / average, attenuation its inverse, linear
  /// d / average, inverse_linear its inverse. Of a node without neighbours all messages are 0, but for identity.
  std::vector<std::string> mpnn_aggregators{"sum"};
  std::vector<std::string> mpnn_scalers{"identity"};
  int mpnn_pre_layers = 1, mpnn_post_layers = 1;
  bool mpnn_self_loop = false;
  double average_degree = 1.0;      // over the nodes of the training graphs, for "linear" and "inverse_linear"
  double average_log_degree = 1.0;  // of log(d + 1), for "amplification" and "attenuation"
  Transfer transfer = Transfer::kNone;
  LabelScaling labels = LabelScaling::kMaxima;
  double mlp_gain = 0.0;  // of the Xavier start of the fully connected layers; 0: 1 / inputs of a layer, as published
};

/// Throws InputError unless a network can be built from `options`.
void check_options(const PublishedOptions& options);

/// The options as a dict of a predictor's file, by the names above, and back; the last two may be missing there.
/// InputError, "<where>: ...".
TorchDict to_torch(const PublishedOptions& options);
PublishedOptions published_options(const TorchValue& value, const std::string& where);

/// Number of convolutions in a graph of `nodes` >= 1 by the rule, rounded down, at least 1. InputError for an unknown
/// rule.
std::int64_t iteration_count(const std::string& rule, std::int64_t nodes);

}  // namespace rehearse
