#pragma once
// The operations of the published networks that are no single one of LibTorch's. Tensors are float or double, on any device.

#include <cstdint>
#include <memory>
#include <vector>

namespace at {
class Tensor;
}

namespace rehearse::detail {

/// A sparse [nodes, nodes] matrix by rows: row i has the entries starts[i] .. starts[i + 1] - 1. It must be symmetric.
struct Links {
  std::vector<std::int64_t> starts;  // [nodes + 1]
  std::vector<std::int64_t> columns;
  std::vector<double> weights;
};

/// y = M x.  x, y [nodes, width].
at::Tensor propagate(const std::shared_ptr<const Links>& links, const at::Tensor& x);

/// Weights of an LSTM's four gates (i, f, g, o): of its input [4 H, in] and state [4 H, H], biases [4 H].
struct RecurrentWeights {
  const at::Tensor &input_weight, &state_weight;
  const at::Tensor &input_bias, &state_bias;
};

/// Scores of links for attention: entry e of head k has the score leaky(first[e, k] + second[e, k]) where `first` and
/// `second` are taken from node `first_nodes[e]` and `second_nodes[e]`; the scores of one group add up to 1 after the
/// softmax over group_starts[g] .. group_starts[g + 1] - 1; the result of node `targets[e]` gets the share of
/// `sources[e]`.
struct Attention {
  std::vector<std::int64_t> group_starts;                                 // [groups + 1]
  std::vector<std::int64_t> targets, sources, first_nodes, second_nodes;  // [entries]
};

/// y_i = sum over entries e with target i of share(e) h_source(e), for each head.
/// h [nodes, heads * width], first and second [nodes, heads]; result [nodes, heads * width].
at::Tensor attend(const std::shared_ptr<const Attention>& attention, const at::Tensor& h, const at::Tensor& first,
                  const at::Tensor& second, double leak);

/// The largest (or smallest) of each column over each group of rows, starts[g] .. starts[g + 1] - 1; 0 for an empty
/// group. values [entries, width]; result [groups, width]. The first of equal ones gets the gradient.
at::Tensor extremes(const std::vector<std::int64_t>& starts, const at::Tensor& values, bool is_smallest);

/// Set2Set:  q = LSTM(q*), a = softmax over the nodes of a graph of (x . q), r = sum a x, q* = [q, r], `steps` times
/// from q* = 0.  x [graphs, nodes, H], `weights` of an input [2H]; result [graphs, 2H].
/// Source: Vinyals, Bengio and Kudlur, "Order Matters: Sequence to sequence for sets", ICLR 2016.
at::Tensor set_to_set(const at::Tensor& x, const RecurrentWeights& weights, std::int64_t steps);

}  // namespace rehearse::detail
