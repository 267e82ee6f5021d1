// The layers of a framework's graph.

#include "workloads/importers/framework_graph.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "workloads/importers/operator_actions.hpp"
#include "workloads/model_zoo.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

void FrameworkGraph::add_elementwise(const FrameworkOperator& op, GraphLayer::Kind kind, const Operands& operands) {
  GraphLayer layer{.name = op.name, .kind = kind, .inputs = {}};
  const FrameworkShape sample = sample_shape(op.name, op.shape);
  bool is_shape_stated = kind == GraphLayer::Kind::kConcatenate;
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
  const bool is_single = kind == GraphLayer::Kind::kActivation || kind == GraphLayer::Kind::kDropout;
  if (is_single && (layer.inputs.size() != 1 || is_shape_stated)) {
    layer.kind = GraphLayer::Kind::kElementwise;
    layer.shape = sample;
  }
  write(op, std::move(layer));
}

void FrameworkGraph::add_convolution(const FrameworkOperator& op, const Operands& operands, bool is_transposed) {
  const std::string& x = tensor(op, operands, 0);
  const std::string& weights = parameter(op, operands, 0);
  const FrameworkShape &w = values_.at(weights).shape, &from = values_.at(x).shape;
  if (w.size() == 2) return add_linear(op, operands);
  if (w.size() < 3 || w.size() > 4 || from.size() != w.size() || op.shape.size() != w.size())
    fail(op, "expected a convolution of sequences or images; found " + std::to_string(from.size()) + " axes");
  const std::size_t channel_axis = layout_ == Layout::kNchw ? 1 : from.size() - 1;
  const std::int64_t in = from[channel_axis], out = op.shape[channel_axis];
  GraphLayer layer{.name = op.name,
                   .kind = is_transposed ? GraphLayer::Kind::kTransposedConvolution : GraphLayer::Kind::kConvolution,
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
  FrameworkShape sample = sample_shape(x, values_.at(x).shape);
  std::string from = values_.at(x).layer;
  if (sample.back() != in) {
    if (count_of(sample) % in != 0) fail(op, "its weights do not fit its input");
    from = write_part({.name = op.name + "/input",
                       .kind = GraphLayer::Kind::kReshape,
                       .inputs = {from},
                       .shape = {count_of(sample) / in, in}});
  }
  GraphLayer layer{.name = op.name,
                   .kind = GraphLayer::Kind::kLinear,
                   .inputs = {from},
                   .features = out,
                   .has_bias = operands.parameters.size() > 1};
  own(layer, *matrix);
  write(op, std::move(layer));
}

void FrameworkGraph::add_product(const FrameworkOperator& op, const Operands& operands) {
  if (operands.tensors.size() == 1 && !operands.parameters.empty()) return add_linear(op, operands);
  const std::string &a = tensor(op, operands, 0), &b = tensor(op, operands, 1);
  const FrameworkShape sample = sample_shape(op.name, op.shape);
  const FrameworkShape& first = values_.at(a).shape;
  const std::int64_t rows_and_products = count_of(op.shape) / op.shape.back();
  const std::int64_t reduction = count_of(first) / std::max<std::int64_t>(rows_and_products, 1);
  if (reduction < 1 || count_of(first) % rows_and_products != 0) fail(op, "its first input does not fit its output");
  write(op, {.name = op.name,
             .kind = GraphLayer::Kind::kProduct,
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
    const FrameworkShape& shape = values_.at(op.inputs[i]).shape;
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
                      .kind = GraphLayer::Kind::kProduct,
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
                                       .kind = GraphLayer::Kind::kReshape,
                                       .inputs = {values_.at(x).layer},
                                       .shape = {scalars / in, in}});
  GraphLayer layer{.name = op.name + "/linear",
                   .kind = GraphLayer::Kind::kLinear,
                   .inputs = {from},
                   .features = out,
                   .has_bias = false};
  own(layer, weights);
  const std::string linear = write_part(std::move(layer));
  write(op, {.name = op.name,
             .kind = GraphLayer::Kind::kReshape,
             .inputs = {linear},
             .shape = sample_shape(op.name, op.shape)});
}

void FrameworkGraph::add_norm(const FrameworkOperator& op, GraphLayer::Kind kind, const Operands& operands) {
  const std::string& x = tensor(op, operands, 0);
  GraphLayer layer{.name = op.name,
                   .kind = kind,
                   .inputs = {values_.at(x).layer},
                   .has_bias = operands.parameters.size() > 1 && kind != GraphLayer::Kind::kRmsNorm,
                   .has_scale = !operands.parameters.empty()};
  if (layer.has_scale) {
    const FrameworkShape sample = sample_shape(x, values_.at(x).shape);
    const std::int64_t scales = count_of(values_.at(operands.parameters[0]).shape);
    const bool is_of_images = kind == GraphLayer::Kind::kBatchNorm || kind == GraphLayer::Kind::kGroupNorm;
    const std::int64_t channels = is_of_images && layout_ == Layout::kNchw ? sample.front() : sample.back();
    if (!is_of_images && scales != channels && count_of(sample) % scales == 0) {
      layer.inputs = {write_part({.name = op.name + "/input",
                                  .kind = GraphLayer::Kind::kReshape,
                                  .inputs = layer.inputs,
                                  .shape = {count_of(sample) / scales, scales}})};
    } else if (scales != channels) {
      fail(op, "it has " + std::to_string(scales) + " scales for " + std::to_string(channels) + " channels");
    }
    own(layer, operands.parameters[0]);
  }
  write(op, std::move(layer));
}

void FrameworkGraph::add_pool(const FrameworkOperator& op, GraphLayer::Kind kind, const Operands& operands) {
  const std::string& x = tensor(op, operands, 0);
  const FrameworkShape from = sample_shape(x, values_.at(x).shape), to = sample_shape(op.name, op.shape);
  if (from.size() < 2 || from.size() > 3) return add_elementwise(op, GraphLayer::Kind::kElementwise, operands);
  const std::int64_t channels = layout_ == Layout::kNchw ? from.front() : from.back();
  if (count_of(to) == channels) {
    const std::string pooled =
        write_part({.name = op.name, .kind = GraphLayer::Kind::kGlobalAveragePool, .inputs = {values_.at(x).layer}});
    values_[op.name] = {Value::Kind::kTensor, op.shape, pooled};
    if (to.size() != from.size())
      values_[op.name].layer =
          write_part({.name = op.name + "/flat", .kind = GraphLayer::Kind::kReshape, .inputs = {pooled}, .shape = to});
    return;
  }
  const bool has_channels =
      to.size() == from.size() && (layout_ == Layout::kNchw ? to.front() == channels : to.back() == channels);
  if (!has_channels) return add_elementwise(op, GraphLayer::Kind::kElementwise, operands);
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

void FrameworkGraph::add_rearranged(const FrameworkOperator& op, GraphLayer::Kind kind, const Operands& operands) {
  const std::string& x = tensor(op, operands, 0);
  const FrameworkShape from = sample_shape(x, values_.at(x).shape), to = sample_shape(op.name, op.shape);
  const std::int64_t before = count_of(from), after = count_of(to);
  if (before == after && from == to && kind != GraphLayer::Kind::kCopy) {
    values_[op.name] = {Value::Kind::kTensor, op.shape, values_.at(x).layer};
    return;
  }
  if (after > before) return add_elementwise(op, GraphLayer::Kind::kElementwise, operands);  // repeated
  if (kind != GraphLayer::Kind::kCopy) kind = after < before ? GraphLayer::Kind::kPart : GraphLayer::Kind::kReshape;
  if (kind == GraphLayer::Kind::kCopy && after < before) kind = GraphLayer::Kind::kPart;
  write(op, {.name = op.name, .kind = kind, .inputs = {values_.at(x).layer}, .shape = to});
}

void FrameworkGraph::add_embedding(const FrameworkOperator& op, const Operands& operands) {
  if (operands.parameters.empty()) return add_rearranged(op, GraphLayer::Kind::kPart, operands);  // of a tensor
  const std::string& table = operands.parameters[0];
  const FrameworkShape& shape = values_.at(table).shape;
  if (operands.tensors.empty()) {  // always the same rows
    return add_combined(op.name, {table}, op.shape);
  }
  if (shape.size() != 2) fail(op, "expected a table of rows");
  GraphLayer layer{.name = op.name,
                   .kind = GraphLayer::Kind::kEmbedding,
                   .inputs = {values_.at(operands.tensors[0]).layer},
                   .features = shape[1],
                   .rows = shape[0]};
  own(layer, table);
  write(op, std::move(layer));
}

/// nn.MultiheadAttention: queries, keys and values of one matrix, attention, output.
void FrameworkGraph::add_attention_layer(const FrameworkOperator& op, const Operands& operands) {
  const std::string& x = tensor(op, operands, 0);
  const FrameworkShape sample = sample_shape(x, values_.at(x).shape);
  const std::int64_t width = sample.back(), positions = count_of(sample) / width, heads = op.heads;
  if (heads < 1 || width % heads != 0) fail(op, "its heads do not divide its features");
  const bool has_bias = operands.parameters.size() > 2;
  std::vector<std::string> projected;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string& from = operands.tensors[std::min(i, operands.tensors.size() - 1)];
    const std::int64_t own_positions = count_of(sample_shape(from, values_.at(from).shape)) / width;
    static constexpr std::array kNames{"/queries", "/keys", "/values"};
    const std::string linear = write_part({.name = op.name + kNames[i],
                                           .kind = GraphLayer::Kind::kLinear,
                                           .inputs = {values_.at(from).layer},
                                           .features = width,
                                           .has_bias = has_bias});
    projected.push_back(write_part({.name = op.name + kNames[i] + "/heads",
                                    .kind = GraphLayer::Kind::kReshape,
                                    .inputs = {linear},
                                    .shape = {heads, own_positions, width / heads}}));
  }
  const std::string attended =
      write_part({.name = op.name + "/attention", .kind = GraphLayer::Kind::kAttention, .inputs = projected});
  const std::string flat = write_part({.name = op.name + "/heads",
                                       .kind = GraphLayer::Kind::kReshape,
                                       .inputs = {attended},
                                       .shape = {positions, width}});
  write(
      op,
      {.name = op.name, .kind = GraphLayer::Kind::kLinear, .inputs = {flat}, .features = width, .has_bias = has_bias});
}

/// Layers one after another, of which each goes over the positions in one direction, or in both.
void FrameworkGraph::add_recurrent(const FrameworkOperator& op, GraphLayer::Kind kind, const Operands& operands) {
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
      from = write_part({.name = name, .kind = GraphLayer::Kind::kConcatenate, .inputs = directions, .axis = 1});
  }
  values_[op.name] = {Value::Kind::kTensor, op.shape, from};
}

