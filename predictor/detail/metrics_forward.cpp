#include "predictor/detail/metrics_forward.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/errors.hpp"

namespace rehearse::detail {

namespace {

using Eigen::Index;

constexpr float kMostWeight = 1e4;
constexpr auto kParts = static_cast<Index>(kStepParts);
constexpr auto kLoads = static_cast<Index>(kTimelineInputs);

Index index(std::size_t count) { return static_cast<Index>(count); }

Rows matrix(const TorchValue& weights, const std::string& name, const std::vector<std::int64_t>& shape,
            const std::string& where) {
  const std::string place = where + ": " + name;
  const TorchTensor& kept = weights.at(name, where).tensor(place);
  if (kept.shape != shape) throw InputError{place + ": the tensor has another shape than the network"};
  const std::vector<float> numbers = kept.floats();
  if (!std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::abs(x) <= kMostWeight; }))
    throw InputError{place + ": expected numbers from -1e+04 to 1e+04"};
  const Index columns = shape.size() > 1 ? shape[1] : shape[0];
  return Eigen::Map<const Rows>{numbers.data(), shape.size() > 1 ? shape[0] : 1, columns};
}

Rows rows_of(const std::vector<float>& numbers, std::size_t columns) {
  return Eigen::Map<const Rows>{numbers.data(), index(numbers.size() / columns), index(columns)};
}

/// s(x) = x sigmoid(x).
Rows silu(const Rows& x) { return (x.array() / (1 + (-x.array()).exp())).matrix(); }

/// Sums rows of `rows` into `groups` sums by `group` [rows].
Rows sum_by(const Rows& rows, const std::vector<std::int32_t>& group, std::size_t groups) {
  Rows sums = Rows::Zero(index(groups), rows.cols());
  for (std::size_t i = 0; i < group.size(); ++i) sums.row(group[i]) += rows.row(index(i));
  return sums;
}

/// Each part of `x` [parts, channels] beside its neighbours that are `dilation` and twice that away, 0 beyond the ends:
/// [parts, 5 channels].
Rows five_parts(const Rows& x, int dilation) {
  Rows five = Rows::Zero(x.rows(), 5 * x.cols());
  for (Index part = 0; part < x.rows(); ++part)
    for (Index i = 0; i < 5; ++i) {
      const Index from = part + (i - 2) * dilation;
      if (from >= 0 && from < x.rows()) five.block(part, i * x.cols(), 1, x.cols()) = x.row(from);
    }
  return five;
}

float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

std::vector<float> numbers_of(const Row& row) { return {row.data(), row.data() + row.size()}; }

}  // namespace

Rows LinearLayer::operator()(const Rows& x) const {
  Rows y = x * weight.transpose();
  if (bias.size() > 0) y.rowwise() += bias;
  return y;
}

MetricsForward::MetricsForward(const MetricsNetworkOptions& options, std::size_t total_inputs, std::size_t labels,
                               const TorchValue& weights, const std::string& where) {
  const std::int64_t h = options.hidden, c = options.channels, wide = options.readout;
  const auto linear = [&](const std::string& name, std::int64_t inputs, std::int64_t outputs, bool has_bias = true) {
    LinearLayer layer{.weight = matrix(weights, name + ".weight", {outputs, inputs}, where), .bias = {}};
    if (has_bias) layer.bias = matrix(weights, name + ".bias", {outputs}, where);
    return layer;
  };
  const auto totals = index(total_inputs);
  kind_ = matrix(weights, "kind.weight", {index(kStepKinds) + 1, h}, where);
  of_node_ = linear("node", index(kNodeInputs), h);
  of_resource_ = linear("resource", index(kResourceInputs), h);
  for (int i = 0; i < options.message_rounds; ++i) {
    const auto of_round = [&](const char* name, bool has_bias = false) {
      return linear("round" + std::to_string(i) + "_" + name, h, h, has_bias);
    };
    rounds_.push_back({of_round("own_node", true), of_round("own_resource", true), of_round("flow"),
                       of_round("awaited"), of_round("uses"), of_round("serves")});
  }
  about_ = linear("about", totals, kAboutTotals);
  shift_ = linear("shift", kAboutTotals, c);
  enter_ = linear("enter", 3 * kLoads + h, c);
  for (std::size_t i = 0; i < kDilations.size(); ++i) along_.push_back(linear("along" + std::to_string(i), 5 * c, c));
  first_ = linear("first", 3 * c + totals + kLoads + index(kStepResources) * h, wide);
  middle_ = linear("middle", wide, wide);
  last_ = linear("last", wide, wide);
  value_ = linear("value", wide, index(labels));
  width_ = linear("spread", wide, index(labels));
  presence_ = linear("presence", wide, index(labels));
}

MetricsOutputs MetricsForward::outputs(const MetricsInputs& in) const {
  Rows o = of_node_(rows_of(in.nodes, kNodeInputs));
  for (std::size_t n = 0; n < in.kinds.size(); ++n) o.row(index(n)) += kind_.row(in.kinds[n]);
  o = silu(o);
  Rows r = silu(of_resource_(rows_of(in.resources, kResourceInputs)));
  for (const Round& round : rounds_) {
    const Rows flow = round.flow(o), awaited = round.awaited(o), serves = round.serves(r);
    Rows to_nodes = round.own_node(o);
    for (const auto& [from, to] : in.flow) {
      to_nodes.row(to) += flow.row(from);
      to_nodes.row(from) += awaited.row(to);
    }
    for (std::size_t n = 0; n < in.resource.size(); ++n) to_nodes.row(index(n)) += serves.row(in.resource[n]);
    r += silu(round.own_resource(r) + kUsesScale * sum_by(round.uses(o), in.resource, kStepResources));
    o += silu(to_nodes);
  }
  const Rows loads = rows_of(in.timeline, kTimelineInputs), totals = rows_of(in.totals, in.totals.size());
  Rows parts{kParts, 3 * kLoads + o.cols()};
  parts.leftCols(kLoads) = loads.array().log1p().matrix();
  Row before = Row::Zero(kLoads), after = Row::Zero(kLoads);
  for (Index part = 0; part < kParts; ++part) {
    before += loads.row(part) / static_cast<float>(kParts);
    after += loads.row(kParts - 1 - part) / static_cast<float>(kParts);
    parts.block(part, kLoads, 1, kLoads) = before;
    parts.block(kParts - 1 - part, 2 * kLoads, 1, kLoads) = after;
  }
  parts.rightCols(o.cols()) = sum_by(o, in.part, kStepParts) / kDrawnScale;
  Rows x = enter_(parts);
  x.rowwise() += Row{shift_(silu(about_(totals)))};
  x = silu(x);
  for (std::size_t i = 0; i < along_.size(); ++i) x += silu(along_[i](five_parts(x, kDilations[i])));
  const Row mean = x.colwise().mean();
  const Row variance = (x.rowwise() - mean).colwise().squaredNorm() / static_cast<float>(kParts - 1);
  const Row most = x.colwise().maxCoeff();
  Rows z{1, first_.weight.cols()};
  z << mean, most, variance.cwiseSqrt(), totals, (loads.colwise().mean().array() + 1e-3F).log().matrix(),
      Eigen::Map<const Row>{r.data(), r.size()};
  z = silu(first_(z));
  z += silu(middle_(z));
  z += silu(last_(z));
  const Row width = width_(z), presence = presence_(z);
  return {.value = numbers_of(value_(z)),
          .width = numbers_of(width.unaryExpr([](float w) { return softplus(w - 1) + kLeastWidth; })),
          .presence = numbers_of((presence.array() + kTrust).matrix())};
}

}  // namespace rehearse::detail
