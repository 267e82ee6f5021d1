#include "predictor/gnn/detail/kernels.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <utility>

namespace rehearse::detail {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// Lets an autograd function keep a value of ours until its backward pass.
template <class T>
struct Kept : torch::CustomClassHolder {
  explicit Kept(std::shared_ptr<const T> kept) : value{std::move(kept)} {}
  std::shared_ptr<const T> value;
};

template <class T>
void keep(AutogradContext* context, const std::shared_ptr<const T>& value) {
  context->saved_data["kept"] = c10::IValue::make_capsule(c10::make_intrusive<Kept<T>>(value));
}

template <class T>
const T& kept(AutogradContext* context) {
  return *static_cast<const Kept<T>&>(*context->saved_data["kept"].toCapsule()).value;
}

Tensor index_tensor(const std::vector<std::int64_t>& values, const Tensor& like) {
  return at::tensor(values, at::TensorOptions{}.dtype(at::kLong)).to(like.device());
}

/// The group that each entry belongs to.
std::vector<std::int64_t> groups_of(const std::vector<std::int64_t>& starts) {
  std::vector<std::int64_t> groups;
  groups.reserve(static_cast<std::size_t>(starts.back()));
  for (std::size_t i = 0; i + 1 < starts.size(); ++i)
    groups.insert(groups.end(), static_cast<std::size_t>(starts[i + 1] - starts[i]), static_cast<std::int64_t>(i));
  return groups;
}

// --- propagate ---

template <class T>
void multiply(const Links& links, const T* x, T* y, std::int64_t width) {
  const auto nodes = static_cast<std::int64_t>(links.starts.size()) - 1;
  const std::int64_t *starts = links.starts.data(), *columns = links.columns.data();
  const double* weights = links.weights.data();
  for (std::int64_t i = 0; i < nodes; ++i) {
    T* out = y + i * width;
    std::fill(out, out + width, T{0});
    for (std::int64_t e = starts[i]; e < starts[i + 1]; ++e) {
      const T weight = static_cast<T>(weights[e]);
      const T* in = x + columns[e] * width;
      for (std::int64_t f = 0; f < width; ++f) out[f] += weight * in[f];
    }
  }
}

Tensor multiplied(const Links& links, const Tensor& x) {
  const Tensor in = x.contiguous();
  Tensor out = at::empty_like(in);
  AT_DISPATCH_FLOATING_TYPES(in.scalar_type(), "propagate",
                             [&] { multiply(links, in.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), in.size(1)); });
  return out;
}

struct Propagate : Function<Propagate> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const std::shared_ptr<const Links>& links) {
    keep(context, links);
    return multiplied(*links, x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {multiplied(kept<Links>(context), gradients[0]), Tensor{}};
  }
};

// --- gated recurrent unit ---

// Both passes go through blocks of rows that stay in the second-level cache between matrix product and arithmetic.

/// What the gates r, z and n of each node have from input and state.
template <class T>
struct GateSums {
  std::int64_t nodes = 0, width = 0;
  const T *from_input = nullptr, *from_state = nullptr;  // [nodes, 3 width], without biases
  const T *input_bias = nullptr, *state_bias = nullptr;  // [3 width]
};

/// `gates` [nodes, 2 width]: r and z before their sigmoid.
template <class T>
void add_gates(const GateSums<T>& sums, T* gates) {
  const std::int64_t width = sums.width;
  for (std::int64_t i = 0; i < sums.nodes; ++i) {
    const T* a = sums.from_input + i * 3 * width;
    const T* b = sums.from_state + i * 3 * width;
    T* out = gates + i * 2 * width;
    for (std::int64_t f = 0; f < 2 * width; ++f) out[f] = (a[f] + sums.input_bias[f]) + (b[f] + sums.state_bias[f]);
  }
}

/// Leaves W_hn y + b_hn in `hidden`.
template <class T>
void add_candidate(const GateSums<T>& sums, const T* gates, T* hidden, T* candidate) {
  const std::int64_t width = sums.width;
  for (std::int64_t i = 0; i < sums.nodes; ++i) {
    const T* a = sums.from_input + i * 3 * width + 2 * width;
    const T* b = sums.from_state + i * 3 * width + 2 * width;
    const T* reset = gates + i * 2 * width;
    T* h = hidden + i * width;
    T* out = candidate + i * width;
    for (std::int64_t f = 0; f < width; ++f) {
      h[f] = b[f] + sums.state_bias[2 * width + f];
      out[f] = a[f] + sums.input_bias[2 * width + f] + reset[f] * h[f];
    }
  }
}

