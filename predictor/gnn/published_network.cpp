#include "predictor/gnn/published_network.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include "predictor/gnn/detail/published_layers.hpp"
#include "predictor/torch_file.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/random.hpp"

namespace rehearse {
namespace {

using at::Tensor;

at::TensorOptions tensor_options(const ComputeSettings& settings) {
  const auto precision = settings.precision == Arithmetic::kDoublePrecision ? at::kDouble : at::kFloat;
  try {
    const at::TensorOptions options = at::TensorOptions{}.dtype(precision).device(c10::Device{settings.device});
    at::zeros({1}, options);
    return options;
  } catch (const c10::Error&) { throw InputError{"this LibTorch has no device " + in_quotes(settings.device)}; }
}

/// Uniform within +-width, drawn by our own generator, so that the start does not depend on LibTorch's version.
Tensor initial_value(const detail::ParameterShape& shape, Rng& random) {
  Tensor values = at::zeros(shape.shape, at::kDouble);
  double width = 0.0;
  if (shape.start == detail::ParameterShape::Start::kUniform) width = shape.scale;
  if (shape.start == detail::ParameterShape::Start::kXavier)
    width = shape.scale * std::sqrt(6.0 / static_cast<double>(shape.shape[0] + shape.shape[1]));
  auto* value = values.data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i)
    value[i] = shape.start == detail::ParameterShape::Start::kConstant ? shape.scale : random.uniform(-width, width);
  return values;
}

bool learns(const std::string& name, Transfer transfer) {
  return transfer == Transfer::kNone || name.starts_with("graph_read_out.mlp.") ||
         (transfer == Transfer::kAsIntended && name.starts_with("conv_layers.2."));
}

/// Numbers below 1e-38 count as 0 while it lives: the published start weights are small enough to meet many of them,
/// and the processor takes several times longer for each.
struct WithoutDenormals {
  WithoutDenormals() { at::globalContext().setFlushDenormal(true); }
  WithoutDenormals(const WithoutDenormals&) = delete;
  WithoutDenormals& operator=(const WithoutDenormals&) = delete;
  ~WithoutDenormals() { at::globalContext().setFlushDenormal(false); }
};

std::vector<double> to_vector(const Tensor& tensor) {
  const Tensor values = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t length : shape) text += (text.empty() ? "" : " x ") + std::to_string(length);
  return text.empty() ? "of a single number" : text;
}

TorchTensor to_file(const Tensor& tensor) {
  const Tensor values = tensor.detach().to(at::kCPU).contiguous();
  const auto count = static_cast<std::size_t>(values.numel());
  if (values.scalar_type() == at::kDouble)
    return TorchTensor::of_doubles(values.sizes().vec(), std::span<const double>{values.data_ptr<double>(), count});
  return TorchTensor::of_floats(values.sizes().vec(), std::span<const float>{values.data_ptr<float>(), count});
}

constexpr std::size_t kMostKept = 4096;
constexpr double kLargestLog = 700.0;  // whose exponential is still finite

