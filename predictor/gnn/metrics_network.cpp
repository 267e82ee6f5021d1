#include "predictor/gnn/metrics_network.hpp"

#include <torch/cuda.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <utility>

#include "predictor/features.hpp"
#include "predictor/gnn/detail/column_scale.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

using detail::list_of;
using detail::numbers_of;
using detail::Scale;
using detail::scale_of;
using detail::ScaleSum;
using detail::stored;
using detail::texts_of;
using torch::Tensor;
using torch::indexing::Slice;

/// Several graphs as one: the operators of all of them, one graph after the other.
struct GraphInputs {
  Tensor nodes;            // [operators, node inputs]
  Tensor costs;            // [operators, costs] seconds
  Tensor totals;           // [graphs, total inputs]
  Tensor deviations;       // [graphs, total inputs] as Parts::deviations()
  Tensor graph_of;         // [operators]
  Tensor count;            // [graphs, 1] operators
  Tensor from, to;         // [edges]
  Tensor fan_in, fan_out;  // [operators, 1] number of edges, at least 1
  Tensor bounds;           // [graphs, labels] ln, 0 where none
  Tensor guess;       // [graphs, labels] ln of the first guess; where it is 0, of the label's scale or half its bound
  Tensor longest;     // [graphs, labels] ln of the window, which no idle or active time exceeds; else kNoLimit
  Tensor occurs;      // [graphs, labels] 1 where the first guess is above 0, else -1
  Tensor is_bounded;  // [labels]
};

/// What each sample has of its own.
constexpr std::array kGraphTensors{
    &GraphInputs::nodes,  &GraphInputs::costs, &GraphInputs::totals,  &GraphInputs::deviations, &GraphInputs::graph_of,
    &GraphInputs::count,  &GraphInputs::from,  &GraphInputs::to,      &GraphInputs::fan_in,     &GraphInputs::fan_out,
    &GraphInputs::bounds, &GraphInputs::guess, &GraphInputs::longest, &GraphInputs::occurs};

/// Sums the rows of `rows` [n, f] into `groups` sums by `index` [n].
Tensor sum_by(const Tensor& rows, const Tensor& index, std::int64_t groups) {
  return torch::zeros({groups, rows.size(1)}, rows.options()).index_add(0, index, rows);
}

/// Where networks compute: LibTorch's GPU if it has one.
torch::Device device() {
  static const torch::Device chosen{torch::cuda::is_available() ? torch::kCUDA : torch::kCPU};
  return chosen;
}

constexpr double kFloor = 1e-9;  // seconds
constexpr double kLeastWidth = 0.002;
constexpr double kTrust = 6;  // logit, before anything is learnt, that a state occurs which the first guess has
constexpr float kNoLimit = 1e9F;
constexpr double kLeastShare = 1e-6;  // of a bound, in a first guess; and to it

struct Network : torch::nn::Module {
  Network(const MetricsNetworkOptions& options, std::int64_t node_inputs, std::int64_t total_inputs,
          std::int64_t labels)
      : heads{options.heads} {
    const std::int64_t h = options.hidden;
    embed = register_module("embed", torch::nn::Linear(node_inputs, h));
    for (int i = 0; i < options.message_rounds; ++i) {
      const std::string name = "round" + std::to_string(i);
      rounds.push_back(
          {register_module(name + "_own", torch::nn::Linear(h, h)),
           register_module(name + "_before", torch::nn::Linear(torch::nn::LinearOptions(h, h).bias(false))),
           register_module(name + "_after", torch::nn::Linear(torch::nn::LinearOptions(h, h).bias(false)))});
    }
    weigh = register_module("weigh", torch::nn::Linear(h, static_cast<std::int64_t>(kCosts) * heads));
    const std::int64_t sums = static_cast<std::int64_t>(kCosts) * heads;
    const std::int64_t wide = options.readout;
    enter = register_module("enter", torch::nn::Linear(sums + h + total_inputs, wide));
    middle = register_module("middle", torch::nn::Linear(wide, wide));
    last = register_module("last", torch::nn::Linear(wide, wide));
    value = register_module("value", torch::nn::Linear(wide, labels));
    width = register_module("spread", torch::nn::Linear(wide, labels));
    presence = register_module("presence", torch::nn::Linear(wide, labels));
    torch::NoGradGuard no_grad;
    weigh->weight.mul_(0.3);
    weigh->bias.zero_();
    for (const torch::nn::Linear& correction : {value, presence}) {  // none, to begin with
      correction->weight.zero_();
      correction->bias.zero_();
    }
    width->weight.mul_(0.1);
    sum_mean = register_buffer("sum_mean", torch::zeros({sums}));
    sum_scale = register_buffer("sum_scale", torch::ones({sums}));
  }

