#include "workloads/importers/onnx.hpp"

#include <google/protobuf/stubs/logging.h>

#include <cstring>
#include <limits>
#include <set>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/varint.hpp"
#include "workloads/importers/framework_graph.hpp"
#include "workloads/importers/onnx.pb.h"
#include "workloads/importers/onnx_shapes.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kOpenBatch = 13, kOpenAxis = 128;
constexpr std::int64_t kMostKnown = 64;  // scalars of a tensor whose values matter
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

/// Reads one model.
class OnnxReader {
 public:
  OnnxReader(const Source& source, const onnx_model::Graph& graph)
      : source_{source}, proto_{graph}, graph_{source.name(), Layout::kNchw} {}

  ImportedModel read() {
    for (const onnx_model::Tensor& tensor : proto_.initializer()) add_tensor(tensor.name(), tensor);
    for (const onnx_model::ValueInfo& value : proto_.input()) add_input(value);
    for (const auto* list : {&proto_.value_info(), &proto_.output()})
      for (const onnx_model::ValueInfo& value : *list) {
        types_[value.name()] = value.type().tensor_type().elem_type();
        if (const auto shape = shape_of(value.type(), false)) values_.shapes.try_emplace(value.name(), *shape);
      }
    for (const onnx_model::Node& node : proto_.node()) add_node(node);
    std::vector<std::string> outputs;
    for (const onnx_model::ValueInfo& value : proto_.output()) outputs.push_back(value.name());
    if (has_open_axis_) graph_.remark("axes that the model leaves open, but for the batch, are taken as 128");
    return graph_.finish(source_, "ONNX model", outputs);
  }

 private:
  /// None if an axis is open, unless `closes` them.
  std::optional<OnnxShape> shape_of(const onnx_model::Type& type, bool closes) {
    if (!type.tensor_type().has_shape()) return std::nullopt;
    OnnxShape shape;
    for (const onnx_model::Dimension& dimension : type.tensor_type().shape().dim()) {
      std::int64_t size = dimension.dim_value();
      if (size < 1 && !closes) return std::nullopt;
      if (size < 1) {
        size = shape.empty() ? kOpenBatch : kOpenAxis;
        has_open_axis_ = has_open_axis_ || !shape.empty();
      }
      shape.push_back(size);
    }
    return shape;
  }

  void add_tensor(const std::string& name, const onnx_model::Tensor& tensor) {
    const OnnxShape shape{tensor.dims().begin(), tensor.dims().end()};
    std::int64_t count = 1;
    for (const std::int64_t size : shape) {
      if (size < 0 || (size > 0 && count > (std::int64_t{1} << 40) / size))
        throw InputError{source_.name() + ": initializer " + in_quotes(name) + " has a size of " +
                         std::to_string(size)};
      count *= size;
    }
    values_.shapes[name] = shape;
    types_[name] = tensor.data_type();
    if (is_floating(tensor.data_type()) && count > 1)
      graph_.add_parameter(name, shape);
    else
      graph_.add_constant(name, shape);
    if (count > kMostKnown) return;
    if (tensor.data_type() == kInt64 || tensor.data_type() == kInt32) values_.integers[name] = small_integers(tensor);
    if (tensor.data_type() == kFloat) values_.numbers[name] = numbers_of<float, double>(tensor.raw_data());
  }

  void add_input(const onnx_model::ValueInfo& value) {
    if (graph_.has(value.name())) return;  // an initializer
    const auto shape = shape_of(value.type(), true);
    if (!shape) throw InputError{source_.name() + ": input " + in_quotes(value.name()) + " has no shape"};
    values_.shapes[value.name()] = *shape;
    types_[value.name()] = value.type().tensor_type().elem_type();
    graph_.add_input(value.name(), *shape, !is_floating(types_[value.name()]));
  }

  OnnxNode node_of(const onnx_model::Node& node) const {
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
      else if (attribute.has_t())
        made.integers[name] = small_integers(attribute.t());
      else
        made.integers[name] = {attribute.i()};
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
    types_[node.outputs[0]] = gives_integers(node) ? kInt64 : kFloat;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty() || (i > 0 && node.type != "Split")) continue;
      add_output(node, i);
    }
  }

  /// A constant of the graph's own: never learned.
  void add_constant(const std::string& name, const onnx_model::Tensor& tensor) {
    add_tensor(name, tensor);
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
        .has_integers = types_[node.outputs[0]] == kInt64};
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
    if (std::ranges::find(op.shape, 0) != op.shape.end()) return graph_.add_constant(op.name, {});
    graph_.add(op);
  }

  const Source& source_;
  const onnx_model::Graph& proto_;
  FrameworkGraph graph_;
  OnnxValues values_;
  std::map<std::string, int> types_;
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
  return OnnxReader{source, model.graph()}.read();
}

}  // namespace rehearse
