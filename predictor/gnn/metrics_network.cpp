#include "predictor/gnn/metrics_network.hpp"

#include <torch/cuda.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
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
#include "predictor/gnn/detail/metrics_layers.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

using detail::Counts;
using detail::GraphInputs;
using detail::GraphTensor;
using detail::kGraphTensors;
using detail::list_of;
using detail::MetricsLayers;
using detail::numbers_of;
using detail::Scale;
using detail::scale_of;
using detail::ScaleSum;
using detail::stored;
using detail::texts_of;
using torch::Tensor;

/// Where networks compute: LibTorch's GPU if it has one.
torch::Device device() {
  static const torch::Device chosen{torch::cuda::is_available() ? torch::kCUDA : torch::kCPU};
  return chosen;
}

constexpr float kFarthest = 4;                // deviations that a total is taken to be from its mean at most
constexpr double kNoLimit = 1e9;              // ln
constexpr std::size_t kLeastCalibrated = 20;  // samples
constexpr double kForgottenKinds = 0.1;
constexpr double kMostFarther = 2;  // times as wide as inside of what was learned

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

Tensor edges_of(const NodeLinks& links) {
  std::vector<std::int64_t> ends;
  for (const auto& [from, to] : links) ends.insert(ends.end(), {from, to});
  return torch::tensor(ends, torch::kInt64).view({-1, 2});
}

Tensor indices_of(const std::vector<std::int32_t>& numbers) { return torch::tensor(numbers, torch::kInt64); }

struct MetricsNetwork::Parts {
  MetricsNetworkOptions options;
  std::vector<std::string> labels;       // names
  std::vector<std::size_t> idle_beside;  // idle_labels()
  FeatureReader reader;
  Scale total_scale;
  Tensor whitening;                   // [total inputs, total inputs]
  std::vector<bool> has_learnt_kind;  // [kinds] a training sample has such an operator
  double edge = 1;                    // distance that 99 % of the training samples do not exceed
  /// Of |ln label - ln prediction| / width over samples that were not trained on: [labels, kCoverages].
  std::vector<double> quantiles;
  std::shared_ptr<MetricsLayers> network;
  std::unique_ptr<torch::optim::AdamW> optimizer;
  std::map<std::pair<const Dataset*, std::size_t>, GraphInputs> known;  // by sample

  Parts(const MetricsNetworkOptions& chosen, const Dataset& dataset)
      : options{chosen}, labels{dataset.labels}, idle_beside{idle_labels(labels)}, reader{dataset, chosen.ablation} {
    has_learnt_kind.assign(kStepKinds, false);
    for (std::size_t l = 0; l < labels.size(); ++l)  // of a Laplace distribution
      for (const double coverage : kCoverages) quantiles.push_back(-std::log(1 - coverage));
  }

  void make_network() {
    torch::manual_seed(options.seed);
    network = std::make_shared<MetricsLayers>(options, static_cast<std::int64_t>(reader.total_inputs()),
                                              static_cast<std::int64_t>(labels.size()));
    network->to(device());
  }
  void make_optimizer() {
    std::vector<Tensor> learning;
    for (const Tensor& parameter : network->parameters())
      if (parameter.requires_grad()) learning.push_back(parameter);
    optimizer = std::make_unique<torch::optim::AdamW>(learning, torch::optim::AdamWOptions(1e-3).weight_decay(1e-3));
  }
  /// The labels of `dataset` are those that the network was made for.
  void check_columns(const Dataset& dataset) const {
    if (dataset.labels != labels)
      throw InputError{"the dataset's labels are not those that the predictor was trained with"};
  }

  /// [labels] of an active time the label of the same resource's idle time; labels.size() of others.
  static std::vector<std::size_t> idle_labels(const std::vector<std::string>& labels) {
    std::vector<std::size_t> found;
    for (const std::string& label : labels) {
      const std::string idle = label.substr(0, label.find('_')) + "_idle_s";
      const auto at = std::find(labels.begin(), labels.end(), label.ends_with("_active_s") ? idle : "");
      found.push_back(static_cast<std::size_t>(at - labels.begin()));
    }
    return found;
  }

  bool is_duration(std::size_t l) const { return labels[l].ends_with("_active_s") || labels[l].ends_with("_idle_s"); }