template <class T>
void blend(std::int64_t nodes, std::int64_t width, const T* gates, const T* candidate, const T* state, T* result) {
  for (std::int64_t i = 0; i < nodes; ++i) {
    const T* z = gates + i * 2 * width + width;
    const T* n = candidate + i * width;
    const T* y = state + i * width;
    T* out = result + i * width;
    for (std::int64_t f = 0; f < width; ++f) out[f] = n[f] + z[f] * (y[f] - n[f]);
  }
}

/// What the pass forward leaves of each node: [nodes, 2 width] gates, [nodes, width] everything else.
template <class T>
struct GateValues {
  std::int64_t nodes = 0, width = 0;
  const T *gates = nullptr, *candidate = nullptr, *hidden = nullptr, *state = nullptr;
};

/// Gradients by the two sums before the gates, [nodes, 3 width] each, and directly by the state.
template <class T>
void gate_gradients(const GateValues<T>& values, const T* gradient, T* by_input, T* by_state, T* direct) {
  const std::int64_t width = values.width;
  for (std::int64_t i = 0; i < values.nodes; ++i) {
    const T* g = gradient + i * width;
    const T* r = values.gates + i * 2 * width;
    const T* z = r + width;
    const T* n = values.candidate + i * width;
    const T* h = values.hidden + i * width;
    const T* y = values.state + i * width;
    T* a = by_input + i * 3 * width;
    T* b = by_state + i * 3 * width;
    T* d = direct + i * width;
    for (std::int64_t f = 0; f < width; ++f) {
      const T by_candidate = g[f] * (1 - z[f]) * (1 - n[f] * n[f]);
      const T by_update = g[f] * (y[f] - n[f]) * z[f] * (1 - z[f]);
      const T by_reset = by_candidate * h[f] * r[f] * (1 - r[f]);
      a[f] = by_reset;
      b[f] = by_reset;
      a[width + f] = by_update;
      b[width + f] = by_update;
      a[2 * width + f] = by_candidate;
      b[2 * width + f] = by_candidate * r[f];
      d[f] = g[f] * z[f];
    }
  }
}

/// LibTorch follows gradients to the arguments of forward() one by one, so that weights come one by one.
struct GatedRecurrentUnit : Function<GatedRecurrentUnit> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& state, const Tensor& input_weight,
                        const Tensor& state_weight, const Tensor& input_bias, const Tensor& state_bias) {
    const Tensor y = state.contiguous();
    const std::int64_t nodes = y.size(0), width = y.size(1);
    const Tensor from_input = at::mm(input, input_weight.t()), from_state = at::mm(y, state_weight.t());
    Tensor gates = at::empty({nodes, 2 * width}, y.options());
    Tensor candidate = at::empty_like(y), hidden = at::empty_like(y), result = at::empty_like(y);
    AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), "gated_recurrent_unit", [&] {
      const GateSums<scalar_t> sums{.nodes = nodes,
                                    .width = width,
                                    .from_input = from_input.data_ptr<scalar_t>(),
                                    .from_state = from_state.data_ptr<scalar_t>(),
                                    .input_bias = input_bias.data_ptr<scalar_t>(),
                                    .state_bias = state_bias.data_ptr<scalar_t>()};
      auto* g = gates.data_ptr<scalar_t>();
      add_gates(sums, g);
      gates.sigmoid_();
      add_candidate(sums, g, hidden.data_ptr<scalar_t>(), candidate.data_ptr<scalar_t>());
      candidate.tanh_();
      blend(nodes, width, g, candidate.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), result.data_ptr<scalar_t>());
    });
    context->save_for_backward({input, y, input_weight, state_weight, gates, candidate, hidden});
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &input = saved[0], &state = saved[1], &input_weight = saved[2], &state_weight = saved[3];
    const Tensor gradient = gradients[0].contiguous();
    const std::int64_t nodes = state.size(0), width = state.size(1);
    Tensor by_input = at::empty({nodes, 3 * width}, state.options()), by_state = at::empty_like(by_input);
    Tensor direct = at::empty_like(state);
    AT_DISPATCH_FLOATING_TYPES(state.scalar_type(), "gated_recurrent_unit_backward", [&] {
      const GateValues<scalar_t> values{.nodes = nodes,
                                        .width = width,
                                        .gates = saved[4].data_ptr<scalar_t>(),
                                        .candidate = saved[5].data_ptr<scalar_t>(),
                                        .hidden = saved[6].data_ptr<scalar_t>(),
                                        .state = state.data_ptr<scalar_t>()};
      gate_gradients(values, gradient.data_ptr<scalar_t>(), by_input.data_ptr<scalar_t>(),
                     by_state.data_ptr<scalar_t>(), direct.data_ptr<scalar_t>());
    });
    variable_list result(6);
    if (context->needs_input_grad(0)) result[0] = at::mm(by_input, input_weight);
    if (context->needs_input_grad(1)) result[1] = direct.addmm_(by_state, state_weight);
    if (context->needs_input_grad(2)) result[2] = at::mm(by_input.t(), input);
    if (context->needs_input_grad(3)) result[3] = at::mm(by_state.t(), state);
    if (context->needs_input_grad(4)) result[4] = by_input.sum(0);
    if (context->needs_input_grad(5)) result[5] = by_state.sum(0);
    return result;
  }
};

