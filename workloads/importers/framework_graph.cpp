#include "workloads/importers/framework_graph.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <functional>
#include <numeric>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "workloads/importers/operator_actions.hpp"
#include "workloads/model_zoo.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

namespace {

using LayerKind = GraphLayer::Kind;
using Shape = FrameworkShape;

constexpr std::size_t kMostLayers = 100'000;

/// Of a shape that is known to be small enough.
std::int64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
}

}  // namespace

struct FrameworkGraph::Operands {
  std::vector<std::string> tensors, parameters;  // names of values
};

void FrameworkGraph::fail(const FrameworkOperator& op, const std::string& message) const {
  throw InputError{where_ + ": operator " + in_quotes(op.name) + " (" + shortened(op.type) + "): " + message};
}

namespace {

/// Throws InputError unless sizes are positive and not too many.
void check_shape(const std::string& where, const std::string& name, const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 1 || size > kMostScalars / count)
      throw InputError{where + ": " + in_quotes(name) + " has a size of " + std::to_string(size) +
                       ": expected sizes above 0, of at most 2^40 scalars"};
    count *= size;
  }
  if (shape.size() > 8) throw InputError{where + ": " + in_quotes(name) + " has more than 8 axes"};
}

}  // namespace

/// Without the batch: of its first axis or of a later one, or, where it went into another, of all scalars.
Shape FrameworkGraph::sample_shape(const std::string& name, const Shape& shape) const {
  check_shape(where_, name, shape);
  Shape sample = shape;
  const auto axis = std::ranges::find(sample, batch_);
  if (!sample.empty() && sample[0] % batch_ == 0 && sample[0] != batch_ && axis == sample.end()) {
    sample[0] /= batch_;
  } else if (axis != sample.end()) {
    sample.erase(axis);
  } else if (count_of(sample) % batch_ == 0) {
    sample = {count_of(sample) / batch_};
  } else {
    throw InputError{where_ + ": " + in_quotes(name) + " has " + std::to_string(count_of(sample)) +
                     " scalars for a batch of " + std::to_string(batch_) +
                     ", which is the first axis of the first input: expected that axis to be the batch"};
  }
  if (sample.empty()) sample = {1};
  return sample;
}

std::string FrameworkGraph::unique_name(const std::string& name) {
  const int count = names_[name]++;
  return count == 0 ? name : unique_name(name + "_" + std::to_string(count));
}

const Shape* FrameworkGraph::shape_of(const std::string& name) const {
  const auto value = values_.find(name);
  return value == values_.end() ? nullptr : &value->second.shape;
}

bool FrameworkGraph::is_parameter(const std::string& name) const {
  const auto value = values_.find(name);
  return value != values_.end() && value->second.kind == Value::Kind::kParameter;
}

bool FrameworkGraph::depends_on_samples(const std::vector<std::string>& names) const {
  return std::ranges::any_of(names, [&](const std::string& name) {
    const auto value = values_.find(name);
    return value != values_.end() && value->second.kind == Value::Kind::kTensor;
  });
}

void FrameworkGraph::add_input(const std::string& name, const Shape& shape, bool has_integers) {
  check_shape(where_, name, shape);
  if (batch_ == 0) {
    if (shape.empty()) throw InputError{where_ + ": input " + in_quotes(name) + " has no axis for the batch"};
    batch_ = shape[0];
  }
  const Shape sample = sample_shape(name, shape);
  const std::string layer = unique_name(name);
  net_.layers.push_back({.name = layer,
                         .kind = has_integers ? LayerKind::kIdentifiers : LayerKind::kInput,
                         .inputs = {},
                         .shape = sample});
  values_[name] = {Value::Kind::kTensor, shape, layer};
}

void FrameworkGraph::add_parameter(const std::string& name, const Shape& shape) {
  check_shape(where_, name, shape);
  values_[name] = {Value::Kind::kParameter, shape, name};
}

void FrameworkGraph::add_constant(const std::string& name, const Shape& shape) {
  values_[name] = {Value::Kind::kConstant, shape, {}};
}

