#include "workloads/importers/onnx.hpp"

#include <google/protobuf/stubs/logging.h>

#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/varint.hpp"
#include "workloads/importers/framework_graph.hpp"
#include "workloads/importers/onnx.pb.h"
#include "workloads/importers/onnx_shapes.hpp"
#include "workloads/sizes.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kOpenBatch = 13, kOpenAxis = 128;
constexpr int kMostInputs = 10'000;       // of an operator
constexpr int kMostPassed = 64;           // operators on the way from a value to where it comes from
constexpr std::int64_t kOldestOpset = 7;  // before it, axes are broadcast by attributes
constexpr std::int64_t kMostKnown = 64;   // scalars of a tensor whose values matter
enum DataType { kFloat = 1, kInt32 = 6, kInt64 = 7, kBool = 9, kFloat16 = 10, kDouble = 11, kBfloat16 = 16 };

bool is_floating(int type) { return type == kFloat || type == kFloat16 || type == kDouble || type == kBfloat16; }

/// Values of a little-endian array.
template <class Number, class Result>
std::vector<Result> numbers_of(const std::string& bytes) {
  std::vector<Result> numbers;
  for (std::size_t at = 0; at + sizeof(Number) <= bytes.size(); at += sizeof(Number)) {
    Number number{};
    std::memcpy(&number, bytes.data() + at, sizeof(Number));
    numbers.push_back(static_cast<Result>(number));
  }
  return numbers;
}

/// Those of a tensor with few.
std::vector<std::int64_t> small_integers(const onnx_model::Tensor& tensor) {
  std::vector<std::int64_t> integers{tensor.int64_data().begin(), tensor.int64_data().end()};
  if (tensor.data_type() == kInt32) integers.assign(tensor.int32_data().begin(), tensor.int32_data().end());
  if (integers.empty() && tensor.data_type() == kInt64)
    integers = numbers_of<std::int64_t, std::int64_t>(tensor.raw_data());
  if (integers.empty() && tensor.data_type() == kInt32)
    integers = numbers_of<std::int32_t, std::int64_t>(tensor.raw_data());
  if (integers.size() > static_cast<std::size_t>(kMostKnown)) integers.clear();
  return integers;
}

bool is_recurrent(std::string_view type) { return type == "LSTM" || type == "GRU" || type == "RNN"; }

/// Whether an operator's input `i` has weights if it is the same for all samples.
bool is_place_of_weights(std::string_view type, int i) {
  if (type == "MatMul" || type == "Gather") return type == "Gather" ? i == 0 : i <= 1;
  if (is_recurrent(type)) return (i >= 1 && i <= 3) || i == 7;
  static const std::set<std::string_view> others{"Conv",
                                                 "ConvTranspose",
                                                 "Gemm",
                                                 "PRelu",
                                                 "BatchNormalization",
                                                 "LayerNormalization",
                                                 "InstanceNormalization",
                                                 "GroupNormalization"};
  return others.contains(type) && (i == 1 || i == 2);
}

/// Whether an operator's input `i` is a setting, such as a bound or a scale of sizes: never learned.
bool is_place_of_settings(std::string_view type, int i) {
  if (is_recurrent(type)) return i >= 4 && i <= 6;
  static const std::set<std::string_view> all{
      "Resize",         "Upsample",         "Clip",   "Pad",  "Dropout",           "Pow",  "Range",
      "QuantizeLinear", "DequantizeLinear", "OneHot", "TopK", "NonMaxSuppression", "Tile", "Expand"};
  return i > 0 && all.contains(type);
}

/// What is read of an operator whose one input it gives again, in another order or type.
bool passes_weights_on(std::string_view type) {
  static const std::set<std::string_view> all{"Identity", "Transpose", "Cast", "Reshape", "Unsqueeze", "Squeeze"};
  return all.contains(type);
}

/// Whether an operator's input `i` is a moving average, which no optimizer updates.
bool is_place_of_averages(std::string_view type, int i) { return type == "BatchNormalization" && i >= 3; }

/// Reads one model.
class OnnxReader {
 public:
  OnnxReader(const Source& source, const onnx_model::Graph& graph)
      : source_{source}, proto_{graph}, graph_{source.name(), Layout::kNchw} {}