  Tensor sums_of(const GraphInputs& in, Tensor& pooled) {
    Tensor h = torch::silu(embed(in.nodes));
    for (auto& [own, before, after] : rounds) {
      const Tensor from_before = sum_by(before(h).index_select(0, in.from), in.to, h.size(0)) / in.fan_in;
      const Tensor from_after = sum_by(after(h).index_select(0, in.to), in.from, h.size(0)) / in.fan_out;
      h = h + torch::silu(own(h) + from_before + from_after);
    }
    pooled = sum_by(h, in.graph_of, in.totals.size(0)) / in.count;
    const Tensor factors =
        torch::exp(2 * torch::tanh(weigh(h))).view({h.size(0), static_cast<std::int64_t>(kCosts), heads});
    const Tensor seconds = (factors * in.costs.unsqueeze(2)).view({h.size(0), -1});
    return torch::log(sum_by(seconds, in.graph_of, in.totals.size(0)) + kFloor);
  }

  struct Output {
    Tensor value, width, presence;  // [graphs, labels]
  };
  Output forward(const GraphInputs& in) {
    Tensor pooled;
    const Tensor sums = (sums_of(in, pooled) - sum_mean) / sum_scale;
    Tensor z = torch::silu(enter(torch::cat({sums, pooled, in.totals}, 1)));
    z = z + torch::silu(middle(z));
    z = z + torch::silu(last(z));
    return {value(z), torch::softplus(width(z) - 2) + kLeastWidth, presence(z) + kTrust * in.occurs};
  }

  struct Round {
    torch::nn::Linear own, before, after;
  };
  int heads;
  torch::nn::Linear embed{nullptr}, weigh{nullptr}, enter{nullptr}, middle{nullptr}, last{nullptr}, value{nullptr},
      width{nullptr}, presence{nullptr};
  std::vector<Round> rounds;
  Tensor sum_mean, sum_scale;
};

Tensor tensor_of(const std::vector<float>& values, std::int64_t columns) {
  return torch::tensor(values).view({-1, columns});
}

TorchValue stored(const Tensor& tensor) {
  const Tensor flat = tensor.detach().to(torch::kCPU, torch::kFloat32).contiguous();
  return TorchTensor::of_floats(flat.sizes().vec(), {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())});
}

/// Numbers of at most `most`, either side of 0.
void restore_into(Tensor& tensor, const TorchValue& value, const std::string& where,
                  float most = std::numeric_limits<float>::max()) {
  const TorchTensor& kept = value.tensor(where);
  if (kept.shape != tensor.sizes().vec()) throw InputError{where + ": the tensor has another shape than the network"};
  std::vector<float> numbers = kept.floats();
  if (!std::all_of(numbers.begin(), numbers.end(), [most](float x) { return std::abs(x) <= most; })) {
    std::array<char, 64> limits{};
    std::snprintf(limits.data(), limits.size(), ": expected numbers from %.3g to %.3g", -most, most);
    throw InputError{where + limits.data()};
  }
  tensor.copy_(torch::from_blob(numbers.data(), tensor.sizes(), torch::kFloat32));
}

}  // namespace

struct MetricsNetwork::Parts {
  MetricsNetworkOptions options;
  std::vector<std::string> descriptors, labels;  // names
  FeatureReader reader;
  Scale node_scale, total_scale;
  std::vector<double> label_scale;  // [labels] ln of the median of what is above 0; 0 of bounded labels
  std::vector<bool> is_bounded;
  Tensor whitening;  // [total inputs, total inputs]
  double edge = 1;   // distance that 99 % of the training samples do not exceed
  std::shared_ptr<Network> network;
  std::unique_ptr<torch::optim::AdamW> optimizer;
  std::map<std::pair<const Dataset*, std::size_t>, GraphInputs> known;  // by sample

  Parts(const MetricsNetworkOptions& chosen, const Dataset& dataset)
      : options{chosen}, descriptors{dataset.descriptors}, labels{dataset.labels}, reader{dataset} {}