/// Two hashes and the sizes of all that an embedding depends on.
std::pair<std::uint64_t, std::uint64_t> content_key(const GraphBatch& batch) {
  const auto bytes = [](const auto& values) {
    return std::string_view{reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
  };
  std::uint64_t first = 0xcbf29ce484222325U, second = batch.node_count() * 31 + batch.edges.size();
  for (std::uint64_t* hash : {&first, &second})
    *hash = fnv1a(bytes(batch.edges), fnv1a(bytes(batch.node_features), fnv1a(bytes(batch.offsets), *hash)));
  return {first, second};
}

/// The graphs of a batch by their number of nodes; `members` are their numbers in the batch.
struct EqualSized {
  detail::EqualGraphs graphs;
  std::vector<std::int64_t> members;
};

std::vector<EqualSized> groups_of_equal_size(const GraphBatch& batch, std::size_t features) {
  std::map<std::size_t, EqualSized> groups;
  std::vector<std::pair<EqualSized*, std::uint32_t>> place(batch.graph_count());  // group, first node in it
  for (std::size_t g = 0; g < batch.graph_count(); ++g) {
    const std::size_t begin = batch.offsets[g], end = batch.offsets[g + 1];
    EqualSized& group = groups[end - begin];
    group.graphs.nodes = static_cast<std::int64_t>(end - begin);
    place[g] = {&group, static_cast<std::uint32_t>(static_cast<std::size_t>(group.graphs.graphs) * (end - begin))};
    ++group.graphs.graphs;
    group.members.push_back(static_cast<std::int64_t>(g));
    group.graphs.features.insert(group.graphs.features.end(),
                                 batch.node_features.begin() + static_cast<std::ptrdiff_t>(begin * features),
                                 batch.node_features.begin() + static_cast<std::ptrdiff_t>(end * features));
  }
  for (const auto& [from, to] : batch.edges) {
    const auto g = static_cast<std::size_t>(std::upper_bound(batch.offsets.begin(), batch.offsets.end(), from) -
                                            batch.offsets.begin() - 1);
    const auto& [group, first] = place[g];
    group->graphs.edges.emplace_back(first + (from - batch.offsets[g]), first + (to - batch.offsets[g]));
  }
  std::vector<EqualSized> result;
  for (auto& [nodes, group] : groups) result.push_back(std::move(group));
  return result;
}

}  // namespace

struct PublishedNetwork::Network {
  PublishedOptions options;
  std::uint64_t seed = 0;
  ComputeSettings settings;
  at::TensorOptions tensors;
  std::vector<detail::ParameterShape> shapes;
  std::vector<Tensor> parameters;
  std::vector<Tensor> first_moments, second_moments;  // of Adam
  std::int64_t steps = 0;
  std::vector<double> label_maxima;
  LabelLogs label_logs;
  mutable std::map<std::pair<std::uint64_t, std::uint64_t>, Tensor> kept_embeddings;  // by content_key()

  /// The same network in float64, to predict with.
  Network in_double_precision() const {
    const at::NoGradGuard no_gradients;
    Network wide{
        .options = options, .seed = seed, .settings = settings, .label_maxima = label_maxima, .label_logs = label_logs};
    wide.settings.precision = Arithmetic::kDoublePrecision;
    wide.tensors = tensors.dtype(at::kDouble);
    for (const Tensor& parameter : parameters) wide.parameters.push_back(parameter.to(at::kDouble));
    return wide;
  }

  std::size_t index_of(const std::string& name) const {
    const auto found = std::ranges::find(shapes, name, &detail::ParameterShape::name);
    if (found == shapes.end()) throw std::out_of_range{name};
    return static_cast<std::size_t>(found - shapes.begin());
  }

  TorchValue to_dict(const std::vector<Tensor>& values) const {
    TorchDict dict{.is_ordered = true};
    for (std::size_t i = 0; i < shapes.size(); ++i) dict.items.emplace_back(shapes[i].name, to_file(values[i]));
    return dict;
  }