  ImportedModel read() {
    if (!proto_.sparse_initializer().empty()) throw InputError{source_.name() + ": sparse weights are not supported"};
    for (const onnx_model::Node& node : proto_.node()) refuse_inner_weights(node);
    find_places();
    find_weights_of_light_models();
    find_batch_axes();
    for (const onnx_model::Tensor& tensor : proto_.initializer()) add_tensor(tensor.name(), tensor);
    for (const onnx_model::ValueInfo& value : proto_.input()) add_input(value);
    for (const auto* list : {&proto_.value_info(), &proto_.output()})
      for (const onnx_model::ValueInfo& value : *list) {
        types_[value.name()] = value.type().tensor_type().elem_type();
        if (const auto shape = shape_of(value, false)) values_.shapes.try_emplace(value.name(), *shape);
      }
    for (const onnx_model::Node& node : proto_.node()) add_node(node);
    std::vector<std::string> outputs;
    for (const onnx_model::ValueInfo& value : proto_.output()) outputs.push_back(value.name());
    const double parameters = count_parameters(outputs);
    if (scalars_ > 0)
      graph_.remark(std::to_string(scalars_) +
                    (scalars_ == 1 ? " scalar without an axis is taken as a constant, not as a parameter"
                                   : " scalars without an axis are taken as constants, not as parameters"));
    if (has_initial_states_) graph_.remark("initial states of recurrent layers are taken as constants");
    if (made_weights_ > 0)
      graph_.remark("weights that operators Constant or ConstantOfShape give are taken as parameters: " +
                    std::to_string(made_weights_));
    if (has_open_axis_) graph_.remark("axes that the model leaves open, but for the batch, are taken as 128");
    return graph_.finish(source_, "ONNX model", outputs, parameters);
  }

 private:
  /// If, Loop and Scan have graphs of their own, which are not counted: they may choose and shape, but not compute.
  void refuse_inner_weights(const onnx_model::Node& node) const {
    static const std::set<std::string_view> computing{"MatMul", "Gemm", "Conv", "ConvTranspose", "LSTM", "GRU", "RNN"};
    for (const onnx_model::Attribute& attribute : node.attribute())
      for (const onnx_model::Node& inner : attribute.g().node()) {
        if (computing.contains(inner.op_type()))
          throw InputError{source_.name() + ": operator " + in_quotes(node.output().empty() ? "" : node.output(0)) +
                           " (" + shortened(node.op_type()) + "): its own graph computes (" +
                           shortened(inner.op_type()) + "), which is not supported"};
        refuse_inner_weights(inner);
      }
  }

  /// What the values of initializers and constants are for.
  void find_places() {
    for (const onnx_model::Node& node : proto_.node())
      for (const std::string& output : node.output()) producers_[output] = &node;
    const auto is_made = [this](const std::string& name) {
      const auto made = producers_.find(name);
      return made != producers_.end() &&
             (made->second->op_type() == "Constant" || made->second->op_type() == "ConstantOfShape");
    };
    for (const onnx_model::Node& node : proto_.node())
      for (int i = 0; i < node.input_size(); ++i) {
        if (is_place_of_settings(node.op_type(), i)) settings_.insert(node.input(i));
        if (!is_place_of_weights(node.op_type(), i)) continue;
        const std::string* name = &node.input(i);
        for (int passed = 0; passed < kMostPassed; ++passed) {
          weights_.insert(*name);
          const auto by = producers_.find(*name);
          if (by == producers_.end() || by->second->input().empty() || !passes_weights_on(by->second->op_type())) break;
          name = &by->second->input(0);
        }
      }
    // A bias is added to what a product with such weights gives.
    for (const onnx_model::Node& node : proto_.node()) {
      if (node.op_type() != "Add" || node.input_size() != 2) continue;
      for (int i = 0; i < 2; ++i) {
        const auto product = producers_.find(node.input(1 - i));
        if (is_made(node.input(i)) && product != producers_.end() && product->second->op_type() == "MatMul" &&
            product->second->input_size() == 2 && is_made(product->second->input(1)))
          weights_.insert(node.input(i));
      }
    }
  }