  void make_network() {
    torch::manual_seed(options.seed);
    network = std::make_shared<Network>(options, static_cast<std::int64_t>(reader.node_inputs()),
                                        static_cast<std::int64_t>(reader.total_inputs()),
                                        static_cast<std::int64_t>(labels.size()));
    network->to(device());
  }
  void make_optimizer() {
    std::vector<Tensor> learning;
    for (const Tensor& parameter : network->parameters())
      if (parameter.requires_grad()) learning.push_back(parameter);
    optimizer = std::make_unique<torch::optim::AdamW>(learning, torch::optim::AdamWOptions(1e-3).weight_decay(1e-3));
  }
  /// The columns of `dataset` are those that the network was made for.
  void check_columns(const Dataset& dataset) const {
    if (dataset.node_features != node_feature_names() || dataset.descriptors != descriptors || dataset.labels != labels)
      throw InputError{"the dataset's columns are not those that the predictor was trained with"};
  }

  bool is_duration(std::size_t l) const { return labels[l].ends_with("_active_s") || labels[l].ends_with("_idle_s"); }
  /// A mean active time, with the mean gap before it.
  bool is_burst_label(std::size_t l) const {
    return l >= 1 && labels[l].ends_with("_active_s") && labels[l - 1].ends_with("_idle_s");
  }

  GraphInputs prepare(const Dataset& dataset, std::size_t index) const {
    const Sample& sample = dataset.samples[index];
    const DatasetGraph& graph = dataset.graphs[static_cast<std::size_t>(sample.graph)];
    SampleFeatures features = reader.read(dataset, sample);
    GraphInputs in;
    in.deviations = deviations({features.totals});
    node_scale.apply(features.nodes);
    total_scale.apply(features.totals);
    in.nodes = tensor_of(features.nodes, static_cast<std::int64_t>(reader.node_inputs()));
    in.costs = tensor_of(features.costs, static_cast<std::int64_t>(kCosts));
    in.totals = tensor_of(features.totals, static_cast<std::int64_t>(reader.total_inputs()));
    const std::int64_t n = in.nodes.size(0);
    std::vector<std::int64_t> from, to;
    std::vector<float> guess, longest, occurs;
    for (std::size_t l = 0; l < features.guess.size(); ++l) {
      const double fallback = features.bounds[l] > 0 ? std::log(0.5 * features.bounds[l]) : label_scale[l];
      const bool has_window = features.window_s > 0 && is_duration(l);
      // A resource that the sketch never sees idle, but the network does: a gap in the middle.
      const double parts = has_window && is_burst_label(l) && !(features.guess[l - 1] > 0) ? 2 : 1;
      guess.push_back(static_cast<float>(features.guess[l] > 0 ? std::log(features.guess[l] / parts) : fallback));
      longest.push_back(has_window ? static_cast<float>(std::log(features.window_s)) : kNoLimit);
      occurs.push_back(features.guess[l] > 0 ? 1.0F : -1.0F);
    }
    in.guess = tensor_of(guess, static_cast<std::int64_t>(guess.size()));
    in.longest = tensor_of(longest, static_cast<std::int64_t>(guess.size()));
    in.occurs = tensor_of(occurs, static_cast<std::int64_t>(guess.size()));
    std::vector<float> fan_in(static_cast<std::size_t>(n)), fan_out(static_cast<std::size_t>(n)), bounds;
    for (const GraphEdge& link : graph.edges) {
      from.push_back(link.from);
      to.push_back(link.to);
      fan_out[static_cast<std::size_t>(link.from)] += 1;
      fan_in[static_cast<std::size_t>(link.to)] += 1;
    }
    in.from = torch::tensor(from, torch::kInt64);
    in.to = torch::tensor(to, torch::kInt64);
    in.fan_in = tensor_of(fan_in, 1).clamp_min(1);
    in.fan_out = tensor_of(fan_out, 1).clamp_min(1);
    for (const double bound : features.bounds) bounds.push_back(bound > 0 ? static_cast<float>(std::log(bound)) : 0.0F);
    in.bounds = tensor_of(bounds, static_cast<std::int64_t>(bounds.size()));
    return in;
  }