void FrameworkGraph::add_alias(const std::string& name, const std::string& of) {
  const auto value = values_.find(of);
  if (value != values_.end()) {
    const Value copy = value->second;
    values_[name] = copy;
  } else {
    add_constant(name, {});
  }
}

void FrameworkGraph::add_combined(const std::string& name, const std::vector<std::string>& of, const Shape& shape) {
  constexpr std::size_t kMostCombined = 16;
  check_shape(where_, name, shape);
  Value made{Value::Kind::kConstant, shape, {}};
  for (const std::string& each : of) {
    const auto value = values_.find(each);
    if (value == values_.end() || value->second.kind != Value::Kind::kParameter) continue;
    std::vector<std::string> all = value->second.others;
    all.insert(all.begin(), value->second.layer);
    for (const std::string& parameter : all) {
      if (made.kind == Value::Kind::kConstant) {
        made.kind = Value::Kind::kParameter;
        made.layer = parameter;
      } else if (parameter != made.layer && std::ranges::find(made.others, parameter) == made.others.end()) {
        made.others.push_back(parameter);
      }
    }
  }
  if (made.others.size() > kMostCombined)
    throw InputError{where_ + ": " + in_quotes(name) +
                     " is worked out of more than 16 parameters, which is not supported"};
  values_[name] = made;
}

void FrameworkGraph::add_shaped_alias(const std::string& name, const std::string& of, const Shape& shape) {
  check_shape(where_, name, shape);
  add_alias(name, of);
  values_[name].shape = shape;
}

FrameworkGraph::Operands FrameworkGraph::operands_of(const FrameworkOperator& op) const {
  Operands operands;
  for (const std::string& input : op.inputs) {
    const auto value = values_.find(input);
    if (value == values_.end()) continue;
    if (value->second.kind == Value::Kind::kTensor) operands.tensors.push_back(input);
    if (value->second.kind == Value::Kind::kParameter) operands.parameters.push_back(input);
  }
  return operands;
}

std::string FrameworkGraph::words_on_constants(const FrameworkOperator& op) const {
  std::string words;
  for (const std::string& input : op.inputs)
    if (const auto value = values_.find(input); value != values_.end() && value->second.kind == Value::Kind::kConstant)
      words += "; its input " + in_quotes(input) + " is a constant of the graph, which is not learned";
  return words;
}

const std::string& FrameworkGraph::tensor(const FrameworkOperator& op, const Operands& operands, std::size_t i) const {
  if (i >= operands.tensors.size())
    fail(op, "expected " + std::to_string(i + 1) + " tensors of samples among its inputs" + words_on_constants(op));
  return operands.tensors[i];
}

const std::string& FrameworkGraph::parameter(const FrameworkOperator& op, const Operands& operands,
                                             std::size_t i) const {
  if (i >= operands.parameters.size())
    fail(op, "expected " + std::to_string(i + 1) + " parameters among its inputs" + words_on_constants(op));
  return operands.parameters[i];
}

std::string FrameworkGraph::write_part(GraphLayer layer) {
  if (net_.layers.size() >= kMostLayers) throw InputError{where_ + ": more than 100000 layers"};
  layer.name = unique_name(layer.name);
  net_.layers.push_back(std::move(layer));
  return net_.layers.back().name;
}

void FrameworkGraph::write(const FrameworkOperator& op, GraphLayer layer) {
  const std::string name = write_part(std::move(layer));
  values_[op.name] = {Value::Kind::kTensor, op.shape, name};
}

void FrameworkGraph::own(GraphLayer& layer, const std::string& weights, const std::string& part) {
  layer.name = unique_name(layer.name);
  --names_[layer.name];  // write_part() takes it
  const std::string& parameter = values_.at(weights).layer;
  const auto [owner, is_new] = owners_.emplace(parameter + part, layer.name);
  if (!is_new) layer.shares = owner->second;
}

