#include "workloads/importers/torch_graph.hpp"

#include "workloads/importers/framework_graph.hpp"

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
  for (const JsonReader& node : nodes) add_node(graph, node, outputs);
  return graph.finish(source, "PyTorch graph of " + root.optional<std::string>("model", "a model") + ",", outputs);
}

}  // namespace rehearse