  /// The samples as one graph; each is prepared once.
  GraphInputs batch(const Dataset& dataset, std::span<const std::size_t> samples, bool keeps) {
    check_columns(dataset);
    std::array<std::vector<Tensor>, kGraphTensors.size()> parts;
    std::int64_t first = 0;
    for (std::size_t g = 0; g < samples.size(); ++g) {
      auto found = known.find({&dataset, samples[g]});
      GraphInputs fresh;
      if (found == known.end()) {
        fresh = prepare(dataset, samples[g]);
        if (keeps) known.emplace(std::pair{&dataset, samples[g]}, fresh);
      } else {
        fresh = found->second;
      }
      const std::int64_t n = fresh.nodes.size(0);
      fresh.graph_of = torch::full({n}, static_cast<std::int64_t>(g), torch::kInt64);
      fresh.count = torch::full({1, 1}, static_cast<float>(n));
      fresh.from = fresh.from + first;
      fresh.to = fresh.to + first;
      for (std::size_t i = 0; i < parts.size(); ++i) parts[i].push_back(fresh.*kGraphTensors[i]);
      first += n;
    }
    GraphInputs in;
    for (std::size_t i = 0; i < parts.size(); ++i) in.*kGraphTensors[i] = torch::cat(parts[i]);
    std::vector<float> bounded(is_bounded.begin(), is_bounded.end());
    in.is_bounded = torch::tensor(bounded);
    in.is_bounded = in.is_bounded.to(device());
    for (const auto tensor : kGraphTensors)
      if (tensor != &GraphInputs::deviations) in.*tensor = (in.*tensor).to(device());  // which no network takes
    return in;
  }

  /// Totals [samples, total inputs] in units of their deviation; a total that never varied in training is 0, or 10 if
  /// it has another value now.
  Tensor deviations(const std::vector<std::vector<float>>& totals) const {
    std::vector<float> rows;
    for (const std::vector<float>& row : totals)
      for (std::size_t i = 0; i < row.size(); ++i) {
        const float mean = total_scale.mean[i], inverse = total_scale.inverse[i];
        const bool has_moved = std::abs(row[i] - mean) > 1e-4F * (1 + std::abs(mean));
        rows.push_back(inverse > 0 ? (row[i] - mean) * inverse : has_moved ? 10.0F : 0.0F);
      }
    return tensor_of(rows, static_cast<std::int64_t>(reader.total_inputs()));
  }

  /// Mahalanobis distances of `deviations` from the mean of the training samples: [samples].
  Tensor distances(const Tensor& deviations) const { return torch::matmul(deviations, whitening).norm(2, 1); }

  void learn_distances(const std::vector<std::vector<float>>& totals) {
    const Tensor all_rows = deviations(totals), rows = all_rows.to(torch::kFloat64);
    const Tensor covariance = torch::matmul(rows.t(), rows) / static_cast<double>(totals.size());
    const Tensor ridge = 0.01 * torch::eye(covariance.size(0), torch::kFloat64);
    // x . inverse . x = |x L|^2 with inverse = L L'
    whitening = torch::linalg_cholesky(torch::linalg_inv(covariance + ridge)).to(torch::kFloat32).contiguous();
    const Tensor all = distances(all_rows).to(torch::kFloat64).contiguous();
    edge = std::max(1e-6, percentile({all.data_ptr<double>(), static_cast<std::size_t>(all.numel())}, 99));
  }

  /// Of the labels of mean active times: whether `is_present` [samples, labels] says of the mean gap, which stands
  /// before it in label_names(), that there is none: the resource is never idle. False of all other labels.
  Tensor unbroken_of(const Tensor& is_present) const {
    std::vector<std::int64_t> gap_of;
    std::vector<float> has_gap;
    for (std::size_t l = 0; l < labels.size(); ++l) {
      gap_of.push_back(static_cast<std::int64_t>(is_burst_label(l) ? l - 1 : l));
      has_gap.push_back(is_burst_label(l) ? 1.0F : 0.0F);
    }
    return is_present.index_select(1, torch::tensor(gap_of, torch::kInt64).to(is_present.device()))
        .logical_not()
        .logical_and(torch::tensor(has_gap).to(is_present.device()) > 0);
  }

  /// ln of the prediction where the state occurs: [samples, labels].
  Tensor log_prediction(const GraphInputs& in, const Network::Output& out, const Tensor& is_unbroken) const {
    const Tensor is_whole = is_unbroken.logical_and(in.longest < kNoLimit);
    const Tensor free = torch::where(is_whole, in.longest, torch::minimum(out.value + in.guess, in.longest));
    const Tensor share = (in.guess - in.bounds).exp().clamp(kLeastShare, 1 - kLeastShare);
    const Tensor bounded = torch::log_sigmoid(out.value + torch::log(share / (1 - share))) + in.bounds;
    return torch::where(in.is_bounded > 0, bounded, free);
  }