std::string FrameworkGraph::parameter_layer(const std::string& name) {
  const std::string& parameter = values_.at(name).layer;
  const auto owner = owners_.find(parameter);
  if (owner != owners_.end()) return owner->second;
  Shape shape = values_.at(parameter).shape;
  if (shape.empty()) shape = {1};
  std::string layer = write_part({.name = parameter, .kind = LayerKind::kParameter, .inputs = {}, .shape = shape});
  owners_[parameter] = layer;
  tables_.insert(layer);
  return layer;
}

void FrameworkGraph::add_elementwise(const FrameworkOperator& op, LayerKind kind, const Operands& operands) {
  GraphLayer layer{.name = op.name, .kind = kind, .inputs = {}};
  const Shape sample = sample_shape(op.name, op.shape);
  bool is_shape_stated = kind == LayerKind::kConcatenate;
  for (const std::string& name : operands.tensors) {
    const Value& value = values_.at(name);
    layer.inputs.push_back(value.layer);
    is_shape_stated = is_shape_stated || sample_shape(name, value.shape) != sample;
  }
  for (const std::string& name : operands.parameters) {
    std::vector<std::string> all = values_.at(name).others;
    all.insert(all.begin(), values_.at(name).layer);
    for (const std::string& each : all)
      if (const std::string parameter = parameter_layer(each); tables_.contains(parameter))
        layer.inputs.push_back(parameter);
  }
  if (is_shape_stated || !operands.parameters.empty()) layer.shape = sample;
  const bool is_single = kind == LayerKind::kActivation || kind == LayerKind::kDropout;
  if (is_single && (layer.inputs.size() != 1 || is_shape_stated)) {
    layer.kind = LayerKind::kElementwise;
    layer.shape = sample;
  }
  write(op, std::move(layer));
}

void FrameworkGraph::add_convolution(const FrameworkOperator& op, const Operands& operands, bool is_transposed) {
  const std::string& x = tensor(op, operands, 0);
  const std::string& weights = parameter(op, operands, 0);
  const Shape &w = values_.at(weights).shape, &from = values_.at(x).shape;
  if (w.size() == 2) return add_linear(op, operands);
  if (w.size() < 3 || w.size() > 4 || from.size() != w.size() || op.shape.size() != w.size())
    fail(op, "expected a convolution of sequences or images; found " + std::to_string(from.size()) + " axes");
  const std::size_t channel_axis = layout_ == Layout::kNchw ? 1 : from.size() - 1;
  const std::int64_t in = from[channel_axis], out = op.shape[channel_axis];
  GraphLayer layer{.name = op.name,
                   .kind = is_transposed ? LayerKind::kTransposedConvolution : LayerKind::kConvolution,
                   .inputs = {values_.at(x).layer},
                   .shape = sample_shape(op.name, op.shape),
                   .features = out,
                   .has_bias = operands.parameters.size() > 1};
  const std::size_t first = weights_ == Layout::kNchw ? 2 : 0;  // axis of the kernel's height
  layer.window.height = w[first];
  layer.window.width = w.size() == 4 ? w[first + 1] : 1;
  layer.window.stride = op.stride.empty() ? 1 : op.stride[0];
  const std::int64_t of_group = weights_ == Layout::kNchw ? w[1] : w[w.size() - 2];
  layer.groups = op.groups > 0 ? op.groups : (is_transposed ? out : in) / of_group;
  const auto number = [](std::int64_t size) { return static_cast<double>(size); };  // their product may be beyond 2^63
  const double positions = number(layer.window.height) * number(layer.window.width);
  if (layer.groups < 1 || in % layer.groups != 0 || out % layer.groups != 0 ||
      number(count_of(w)) != positions * number(in / layer.groups) * number(out))
    fail(op, "its weights do not fit its input of " + std::to_string(in) + " channels");
  own(layer, weights);
  write(op, std::move(layer));
}