  /// Fills `values` by name and returns the names that `dict` lacks. `may_be_infinite`: float32 squares overflow.
  std::vector<std::string> take(const TorchValue& dict, const std::string& where, std::vector<Tensor>& values,
                                bool may_be_infinite = false) const {
    const at::NoGradGuard no_gradients;
    kept_embeddings.clear();
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const TorchValue* found = dict.find(shapes[i].name);
      if (found == nullptr) {
        missing.push_back(shapes[i].name);
        continue;
      }
      const std::string here = where + ": " + shapes[i].name;
      const TorchTensor& tensor = found->tensor(here);
      if (tensor.shape != shapes[i].shape) {
        throw InputError{here + ": expected the shape " + shape_text(shapes[i].shape) + "; found " +
                         shape_text(tensor.shape)};
      }
      const std::vector<double> numbers = tensor.values();
      if (!std::ranges::all_of(numbers,
                               [&](double number) { return std::isfinite(number) || (may_be_infinite && number > 0); }))
        throw InputError{here + ": expected finite numbers"};
      values[i].copy_(at::tensor(numbers, at::kDouble).view(shapes[i].shape));
    }
    return missing;
  }

  /// [graphs, outputs], normalised.
  Tensor outputs(const GraphBatch& batch, bool is_training, const detail::Trace& trace = {}) const {
    check_batch(batch, static_cast<std::size_t>(options.features), static_cast<std::size_t>(options.outputs));
    // Where only the fully connected layers learn, all before them stays the same from step to step.
    const bool is_kept =
        options.transfer == Transfer::kAsPublished && !trace && !(is_training && options.dropout > 0.0);
    if (!is_kept) return detail::read_out(options, parameters, embed(batch, is_training, trace), trace);
    if (kept_embeddings.size() >= kMostKept) kept_embeddings.clear();
    Tensor& embedding = kept_embeddings[content_key(batch)];
    if (!embedding.defined()) embedding = embed(batch, false, {});
    return detail::read_out(options, parameters, embedding, {});
  }

  /// [graphs, 2 hidden]
  Tensor embed(const GraphBatch& batch, bool is_training, const detail::Trace& trace) const {
    std::vector<Tensor> parts;
    std::vector<std::int64_t> order;
    for (const EqualSized& group : groups_of_equal_size(batch, static_cast<std::size_t>(options.features))) {
      detail::ForwardSettings forward{.dropout = {}, .trace = trace};
      if (is_training && options.dropout > 0.0) {
        Rng random{seed, "dropout " + std::to_string(steps) + " " + std::to_string(group.graphs.nodes)};
        forward.dropout = [this, random, &group](std::int64_t) mutable { return dropout_factors(random, group); };
      }
      parts.push_back(detail::embed(options, parameters, group.graphs, forward));
      order.insert(order.end(), group.members.begin(), group.members.end());
    }
    if (parts.size() == 1) return parts.front();
    return at::zeros({static_cast<std::int64_t>(order.size()), 2 * options.hidden}, tensors)
        .index_copy(0, at::tensor(order, at::kLong).to(tensors.device()), at::cat(parts));
  }

  Tensor dropout_factors(Rng& random, const EqualSized& group) const {
    Tensor factors = at::empty({group.graphs.graphs * group.graphs.nodes, options.hidden}, at::kDouble);
    auto* factor = factors.data_ptr<double>();
    for (std::int64_t i = 0; i < factors.numel(); ++i)
      factor[i] = random.uniform() < options.dropout ? 0.0 : 1.0 / (1.0 - options.dropout);
    return factors.to(tensors);
  }

  Tensor from_vector(const std::vector<double>& values) const {
    return at::tensor(values, at::kDouble).to(tensors).view({-1, options.outputs});
  }

  /// Labels as the network learns them.
  Tensor scaled(const std::vector<double>& labels) const {
    if (options.labels == LabelScaling::kMaxima) return from_vector(labels) / from_vector(label_maxima);
    const auto& [smallest, mean, deviation] = label_logs;
    std::vector<double> logs;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::size_t l = i % smallest.size();
      logs.push_back((std::log(std::max(labels[i], smallest[l])) - mean[l]) / deviation[l]);
    }
    return from_vector(logs);
  }

  Tensor loss(const GraphBatch& batch, bool is_training) const {
    if (batch.labels.empty()) throw InputError{"batch: expected labels"};
    const Tensor predicted = outputs(batch, is_training);
    const Tensor difference = predicted - scaled(batch.labels);
    if (batch.label_weights.empty()) return difference.square().mean();
    return (difference.square() * from_vector(batch.label_weights)).mean();
  }

  void clear_gradients() {
    for (Tensor& parameter : parameters) parameter.mutable_grad().reset();
  }

  void adam_step(const AdamOptions& adam) {
    const at::NoGradGuard no_gradients;
    ++steps;
    const double correction1 = 1.0 - std::pow(adam.beta1, static_cast<double>(steps));
    const double correction2 = std::sqrt(1.0 - std::pow(adam.beta2, static_cast<double>(steps)));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      Tensor gradient = parameters[i].grad();
      if (!gradient.defined()) continue;  // takes no part
      gradient = gradient.add(parameters[i], adam.weight_decay);
      first_moments[i].mul_(adam.beta1).add_(gradient, 1.0 - adam.beta1);
      second_moments[i].mul_(adam.beta2).addcmul_(gradient, gradient, 1.0 - adam.beta2);
      const Tensor width = (second_moments[i].sqrt() / correction2).add_(adam.epsilon);
      parameters[i].addcdiv_(first_moments[i], width, -adam.learning_rate / correction1);
    }
  }
};

