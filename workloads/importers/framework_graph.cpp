#include "workloads/importers/framework_graph.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
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

}  // namespace

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