void FrameworkGraph::add_linear(const FrameworkOperator& op, const Operands& operands) {
  const std::string& x = tensor(op, operands, 0);
  const auto matrix = std::ranges::find_if(operands.parameters,
                                           [&](const std::string& name) { return values_.at(name).shape.size() >= 2; });
  if (matrix == operands.parameters.end()) fail(op, "expected a matrix of weights among its inputs");
  const std::int64_t out = op.shape.empty() ? 0 : op.shape.back(), weights = count_of(values_.at(*matrix).shape);
  if (out < 1 || weights % out != 0) fail(op, "its weights do not fit its output");
  const std::int64_t in = weights / out;
  Shape sample = sample_shape(x, values_.at(x).shape);
  std::string from = values_.at(x).layer;
  if (sample.back() != in) {
    if (count_of(sample) % in != 0) fail(op, "its weights do not fit its input");
    from = write_part({.name = op.name + "/input",
                       .kind = LayerKind::kReshape,
                       .inputs = {from},
                       .shape = {count_of(sample) / in, in}});
  }
  GraphLayer layer{.name = op.name,
                   .kind = LayerKind::kLinear,
                   .inputs = {from},
                   .features = out,
                   .has_bias = operands.parameters.size() > 1};
  own(layer, *matrix);
  write(op, std::move(layer));
}

void FrameworkGraph::add_product(const FrameworkOperator& op, const Operands& operands) {
  if (operands.tensors.size() == 1 && !operands.parameters.empty()) return add_linear(op, operands);
  const std::string &a = tensor(op, operands, 0), &b = tensor(op, operands, 1);
  const Shape sample = sample_shape(op.name, op.shape);
  const Shape& first = values_.at(a).shape;
  const std::int64_t rows_and_products = count_of(op.shape) / op.shape.back();
  const std::int64_t reduction = count_of(first) / std::max<std::int64_t>(rows_and_products, 1);
  if (reduction < 1 || count_of(first) % rows_and_products != 0) fail(op, "its first input does not fit its output");
  write(op, {.name = op.name,
             .kind = LayerKind::kProduct,
             .inputs = {values_.at(a).layer, values_.at(b).layer},
             .shape = sample,
             .reduction = reduction});
}

/// With weights a linear layer, of two tensors a product.
void FrameworkGraph::add_einsum(const FrameworkOperator& op, const Operands& operands) {
  std::string equation = op.equation;
  std::erase_if(equation, [](char c) { return c == ' ' || c == '.'; });  // axes that "..." stands for stay as they are
  const std::size_t comma = equation.find(','), arrow = equation.find("->");
  if (op.inputs.size() != 2 || comma == std::string::npos || arrow == std::string::npos || comma > arrow)
    fail(op, "expected an equation of two inputs, such as \"abc,cd->abd\"; found " + in_quotes(op.equation));
  std::array letters{equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1)};
  const std::string result = equation.substr(arrow + 2);
  const auto has = [](const std::string& text, char c) { return text.find(c) != std::string::npos; };
  // The product of axes of one input that are in the result or not, and in the other input or not.
  const auto size_of = [&](std::size_t i, bool in_result, bool in_other) {
    const Shape& shape = values_.at(op.inputs[i]).shape;
    if (shape.size() < letters[i].size()) fail(op, "its equation has other axes than its inputs");
    std::int64_t size = 1;
    for (std::size_t axis = 0; axis < letters[i].size(); ++axis)
      if (has(result, letters[i][axis]) == in_result && has(letters[1 - i], letters[i][axis]) == in_other)
        size *= shape[axis];
    return size;
  };
  if (operands.tensors.size() == 2) {
    const std::size_t first = !result.empty() && has(letters[1], result.back()) ? 0 : 1;
    return write(op, {.name = op.name,
                      .kind = LayerKind::kProduct,
                      .inputs = {values_.at(op.inputs[first]).layer, values_.at(op.inputs[1 - first]).layer},
                      .shape = sample_shape(op.name, op.shape),
                      .reduction = size_of(0, false, true)});
  }
  const std::string &x = tensor(op, operands, 0), &weights = parameter(op, operands, 0);
  const std::size_t of_weights = op.inputs[0] == weights ? 0 : 1;
  if (size_of(of_weights, true, true) != 1 || size_of(of_weights, false, false) != 1)
    fail(op, "weights that have an axis of their input and of the result are not supported");
  const std::int64_t in = size_of(of_weights, false, true), out = size_of(of_weights, true, false);
  const std::int64_t scalars = count_of(sample_shape(x, values_.at(x).shape));
  if (scalars % in != 0) fail(op, "its weights do not fit its input");
  const std::string from = write_part({.name = op.name + "/input",
                                       .kind = LayerKind::kReshape,
                                       .inputs = {values_.at(x).layer},
                                       .shape = {scalars / in, in}});
  GraphLayer layer{
      .name = op.name + "/linear", .kind = LayerKind::kLinear, .inputs = {from}, .features = out, .has_bias = false};
  own(layer, weights);
  const std::string linear = write_part(std::move(layer));
  write(op,
        {.name = op.name, .kind = LayerKind::kReshape, .inputs = {linear}, .shape = sample_shape(op.name, op.shape)});
}