PublishedNetwork::PublishedNetwork(const PublishedOptions& options, std::uint64_t seed, const ComputeSettings& settings)
    : network_{std::make_unique<Network>()} {
  check_options(options);
  network_->options = options;
  network_->seed = seed;
  network_->settings = settings;
  network_->tensors = tensor_options(settings);
  network_->shapes = detail::parameter_shapes(options);
  const auto outputs = static_cast<std::size_t>(options.outputs);
  network_->label_maxima.assign(outputs, 1.0);
  network_->label_logs = {.smallest = std::vector<double>(outputs, std::numeric_limits<double>::min()),
                          .mean = std::vector<double>(outputs),
                          .deviation = std::vector<double>(outputs, 1.0)};
  Rng random{seed, "weights"};
  for (const detail::ParameterShape& shape : network_->shapes) {
    network_->parameters.push_back(initial_value(shape, random).to(network_->tensors));
    network_->parameters.back().set_requires_grad(learns(shape.name, options.transfer));
    network_->first_moments.push_back(at::zeros(shape.shape, network_->tensors));
    network_->second_moments.push_back(at::zeros(shape.shape, network_->tensors));
  }
}

PublishedNetwork::PublishedNetwork(PublishedNetwork&&) noexcept = default;
PublishedNetwork& PublishedNetwork::operator=(PublishedNetwork&&) noexcept = default;
PublishedNetwork::~PublishedNetwork() = default;

TorchValue PublishedNetwork::state() const {
  TorchDict file;
  file.items.emplace_back("format", 1);
  file.items.emplace_back("kind", "published network");
  file.items.emplace_back("options", to_torch(network_->options));
  file.items.emplace_back("seed", static_cast<std::int64_t>(network_->seed));
  file.items.emplace_back("steps", network_->steps);
  const auto outputs = static_cast<std::int64_t>(network_->label_maxima.size());
  file.items.emplace_back("label_maxima", TorchTensor::of_doubles({outputs}, network_->label_maxima));
  if (network_->options.labels == LabelScaling::kStandardisedLogs) {
    const auto& [smallest, mean, deviation] = network_->label_logs;
    file.items.emplace_back("label_logs", TorchDict{{{"smallest", TorchTensor::of_doubles({outputs}, smallest)},
                                                     {"mean", TorchTensor::of_doubles({outputs}, mean)},
                                                     {"deviation", TorchTensor::of_doubles({outputs}, deviation)}}});
  }
  file.items.emplace_back("state", network_->to_dict(network_->parameters));
  file.items.emplace_back("first_moments", network_->to_dict(network_->first_moments));
  file.items.emplace_back("second_moments", network_->to_dict(network_->second_moments));
  return file;
}