  Tensor loss(const Dataset& dataset, std::span<const std::size_t> samples) {
    const GraphInputs in = batch(dataset, samples, true);
    const Network::Output out = network->forward(in);
    const auto count_of_labels = static_cast<std::int64_t>(is_bounded.size());
    std::vector<float> logs, known_labels, positive, weights;
    for (const std::size_t s : samples) {
      const Sample& sample = dataset.samples[s];
      weights.push_back(static_cast<float>(sample.weight));
      for (const double label : sample.labels) {
        known_labels.push_back(std::isnan(label) ? 0.0F : 1.0F);
        positive.push_back(label > 0 ? 1.0F : 0.0F);
        logs.push_back(label > 0 ? static_cast<float>(std::log(label)) : 0.0F);
      }
    }
    const Tensor is_known = (tensor_of(known_labels, count_of_labels) * tensor_of(weights, 1)).to(device());
    const Tensor is_positive = tensor_of(positive, count_of_labels).to(device());
    const Tensor error = torch::abs(tensor_of(logs, count_of_labels).to(device()) -
                                    log_prediction(in, out, unbroken_of(is_positive > 0)));
    const Tensor regression = (error / out.width + torch::log(out.width)) * is_positive * is_known;
    const Tensor state =
        torch::binary_cross_entropy_with_logits(out.presence, is_positive, {}, {}, torch::Reduction::None) * is_known;
    return (regression + 0.5 * state).sum() / is_known.sum().clamp_min(1);
  }
};

MetricsNetwork::MetricsNetwork(const Dataset& dataset, std::span<const std::size_t> train,
                               const MetricsNetworkOptions& options)
    : parts_{std::make_unique<Parts>(options, dataset)} {
  if (train.empty()) throw InputError{"the dataset has no samples to train on"};
  Parts& parts = *parts_;
  ScaleSum nodes{parts.reader.node_inputs()}, totals{parts.reader.total_inputs()};
  const std::size_t labels = dataset.labels.size();
  std::vector<std::vector<double>> positive(labels);
  std::vector<std::vector<float>> all_totals;
  parts.is_bounded.assign(labels, false);
  for (const std::size_t s : train) {
    const SampleFeatures features = parts.reader.read(dataset, dataset.samples[s]);
    nodes.add(features.nodes);
    totals.add(features.totals);
    all_totals.push_back(features.totals);
    for (std::size_t l = 0; l < labels; ++l) {
      if (features.bounds[l] > 0) parts.is_bounded[l] = true;
      if (dataset.samples[s].labels[l] > 0) positive[l].push_back(dataset.samples[s].labels[l]);
    }
  }
  parts.node_scale = nodes.finish();
  parts.total_scale = totals.finish();
  parts.learn_distances(all_totals);
  for (std::size_t l = 0; l < labels; ++l)
    parts.label_scale.push_back(parts.is_bounded[l] || positive[l].empty() ? 0 : std::log(median(positive[l])));
  parts.make_network();
  {  // the learned sums enter at their own scale
    torch::NoGradGuard no_grad;
    std::vector<Tensor> sums;
    for (std::size_t i = 0; i < std::min<std::size_t>(train.size(), 256); i += 32) {
      const std::size_t end = std::min(train.size(), i + 32);
      Tensor pooled;
      sums.push_back(parts.network->sums_of(parts.batch(dataset, train.subspan(i, end - i), false), pooled));
    }
    const Tensor all = torch::cat(sums);
    parts.network->sum_mean.copy_(all.mean(0));
    parts.network->sum_scale.copy_(all.std(0, false).clamp_min(0.1));
  }
  parts.make_optimizer();
}

