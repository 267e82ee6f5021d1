#pragma once
// The arithmetic of the published networks, on LibTorch tensors. Notation as in published_network.hpp.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "predictor/gnn/published_options.hpp"

namespace at {
class Tensor;
}

namespace rehearse::detail {

/// A named tensor of a network, in the order and with the names of the published checkpoints.
struct ParameterShape {
  enum class Start { kUniform, kXavier, kZero, kConstant };
  std::string name;
  std::vector<std::int64_t> shape;
  Start start = Start::kZero;
  double scale = 0.0;  // uniform: half the width; xavier: gain; constant: the value
};

std::vector<ParameterShape> parameter_shapes(const PublishedOptions& options);

/// `graphs` graphs of `nodes` nodes each, one after another.
struct EqualGraphs {
  std::int64_t graphs = 0, nodes = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // undirected
  std::vector<double> features;                                // [graphs * nodes][features]
};

/// Called with a name ("conv 0", "gru 0", "set2set", "mlp 0") and an intermediate value.
using Trace = std::function<void(const std::string&, const at::Tensor&)>;

struct ForwardSettings {
  /// The factors of dropout, [nodes, hidden], after an iteration; none if empty.
  std::function<at::Tensor(std::int64_t iteration)> dropout;
  Trace trace;
};

/// What Set2Set makes of the graphs, [graphs, 2 hidden]: all but the fully connected layers. `parameters` are in the
/// order of parameter_shapes().
at::Tensor embed(const PublishedOptions& options, const std::vector<at::Tensor>& parameters, const EqualGraphs& graphs,
                 const ForwardSettings& settings);

/// The outputs [graphs, outputs] for what embed() gave.
at::Tensor read_out(const PublishedOptions& options, const std::vector<at::Tensor>& parameters,
                    const at::Tensor& embedding, const Trace& trace);

}  // namespace rehearse::detail