// --- attention ---

template <class T>
T leaky(T value, T leak) {
  return value > 0 ? value : leak * value;
}

template <class T>
void attention_shares(const Attention& attention, std::int64_t heads, const T* first, const T* second, T leak,
                      T* shares) {
  const std::int64_t *first_nodes = attention.first_nodes.data(), *second_nodes = attention.second_nodes.data();
  const std::size_t groups = attention.group_starts.size() - 1;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::int64_t begin = attention.group_starts[group], end = attention.group_starts[group + 1];
    for (std::int64_t k = 0; k < heads; ++k) {
      T largest = -std::numeric_limits<T>::infinity();
      for (std::int64_t e = begin; e < end; ++e) {
        const T score = leaky(first[first_nodes[e] * heads + k] + second[second_nodes[e] * heads + k], leak);
        shares[e * heads + k] = score;
        largest = std::max(largest, score);
      }
      T sum = 0;
      for (std::int64_t e = begin; e < end; ++e)
        sum += shares[e * heads + k] = std::exp(shares[e * heads + k] - largest);
      for (std::int64_t e = begin; e < end; ++e) shares[e * heads + k] /= sum;
    }
  }
}

template <class T>
void attention_sums(const Attention& attention, std::int64_t heads, std::int64_t width, const T* shares, const T* h,
                    T* y) {
  for (std::size_t e = 0; e < attention.targets.size(); ++e) {
    T* out = y + attention.targets[e] * heads * width;
    const T* in = h + attention.sources[e] * heads * width;
    for (std::int64_t k = 0; k < heads; ++k) {
      const T share = shares[static_cast<std::int64_t>(e) * heads + k];
      for (std::int64_t f = k * width; f < (k + 1) * width; ++f) out[f] += share * in[f];
    }
  }
}

/// What attend() was given, and the shares that it found: [entries, heads].
template <class T>
struct AttentionValues {
  std::int64_t heads = 0, width = 0;
  const T *h = nullptr, *first = nullptr, *second = nullptr, *shares = nullptr;
  T leak = 0;
};

/// Adds the gradients by h, `first` and `second`.
template <class T>
void attention_gradients(const Attention& attention, const AttentionValues<T>& values, const T* gradient, T* by_h,
                         T* by_first, T* by_second) {
  const auto [heads, width, h, first, second, shares, leak] = values;
  const std::int64_t *first_nodes = attention.first_nodes.data(), *second_nodes = attention.second_nodes.data();
  const std::int64_t *targets = attention.targets.data(), *sources = attention.sources.data();
  const std::size_t groups = attention.group_starts.size() - 1;
  std::vector<T> by_share;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::int64_t begin = attention.group_starts[group], end = attention.group_starts[group + 1];
    by_share.assign(static_cast<std::size_t>((end - begin) * heads), T{0});
    for (std::int64_t e = begin; e < end; ++e) {
      const T* g = gradient + targets[e] * heads * width;
      const T* in = h + sources[e] * heads * width;
      T* by_in = by_h + sources[e] * heads * width;
      for (std::int64_t k = 0; k < heads; ++k) {
        const T share = shares[e * heads + k];
        T product = 0;
        for (std::int64_t f = k * width; f < (k + 1) * width; ++f) {
          product += g[f] * in[f];
          by_in[f] += share * g[f];
        }
        by_share[static_cast<std::size_t>((e - begin) * heads + k)] = product;
      }
    }
    for (std::int64_t k = 0; k < heads; ++k) {
      T mean = 0;
      for (std::int64_t e = begin; e < end; ++e)
        mean += shares[e * heads + k] * by_share[static_cast<std::size_t>((e - begin) * heads + k)];
      for (std::int64_t e = begin; e < end; ++e) {
        const std::int64_t a = first_nodes[e] * heads + k, b = second_nodes[e] * heads + k;
        const T by_score = shares[e * heads + k] * (by_share[static_cast<std::size_t>((e - begin) * heads + k)] - mean);
        const T by_sum = first[a] + second[b] > 0 ? by_score : leak * by_score;
        by_first[a] += by_sum;
        by_second[b] += by_sum;
      }
    }
  }
}