PublishedNetwork PublishedNetwork::from_state(const TorchValue& file, const std::string& where,
                                              const ComputeSettings& settings) {
  const TorchValue* kind = file.find("kind");
  if (kind == nullptr || kind->text(where) != "published network")
    throw InputError{where + ": expected the file of a published network"};
  if (file.at("format", where).integer(where) != 1) throw InputError{where + ": expected format 1"};
  PublishedNetwork loaded{published_options(file.at("options", where), where + ": options"),
                          static_cast<std::uint64_t>(file.at("seed", where).integer(where)), settings};
  Network& network = *loaded.network_;
  network.steps = file.at("steps", where).integer(where);
  if (network.steps < 0) throw InputError{where + ": expected a number of steps"};
  const auto take_all = [&](const char* key, std::vector<Tensor>& values, bool may_be_infinite = false) {
    const auto missing = network.take(file.at(key, where), where + ": " + key, values, may_be_infinite);
    if (!missing.empty()) throw InputError{where + ": " + key + ": expected " + in_quotes(missing.front())};
  };
  take_all("state", network.parameters);
  take_all("first_moments", network.first_moments);
  take_all("second_moments", network.second_moments, true);
  try {
    loaded.set_label_maxima(file.at("label_maxima", where).tensor(where).values());
  } catch (const InputError& error) { throw InputError{where + ": label_maxima: " + error.what()}; }
  if (network.options.labels == LabelScaling::kStandardisedLogs) {
    const std::string here = where + ": label_logs";
    const TorchValue& logs = file.at("label_logs", where);
    const auto values = [&](const char* key) { return logs.at(key, here).tensor(here + ": " + key).values(); };
    const LabelLogs read{.smallest = values("smallest"), .mean = values("mean"), .deviation = values("deviation")};
    try {
      loaded.set_label_logs(read);
    } catch (const InputError& error) { throw InputError{here + ": " + error.what()}; }
  }
  return loaded;
}

std::vector<std::string> PublishedNetwork::take_weights(const TorchValue& file, const std::string& where) {
  const TorchValue* inner = file.find("state");
  std::vector<std::string> missing = network_->take(inner != nullptr ? *inner : file, where, network_->parameters);
  if (missing.size() == network_->shapes.size())
    throw InputError{where + ": expected the weights of a network of the kind " +
                     to_text(network_->options.convolution) + ", such as " + in_quotes(missing.front())};
  if (network_->options.transfer == Transfer::kAsIntended) {
    const at::NoGradGuard no_gradients;
    for (const std::string& name : missing) {
      if (!name.starts_with("conv_layers.2.")) continue;
      std::string second = name;
      second[std::string_view{"conv_layers."}.size()] = '1';
      network_->parameters[network_->index_of(name)].copy_(network_->parameters[network_->index_of(second)]);
    }
  }
  return missing;
}

const PublishedOptions& PublishedNetwork::options() const { return network_->options; }

std::vector<ParameterInfo> PublishedNetwork::parameters() const {
  std::vector<ParameterInfo> infos;
  for (const detail::ParameterShape& shape : network_->shapes)
    infos.push_back({shape.name, shape.shape, learns(shape.name, network_->options.transfer)});
  return infos;
}

std::vector<double> PublishedNetwork::values(const std::string& parameter) const {
  return to_vector(network_->parameters[network_->index_of(parameter)]);
}

void PublishedNetwork::set_values(const std::string& parameter, std::span<const double> values) {
  Tensor& target = network_->parameters[network_->index_of(parameter)];
  if (static_cast<std::int64_t>(values.size()) != target.numel()) throw std::invalid_argument{parameter};
  const at::NoGradGuard no_gradients;
  network_->kept_embeddings.clear();
  target.copy_(at::tensor(at::ArrayRef<double>{values.data(), values.size()}, at::kDouble).view(target.sizes()));
}