void FrameworkGraph::add_norm(const FrameworkOperator& op, LayerKind kind, const Operands& operands) {
  const std::string& x = tensor(op, operands, 0);
  GraphLayer layer{.name = op.name,
                   .kind = kind,
                   .inputs = {values_.at(x).layer},
                   .has_bias = operands.parameters.size() > 1 && kind != LayerKind::kRmsNorm,
                   .has_scale = !operands.parameters.empty()};
  if (layer.has_scale) {
    const Shape sample = sample_shape(x, values_.at(x).shape);
    const std::int64_t scales = count_of(values_.at(operands.parameters[0]).shape);
    const bool is_of_images = kind == LayerKind::kBatchNorm || kind == LayerKind::kGroupNorm;
    const std::int64_t channels = is_of_images && layout_ == Layout::kNchw ? sample.front() : sample.back();
    if (!is_of_images && scales != channels && count_of(sample) % scales == 0) {
      layer.inputs = {write_part({.name = op.name + "/input",
                                  .kind = LayerKind::kReshape,
                                  .inputs = layer.inputs,
                                  .shape = {count_of(sample) / scales, scales}})};
    } else if (scales != channels) {
      fail(op, "it has " + std::to_string(scales) + " scales for " + std::to_string(channels) + " channels");
    }
    own(layer, operands.parameters[0]);
  }
  write(op, std::move(layer));
}

void FrameworkGraph::add_pool(const FrameworkOperator& op, LayerKind kind, const Operands& operands) {
  const std::string& x = tensor(op, operands, 0);
  const Shape from = sample_shape(x, values_.at(x).shape), to = sample_shape(op.name, op.shape);
  if (from.size() < 2 || from.size() > 3) return add_elementwise(op, LayerKind::kElementwise, operands);
  const std::int64_t channels = layout_ == Layout::kNchw ? from.front() : from.back();
  if (count_of(to) == channels) {
    const std::string pooled =
        write_part({.name = op.name, .kind = LayerKind::kGlobalAveragePool, .inputs = {values_.at(x).layer}});
    values_[op.name] = {Value::Kind::kTensor, op.shape, pooled};
    if (to.size() != from.size())
      values_[op.name].layer =
          write_part({.name = op.name + "/flat", .kind = LayerKind::kReshape, .inputs = {pooled}, .shape = to});
    return;
  }
  const bool has_channels =
      to.size() == from.size() && (layout_ == Layout::kNchw ? to.front() == channels : to.back() == channels);
  if (!has_channels) return add_elementwise(op, LayerKind::kElementwise, operands);
  GraphLayer layer{.name = op.name, .kind = kind, .inputs = {values_.at(x).layer}, .shape = to};
  const std::size_t height = layout_ == Layout::kNchw ? 1 : 0;
  const auto size = [&](std::size_t i) {
    if (i < op.kernel.size()) return op.kernel[i];
    if (!op.kernel.empty()) return op.kernel.back();
    return height + i < from.size() ? std::max<std::int64_t>(1, from[height + i] / to[height + i]) : 1;
  };
  layer.window.height = size(0);
  layer.window.width = from.size() == 3 ? size(1) : 1;
  layer.window.stride = op.stride.empty() ? layer.window.height : op.stride[0];
  write(op, std::move(layer));
}

