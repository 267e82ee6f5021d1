#include "workloads/importers/graph_def.hpp"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/names.hpp"
#include "workloads/importers/graph_def.pb.h"

namespace rehearse {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 30U;
constexpr int kDeepest = 50;

/// Keeps the first mistake; nothing goes to stderr.
struct FirstError : google::protobuf::io::ErrorCollector {
  void AddError(int line, int column, const std::string& message) override {
    if (first.empty())
      first = std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": " + shortened(message, 200);
  }
  std::string first;
};

std::optional<GraphDefShape> dimensions_of(const graph_def::Shape& shape) {
  if (shape.unknown_rank()) return std::nullopt;
  GraphDefShape dimensions;
  for (const auto& dimension : shape.dim()) dimensions.push_back(dimension.size());
  return dimensions;
}

std::vector<std::optional<GraphDefShape>> shapes_of(const graph_def::Node& node) {
  std::vector<std::optional<GraphDefShape>> shapes;
  if (const auto found = node.attr().find("_output_shapes"); found != node.attr().end())
    for (const graph_def::Shape& shape : found->second.list().shape()) shapes.push_back(dimensions_of(shape));
  else if (const auto own = node.attr().find("shape"); own != node.attr().end() && own->second.has_shape())
    shapes.push_back(dimensions_of(own->second.shape()));
  return shapes;
}

int bytes_of(int type) {
  switch (type % 100) {  // references too
    case graph_def::DT_DOUBLE:
    case graph_def::DT_INT64:
    case graph_def::DT_UINT64:
    case graph_def::DT_COMPLEX64:
      return 8;
    case graph_def::DT_COMPLEX128:
      return 16;
    case graph_def::DT_HALF:
    case graph_def::DT_BFLOAT16:
    case graph_def::DT_INT16:
    case graph_def::DT_UINT16:
      return 2;
    case graph_def::DT_INT8:
    case graph_def::DT_UINT8:
    case graph_def::DT_BOOL:
      return 1;
    default:
      return 4;
  }
}

bool is_floating_type(int type) {
  type %= 100;
  return type == graph_def::DT_FLOAT || type == graph_def::DT_DOUBLE || type == graph_def::DT_HALF ||
         type == graph_def::DT_BFLOAT16;
}

/// Scalars of a little-endian array.
template <class Number>
std::vector<double> numbers_of(std::string_view bytes) {
  std::vector<double> numbers;
  for (std::size_t at = 0; at + sizeof(Number) <= bytes.size(); at += sizeof(Number)) {
    Number number{};
    std::memcpy(&number, bytes.data() + at, sizeof(Number));
    numbers.push_back(static_cast<double>(number));
  }
  return numbers;
}

/// Those of the first field that has some.
std::vector<double> stated_numbers(const graph_def::Tensor& tensor) {
  const std::string_view bytes = tensor.tensor_content();
  switch (tensor.dtype()) {
    case graph_def::DT_FLOAT:
      if (!bytes.empty()) return numbers_of<float>(bytes);
      return {tensor.float_val().begin(), tensor.float_val().end()};
    case graph_def::DT_DOUBLE:
      if (!bytes.empty()) return numbers_of<double>(bytes);
      return {tensor.double_val().begin(), tensor.double_val().end()};
    case graph_def::DT_INT32:
      if (!bytes.empty()) return numbers_of<std::int32_t>(bytes);
      return {tensor.int_val().begin(), tensor.int_val().end()};
    case graph_def::DT_INT64:
      if (!bytes.empty()) return numbers_of<std::int64_t>(bytes);
      return {tensor.int64_val().begin(), tensor.int64_val().end()};
    case graph_def::DT_BOOL:
      if (!bytes.empty()) return numbers_of<std::int8_t>(bytes);
      return {tensor.bool_val().begin(), tensor.bool_val().end()};
    default:
      return {};
  }
}

GraphDefTensor tensor_of(const graph_def::Tensor& tensor) {
  constexpr std::int64_t kMostKnown = 64;
  GraphDefTensor made{.shape = dimensions_of(tensor.tensor_shape()).value_or(GraphDefShape{}),
                      .values = {},
                      .is_floating = is_floating_type(tensor.dtype())};
  std::int64_t count = 1;
  for (const std::int64_t size : made.shape)
    count = size < 0 || size > kMostKnown ? kMostKnown + 1 : std::min(count * size, kMostKnown + 1);
  if (count > kMostKnown) return made;
  made.values = stated_numbers(tensor);
  const auto all = static_cast<std::size_t>(count);
  if (made.values.size() > all) made.values.resize(all);
  // The last value stands for those that are left out; without any, all are 0.
  made.values.resize(all, made.values.empty() ? 0.0 : made.values.back());
  for (double& value : made.values)
    if (!std::isfinite(value)) value = 0;
  return made;
}

void set_attribute(GraphDefNode& node, const std::string& name, const graph_def::Attribute& attribute) {
  if (attribute.has_tensor()) {
    if (name == "value") node.tensor = tensor_of(attribute.tensor());
  } else if (attribute.has_func()) {
    if (node.function.empty() || name == "f") node.function = attribute.func().name();
  } else if (!attribute.s().empty()) {
    node.texts[name] = {attribute.s()};
  } else if (!attribute.list().s().empty()) {
    node.texts[name] = {attribute.list().s().begin(), attribute.list().s().end()};
  } else if (!attribute.list().i().empty()) {
    node.integers[name] = {attribute.list().i().begin(), attribute.list().i().end()};
  } else if (!attribute.has_list() && !attribute.has_shape() && attribute.type() == graph_def::DT_INVALID) {
    node.integers[name] = {attribute.b() ? 1 : attribute.i()};
  }
  if ((name == "shape" || name == "element_shape") && attribute.has_shape())
    node.component_shapes = {dimensions_of(attribute.shape())};
  if (name == "shapes" || name == "output_shapes")
    for (const graph_def::Shape& shape : attribute.list().shape())
      node.component_shapes.push_back(dimensions_of(shape));
}

GraphDefNode node_of(const graph_def::Node& node) {
  GraphDefNode made{.name = node.name(),
                    .op = node.op(),
                    .device = node.device(),
                    .inputs = {node.input().begin(), node.input().end()},
                    .shape = {},
                    .shapes = shapes_of(node)};
  if (!made.shapes.empty()) made.shape = made.shapes[0].value_or(GraphDefShape{});
  int type_rank = 0;
  for (const auto& [name, attribute] : node.attr()) {
    if (!name.starts_with('_')) set_attribute(made, name, attribute);
    const int rank = name == "DstT"                                                     ? 4
                     : name == "Tparams" || name == "output_type" || name == "out_type" ? 3
                     : name == "dtype"                                                  ? 2
                     : name == "T"                                                      ? 1
                                                                                        : 0;
    if (rank > type_rank && attribute.type() != graph_def::DT_INVALID) {
      made.is_floating = is_floating_type(attribute.type());
      type_rank = rank;
    }
    if (name == "strides") made.strides = {attribute.list().i().begin(), attribute.list().i().end()};
    if (name == "padding") made.padding = attribute.s();
    if (name == "data_format") made.data_format = attribute.s();
    if (name == "transpose_a" || name == "adj_x") made.transposes_first = attribute.b();
    if (name == "transpose_b" || name == "adj_y") made.transposes_second = attribute.b();
    if (name == "T" || name == "dtype") made.scalar_bytes = bytes_of(attribute.type());
  }
  return made;
}

}  // namespace

