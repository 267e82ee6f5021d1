#include "workloads/importers/torch_graph.hpp"

#include <map>

#include "workloads/importers/framework_graph.hpp"
#include "workloads/importers/operator_actions.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostTorchNodes = 100'000;

bool is_integer_type(const std::string& type) {
  return type.starts_with("int") || type.starts_with("uint") || type == "bool" || type == "long";
}

FrameworkShape sizes(const JsonReader& node, const char* key) {
  return node.optional<FrameworkShape>(key, FrameworkShape{});
}

void add_node(FrameworkGraph& graph, const JsonReader& node, std::vector<std::string>& outputs) {
  const auto op = node.required<std::string>("op"), name = node.required<std::string>("name");
  const bool has_integers = is_integer_type(node.optional<std::string>("dtype", ""));
  const FrameworkShape shape = sizes(node, "shape");
  if (op == "placeholder") {
    if (node.has("shape"))
      graph.add_input(name, shape, has_integers);
    else
      graph.add_constant(name, {});
  } else if (op == "get_attr") {
    if (node.optional<bool>("parameter", false)) {
      const auto path = node.optional<std::string>("path", name);
      if (!graph.has(path)) graph.add_parameter(path, shape);
      graph.add_alias(name, path);
    } else {
      graph.add_constant(name, shape);
    }
  } else if (op == "output") {
    outputs = node.required<std::vector<std::string>>("inputs");
  } else {
    FrameworkOperator made{.name = name,
                           .type = node.required<std::string>("type"),
                           .inputs = node.required<std::vector<std::string>>("inputs"),
                           .shape = shape,
                           .kernel = sizes(node, "kernel"),
                           .stride = sizes(node, "stride"),
                           .groups = node.optional<std::int64_t>("groups", 0),
                           .hidden = node.optional<std::int64_t>("hidden", 0),
                           .layers = node.optional<std::int64_t>("layers", 1),
                           .heads = node.optional<std::int64_t>("heads", 1),
                           .is_bidirectional = node.optional<bool>("bidirectional", false),
                           .has_integers = has_integers};
    if (node.has("parameters"))
      for (const JsonReader& parameter : node.children("parameters")) {
        const auto path = parameter.required<std::string>("name");
        if (!graph.has(path)) graph.add_parameter(path, sizes(parameter, "shape"));
        made.inputs.push_back(path);
      }
    if (node.has("shape"))
      graph.add(made);
    else
      graph.add_constant(name, {});  // a number, or a list of numbers
  }
}

/// nn.LSTM and its kin read [positions, batch, features] unless "batch_first": then the batch of the input that leads to
/// them is its second axis.
void find_batch(FrameworkGraph& graph, const std::vector<JsonReader>& nodes) {
  std::map<std::string, const JsonReader*> by_name;
  for (const JsonReader& node : nodes) by_name[node.required<std::string>("name")] = &node;
  for (const JsonReader& node : nodes) {
    const auto action = action_of(node.optional<std::string>("type", ""));
    if (action != OperatorAction::kLstm && action != OperatorAction::kGru && action != OperatorAction::kRnn) continue;
    if (!node.has("batch_first")) {
      graph.remark("the file does not say whether sequences come first: the batch is taken as the first axis");
      return;
    }
    if (node.required<bool>("batch_first")) continue;
    const JsonReader* at = &node;
    constexpr int kMostCasts = 64;
    for (int passed = 0; passed < kMostCasts; ++passed) {
      if (at->required<std::string>("op") == "placeholder") {
        if (const FrameworkShape shape = sizes(*at, "shape"); shape.size() > 1 && shape[1] > 0)
          graph.set_batch(shape[1]);
        return;
      }
      const auto inputs = at->optional<std::vector<std::string>>("inputs", {});
      const auto before = inputs.empty() ? by_name.end() : by_name.find(inputs[0]);
      if (before == by_name.end()) return;
      at = before->second;
    }
  }
}

}  // namespace

bool is_torch_graph(const Source& source) {
  return source.is_json() && source.json().is_object() && source.json().contains("torch_graph");
}

ImportedModel read_torch_graph(const Source& source) {
  const JsonReader root{source.json(), source.name()};
  root.expect(root.required<int>("torch_graph") == 1, "torch_graph", "1");
  FrameworkGraph graph{source.name(), Layout::kNchw};
  const std::vector<JsonReader> nodes = root.children("nodes");
  root.expect(nodes.size() <= kMostTorchNodes, "nodes", "at most 100000 nodes");
  std::vector<std::string> outputs;
  find_batch(graph, nodes);
  for (const JsonReader& node : nodes) add_node(graph, node, outputs);
  return graph.finish(source, "PyTorch graph of " + root.optional<std::string>("model", "a model") + ",", outputs);
}

}  // namespace rehearse
