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
#include <map>
#include <utility>

#include "predictor/gnn/detail/metrics_layers.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"

namespace rehearse {

namespace {

using detail::Counts;
using detail::GraphInputs;
using detail::GraphTensor;
using detail::kGraphTensors;
using detail::MetricsLayers;
using torch::Tensor;

/// Where networks compute: LibTorch's GPU if it has one.
torch::Device device() {
  static const torch::Device chosen{torch::cuda::is_available() ? torch::kCUDA : torch::kCPU};
  return chosen;
}

constexpr double kForgottenKinds = 0.1;

Tensor tensor_of(const std::vector<float>& values, std::size_t columns) {
  return torch::tensor(values).view({-1, static_cast<std::int64_t>(columns)});
}

Tensor indices_of(const std::vector<std::int32_t>& numbers) { return torch::tensor(numbers, torch::kInt64); }

Tensor edges_of(const NodeLinks& links) {
  std::vector<std::int64_t> ends;
  for (const auto& [from, to] : links) ends.insert(ends.end(), {from, to});
  return torch::tensor(ends, torch::kInt64).view({-1, 2});
}

TorchValue stored(const Tensor& tensor) {
  const Tensor flat = tensor.detach().to(torch::kCPU, torch::kFloat32).contiguous();
  return TorchTensor::of_floats(flat.sizes().vec(), {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())});
}

/// Finite numbers.
void restore_into(const Tensor& tensor, const TorchValue& value, const std::string& where) {
  const TorchTensor& kept = value.tensor(where);
  if (kept.shape != tensor.sizes().vec()) throw InputError{where + ": the tensor has another shape than the network"};
  std::vector<float> numbers = kept.floats();
  if (!std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); }))
    throw InputError{where + ": expected finite numbers"};
  tensor.copy_(torch::from_blob(numbers.data(), tensor.sizes(), torch::kFloat32));
}

GraphInputs tensors_of(const MetricsInputs& in) {
  return {.kinds = indices_of(in.kinds),
          .nodes = tensor_of(in.nodes, kNodeInputs),
          .resources = tensor_of(in.resources, kResourceInputs),
          .flow = edges_of(in.flow),
          .part = indices_of(in.part),
          .resource = indices_of(in.resource),
          .timeline = tensor_of(in.timeline, kTimelineInputs),
          .totals = tensor_of(in.totals, in.totals.size()),
          .bases = tensor_of(in.bases, in.bases.size()),
          .limits = tensor_of(in.limits, in.limits.size()),
          .is_limited = tensor_of(in.is_limited, in.is_limited.size())};
}

}  // namespace

struct MetricsNetwork::Parts {
  MetricsModel model;  // with weights of when it predicted last
  std::shared_ptr<MetricsLayers> network;
  std::unique_ptr<torch::optim::AdamW> optimizer;
  Tensor is_fine;                                                       // [labels]
  std::map<std::pair<const Dataset*, std::size_t>, GraphInputs> known;  // by sample

  explicit Parts(MetricsModel from) : model{std::move(from)} {
    torch::manual_seed(model.options().seed);
    network = std::make_shared<MetricsLayers>(model.options(), static_cast<std::int64_t>(model.total_inputs()),
                                              static_cast<std::int64_t>(model.labels()));
    network->to(device());
    const std::vector<bool>& fine = model.has_fine_corrections();
    is_fine = torch::tensor(std::vector<float>(fine.begin(), fine.end())).to(device());
    make_optimizer();
  }
  void make_optimizer() {
    std::vector<Tensor> learning;
    for (const Tensor& parameter : network->parameters())
      if (parameter.requires_grad()) learning.push_back(parameter);
    optimizer = std::make_unique<torch::optim::AdamW>(learning, torch::optim::AdamWOptions(1e-3).weight_decay(0.03));
  }

  TorchValue weights() const {
    TorchDict found{.items = {}, .is_ordered = true};
    for (const auto& item : network->named_parameters()) found.items.emplace_back(item.key(), stored(item.value()));
    return found;
  }

  /// The samples as one graph; each is prepared once.
  GraphInputs batch(const Dataset& dataset, std::span<const std::size_t> samples, bool keeps) {
    std::array<std::vector<Tensor>, kGraphTensors.size()> pieces;
    std::map<Counts, std::int64_t> before;
    for (std::size_t g = 0; g < samples.size(); ++g) {
      auto found = known.find({&dataset, samples[g]});
      GraphInputs fresh;
      if (found == known.end()) {
        fresh = tensors_of(model.inputs(dataset, samples[g]));
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
    return in;
  }

  /// ln of the prediction where the state occurs: [samples, labels].
  Tensor log_prediction(const GraphInputs& in, const MetricsLayers::Output& out) const {
    const Tensor fine = detail::kFineCorrection * torch::sinh(out.value.clamp(-detail::kMostFine, detail::kMostFine));
    const Tensor corrected = in.bases + torch::where(is_fine > 0, fine, out.value);
    return torch::where(in.is_limited > 0, torch::log_sigmoid(corrected) + in.limits, corrected);
  }

  /// Makes operators of some kinds, with kForgottenKinds as the chance of each, unknown ones.
  void forget_kinds(GraphInputs& in, std::span<const std::size_t> samples) const {
    Rng random{model.options().seed,
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
    const std::size_t count_of_labels = model.labels();
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
    : parts_{std::make_unique<Parts>(MetricsModel{dataset, train, options})} {}

TorchValue MetricsNetwork::state() const {
  TorchDict moments;
  for (const auto& item : parts_->network->named_parameters()) {
    const auto found = parts_->optimizer->state().find(c10::guts::to_string(item.value().unsafeGetTensorImpl()));
    if (found == parts_->optimizer->state().end()) continue;
    const auto& adam = static_cast<const torch::optim::AdamWParamState&>(*found->second);
    moments.items.emplace_back(item.key(), TorchDict{{{"step", TorchValue{adam.step()}},
                                                      {"first", stored(adam.exp_avg())},
                                                      {"second", stored(adam.exp_avg_sq())}}});
  }
  TorchDict state = parts_->model.state();
  state.items.emplace_back("is_frozen", !parts_->network->of_node->weight.requires_grad());  // freeze_operators()
  state.items.emplace_back("state", parts_->weights());
  state.items.emplace_back("optimizer", std::move(moments));
  return state;
}

MetricsNetwork::MetricsNetwork(const TorchValue& state, const std::string& where)
    : parts_{std::make_unique<Parts>(MetricsModel{state, where})} {
  if (state.at("is_frozen", where).boolean(where + ": is_frozen")) freeze_operators();
  const TorchValue& weights = state.at("state", where);
  const TorchValue& moments = state.at("optimizer", where);
  torch::NoGradGuard no_grad;
  for (const auto& item : parts_->network->named_parameters()) {
    restore_into(item.value(), weights.at(item.key(), where + ": state"), where + ": state: " + item.key());
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
    parts_->optimizer->state()[c10::guts::to_string(item.value().unsafeGetTensorImpl())] = std::move(adam);
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
  parts_->model.take_weights(parts_->weights(), "network");
  return parts_->model.predict(dataset, samples);
}

void MetricsNetwork::calibrate(const Dataset& dataset, std::span<const std::size_t> samples) {
  parts_->model.take_weights(parts_->weights(), "network");
  parts_->model.calibrate(dataset, samples);
}

std::int64_t MetricsNetwork::parameters() const {
  std::int64_t count = 0;
  for (const Tensor& tensor : parts_->network->parameters())
    if (tensor.requires_grad()) count += tensor.numel();
  return count;
}

}  // namespace rehearse
