#include "predictor/gnn/detail/kernels.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace rehearse::detail {
namespace {

using at::Tensor;

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

}  // namespace

Tensor propagate(const std::shared_ptr<const Links>& links, const Tensor& x) {
  const Tensor rows = index_tensor(groups_of(links->starts), x), columns = index_tensor(links->columns, x);
  const Tensor weights =
      at::tensor(links->weights, at::TensorOptions{}.dtype(at::kDouble)).to(x.options()).unsqueeze(1);
  return at::zeros_like(x).index_add(0, rows, x.index_select(0, columns) * weights);
}

Tensor attend(const std::shared_ptr<const Attention>& attention, const Tensor& h, const Tensor& first,
              const Tensor& second, double leak) {
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

Tensor set_to_set(const Tensor& x, const RecurrentWeights& weights, std::int64_t steps) {
  const auto& [input_weight, state_weight, input_bias, state_bias] = weights;
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