  /// The ONNX project's light models have ConstantOfShape in the place of every large initializer, so also of scales and
  /// biases that are multiplied and added.
  void find_weights_of_light_models() {
    for (const onnx_model::Tensor& tensor : proto_.initializer()) initializers_.insert(tensor.name());
    std::vector<std::string> made;
    bool is_light = false;
    for (const onnx_model::Node& node : proto_.node()) {
      if (node.op_type() != "ConstantOfShape" || node.output_size() != 1 || node.input_size() != 1) continue;
      if (!initializers_.contains(node.input(0))) continue;
      made.push_back(node.output(0));
      is_light = is_light || weights_.contains(node.output(0));
    }
    for (const onnx_model::Node& node : proto_.node())
      for (int i = 0; i < node.input_size(); ++i)
        if (is_place_of_averages(node.op_type(), i)) settings_.insert(node.input(i));
    for (const std::string& name : made)
      if (is_light && !settings_.contains(name)) weights_.insert(name);
  }

  /// Scalars of all parameters that operators before the outputs read.
  double count_parameters(const std::vector<std::string>& outputs) const {
    std::set<std::string> needed{outputs.begin(), outputs.end()}, counted;
    double parameters = 0;
    for (auto node = proto_.node().rbegin(); node != proto_.node().rend(); ++node) {
      if (std::ranges::none_of(node->output(), [&](const std::string& name) { return needed.contains(name); }))
        continue;
      for (int i = 0; i < node->input_size(); ++i) {
        const std::string& name = node->input(i);
        const bool is_setting = is_place_of_settings(node->op_type(), i) || is_place_of_averages(node->op_type(), i);
        if (is_setting || name.empty()) continue;
        needed.insert(name);
        const auto own = learned_.find(name);
        if (own != learned_.end() && counted.insert(name).second) parameters += own->second;
      }
    }
    return parameters;
  }

  /// Recurrent layers of layout 0, the usual one, read [positions, batch, features]: so do inputs that lead to them.
  void find_batch_axes() {
    std::set<std::string, std::less<>> inputs;
    for (const onnx_model::ValueInfo& value : proto_.input()) inputs.insert(value.name());
    for (const onnx_model::Tensor& tensor : proto_.initializer()) inputs.erase(tensor.name());
    for (const onnx_model::Node& node : proto_.node()) {
      if (!is_recurrent(node.op_type())) continue;
      const OnnxNode read = node_of(node);
      const auto layout = read.integers.find("layout");
      const std::size_t axis = layout != read.integers.end() && layout->second[0] != 0 ? 0 : 1;
      for (int i : {5, 6})
        if (i < node.input_size() && inputs.contains(node.input(i))) batch_axes_.try_emplace(node.input(i), axis);
      if (!read.inputs.empty()) trace_batch(read.inputs[0], axis, inputs);
    }
  }

  /// From a value back to the input that it comes from, as long as it is clear where the axis goes.
  void trace_batch(std::string name, std::size_t axis, const std::set<std::string, std::less<>>& inputs) {
    static const std::set<std::string_view> keeping{
        "Identity",           "Cast", "Dropout", "Relu", "Tanh", "Sigmoid", "Gelu",
        "LayerNormalization", "Add",  "Mul",     "Sub",  "Div",  "MatMul"};
    for (int passed = 0; passed < kMostPassed; ++passed) {
      if (inputs.contains(name)) {
        batch_axes_.try_emplace(name, axis);
        return;
      }
      const auto by = producers_.find(name);
      if (by == producers_.end()) return;
      const OnnxNode node = node_of(*by->second);
      if (node.inputs.empty()) return;
      if (node.type == "Transpose") {
        const auto order = node.integers.find("perm");
        if (order == node.integers.end() || axis >= order->second.size() || order->second[axis] < 0) return;
        axis = static_cast<std::size_t>(order->second[axis]);
        name = node.inputs[0];
      } else if (node.type == "Gather" && node.inputs.size() > 1) {
        name = node.inputs[1];  // of the rows of a table
      } else if (keeping.contains(node.type)) {
        name = node.inputs[0];
      } else {
        return;
      }
    }
  }

