#pragma once
// The operations in which a published network spends its time: forward and backward in one piece each, with the sums in
// a fixed order. Every one has a plain twin of LibTorch's own operations (`is_plain`), which runs on every device and
// which the fast one is tested against (published_network_test.cpp). Tensors are float or double.

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
at::Tensor propagate(const std::shared_ptr<const Links>& links, const at::Tensor& x, bool is_plain);

/// Weights of a recurrent layer with g gates: of its input [g H, in] and state [g H, H], biases [g H].
struct RecurrentWeights {
  const at::Tensor &input_weight, &state_weight;
  const at::Tensor &input_bias, &state_bias;
};

/// A gated recurrent unit in PyTorch's convention (gates r, z, n):  r = s(W_ir x + b_ir + W_hr y + b_hr), z alike,
/// n = tanh(W_in x + b_in + r * (W_hn y + b_hn)), result (1 - z) * n + z * y.
/// x `input` [nodes, in], y `state` [nodes, H], W and b `weights` with g = 3; result [nodes, H].
at::Tensor gated_recurrent_unit(const at::Tensor& input, const at::Tensor& state, const RecurrentWeights& weights,
                                bool is_plain);

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
                  const at::Tensor& second, double leak, bool is_plain);

/// The largest (or smallest) of each column over each group of rows, starts[g] .. starts[g + 1] - 1; 0 for an empty
/// group. values [entries, width]; result [groups, width]. The first of equal ones gets the gradient.
at::Tensor extremes(const std::vector<std::int64_t>& starts, const at::Tensor& values, bool is_smallest);

/// Set2Set:  q = LSTM(q*), a = softmax over the nodes of a graph of (x . q), r = sum a x, q* = [q, r], `steps` times
/// from q* = 0.  x [graphs, nodes, H], `weights` with g = 4 (gates i, f, g, o), of an input [2H]; result [graphs, 2H].
/// Source: Vinyals, Bengio and Kudlur, "Order Matters: Sequence to sequence for sets", ICLR 2016.
at::Tensor set_to_set(const at::Tensor& x, const RecurrentWeights& weights, std::int64_t steps, bool is_plain);

}  // namespace rehearse::detail