struct Attend : Function<Attend> {
  static Tensor forward(AutogradContext* context, const Tensor& h, const Tensor& first, const Tensor& second,
                        const std::shared_ptr<const Attention>& attention, double leak) {
    const Tensor in = h.contiguous(), a = first.contiguous(), b = second.contiguous();
    const std::int64_t heads = a.size(1);
    Tensor shares = at::empty({static_cast<std::int64_t>(attention->targets.size()), heads}, in.options());
    Tensor result = at::zeros_like(in);
    AT_DISPATCH_FLOATING_TYPES(in.scalar_type(), "attend", [&] {
      attention_shares(*attention, heads, a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(), static_cast<scalar_t>(leak),
                       shares.data_ptr<scalar_t>());
      attention_sums(*attention, heads, in.size(1) / heads, shares.data_ptr<scalar_t>(), in.data_ptr<scalar_t>(),
                     result.data_ptr<scalar_t>());
    });
    keep(context, attention);
    context->saved_data["leak"] = leak;
    context->save_for_backward({in, a, b, shares});
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor gradient = gradients[0].contiguous();
    const std::int64_t heads = saved[1].size(1);
    Tensor by_h = at::zeros_like(saved[0]), by_first = at::zeros_like(saved[1]), by_second = at::zeros_like(saved[2]);
    AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "attend_backward", [&] {
      const AttentionValues<scalar_t> values{.heads = heads,
                                             .width = by_h.size(1) / heads,
                                             .h = saved[0].data_ptr<scalar_t>(),
                                             .first = saved[1].data_ptr<scalar_t>(),
                                             .second = saved[2].data_ptr<scalar_t>(),
                                             .shares = saved[3].data_ptr<scalar_t>(),
                                             .leak = static_cast<scalar_t>(context->saved_data["leak"].toDouble())};
      attention_gradients(kept<Attention>(context), values, gradient.data_ptr<scalar_t>(), by_h.data_ptr<scalar_t>(),
                          by_first.data_ptr<scalar_t>(), by_second.data_ptr<scalar_t>());
    });
    return {by_h, by_first, by_second, Tensor{}, Tensor{}};
  }
};

// --- Set2Set ---