  /// None if an axis is open, unless `closes` them. An open axis is the batch at `batch_axis`.
  std::optional<OnnxShape> shape_of(const onnx_model::ValueInfo& value, bool closes, std::size_t batch_axis = 0) {
    if (!value.type().tensor_type().has_shape()) return std::nullopt;
    OnnxShape shape;
    for (const onnx_model::Dimension& dimension : value.type().tensor_type().shape().dim()) {
      std::int64_t size = dimension.dim_value();
      if (size > kMostScalars)
        throw InputError{source_.name() + ": value " + in_quotes(value.name()) + " has an axis of " +
                         std::to_string(size) + ": expected at most 2^40"};
      if (size < 1 && !closes) return std::nullopt;
      if (size < 1) {
        const bool is_batch = shape.size() == batch_axis;
        size = is_batch ? kOpenBatch : kOpenAxis;
        has_open_axis_ = has_open_axis_ || !is_batch;
      }
      shape.push_back(size);
    }
    return shape;
  }

  void add_parameter(const std::string& name, const OnnxShape& shape) {
    graph_.add_parameter(name, shape);
    double count = 1;
    for (const std::int64_t size : shape) count *= static_cast<double>(size);
    learned_[name] = count;
  }

  void add_tensor(const std::string& name, const onnx_model::Tensor& tensor) {
    const OnnxShape shape{tensor.dims().begin(), tensor.dims().end()};
    std::int64_t count = 1;
    for (const std::int64_t size : shape) {
      if (size < 0 || (size > 0 && count > kMostScalars / size))
        throw InputError{source_.name() + ": initializer " + in_quotes(name) + " has a size of " +
                         std::to_string(size)};
      count *= size;
    }
    values_.shapes[name] = shape;
    types_[name] = tensor.data_type();
    const bool may_be_learned = is_floating(tensor.data_type()) && count > 0 && !settings_.contains(name);
    if (may_be_learned && shape.empty()) ++scalars_;
    if (may_be_learned && !shape.empty())
      add_parameter(name, shape);
    else
      graph_.add_constant(name, shape);
    if (count > kMostKnown) return;
    if (tensor.data_type() == kInt64 || tensor.data_type() == kInt32) values_.integers[name] = small_integers(tensor);
    if (tensor.data_type() != kFloat) return;
    values_.numbers[name] = numbers_of<float, double>(tensor.raw_data());
    if (tensor.raw_data().empty()) values_.numbers[name].assign(tensor.float_data().begin(), tensor.float_data().end());
  }

  void add_input(const onnx_model::ValueInfo& value) {
    if (graph_.has(value.name())) return;  // an initializer
    const auto axis = batch_axes_.find(value.name());
    const auto shape = shape_of(value, true, axis == batch_axes_.end() ? 0 : axis->second);
    if (!shape) throw InputError{source_.name() + ": input " + in_quotes(value.name()) + " has no shape"};
    if (axis != batch_axes_.end() && axis->second < shape->size() && !std::exchange(knows_batch_, true))
      graph_.set_batch((*shape)[axis->second]);
    values_.shapes[value.name()] = *shape;
    types_[value.name()] = value.type().tensor_type().elem_type();
    graph_.add_input(value.name(), *shape, !is_floating(types_[value.name()]));
  }

  OnnxNode node_of(const onnx_model::Node& node) const {
    if (node.input_size() > kMostInputs)
      throw InputError{source_.name() + ": operator " + in_quotes(shortened(node.name())) + " (" +
                       shortened(node.op_type()) + "): more than " + std::to_string(kMostInputs) + " inputs"};
    OnnxNode made{.name = node.name(),
                  .type = node.op_type(),
                  .inputs = {node.input().begin(), node.input().end()},
                  .outputs = {node.output().begin(), node.output().end()}};
    for (const onnx_model::Attribute& attribute : node.attribute()) {
      const std::string& name = attribute.name();
      if (!attribute.ints().empty())
        made.integers[name] = {attribute.ints().begin(), attribute.ints().end()};
      else if (!attribute.s().empty())
        made.texts[name] = attribute.s();
      else if (!attribute.has_t())
        made.integers[name] = {attribute.i()};
      else if (auto integers = small_integers(attribute.t()); !integers.empty())
        made.integers[name] = std::move(integers);
    }
    return made;
  }