void FrameworkGraph::add_rearranged(const FrameworkOperator& op, LayerKind kind, const Operands& operands) {
  const std::string& x = tensor(op, operands, 0);
  const Shape from = sample_shape(x, values_.at(x).shape), to = sample_shape(op.name, op.shape);
  const std::int64_t before = count_of(from), after = count_of(to);
  if (before == after && from == to && kind != LayerKind::kCopy) {
    values_[op.name] = {Value::Kind::kTensor, op.shape, values_.at(x).layer};
    return;
  }
  if (after > before) return add_elementwise(op, LayerKind::kElementwise, operands);  // repeated
  if (kind != LayerKind::kCopy) kind = after < before ? LayerKind::kPart : LayerKind::kReshape;
  if (kind == LayerKind::kCopy && after < before) kind = LayerKind::kPart;
  write(op, {.name = op.name, .kind = kind, .inputs = {values_.at(x).layer}, .shape = to});
}

void FrameworkGraph::add_embedding(const FrameworkOperator& op, const Operands& operands) {
  if (operands.parameters.empty()) return add_rearranged(op, LayerKind::kPart, operands);  // of a tensor
  const std::string& table = operands.parameters[0];
  const Shape& shape = values_.at(table).shape;
  if (operands.tensors.empty()) {  // always the same rows
    return add_combined(op.name, {table}, op.shape);
  }
  if (shape.size() != 2) fail(op, "expected a table of rows");
  GraphLayer layer{.name = op.name,
                   .kind = LayerKind::kEmbedding,
                   .inputs = {values_.at(operands.tensors[0]).layer},
                   .features = shape[1],
                   .rows = shape[0]};
  own(layer, table);
  write(op, std::move(layer));
}

/// nn.MultiheadAttention: queries, keys and values of one matrix, attention, output.
void FrameworkGraph::add_attention_layer(const FrameworkOperator& op, const Operands& operands) {
  const std::string& x = tensor(op, operands, 0);
  const Shape sample = sample_shape(x, values_.at(x).shape);
  const std::int64_t width = sample.back(), positions = count_of(sample) / width, heads = op.heads;
  if (heads < 1 || width % heads != 0) fail(op, "its heads do not divide its features");
  const bool has_bias = operands.parameters.size() > 2;
  std::vector<std::string> projected;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string& from = operands.tensors[std::min(i, operands.tensors.size() - 1)];
    const std::int64_t own_positions = count_of(sample_shape(from, values_.at(from).shape)) / width;
    static constexpr std::array kNames{"/queries", "/keys", "/values"};
    const std::string linear = write_part({.name = op.name + kNames[i],
                                           .kind = LayerKind::kLinear,
                                           .inputs = {values_.at(from).layer},
                                           .features = width,
                                           .has_bias = has_bias});
    projected.push_back(write_part({.name = op.name + kNames[i] + "/heads",
                                    .kind = LayerKind::kReshape,
                                    .inputs = {linear},
                                    .shape = {heads, own_positions, width / heads}}));
  }
  const std::string attended =
      write_part({.name = op.name + "/attention", .kind = LayerKind::kAttention, .inputs = projected});
  const std::string flat = write_part(
      {.name = op.name + "/heads", .kind = LayerKind::kReshape, .inputs = {attended}, .shape = {positions, width}});
  write(op, {.name = op.name, .kind = LayerKind::kLinear, .inputs = {flat}, .features = width, .has_bias = has_bias});
}