/// Both ways through the steps by hand: what x and the weights gain in all steps is then one matrix product each.
/// The weights come one by one, as those of GatedRecurrentUnit.
struct SetToSet : Function<SetToSet> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& input_weight,
                        const Tensor& state_weight, const Tensor& input_bias, const Tensor& state_bias,
                        std::int64_t steps) {
    const std::int64_t graphs = x.size(0), nodes = x.size(1), width = x.size(2);
    const auto empty = [&](std::int64_t size) { return at::empty({steps, graphs, size}, x.options()); };
    // Of every step: activated gates, cell, its tanh, q, shares of the nodes; q* before every step and after the last.
    Tensor gates = empty(4 * width), cells = empty(width), activated = empty(width), queries = empty(width);
    Tensor shares = empty(nodes), in = at::zeros({steps + 1, graphs, 2 * width}, x.options());
    const Tensor bias = input_bias + state_bias, input_weight_t = input_weight.t(), state_weight_t = state_weight.t();
    const Tensor x_t = x.transpose(1, 2);
    for (std::int64_t t = 0; t < steps; ++t) {
      Tensor gate = gates[t], cell = cells[t], query = queries[t], next = in[t + 1];
      at::addmm_out(gate, bias, in[t], input_weight_t);
      if (t > 0) gate.addmm_(queries[t - 1], state_weight_t);
      gate.narrow(1, 0, 2 * width).sigmoid_();
      gate.narrow(1, 2 * width, width).tanh_();
      gate.narrow(1, 3 * width, width).sigmoid_();
      at::mul_out(cell, gate.narrow(1, 0, width), gate.narrow(1, 2 * width, width));
      if (t > 0) cell.addcmul_(gate.narrow(1, width, width), cells[t - 1]);
      Tensor curved = activated[t], share = shares[t];
      at::tanh_out(curved, cell);
      at::mul_out(query, gate.narrow(1, 3 * width, width), curved);
      at::softmax_out(share, at::bmm(x, query.unsqueeze(2)).squeeze(2), 1);
      next.narrow(1, 0, width).copy_(query);
      next.narrow(1, width, width).copy_(at::bmm(x_t, share.unsqueeze(2)).squeeze(2));
    }
    context->save_for_backward({x, input_weight, state_weight, gates, cells, activated, queries, shares, in});
    return in[steps].clone();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &input_weight = saved[1], &state_weight = saved[2], &gates = saved[3],
                 &cells = saved[4], &activated = saved[5], &queries = saved[6], &shares = saved[7], &in = saved[8];
    const std::int64_t steps = gates.size(0), graphs = x.size(0), width = x.size(2);
    Tensor by_gates = at::empty_like(gates), by_scores = at::empty_like(shares);
    Tensor by_reads = at::empty_like(queries);
    Tensor by_next = gradients[0].contiguous(), by_cell = at::zeros({graphs, width}, x.options());
    Tensor by_state = at::zeros_like(by_cell);
    const Tensor x_t = x.transpose(1, 2);
    for (std::int64_t t = steps; t-- > 0;) {
      const Tensor gate = gates[t], share = shares[t];
      const Tensor i = gate.narrow(1, 0, width), f = gate.narrow(1, width, width), g = gate.narrow(1, 2 * width, width),
                   o = gate.narrow(1, 3 * width, width);
      Tensor by_read = by_reads[t];
      by_read.copy_(by_next.narrow(1, width, width));
      const Tensor by_share = at::bmm(x, by_read.unsqueeze(2)).squeeze(2);
      Tensor by_score = by_scores[t];
      at::_softmax_backward_data_out(by_score, by_share, share, 1, x.scalar_type());
      const Tensor by_query =
          at::bmm(x_t, by_score.unsqueeze(2)).squeeze(2).add_(by_next.narrow(1, 0, width)).add_(by_state);
      by_cell.add_(by_query * o * (1 - activated[t].square()));
      Tensor by_gate = by_gates[t];
      by_gate.narrow(1, 0, width).copy_(by_cell * g * i * (1 - i));
      if (t > 0)
        by_gate.narrow(1, width, width).copy_(by_cell * cells[t - 1] * f * (1 - f));
      else
        by_gate.narrow(1, width, width).zero_();
      by_gate.narrow(1, 2 * width, width).copy_(by_cell * i * (1 - g.square()));
      by_gate.narrow(1, 3 * width, width).copy_(by_query * activated[t] * o * (1 - o));
      by_cell.mul_(f);
      by_next = at::mm(by_gate, input_weight);
      by_state = at::mm(by_gate, state_weight);
    }
    variable_list result(6);
    if (context->needs_input_grad(0)) {
      // sum over steps of share (x) by_read + by_score (x) query
      const Tensor by_step = at::cat({shares, by_scores}).permute({1, 2, 0});  // [graphs, nodes, 2 steps]
      result[0] = at::bmm(by_step, at::cat({by_reads, queries}).permute({1, 0, 2}));
    }
    const Tensor all = by_gates.view({steps * graphs, 4 * width});
    if (context->needs_input_grad(1))
      result[1] = at::mm(all.t(), in.narrow(0, 0, steps).reshape({steps * graphs, 2 * width}));
    if (context->needs_input_grad(2)) {
      result[2] = at::mm(all.narrow(0, graphs, (steps - 1) * graphs).t(),
                         queries.narrow(0, 0, steps - 1).reshape({(steps - 1) * graphs, width}));
    }
    const Tensor by_bias = all.sum(0);
    result[3] = by_bias;
    result[4] = by_bias;
    return result;
  }
};

}  // namespace