  bool gives_integers(const OnnxNode& node) const {
    static const std::set<std::string> always{"Shape", "ArgMax", "Equal",   "Greater", "Less", "Not",
                                              "And",   "Or",     "NonZero", "Size",    "Range"};
    if (const auto type = types_.find(node.outputs[0]); type != types_.end() && type->second != 0)
      return !is_floating(type->second);
    if (always.contains(node.type)) return true;
    if (node.type == "Cast")
      return node.integers.contains("to") && !is_floating(static_cast<int>(node.integers.at("to")[0]));
    if (node.type == "Where" && node.inputs.size() == 3)
      return is_integer(node.inputs[1]) && is_integer(node.inputs[2]);
    return !node.inputs.empty() && is_integer(node.inputs[0]);
  }
  bool is_integer(const std::string& value) const {
    const auto type = types_.find(value);
    return type != types_.end() && !is_floating(type->second);
  }

  void add_node(const onnx_model::Node& proto) {
    if (proto.output().empty()) return;
    const OnnxNode node = node_of(proto);
    if (node.type == "Constant") {
      for (const onnx_model::Attribute& attribute : proto.attribute())
        if (attribute.name() == "value") add_constant(node.outputs[0], attribute.t());
      return;
    }
    try {
      infer(node, values_);
    } catch (const InputError& error) {
      throw InputError{source_.name() + ": operator " + in_quotes(node.outputs[0]) + " (" + shortened(node.type) +
                       "): " + error.what()};
    }
    if (is_recurrent(node.type)) return add_recurrent(node);
    if (node.type == "ConstantOfShape") {
      int& type = types_.try_emplace(node.outputs[0], kFloat).first->second;
      for (const onnx_model::Attribute& attribute : proto.attribute())
        if (attribute.name() == "value") type = attribute.t().data_type();
    }
    types_[node.outputs[0]] = gives_integers(node) ? kInt64 : kFloat;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty() || (i > 0 && node.type != "Split")) continue;
      add_output(node, i);
    }
  }

  /// Y, and what is read of it: the states after the last position.
  void add_recurrent(const OnnxNode& node) {
    const auto fail = [&](const std::string& message) {
      throw InputError{source_.name() + ": operator " + in_quotes(node.name) + " (" + shortened(node.type) +
                       "): " + message};
    };
    const auto has = [&](std::size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); };
    if (has(7)) fail("peepholes are not supported");
    const OnnxShape* states = has(2) ? find_shape(node.inputs[2]) : nullptr;
    if (states == nullptr || states->size() != 3)
      fail("expected weights of states [directions, gates x hidden, hidden]");
    for (const std::size_t i : {5, 6})
      if (has(i) && initializers_.contains(node.inputs[i])) has_initial_states_ = true;
    OnnxNode made = node;
    made.integers["hidden_size"] = {states->back()};
    made.inputs.resize(std::min<std::size_t>(made.inputs.size(), 4));
    if (made.outputs[0].empty()) made.outputs[0] = node.outputs.back() + "/all_positions";
    infer(made, values_);
    types_[made.outputs[0]] = kFloat;
    add_output(made, 0);
    for (std::size_t i = 1; i < made.outputs.size(); ++i) {
      if (made.outputs[i].empty()) continue;
      types_[made.outputs[i]] = kFloat;
      const OnnxShape* shape = find_shape(made.outputs[i]);
      if (shape != nullptr)
        graph_.add({.name = made.outputs[i], .type = "slice", .inputs = {made.outputs[0]}, .shape = *shape});
    }
  }
  const OnnxShape* find_shape(const std::string& name) const {
    const auto found = values_.shapes.find(name);
    return found == values_.shapes.end() ? nullptr : &found->second;
  }

  /// A constant of the graph's own: learned only where weights belong, as some exporters write them.
  void add_constant(const std::string& name, const onnx_model::Tensor& tensor) {
    const std::size_t scalars = scalars_;
    add_tensor(name, tensor);
    scalars_ = scalars;
    if (weights_.contains(name) && graph_.is_parameter(name))
      ++made_weights_;
    else
      make_constant(name);
  }

  void make_constant(const std::string& name) {
    learned_.erase(name);
    graph_.add_constant(name, values_.shapes[name]);
  }

  void add_output(const OnnxNode& node, std::size_t i) {
    const auto integers = [&](const char* name) {
      const auto found = node.integers.find(name);
      return found == node.integers.end() ? std::vector<std::int64_t>{} : found->second;
    };
    const auto one = [&](const char* name) { return integers(name).empty() ? 0 : integers(name)[0]; };
    FrameworkOperator op{
        .name = node.outputs[i],
        .type = node.type,
        .inputs = node.inputs,
        .kernel = integers("kernel_shape"),
        .stride = integers("strides"),
        .groups = one("group"),
        .hidden = one("hidden_size"),
        .is_bidirectional = node.texts.contains("direction") && node.texts.at("direction") == "bidirectional",
        .has_bias =
            is_recurrent(node.type) ? std::optional{node.inputs.size() > 3 && !node.inputs[3].empty()} : std::nullopt,
        .has_integers = types_[node.outputs[0]] == kInt64,
        .equation = node.type == "Einsum" && node.texts.contains("equation") ? node.texts.at("equation") : ""};
    bool is_known_input = false;
    for (const std::string& input : node.inputs) {
      const auto value = values_.shapes.find(input);
      is_known_input = is_known_input || (graph_.has(input) && value != values_.shapes.end());
    }
    const auto shape = values_.shapes.find(op.name);
    if (shape == values_.shapes.end()) {
      if (graph_.depends_on_samples(node.inputs) && !op.has_integers)
        throw InputError{source_.name() + ": operator " + in_quotes(op.name) + " (" + shortened(op.type) +
                         "): its shape is not known: expected a model after onnx.shape_inference.infer_shapes"};
      return graph_.add_constant(op.name, {});
    }
    op.shape = shape->second;
    if (node.type == "ConstantOfShape" && weights_.contains(op.name) && !op.shape.empty()) {
      ++made_weights_;
      return add_parameter(op.name, op.shape);
    }
    if (std::ranges::find(op.shape, 0) != op.shape.end()) return graph_.add_constant(op.name, {});
    graph_.add(op);
  }

  const Source& source_;
  const onnx_model::Graph& proto_;
  FrameworkGraph graph_;
  OnnxValues values_;
  std::map<std::string, double> learned_;  // scalars of parameters
  std::map<std::string, int> types_;
  std::map<std::string, const onnx_model::Node*> producers_;
  std::set<std::string, std::less<>> initializers_;
  std::set<std::string> weights_, settings_;       // values at places for them
  std::map<std::string, std::size_t> batch_axes_;  // of inputs
  std::size_t scalars_ = 0, made_weights_ = 0;
  bool knows_batch_ = false, has_initial_states_ = false;
  bool has_open_axis_ = false;
};

}  // namespace