/// Layers one after another, of which each goes over the positions in one direction, or in both.
void FrameworkGraph::add_recurrent(const FrameworkOperator& op, LayerKind kind, const Operands& operands) {
  const std::string& x = tensor(op, operands, 0);
  if (op.hidden < 1 || op.layers < 1 || op.layers > 1000) fail(op, "expected a number of hidden features and layers");
  const auto parameters = static_cast<std::int64_t>(operands.parameters.size());
  const std::int64_t of_each = op.layers * (op.is_bidirectional ? 2 : 1);
  if (!op.has_bias && parameters != 0 && parameters != 2 * of_each && parameters != 4 * of_each)
    fail(op, "expected 2 or 4 parameters for each layer and direction; found " + std::to_string(parameters) + " for " +
                 std::to_string(of_each) + "; projections are not supported");
  std::string from = values_.at(x).layer;
  for (std::int64_t i = 1; i <= op.layers; ++i) {
    const std::string name = op.name + "/layer" + std::to_string(i);
    std::vector<std::string> directions;
    for (const char* direction : {"/forward", "/backward"}) {
      GraphLayer layer{.name = name + direction,
                       .kind = kind,
                       .inputs = {from},
                       .features = op.hidden,
                       .has_bias = op.has_bias.value_or(parameters != 2 * of_each)};
      if (op.layers == 1 && parameters > 0) own(layer, operands.parameters[0], direction);
      directions.push_back(write_part(std::move(layer)));
      if (!op.is_bidirectional) break;
    }
    from = directions[0];
    if (op.is_bidirectional)
      from = write_part({.name = name, .kind = LayerKind::kConcatenate, .inputs = directions, .axis = 1});
  }
  values_[op.name] = {Value::Kind::kTensor, op.shape, from};
}

bool FrameworkGraph::add_of_one_kind(const FrameworkOperator& op, OperatorAction action, const Operands& operands) {
  using Add = void (FrameworkGraph::*)(const FrameworkOperator&, LayerKind, const Operands&);
  static const std::map<OperatorAction, std::pair<Add, LayerKind>> all{
      {OperatorAction::kElementwise, {&FrameworkGraph::add_elementwise, LayerKind::kElementwise}},
      {OperatorAction::kActivation, {&FrameworkGraph::add_elementwise, LayerKind::kActivation}},
      {OperatorAction::kDropout, {&FrameworkGraph::add_elementwise, LayerKind::kDropout}},
      {OperatorAction::kAdd, {&FrameworkGraph::add_elementwise, LayerKind::kAdd}},
      {OperatorAction::kConcatenate, {&FrameworkGraph::add_elementwise, LayerKind::kConcatenate}},
      {OperatorAction::kBatchNorm, {&FrameworkGraph::add_norm, LayerKind::kBatchNorm}},
      {OperatorAction::kGroupNorm, {&FrameworkGraph::add_norm, LayerKind::kGroupNorm}},
      {OperatorAction::kLayerNorm, {&FrameworkGraph::add_norm, LayerKind::kLayerNorm}},
      {OperatorAction::kRmsNorm, {&FrameworkGraph::add_norm, LayerKind::kRmsNorm}},
      {OperatorAction::kMaxPool, {&FrameworkGraph::add_pool, LayerKind::kMaxPool}},
      {OperatorAction::kReshape, {&FrameworkGraph::add_rearranged, LayerKind::kReshape}},
      {OperatorAction::kCopy, {&FrameworkGraph::add_rearranged, LayerKind::kCopy}},
      {OperatorAction::kPart, {&FrameworkGraph::add_rearranged, LayerKind::kPart}},
      {OperatorAction::kLstm, {&FrameworkGraph::add_recurrent, LayerKind::kLstm}},
      {OperatorAction::kGru, {&FrameworkGraph::add_recurrent, LayerKind::kGru}},
      {OperatorAction::kRnn, {&FrameworkGraph::add_recurrent, LayerKind::kRnn}}};
  const auto found = all.find(action);
  if (found == all.end()) return false;
  (this->*found->second.first)(op, found->second.second, operands);
  return true;
}