Tensor propagate(const std::shared_ptr<const Links>& links, const Tensor& x, bool is_plain) {
  if (!is_plain) return Propagate::apply(x, links);
  const Tensor rows = index_tensor(groups_of(links->starts), x), columns = index_tensor(links->columns, x);
  const Tensor weights =
      at::tensor(links->weights, at::TensorOptions{}.dtype(at::kDouble)).to(x.options()).unsqueeze(1);
  return at::zeros_like(x).index_add(0, rows, x.index_select(0, columns) * weights);
}

Tensor gated_recurrent_unit(const Tensor& input, const Tensor& state, const RecurrentWeights& weights, bool is_plain) {
  const auto& [input_weight, state_weight, input_bias, state_bias] = weights;
  if (is_plain) return at::gru_cell(input, state, input_weight, state_weight, input_bias, state_bias);
  return GatedRecurrentUnit::apply(input, state, input_weight, state_weight, input_bias, state_bias);
}

Tensor attend(const std::shared_ptr<const Attention>& attention, const Tensor& h, const Tensor& first,
              const Tensor& second, double leak, bool is_plain) {
  if (!is_plain) return Attend::apply(h, first, second, attention, leak);
  const std::int64_t heads = first.size(1), width = h.size(1) / heads;
  const auto groups = static_cast<std::int64_t>(attention->group_starts.size()) - 1;
  const Tensor group = index_tensor(groups_of(attention->group_starts), h);
  const Tensor scores = at::leaky_relu(first.index_select(0, index_tensor(attention->first_nodes, h)) +
                                           second.index_select(0, index_tensor(attention->second_nodes, h)),
                                       leak);
  const Tensor largest = extremes(attention->group_starts, scores.detach(), false);
  const Tensor powers = at::exp(scores - largest.index_select(0, group));
  const Tensor sums = at::zeros({groups, heads}, h.options()).index_add(0, group, powers);
  const Tensor shares = powers / sums.index_select(0, group);
  const Tensor sources = h.index_select(0, index_tensor(attention->sources, h)).view({-1, heads, width});
  return at::zeros_like(h).index_add(0, index_tensor(attention->targets, h),
                                     (sources * shares.unsqueeze(2)).flatten(1));
}

Tensor extremes(const std::vector<std::int64_t>& starts, const Tensor& values, bool is_smallest) {
  const auto groups = static_cast<std::int64_t>(starts.size()) - 1;
  if (values.size(0) == 0) return at::zeros({groups, values.size(1)}, values.options());
  const std::int64_t width = values.size(1);
  const Tensor compared = (is_smallest ? -values.detach() : values.detach()).to(at::kCPU, at::kDouble).contiguous();
  const auto* value = compared.data_ptr<double>();
  Tensor found = at::zeros({groups, width}, at::kLong), is_there = at::zeros({groups, 1}, at::kDouble);
  auto* entry = found.data_ptr<std::int64_t>();
  for (std::size_t g = 0; g + 1 < starts.size(); ++g, entry += width) {
    if (starts[g] == starts[g + 1]) continue;
    is_there.data_ptr<double>()[g] = 1.0;
    std::fill(entry, entry + width, starts[g]);
    for (std::int64_t e = starts[g] + 1; e < starts[g + 1]; ++e)
      for (std::int64_t f = 0; f < width; ++f)
        if (value[e * width + f] > value[entry[f] * width + f]) entry[f] = e;
  }
  return values.gather(0, found.to(values.device())) * is_there.to(values.options());
}

Tensor set_to_set(const Tensor& x, const RecurrentWeights& weights, std::int64_t steps, bool is_plain) {
  const auto& [input_weight, state_weight, input_bias, state_bias] = weights;
  if (!is_plain) return SetToSet::apply(x, input_weight, state_weight, input_bias, state_bias, steps);
  Tensor in = at::zeros({x.size(0), 2 * x.size(2)}, x.options());
  Tensor query = at::zeros({x.size(0), x.size(2)}, x.options()), cell = at::zeros_like(query);
  for (std::int64_t t = 0; t < steps; ++t) {
    std::tie(query, cell) = at::lstm_cell(in, {query, cell}, input_weight, state_weight, input_bias, state_bias);
    const Tensor shares = at::softmax(at::bmm(x, query.unsqueeze(2)), 1);
    in = at::cat({query, at::bmm(x.transpose(1, 2), shares).squeeze(2)}, 1);
  }
  return in;
}

}  // namespace rehearse::detail