  GraphInputs prepare(const Dataset& dataset, std::size_t index) const {
    SampleFeatures features = reader.read(dataset, dataset.samples[index]);
    GraphInputs in;
    in.deviations = deviations({features.totals});
    total_scale.apply(features.totals);
    for (float& total : features.totals) total = std::clamp(total, -kFarthest, kFarthest);
    const auto rows = [](const std::vector<float>& values, std::size_t columns) {
      return tensor_of(values, static_cast<std::int64_t>(columns));
    };
    for (std::int32_t& kind : features.kinds)
      if (!has_learnt_kind[static_cast<std::size_t>(kind)]) kind = static_cast<std::int32_t>(kStepKinds);
    in.kinds = indices_of(features.kinds);
    in.nodes = rows(features.nodes, kNodeInputs);
    in.resources = rows(features.resources, kResourceInputs);
    in.flow = edges_of(features.flow);
    in.part = indices_of(features.part);
    in.resource = indices_of(features.resource);
    in.timeline = rows(features.timeline, kTimelineInputs);
    in.totals = rows(features.totals, reader.total_inputs());
    std::vector<float> bases, limits;
    for (std::size_t l = 0; l < labels.size(); ++l) {
      const double base = features.bases[l], limit = features.limits[l];
      bases.push_back(static_cast<float>(limit > 0 ? std::log(base / (limit - base)) : std::log(base)));
    }
    for (const double limit : features.limits) limits.push_back(limit > 0 ? static_cast<float>(std::log(limit)) : 0.0F);
    in.bases = rows(bases, labels.size());
    in.limits = rows(limits, labels.size());
    std::vector<float> is_limited;
    for (const double limit : features.limits) is_limited.push_back(limit > 0 ? 1.0F : 0.0F);
    in.is_limited = rows(is_limited, labels.size());
    in.window = torch::full({1}, static_cast<float>(std::log(features.window_steps + 1)));
    return in;
  }