void PublishedNetwork::set_label_maxima(const std::vector<double>& maxima) {
  if (static_cast<int>(maxima.size()) != network_->options.outputs ||
      !std::ranges::all_of(maxima, [](double value) { return value > 0.0 && std::isfinite(value); }))
    throw InputError{"expected " + std::to_string(network_->options.outputs) + " label maxima above 0"};
  network_->label_maxima = maxima;
}

const std::vector<double>& PublishedNetwork::label_maxima() const { return network_->label_maxima; }

void PublishedNetwork::set_label_logs(const LabelLogs& logs) {
  const auto outputs = static_cast<std::size_t>(network_->options.outputs);
  const auto is_finite = [](double value) { return std::isfinite(value); };
  const auto is_above_0 = [](double value) { return value > 0.0 && std::isfinite(value); };
  if (logs.smallest.size() != outputs || logs.mean.size() != outputs || logs.deviation.size() != outputs ||
      !std::ranges::all_of(logs.smallest, is_above_0) || !std::ranges::all_of(logs.mean, is_finite) ||
      !std::ranges::all_of(logs.deviation, is_above_0))
    throw InputError{"expected " + std::to_string(outputs) +
                     " means, and as many smallest labels and standard deviations above 0"};
  network_->label_logs = logs;
}

const LabelLogs& PublishedNetwork::label_logs() const { return network_->label_logs; }

std::vector<double> PublishedNetwork::outputs(const GraphBatch& batch) const {
  const WithoutDenormals without_denormals;
  const at::NoGradGuard no_gradients;
  if (network_->settings.precision == Arithmetic::kDoublePrecision) return to_vector(network_->outputs(batch, false));
  return to_vector(network_->in_double_precision().outputs(batch, false));
}

std::vector<double> PublishedNetwork::labels_of(std::span<const double> outputs) const {
  std::vector<double> labels;
  const auto& [smallest, mean, deviation] = network_->label_logs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::size_t l = i % network_->label_maxima.size();
    labels.push_back(network_->options.labels == LabelScaling::kMaxima
                         ? outputs[i] * network_->label_maxima[l]
                         : std::exp(std::clamp(outputs[i] * deviation[l] + mean[l], -kLargestLog, kLargestLog)));
  }
  return labels;
}

std::vector<double> PublishedNetwork::predict(const GraphBatch& batch) const { return labels_of(outputs(batch)); }

bool PublishedNetwork::has_label_scales() const {
  return network_->options.labels != LabelScaling::kMaxima ||
         std::ranges::any_of(network_->label_maxima, [](double maximum) { return maximum != 1; });
}

double PublishedNetwork::loss(const GraphBatch& batch) const {
  const WithoutDenormals without_denormals;
  const at::NoGradGuard no_gradients;
  return network_->loss(batch, false).item<double>();
}

double PublishedNetwork::train(const GraphBatch& batch, const AdamOptions& adam) {
  const WithoutDenormals without_denormals;
  network_->clear_gradients();
  const Tensor loss = network_->loss(batch, true);
  loss.backward();
  network_->adam_step(adam);
  return loss.item<double>();
}

std::vector<std::pair<std::string, double>> PublishedNetwork::gradient_norms(const GraphBatch& batch) const {
  network_->clear_gradients();
  network_->loss(batch, false).backward();
  std::vector<std::pair<std::string, double>> norms;
  for (std::size_t i = 0; i < network_->parameters.size(); ++i)
    if (const Tensor& gradient = network_->parameters[i].grad(); gradient.defined())
      norms.emplace_back(network_->shapes[i].name, gradient.norm().item<double>());
  network_->clear_gradients();
  return norms;
}

std::vector<std::pair<std::string, std::vector<double>>> PublishedNetwork::trace(const GraphBatch& one_graph) const {
  const at::NoGradGuard no_gradients;
  std::vector<std::pair<std::string, std::vector<double>>> values;
  network_->outputs(one_graph, false,
                    [&](const std::string& name, const Tensor& value) { values.emplace_back(name, to_vector(value)); });
  return values;
}

}  // namespace rehearse