bool FrameworkGraph::add_of_one_kind(const FrameworkOperator& op, OperatorAction action, const Operands& operands) {
  using Add = void (FrameworkGraph::*)(const FrameworkOperator&, GraphLayer::Kind, const Operands&);
  static const std::map<OperatorAction, std::pair<Add, GraphLayer::Kind>> all{
      {OperatorAction::kElementwise, {&FrameworkGraph::add_elementwise, GraphLayer::Kind::kElementwise}},
      {OperatorAction::kActivation, {&FrameworkGraph::add_elementwise, GraphLayer::Kind::kActivation}},
      {OperatorAction::kDropout, {&FrameworkGraph::add_elementwise, GraphLayer::Kind::kDropout}},
      {OperatorAction::kAdd, {&FrameworkGraph::add_elementwise, GraphLayer::Kind::kAdd}},
      {OperatorAction::kConcatenate, {&FrameworkGraph::add_elementwise, GraphLayer::Kind::kConcatenate}},
      {OperatorAction::kBatchNorm, {&FrameworkGraph::add_norm, GraphLayer::Kind::kBatchNorm}},
      {OperatorAction::kGroupNorm, {&FrameworkGraph::add_norm, GraphLayer::Kind::kGroupNorm}},
      {OperatorAction::kLayerNorm, {&FrameworkGraph::add_norm, GraphLayer::Kind::kLayerNorm}},
      {OperatorAction::kRmsNorm, {&FrameworkGraph::add_norm, GraphLayer::Kind::kRmsNorm}},
      {OperatorAction::kMaxPool, {&FrameworkGraph::add_pool, GraphLayer::Kind::kMaxPool}},
      {OperatorAction::kReshape, {&FrameworkGraph::add_rearranged, GraphLayer::Kind::kReshape}},
      {OperatorAction::kCopy, {&FrameworkGraph::add_rearranged, GraphLayer::Kind::kCopy}},
      {OperatorAction::kPart, {&FrameworkGraph::add_rearranged, GraphLayer::Kind::kPart}},
      {OperatorAction::kLstm, {&FrameworkGraph::add_recurrent, GraphLayer::Kind::kLstm}},
      {OperatorAction::kGru, {&FrameworkGraph::add_recurrent, GraphLayer::Kind::kGru}},
      {OperatorAction::kRnn, {&FrameworkGraph::add_recurrent, GraphLayer::Kind::kRnn}}};
  const auto found = all.find(action);
  if (found == all.end()) return false;
  (this->*found->second.first)(op, found->second.second, operands);
  return true;
}

}  // namespace rehearse