void FrameworkGraph::add(const FrameworkOperator& op) {
  const Operands operands = operands_of(op);
  const std::optional<OperatorAction> action = action_of(op.type);
  if (action == OperatorAction::kConstant || (operands.tensors.empty() && operands.parameters.empty()))
    return add_constant(op.name, op.shape);
  if (action == OperatorAction::kIdentity)
    return add_alias(op.name, operands.tensors.empty() ? operands.parameters[0] : operands.tensors[0]);
  const bool is_lookup = action == OperatorAction::kEmbedding;
  if (op.has_integers && !is_lookup) {  // such as masks and positions: too little to count
    const auto& all = operands.tensors;
    const double scalars = std::accumulate(op.shape.begin(), op.shape.end(), 1.0, std::multiplies<>{});
    const auto same = std::ranges::find_if(
        all, [&](const std::string& name) { return static_cast<double>(count_of(values_.at(name).shape)) == scalars; });
    return same == all.end() ? add_constant(op.name, op.shape) : add_shaped_alias(op.name, *same, op.shape);
  }
  if (operands.tensors.empty() && !is_lookup) return add_combined(op.name, operands.parameters, op.shape);
  if (op.shape.empty() && action != OperatorAction::kReduce) fail(op, "the shape of what it gives is not known");
  check_shape(where_, op.name, op.shape);
  if (!op.equation.empty()) return add_einsum(op, operands);
  if (add_of_one_kind(op, action.value_or(OperatorAction::kUnknown), operands)) return;
  switch (action.value_or(OperatorAction::kUnknown)) {
    case OperatorAction::kUnknown:
      ++unknown_[{shortened(op.type), std::ranges::any_of(operands.parameters, [&](const std::string& name) {
                    return values_.at(name).shape.size() > 1;
                  })}];
      return add_elementwise(op, LayerKind::kElementwise, operands);
    case OperatorAction::kMultiply:
      return add_elementwise(op, operands.tensors.size() > 1 ? LayerKind::kMultiply : LayerKind::kElementwise,
                             operands);
    case OperatorAction::kConvolution:
      return add_convolution(op, operands, false);
    case OperatorAction::kTransposedConvolution:
      return add_convolution(op, operands, true);
    case OperatorAction::kLinear:
      return add_linear(op, operands);
    case OperatorAction::kProduct:
      return add_product(op, operands);
    case OperatorAction::kAveragePool:
    case OperatorAction::kReduce:
      if (op.shape.empty()) return add_constant(op.name, {});  // one scalar, such as a loss
      return add_pool(op, LayerKind::kAveragePool, operands);
    case OperatorAction::kEmbedding:
      return add_embedding(op, operands);
    case OperatorAction::kAttention: {
      GraphLayer layer{.name = op.name, .kind = LayerKind::kAttention, .inputs = {}};
      for (std::size_t i = 0; i < 3; ++i) layer.inputs.push_back(values_.at(tensor(op, operands, i)).layer);
      return write(op, std::move(layer));
    }
    case OperatorAction::kAttentionLayer:
      return add_attention_layer(op, operands);
    default:
      break;  // of one kind of layer, or none
  }
}

ImportedModel FrameworkGraph::finish(const Source& source, const std::string& kind,
                                     const std::vector<std::string>& outputs, std::optional<double> parameters) {
  std::set<std::string_view> ends;
  for (const std::string& output : outputs) {
    const auto value = values_.find(output);
    if (value == values_.end() || value->second.kind != Value::Kind::kTensor) continue;
    if (ends.insert(value->second.layer).second) net_.outputs.push_back(value->second.layer);
  }
  if (net_.layers.empty()) throw InputError{where_ + ": expected an input and operators; found none"};
  for (const auto& [type, count] : unknown_)
    remarks_.push_back(std::to_string(count) + " " + type.first +
                       (count == 1 ? " is taken as an element-wise kernel" : " are taken as element-wise kernels") +
                       (type.second ? ", without the products with their parameters" : ""));
  ImportedModel imported{.model_file = model_file(source, kind, layer_graph_json(net_)), .remarks = remarks_};
  if (layout_ == Layout::kNhwc) imported.model_file["layout"] = "NHWC";
  if (!parameters) return imported;
  const ModelDescription model = read_model(where_, JsonReader{imported.model_file, where_});
  const auto found = static_cast<double>(build_workload(model, 1, Precision::kFp32, where_).parameters());
  if (found != *parameters)
    throw InputError{where_ + ": its layers have " + std::to_string(std::llround(found)) +
                     " parameters, the variables that they read " + std::to_string(std::llround(*parameters)) +
                     ": expected variables that are weights as a whole; parts of them and products of two are not "
                     "supported"};
  return imported;
}

}  // namespace rehearse