bool is_onnx(const Source& source) {
  if (source.is_json()) return false;
  std::string_view bytes = source.start();
  const auto first = take_varint(bytes);
  const auto version = take_varint(bytes);
  if (first != 0x08 || !version || *version == 0 || *version > 100) return false;
  while (true) {  // names, versions and documentation up to the graph
    const auto tag = take_varint(bytes);
    if (!tag) return false;
    if (*tag == (7U << 3U | 2U)) return true;
    const auto value = take_varint(bytes);
    if (!value) return false;
    const std::uint64_t field = *tag >> 3U;
    if ((*tag & 7U) == 2U && field >= 2 && field <= 30 && *value <= bytes.size())
      bytes.remove_prefix(*value);
    else if ((*tag & 7U) != 0U || field != 5)
      return false;
  }
}

ImportedModel read_onnx(const Source& source) {
  const google::protobuf::LogSilencer silencer;  // what is wrong is our message
  onnx_model::Model model;
  const std::string& content = source.content();
  if (content.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !model.ParseFromArray(content.data(), static_cast<int>(content.size())))
    throw InputError{source.name() + ": expected an ONNX model; its messages are damaged or cut short"};
  if (model.graph().node().empty())
    throw InputError{source.name() + ": expected operators in an ONNX model; found none"};
  for (const onnx_model::OperatorSet& set : model.opset_import())
    if ((set.domain().empty() || set.domain() == "ai.onnx") && set.version() < kOldestOpset)
      throw InputError{source.name() + ": opset " + std::to_string(set.version()) + " is too old: expected " +
                       std::to_string(kOldestOpset) + " or later, as onnx.version_converter makes it"};
  return OnnxReader{source, model.graph()}.read();
}

}  // namespace rehearse
