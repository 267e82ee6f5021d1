#include "predictor/gnn/detail/metrics_layers.hpp"

#include <torch/nn/init.h>

namespace rehearse::detail {

namespace {

/// Sums the rows of `rows` [n, f] into `groups` sums by `index` [n].
Tensor sum_by(const Tensor& rows, const Tensor& index, std::int64_t groups) {
  return torch::zeros({groups, rows.size(1)}, rows.options()).index_add(0, index, rows);
}

/// Sends rows along edges: to each node the sum of what comes.
Tensor send(const Tensor& rows, const Tensor& edges, std::int64_t nodes) {
  return sum_by(rows.index_select(0, edges.select(1, 0)), edges.select(1, 1), nodes);
}

/// Each part of `x` [graphs, parts, channels] beside its neighbours that are `dilation` and twice that away, 0 beyond the
/// ends: [graphs, parts, 5 channels]. A product with it is a convolution, as one large product.
Tensor five_parts(const Tensor& x, std::int64_t dilation) {
  const Tensor padded = torch::constant_pad_nd(x, {0, 0, 2 * dilation, 2 * dilation});
  std::vector<Tensor> shifted;
  for (std::int64_t i = 0; i < 5; ++i) shifted.push_back(padded.narrow(1, i * dilation, x.size(1)));
  return torch::cat(shifted, 2);
}

constexpr auto kBins = static_cast<std::int64_t>(kStepParts);
constexpr auto kLoads = static_cast<std::int64_t>(kTimelineInputs);

}  // namespace

MetricsLayers::MetricsLayers(const MetricsNetworkOptions& options, std::int64_t total_inputs, std::int64_t labels) {
  using torch::nn::Linear;
  const std::int64_t h = options.hidden, c = options.channels, wide = options.readout;
  const auto columns = [](std::size_t count) { return static_cast<std::int64_t>(count); };
  kind = register_module("kind", torch::nn::Embedding(columns(kStepKinds) + 1, h));  // the last: unknown
  of_node = register_module("node", Linear(columns(kNodeInputs), h));
  of_resource = register_module("resource", Linear(columns(kResourceInputs), h));
  for (int i = 0; i < options.message_rounds; ++i) {
    Round round;
    const auto add = [&](const char* name, bool has_bias) {
      return register_module("round" + std::to_string(i) + "_" + name,
                             Linear(torch::nn::LinearOptions(h, h).bias(has_bias)));
    };
    for (const auto& [name, layer] : kRoundLayers) round.*layer = add(name, std::string{name}.starts_with("own"));
    rounds.push_back(round);
  }
  about = register_module("about", Linear(total_inputs, kAboutTotals));
  shift = register_module("shift", Linear(kAboutTotals, c));
  enter = register_module("enter", Linear(3 * kLoads + h, c));
  for (std::size_t i = 0; i < kDilations.size(); ++i)
    along.emplace_back(register_module("along" + std::to_string(i), Linear(5 * c, c)));
  first = register_module("first", Linear(3 * c + total_inputs + kLoads + columns(kStepResources) * h, wide));
  middle = register_module("middle", Linear(wide, wide));
  last = register_module("last", Linear(wide, wide));
  value = register_module("value", Linear(wide, labels));
  width = register_module("spread", Linear(wide, labels));
  presence = register_module("presence", Linear(wide, labels));
  torch::NoGradGuard no_grad;
  for (const Linear& output : {value, width, presence}) {
    output->weight.zero_();
    output->bias.zero_();
  }
}

MetricsLayers::Output MetricsLayers::forward(const GraphInputs& in) {
  const std::int64_t graphs = in.totals.size(0);
  Tensor o = torch::silu(kind(in.kinds) + of_node(in.nodes));
  Tensor r = torch::silu(of_resource(in.resources));
  for (Round& round : rounds) {
    const Tensor to_nodes = send(round.flow(o), in.flow, o.size(0)) +
                            send(round.awaited(o), in.flow.flip(1), o.size(0)) +
                            round.serves(r).index_select(0, in.resource);
    const Tensor to_resources = kUsesScale * sum_by(round.uses(o), in.resource, r.size(0));
    o = o + torch::silu(round.own_node(o) + to_nodes);
    r = r + torch::silu(round.own_resource(r) + to_resources);
  }
  const Tensor drawn = (sum_by(o, in.part, graphs * kBins) / kDrawnScale).view({graphs, kBins, -1});
  const Tensor loads = in.timeline.view({graphs, kBins, kLoads});
  const Tensor before = loads.cumsum(1) / kBins, after = loads.flip(1).cumsum(1).flip(1) / kBins;
  const Tensor shifts = shift(torch::silu(about(in.totals))).unsqueeze(1);
  const Tensor rows = torch::cat({torch::log1p(loads), before, after, drawn}, 2);
  Tensor x = torch::silu(enter(rows) + shifts);  // [graphs, parts, channels]
  for (std::size_t i = 0; i < along.size(); ++i) x = x + torch::silu(along[i](five_parts(x, kDilations[i])));
  Tensor z = torch::cat(
      {x.mean(1), x.amax(1), x.std(1), in.totals, torch::log(loads.mean(1) + 1e-3), r.view({graphs, -1})}, 1);
  z = torch::silu(first(z));
  z = z + torch::silu(middle(z));
  z = z + torch::silu(last(z));
  return {value(z), torch::softplus(width(z) - 1) + kLeastWidth, presence(z) + kTrust};
}

}  // namespace rehearse::detail
