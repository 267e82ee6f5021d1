#include "workloads/importers/tensorflow.hpp"

#include <algorithm>
#include <set>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "workloads/importers/framework_graph.hpp"
#include "workloads/importers/graph_def.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kUnknownBatch = 13;  // tells the batch from other sizes and does not stay
constexpr std::size_t kMostTensorflowNodes = 200'000;

bool is_text_graph(const Source& source) {
  const std::size_t first = source.start().find_first_not_of(" \t\r\n");
  return first != std::string::npos && source.start().compare(first, 4, "node") == 0 &&
         source.start().find_first_not_of(" \t\r\n", first + 4) != std::string::npos &&
         source.start()[source.start().find_first_not_of(" \t\r\n", first + 4)] == '{';
}

bool is_variable(const std::string& op) { return op == "Variable" || op == "VariableV2" || op == "VarHandleOp"; }

bool is_input(const std::string& op) {
  return op == "Placeholder" || op == "PlaceholderWithDefault" || op == "IteratorGetNext";
}

/// What a framework adds to the forward pass for training, or beside it.
bool is_beside(const GraphDefNode& node) {
  const auto has = [&](const char* part) { return node.name.find(part) != std::string::npos; };
  const auto begins = [&](const char* part) { return node.op.starts_with(part); };
  return node.name.starts_with("gradients") || has("/gradients/") || has("Initializer/") || has("/initial_value") ||
         has("save/") || begins("Apply") || begins("ResourceApply") || begins("Assign") || begins("Save") ||
         begins("Restore") || node.op.ends_with("Grad") || node.op.ends_with("Summary") ||
         node.op.find("SummaryV2") != std::string::npos || node.op == "NoOp";
}

/// Reads one graph.
class TensorflowReader {
 public:
  TensorflowReader(const Source& source, const std::vector<GraphDefNode>& nodes)
      : source_{source}, graph_{source.name(), layout_of(nodes)}, layout_{layout_of(nodes)} {
    const bool has_variables =
        std::ranges::any_of(nodes, [](const GraphDefNode& node) { return is_variable(node.op); });
    for (const GraphDefNode& node : nodes) {
      by_name_[node.name] = &node;
      if (node.op.starts_with("Gather") || node.op == "ResourceGather")
        if (node.inputs.size() > 1) looked_up_.insert(std::string{producer_of(node.inputs[1])});
    }
    for (const GraphDefNode& node : nodes) visit(node, has_variables);
  }

  ImportedModel read() { return graph_.finish(source_, "TensorFlow graph", logits_); }

 private:
  static Layout layout_of(const std::vector<GraphDefNode>& nodes) {
    const bool is_first =
        std::ranges::any_of(nodes, [](const GraphDefNode& node) { return node.data_format == "NCHW"; });
    return is_first ? Layout::kNchw : Layout::kNhwc;
  }