  /// The samples as one graph; each is prepared once.
  GraphInputs batch(const Dataset& dataset, std::span<const std::size_t> samples, bool keeps) {
    check_columns(dataset);
    std::array<std::vector<Tensor>, kGraphTensors.size()> pieces;
    std::map<Counts, std::int64_t> before;
    for (std::size_t g = 0; g < samples.size(); ++g) {
      auto found = known.find({&dataset, samples[g]});
      GraphInputs fresh;
      if (found == known.end()) {
        fresh = prepare(dataset, samples[g]);
        if (keeps) known.emplace(std::pair{&dataset, samples[g]}, fresh);
      } else {
        fresh = found->second;
      }
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const auto& [tensor, from, to] = kGraphTensors[i];
        const Tensor& own = fresh.*tensor;
        if (from == Counts::kNothing)
          pieces[i].push_back(own);
        else if (to == Counts::kNothing)
          pieces[i].push_back(own + before[from]);
        else
          pieces[i].push_back(own + torch::tensor({before[from], before[to]}, torch::kInt64));
      }
      before[Counts::kNodes] += fresh.nodes.size(0);
      before[Counts::kResources] += static_cast<std::int64_t>(kStepResources);
      before[Counts::kParts] += static_cast<std::int64_t>(kStepParts);
    }
    GraphInputs in;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      in.*kGraphTensors[i].tensor = torch::cat(pieces[i]);
      in.*kGraphTensors[i].tensor = (in.*kGraphTensors[i].tensor).to(device());
    }
    in.deviations = in.deviations.to(torch::kCPU);  // which no network takes
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

  /// Name of the first mechanism that one sample, of `deviations`, has and no training sample had; empty: none.
  std::string unlearned(const float* deviations) const {
    for (std::size_t i = 0; i < reader.total_inputs(); ++i)
      if (reader.is_mechanism(i) && total_scale.inverse[i] == 0 && std::abs(total_scale.mean[i]) < 1e-4F &&
          deviations[i] != 0)
        return reader.total_names()[i];
    return {};
  }

  /// Name of the one of `deviations` of one sample that is largest.
  std::string farthest(const float* deviations) const {
    const float* const end = deviations + reader.total_inputs();
    const auto* const most =
        std::max_element(deviations, end, [](float a, float b) { return std::abs(a) < std::abs(b); });
    return reader.total_names()[static_cast<std::size_t>(most - deviations)];
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

  /// ln of the prediction where the state occurs: [samples, labels].
  static Tensor log_prediction(const GraphInputs& in, const MetricsLayers::Output& out) {
    return torch::where(in.is_limited > 0, torch::log_sigmoid(out.value + in.bases) + in.limits, out.value + in.bases);
  }

  /// Makes operators of some kinds, with kForgottenKinds as the chance of each, unknown ones.
  void forget_kinds(GraphInputs& in, std::span<const std::size_t> samples) const {
    Rng random{options.seed,
               "kinds beside sample " + std::to_string(samples.front()) + " " + std::to_string(samples.back())};
    const std::size_t kinds = kStepKinds;
    std::vector<std::int32_t> becomes(kinds + 1, static_cast<std::int32_t>(kinds));
    for (std::size_t k = 0; k < kinds; ++k)
      if (random.uniform() >= kForgottenKinds) becomes[k] = static_cast<std::int32_t>(k);
    in.kinds = indices_of(becomes).to(in.kinds.device()).index_select(0, in.kinds);
  }

  Tensor loss(const Dataset& dataset, std::span<const std::size_t> samples, bool is_learning) {
    GraphInputs in = batch(dataset, samples, true);
    if (is_learning) forget_kinds(in, samples);
    const MetricsLayers::Output out = network->forward(in);
    const auto count_of_labels = static_cast<std::int64_t>(labels.size());
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
    const Tensor error = torch::abs(tensor_of(logs, count_of_labels).to(device()) - log_prediction(in, out));
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
  ScaleSum totals{parts.reader.total_inputs()};
  std::vector<std::vector<float>> all_totals;
  for (const std::size_t s : train) {
    const SampleFeatures features = parts.reader.read(dataset, dataset.samples[s]);
    for (const std::int32_t kind : features.kinds) parts.has_learnt_kind[static_cast<std::size_t>(kind)] = true;
    all_totals.push_back(features.totals);
    totals.add(all_totals.back());
  }
  parts.total_scale = totals.finish();
  parts.learn_distances(all_totals);
  parts.make_network();
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
  const std::vector<double> kinds{parts.has_learnt_kind.begin(), parts.has_learnt_kind.end()};
  return TorchDict{{{"network", "learnt"},
                    {"hidden", parts.options.hidden},
                    {"message_rounds", parts.options.message_rounds},
                    {"readout", parts.options.readout},
                    {"channels", parts.options.channels},
                    {"ablation", static_cast<std::int64_t>(parts.options.ablation)},
                    {"seed", static_cast<std::int64_t>(parts.options.seed)},
                    {"is_frozen", !parts.network->of_node->weight.requires_grad()},  // freeze_operators()
                    {"labels", list_of(parts.labels)},
                    {"total_scale", stored(parts.total_scale)},
                    {"whitening", stored(parts.whitening)},
                    {"edge", parts.edge},
                    {"kinds", TorchTensor::of_doubles({static_cast<std::int64_t>(kinds.size())}, kinds)},
                    {"quantiles", TorchTensor::of_doubles({static_cast<std::int64_t>(parts.labels.size()),
                                                           static_cast<std::int64_t>(kCoverages.size())},
                                                          parts.quantiles)},
                    {"state", std::move(network)},
                    {"optimizer", std::move(moments)}}};
}

MetricsNetwork::MetricsNetwork(const TorchValue& state, const std::string& where) {
  const auto size = [&](const char* key, std::int64_t most, std::int64_t least = 1) {
    const std::int64_t value = state.at(key, where).integer(where + ": " + key);
    if (value < least || value > most)
      throw InputError{where + ": " + key + ": expected " + std::to_string(least) + " to " + std::to_string(most)};
    return static_cast<int>(value);
  };
  const MetricsNetworkOptions options{
      .hidden = size("hidden", 1024),
      .message_rounds = size("message_rounds", 16, 0),
      .channels = size("channels", 1024),
      .readout = size("readout", 4096),
      .ablation = static_cast<Ablation>(size("ablation", 3, 0)),
      .seed = static_cast<std::uint64_t>(state.at("seed", where).integer(where + ": seed"))};
  Dataset columns;
  columns.labels = texts_of(state.at("labels", where), where + ": labels");
  parts_ = std::make_unique<Parts>(options, columns);
  Parts& parts = *parts_;
  parts.total_scale = scale_of(state.at("total_scale", where), parts.reader.total_inputs(), where + ": total_scale");
  parts.quantiles =
      numbers_of(state.at("quantiles", where), columns.labels.size() * kCoverages.size(), where + ": quantiles");
  if (!std::all_of(parts.quantiles.begin(), parts.quantiles.end(), [](double x) { return x >= 0; }))
    throw InputError{where + ": quantiles: expected numbers of at least 0"};
  const auto totals = static_cast<std::int64_t>(parts.reader.total_inputs());
  parts.whitening = torch::zeros({totals, totals});
  restore_into(parts.whitening, state.at("whitening", where), where + ": whitening");
  const std::vector<double> kinds = numbers_of(state.at("kinds", where), kStepKinds, where + ": kinds");
  std::transform(kinds.begin(), kinds.end(), parts.has_learnt_kind.begin(), [](double is) { return is > 0; });
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
    const bool is_readout = item.key().starts_with("first") || item.key().starts_with("middle") ||
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
  Tensor loss = parts_->loss(dataset, samples, true);
  loss.backward();
  torch::nn::utils::clip_grad_norm_(parts_->network->parameters(), 2.0);
  parts_->optimizer->step();
  return loss.item<double>();
}

double MetricsNetwork::loss(const Dataset& dataset, std::span<const std::size_t> samples) {
  torch::NoGradGuard no_grad;
  return parts_->loss(dataset, samples, false).item<double>();
}

std::vector<PredictedMetrics> MetricsNetwork::predict(const Dataset& dataset, std::span<const std::size_t> samples) {
  torch::NoGradGuard no_grad;
  std::vector<PredictedMetrics> predictions;
  for (std::size_t first = 0; first < samples.size(); first += 32) {
    const std::size_t count = std::min<std::size_t>(32, samples.size() - first);
    const GraphInputs in = parts_->batch(dataset, samples.subspan(first, count), false);
    const MetricsLayers::Output out = parts_->network->forward(in);
    const auto on_host = [](const Tensor& tensor) { return tensor.to(torch::kCPU).contiguous(); };
    const Tensor logs = on_host(Parts::log_prediction(in, out)), widths = on_host(out.width);
    const Tensor presences = on_host(out.presence), ln_limits = on_host(in.limits), windows = on_host(in.window);
    const float* log = logs.data_ptr<float>();
    const float* width = widths.data_ptr<float>();
    const float* presence = presences.data_ptr<float>();
    const float* limits = ln_limits.data_ptr<float>();
    const Tensor limited = on_host(in.is_limited);
    const float* has_limit = limited.data_ptr<float>();
    const std::size_t labels = parts_->labels.size();
    const auto step = static_cast<std::size_t>(std::find(parts_->labels.begin(), parts_->labels.end(), "step_time_s") -
                                               parts_->labels.begin());
    const Tensor distances = parts_->distances(in.deviations).contiguous();
    const Tensor deviations = in.deviations.contiguous();
    for (std::size_t g = 0; g < count; ++g) {
      PredictedMetrics& prediction = predictions.emplace_back();
      const float* const own = deviations.data_ptr<float>() + g * parts_->reader.total_inputs();
      prediction.unlearned = parts_->unlearned(own);
      prediction.farthest = parts_->farthest(own);
      prediction.distance = distances.data_ptr<float>()[g] / parts_->edge;
      const double farther = std::clamp(prediction.distance, 1.0, kMostFarther);
      const double window = step < labels ? log[g * labels + step] + windows.data_ptr<float>()[g] : kNoLimit;
      for (std::size_t l = 0; l < labels; ++l) {
        const std::size_t i = g * labels + l;
        const double most = has_limit[i] > 0 ? limits[i] : parts_->is_duration(l) ? window : kNoLimit;
        const std::size_t idle = parts_->idle_beside[l];
        const bool never_rests = idle < labels && presence[g * labels + idle] < 0;
        const double middle = never_rests ? window + std::log1p(-std::exp(-windows.data_ptr<float>()[g]))  // its steps
                                          : std::min<double>(log[i], most);
        prediction.reaches.push_back(reaches_of(
            width[i] * farther, std::span{parts_->quantiles}.subspan(l * kCoverages.size(), kCoverages.size())));
        const double reach = prediction.reaches.back()[kShown];
        if (presence[i] < 0)
          prediction.labels.push_back({});
        else
          prediction.labels.push_back(
              {std::exp(middle), std::exp(middle - reach), std::exp(std::min(middle + reach, most))});
        prediction.widths.push_back(width[i]);
      }
    }
  }
  return predictions;
}

void MetricsNetwork::calibrate(const Dataset& dataset, std::span<const std::size_t> samples) {
  const std::vector<PredictedMetrics> predictions = predict(dataset, samples);
  for (std::size_t l = 0; l < parts_->labels.size(); ++l) {
    std::vector<double> scores;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double label = dataset.samples[samples[i]].labels[l], predicted = predictions[i].labels[l].value;
      if (label > 0 && predicted > 0)
        scores.push_back(std::abs(std::log(label / predicted)) / predictions[i].widths[l]);
    }
    if (scores.size() < kLeastCalibrated) continue;
    const auto quantiles = conformal_quantiles(std::move(scores));
    std::copy(quantiles.begin(), quantiles.end(),
              parts_->quantiles.begin() + static_cast<std::ptrdiff_t>(l * kCoverages.size()));
  }
}

std::int64_t MetricsNetwork::parameters() const {
  std::int64_t count = 0;
  for (const Tensor& tensor : parts_->network->parameters())
    if (tensor.requires_grad()) count += tensor.numel();
  return count;
}

}  // namespace rehearse