std::string_view producer_of(std::string_view input) {
  if (const auto colon = input.find(':'); colon != std::string_view::npos) return input.substr(0, colon);
  return input.starts_with('^') ? input.substr(1) : input;
}

std::vector<GraphDefNode> load_graph_def(const std::filesystem::path& path) {
  const bool is_text = path.extension() == ".pbtxt" || path.extension() == ".txt";
  return parse_graph_def(read_file(path, kLargestFile), is_text, path.string());
}

namespace {

/// Reads a message of this type, as text or binary.
template <class Message>
void parse_message(Message& message, std::string_view content, bool is_text, const std::string& file_name) {
  const google::protobuf::LogSilencer silencer;  // what is wrong is our message
  if (content.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw InputError{file_name + ": more than 2 GiB"};
  google::protobuf::io::ArrayInputStream stream{content.data(), static_cast<int>(content.size())};
  if (is_text) {
    FirstError error;
    google::protobuf::TextFormat::Parser parser;
    parser.RecordErrorsTo(&error);
    parser.AllowUnknownField(true);
    parser.SetRecursionLimit(kDeepest);
    if (!parser.Parse(&stream, &message)) throw InputError{file_name + ":" + error.first};
  } else if (!message.ParseFromZeroCopyStream(&stream)) {
    throw InputError{file_name + ": expected a binary GraphDef; files of text end in .pbtxt"};
  }
}

std::vector<GraphDefNode> nodes_of(const graph_def::Graph& graph, const std::string& file_name) {
  if (graph.node_size() == 0) throw InputError{file_name + ": expected a GraphDef; found no node"};
  std::vector<GraphDefNode> nodes;
  std::set<std::string_view> names;
  for (const graph_def::Node& node : graph.node()) {
    if (!names.insert(node.name()).second)
      throw InputError{file_name + ": two nodes have the name " + in_quotes(node.name())};
    nodes.push_back(node_of(node));
  }
  return nodes;
}

/// Puts the nodes of functions in the place of their calls.
class FunctionInliner {
 public:
  FunctionInliner(const graph_def::Library& library, const std::string& file_name) : file_name_{file_name} {
    for (const graph_def::FunctionDefinition& function : library.function())
      functions_[function.signature().name()] = &function;
  }

  std::vector<GraphDefNode> inlined(std::vector<GraphDefNode> nodes) {
    for (GraphDefNode& node : nodes) add(std::move(node), 0);
    return std::move(nodes_);
  }
  std::size_t calls() const { return calls_; }

 private:
  static bool is_call(const GraphDefNode& node) {
    return node.op == "PartitionedCall" || node.op == "StatefulPartitionedCall";
  }

  void add(GraphDefNode node, int depth) {
    const auto function = functions_.find(is_call(node) ? node.function : node.op);
    if (function == functions_.end()) {
      if (nodes_.size() >= kMostInlined)
        throw InputError{file_name_ + ": more than 200000 nodes with those of its functions"};
      nodes_.push_back(std::move(node));
      return;
    }
    if (depth == kDeepest) throw InputError{file_name_ + ": functions call each other more than 50 deep"};
    ++calls_;
    add_body(node, *function->second, depth);
  }

  /// An input of a node in a body: an argument, "argument", or "node:output:number" of a node beside it.
  static std::string input_of(const std::string& input, const GraphDefNode& call,
                              const std::map<std::string_view, std::string>& arguments) {
    if (input.starts_with('^')) return "^" + call.name + "/" + input.substr(1);
    const std::size_t first = input.find(':');
    const auto argument = arguments.find(std::string_view{input}.substr(0, first));
    if (argument != arguments.end()) return argument->second;
    const std::size_t last = input.rfind(':');
    if (first == std::string::npos) return call.name + "/" + input;
    static const std::map<std::string_view, int> numbers{
        {"batch_mean", 1}, {"batch_variance", 2}, {"indices", 1}, {"output_true", 1}, {"backprop", 1}};
    const std::string_view output = std::string_view{input}.substr(first + 1, last - first - 1);
    const auto number = numbers.find(output);
    const std::string which = number != numbers.end() ? std::to_string(number->second) : input.substr(last + 1);
    return call.name + "/" + input.substr(0, first) + (which == "0" ? "" : ":" + which);
  }

  void add_body(const GraphDefNode& call, const graph_def::FunctionDefinition& function, int depth) {
    std::map<std::string_view, std::string> arguments;
    std::vector<std::string> controls;
    std::size_t next = 0;
    for (const std::string& input : call.inputs) {
      if (input.starts_with('^')) continue;
      if (next >= static_cast<std::size_t>(function.signature().input_arg_size())) break;
      arguments[function.signature().input_arg(static_cast<int>(next++)).name()] = input;
    }
    for (const graph_def::Node& inner : function.node_def()) {
      GraphDefNode node = node_of(inner);
      for (std::string& input : node.inputs) input = input_of(input, call, arguments);
      node.name = call.name + "/" + node.name;
      add(std::move(node), depth + 1);
    }
    // What the call gives, as a node of its name that passes on its inputs, one for each output.
    GraphDefNode result{.name = call.name, .op = "IdentityN", .device = {}, .inputs = {}, .shape = {}};
    for (const graph_def::Argument& output : function.signature().output_arg()) {
      const auto from = function.ret().find(output.name());
      if (from == function.ret().end())
        throw InputError{file_name_ + ": function " + in_quotes(function.signature().name()) + " does not give " +
                         in_quotes(output.name())};
      result.inputs.push_back(input_of(from->second, call, arguments));
    }
    result.shapes = call.shapes;
    if (nodes_.size() >= kMostInlined)
      throw InputError{file_name_ + ": more than 200000 nodes with those of its functions"};
    nodes_.push_back(std::move(result));
  }

  static constexpr std::size_t kMostInlined = 200'000;
  const std::string& file_name_;
  std::map<std::string_view, const graph_def::FunctionDefinition*> functions_;
  std::vector<GraphDefNode> nodes_;
  std::size_t calls_ = 0;
};

GraphDefFile file_of(const graph_def::Graph& graph, const std::string& file_name) {
  GraphDefFile file{.nodes = nodes_of(graph, file_name)};
  if (graph.library().function().empty()) return file;
  FunctionInliner inliner{graph.library(), file_name};
  file.nodes = inliner.inlined(std::move(file.nodes));
  file.calls = inliner.calls();
  return file;
}

GraphDefFile file_of(const graph_def::MetaGraph& meta, const std::string& file_name) {
  GraphDefFile file = file_of(meta.graph_def(), file_name);
  if (const auto found = meta.collection_def().find("trainable_variables"); found != meta.collection_def().end()) {
    file.trainable.emplace();
    for (const std::string& bytes : found->second.bytes_list().value()) {
      graph_def::Variable variable;
      if (variable.ParseFromString(bytes)) file.trainable->emplace(producer_of(variable.variable_name()));
    }
  }
  const std::map<std::string, graph_def::SignatureOfModel> signatures{meta.signature_def().begin(),
                                                                      meta.signature_def().end()};
  for (const auto& [name, signature] : signatures) {
    if (name.starts_with("__saved_model")) continue;
    const std::map<std::string, graph_def::TensorInfo> outputs{signature.outputs().begin(), signature.outputs().end()};
    for (const auto& [key, output] : outputs)
      if (!output.name().empty()) file.outputs.push_back(output.name());
    if (!file.outputs.empty()) break;
  }
  return file;
}

}  // namespace

std::vector<GraphDefNode> parse_graph_def(std::string_view content, bool is_text, const std::string& file_name) {
  graph_def::Graph graph;
  parse_message(graph, content, is_text, file_name);
  return nodes_of(graph, file_name);
}

GraphDefFile parse_graph_def_file(std::string_view content, bool is_text, GraphDefForm form,
                                  const std::string& file_name) {
  if (form == GraphDefForm::kGraph) {
    graph_def::Graph graph;
    parse_message(graph, content, is_text, file_name);
    return file_of(graph, file_name);
  }
  if (form == GraphDefForm::kMetaGraph) {
    graph_def::MetaGraph meta;
    parse_message(meta, content, is_text, file_name);
    return file_of(meta, file_name);
  }
  graph_def::SavedModel saved;
  parse_message(saved, content, is_text, file_name);
  if (saved.meta_graphs().empty()) throw InputError{file_name + ": expected a graph in a SavedModel; found none"};
  return file_of(saved.meta_graphs(0), file_name);
}

}  // namespace rehearse