TorchValue MetricsNetwork::state() const {
  const Parts& parts = *parts_;
  TorchDict network{.items = {}, .is_ordered = true}, moments;
  for (const auto& item : parts.network->named_parameters()) {
    network.items.emplace_back(item.key(), stored(item.value()));
    const auto found = parts.optimizer->state().find(c10::guts::to_string(item.value().unsafeGetTensorImpl()));
    if (found == parts.optimizer->state().end()) continue;
    const auto& adam = static_cast<const torch::optim::AdamWParamState&>(*found->second);
    moments.items.emplace_back(item.key(), TorchDict{{{"step", TorchValue{adam.step()}},
                                                      {"first", stored(adam.exp_avg())},
                                                      {"second", stored(adam.exp_avg_sq())}}});
  }
  for (const auto& item : parts.network->named_buffers()) network.items.emplace_back(item.key(), stored(item.value()));
  const std::vector<double> bounded(parts.is_bounded.begin(), parts.is_bounded.end());
  return TorchDict{{{"network", "profile"},
                    {"hidden", parts.options.hidden},
                    {"message_rounds", parts.options.message_rounds},
                    {"readout", parts.options.readout},
                    {"heads", parts.options.heads},
                    {"seed", static_cast<std::int64_t>(parts.options.seed)},
                    {"is_frozen", !parts.network->embed->weight.requires_grad()},  // freeze_operators()
                    {"descriptors", list_of(parts.descriptors)},
                    {"labels", list_of(parts.labels)},
                    {"node_scale", stored(parts.node_scale)},
                    {"total_scale", stored(parts.total_scale)},
                    {"whitening", stored(parts.whitening)},
                    {"edge", parts.edge},
                    {"label_scale",
                     TorchTensor::of_doubles({static_cast<std::int64_t>(parts.label_scale.size())}, parts.label_scale)},
                    {"is_bounded", TorchTensor::of_doubles({static_cast<std::int64_t>(bounded.size())}, bounded)},
                    {"state", std::move(network)},
                    {"optimizer", std::move(moments)}}};
}

MetricsNetwork::MetricsNetwork(const TorchValue& state, const std::string& where) {
  const auto size = [&](const char* key, std::int64_t most) {
    const std::int64_t value = state.at(key, where).integer(where + ": " + key);
    if (value < 1 || value > most) throw InputError{where + ": " + key + ": expected 1 to " + std::to_string(most)};
    return static_cast<int>(value);
  };
  const MetricsNetworkOptions options{
      .hidden = size("hidden", 1024),
      .message_rounds = size("message_rounds", 16),
      .readout = size("readout", 4096),
      .heads = size("heads", 64),
      .seed = static_cast<std::uint64_t>(state.at("seed", where).integer(where + ": seed"))};
  Dataset columns;
  columns.node_features = node_feature_names();
  columns.descriptors = texts_of(state.at("descriptors", where), where + ": descriptors");
  columns.labels = texts_of(state.at("labels", where), where + ": labels");
  parts_ = std::make_unique<Parts>(options, columns);
  Parts& parts = *parts_;
  parts.node_scale = scale_of(state.at("node_scale", where), parts.reader.node_inputs(), where + ": node_scale");
  parts.total_scale = scale_of(state.at("total_scale", where), parts.reader.total_inputs(), where + ": total_scale");
  parts.label_scale = numbers_of(state.at("label_scale", where), columns.labels.size(), where + ": label_scale");
  for (const double flag : numbers_of(state.at("is_bounded", where), columns.labels.size(), where + ": is_bounded"))
    parts.is_bounded.push_back(flag != 0);
  const auto totals = static_cast<std::int64_t>(parts.reader.total_inputs());
  parts.whitening = torch::zeros({totals, totals});
  restore_into(parts.whitening, state.at("whitening", where), where + ": whitening");
  parts.edge = state.at("edge", where).number(where + ": edge");
  if (!(parts.edge > 0)) throw InputError{where + ": edge: expected a distance above 0"};
  parts.make_network();
  parts.make_optimizer();
  if (state.at("is_frozen", where).boolean(where + ": is_frozen")) freeze_operators();
  const TorchValue& weights = state.at("state", where);
  const TorchValue& moments = state.at("optimizer", where);
  torch::NoGradGuard no_grad;
  constexpr float kMostWeight = 1e4;  // far beyond any of a trained network
  const auto restore = [&](const std::string& name, Tensor tensor, float most) {
    restore_into(tensor, weights.at(name, where + ": state"), where + ": state: " + name, most);
  };
  for (const auto& item : parts.network->named_buffers())
    restore(item.key(), item.value(), std::numeric_limits<float>::max());
  for (const auto& item : parts.network->named_parameters()) {
    restore(item.key(), item.value(), kMostWeight);
    const TorchValue* moment = moments.find(item.key());
    if (moment == nullptr) continue;
    const std::string place = where + ": optimizer: " + item.key();
    auto adam = std::make_unique<torch::optim::AdamWParamState>();
    adam->step(moment->at("step", place).integer(place));
    for (const char* which : {"first", "second"}) {
      Tensor tensor = torch::zeros_like(item.value());
      restore_into(tensor, moment->at(which, place), place);
      which[0] == 'f' ? adam->exp_avg(tensor) : adam->exp_avg_sq(tensor);
    }
    parts.optimizer->state()[c10::guts::to_string(item.value().unsafeGetTensorImpl())] = std::move(adam);
  }
}