  /// A node after those that it reads: a GraphDef need not be in order.
  void visit(const GraphDefNode& first, bool has_variables) {
    std::vector<std::pair<const GraphDefNode*, std::size_t>> stack{{&first, 0}};
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == 0 && !begun_.insert(node->name).second) {
        stack.pop_back();
        continue;
      }
      if (next < node->inputs.size() && !is_beside(*node)) {
        const auto input = by_name_.find(producer_of(node->inputs[next++]));
        if (input != by_name_.end() && !begun_.contains(input->first)) stack.emplace_back(input->second, 0);
        continue;
      }
      const GraphDefNode& ready = *node;
      stack.pop_back();
      add(ready, has_variables);
    }
  }

  std::optional<FrameworkShape> shape_of(const GraphDefNode& node) const {
    const bool is_stated = !node.shapes.empty() && node.shapes[0].has_value();
    if (!is_stated) return std::nullopt;
    FrameworkShape shape = node.shape;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] >= 1) continue;
      if (i > 0) return std::nullopt;
      shape[i] = kUnknownBatch;
    }
    return shape;
  }

  void add(const GraphDefNode& node, bool has_variables) {
    if (is_beside(node)) return;
    const auto shape = shape_of(node);
    if (is_variable(node.op)) {
      if (shape && !shape->empty()) graph_.add_parameter(node.name, *shape);
      return;
    }
    if (is_input(node.op)) {
      if (!shape || shape->empty()) return graph_.add_constant(node.name, {});
      return graph_.add_input(node.name, *shape, looked_up_.contains(node.name));
    }
    if (node.op == "Const") {
      const bool is_learned = !has_variables && shape && !shape->empty() && *shape != FrameworkShape{1};
      if (is_learned) graph_.add_parameter(node.name, *shape);
      return is_learned ? void() : graph_.add_constant(node.name, shape.value_or(FrameworkShape{}));
    }
    std::vector<std::string> inputs;
    for (const std::string& input : node.inputs)
      if (!input.starts_with('^')) inputs.emplace_back(producer_of(input));
    if (node.op == "ReadVariableOp" && !inputs.empty()) {
      if (!graph_.has(inputs[0]) && shape && !shape->empty()) graph_.add_parameter(inputs[0], *shape);
      return graph_.add_alias(node.name, inputs[0]);
    }
    if (node.op.find("CrossEntropyWithLogits") != std::string::npos) {
      if (!inputs.empty()) logits_.push_back(inputs[0]);
      return graph_.add_constant(node.name, {});
    }
    add_operator(node, std::move(inputs), shape);
  }

  void add_operator(const GraphDefNode& node, std::vector<std::string> inputs, std::optional<FrameworkShape> shape) {
    if (!graph_.depends_on_samples(inputs)) {  // work on parameters and constants
      const auto learned =
          std::ranges::find_if(inputs, [&](const std::string& name) { return graph_.is_parameter(name); });
      if (learned != inputs.end()) return graph_.add_alias(node.name, *learned);
      return graph_.add_constant(node.name, shape.value_or(FrameworkShape{}));
    }
    if (!shape) shape = inferred(node, inputs);
    if (!shape)
      throw InputError{source_.name() + ": operator " + in_quotes(node.name) + " (" + shortened(node.op) +
                       "): its shape is not known: expected attributes _output_shapes (as_graph_def(add_shapes=True))"};
    FrameworkOperator op{.name = node.name, .type = node.op, .inputs = std::move(inputs), .shape = *shape};
    const std::size_t height = layout_ == Layout::kNchw ? 2 : 1;
    if (node.strides.size() == 4) op.stride = {node.strides[height], node.strides[height + 1]};
    if (node.op.starts_with("Depthwise")) {
      const FrameworkShape* x = graph_.shape_of(op.inputs[0]);
      if (x != nullptr && !x->empty()) op.groups = layout_ == Layout::kNchw && x->size() > 1 ? (*x)[1] : x->back();
    }
    graph_.add(op);
  }

  /// Of operators that keep the shape of their input, and of windows.
  std::optional<FrameworkShape> inferred(const GraphDefNode& node, const std::vector<std::string>& inputs) const {
    static const std::set<std::string> kept{"Relu",
                                            "Relu6",
                                            "Elu",
                                            "Selu",
                                            "Tanh",
                                            "Sigmoid",
                                            "Softmax",
                                            "LeakyRelu",
                                            "BiasAdd",
                                            "FusedBatchNorm",
                                            "FusedBatchNormV2",
                                            "FusedBatchNormV3",
                                            "Identity",
                                            "LRN",
                                            "Dropout"};
    const FrameworkShape* x = inputs.empty() ? nullptr : graph_.shape_of(inputs[0]);
    if (x == nullptr || x->empty()) return std::nullopt;
    if (kept.contains(node.op)) return *x;
    const FrameworkShape* weights = inputs.size() > 1 ? graph_.shape_of(inputs[1]) : nullptr;
    if (weights == nullptr) return std::nullopt;
    if (node.op == "MatMul" && x->size() == 2 && weights->size() == 2)
      return FrameworkShape{(*x)[node.transposes_first ? 1 : 0], (*weights)[node.transposes_second ? 0 : 1]};
    if ((node.op == "Add" || node.op == "AddV2") && (*x == *weights || weights->size() <= 1)) return *x;
    if (node.op != "Conv2D" || x->size() != 4 || weights->size() != 4 || node.strides.size() != 4) return std::nullopt;
    FrameworkShape y = *x;
    const std::size_t height = layout_ == Layout::kNchw ? 2 : 1;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t stride = node.strides[height + i];
      const std::int64_t room = (*x)[height + i] - (node.padding == "VALID" ? (*weights)[i] : 1);
      if (stride < 1 || room < 0) return std::nullopt;
      y[height + i] = room / stride + 1;
    }
    y[layout_ == Layout::kNchw ? 1 : 3] = (*weights)[3];
    return y;
  }

  const Source& source_;
  FrameworkGraph graph_;
  Layout layout_;
  std::map<std::string, const GraphDefNode*, std::less<>> by_name_;
  std::set<std::string, std::less<>> begun_, looked_up_;
  std::vector<std::string> logits_;
};

}  // namespace

bool is_tensorflow_graph(const Source& source) {
  if (is_text_graph(source)) return true;
  const std::string_view start = source.start();  // a node, whose name is a field with a length
  if (source.is_json() || start.size() < 8 || start[0] != '\x0a') return false;
  std::size_t at = 1;
  while (at < 6 && (static_cast<unsigned char>(start[at]) & 0x80U) != 0) ++at;
  ++at;
  if (start[at] != '\x0a') return false;
  const auto length = static_cast<unsigned char>(start[at + 1]);
  if (length >= 0x80) return true;  // a long name
  const std::size_t op = at + 2 + length;
  return op < start.size() && start[op] == '\x12';
}

ImportedModel read_tensorflow_graph(const Source& source) {
  const std::vector<GraphDefNode> nodes = parse_graph_def(source.content(), is_text_graph(source), source.name());
  if (nodes.size() > kMostTensorflowNodes) throw InputError{source.name() + ": more than 200000 nodes"};
  return TensorflowReader{source, nodes}.read();
}

}  // namespace rehearse