void MetricsNetwork::freeze_operators() {
  for (const auto& item : parts_->network->named_parameters()) {
    const bool is_readout = item.key().starts_with("enter") || item.key().starts_with("middle") ||
                            item.key().starts_with("last") || item.key().starts_with("value") ||
                            item.key().starts_with("spread") || item.key().starts_with("presence");
    item.value().set_requires_grad(is_readout);
  }
  parts_->make_optimizer();
}

void MetricsNetwork::forget_optimizer() { parts_->make_optimizer(); }

MetricsNetwork::MetricsNetwork(MetricsNetwork&&) noexcept = default;
MetricsNetwork::~MetricsNetwork() = default;

double MetricsNetwork::learn(const Dataset& dataset, std::span<const std::size_t> samples, double learning_rate) {
  for (auto& group : parts_->optimizer->param_groups())
    static_cast<torch::optim::AdamWOptions&>(group.options()).lr(learning_rate);
  parts_->optimizer->zero_grad();
  Tensor loss = parts_->loss(dataset, samples);
  loss.backward();
  torch::nn::utils::clip_grad_norm_(parts_->network->parameters(), 5.0);
  parts_->optimizer->step();
  return loss.item<double>();
}

double MetricsNetwork::loss(const Dataset& dataset, std::span<const std::size_t> samples) {
  torch::NoGradGuard no_grad;
  return parts_->loss(dataset, samples).item<double>();
}

std::vector<PredictedMetrics> MetricsNetwork::predict(const Dataset& dataset, std::span<const std::size_t> samples) {
  torch::NoGradGuard no_grad;
  std::vector<PredictedMetrics> predictions;
  for (std::size_t first = 0; first < samples.size(); first += 32) {
    const std::size_t count = std::min<std::size_t>(32, samples.size() - first);
    const GraphInputs in = parts_->batch(dataset, samples.subspan(first, count), false);
    Network::Output out = parts_->network->forward(in);
    out.value = torch::softshrink(out.value, kLeastWidth);
    const auto on_host = [](const Tensor& tensor) { return tensor.to(torch::kCPU).contiguous(); };
    const Tensor logs = on_host(parts_->log_prediction(in, out, parts_->unbroken_of(out.presence > 0)));
    const Tensor widths = on_host(out.width), presences = on_host(out.presence), ln_bounds = on_host(in.bounds);
    const float* log = logs.data_ptr<float>();
    const float* width = widths.data_ptr<float>();
    const float* presence = presences.data_ptr<float>();
    const float* bounds = ln_bounds.data_ptr<float>();
    const std::size_t labels = parts_->is_bounded.size();
    const Tensor distances = parts_->distances(in.deviations).contiguous();
    for (std::size_t g = 0; g < count; ++g) {
      PredictedMetrics& prediction = predictions.emplace_back();
      prediction.distance = distances.data_ptr<float>()[g] / parts_->edge;
      for (std::size_t l = 0; l < labels; ++l) {
        const std::size_t i = g * labels + l;
        const double most = parts_->is_bounded[l] ? bounds[i] : std::numeric_limits<double>::infinity();
        // Of a Laplace distribution, 5 % on either side; factors of a million and more are all the same.
        const double reach = std::min(width[i] * std::log(10.0), std::log(1e6));
        if (presence[i] < 0)
          prediction.labels.push_back({});
        else
          prediction.labels.push_back(
              {std::exp(log[i]), std::exp(log[i] - reach), std::exp(std::min(log[i] + reach, most))});
      }
    }
  }
  return predictions;
}

std::int64_t MetricsNetwork::parameters() const {
  std::int64_t count = 0;
  for (const Tensor& tensor : parts_->network->parameters())
    if (tensor.requires_grad()) count += tensor.numel();
  return count;
}

}  // namespace rehearse
