#include "predictor/grouped_graphs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "predictor/dataset.hpp"
#include "sim/base/json_schema.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kMostNodes = 1000, kMostGraphs = 10'000;

std::array<double, 3> read_features(const JsonReader& node) {
  const std::vector<double> values = node.as<std::vector<double>>();
  node.expect(values.size() == 3 &&
                  std::ranges::all_of(
                      values, [](double value) { return value >= 0 && value <= std::numeric_limits<float>::max(); }),
              "three numbers of at least 0: tensor size, operators, type frequency");
  return {values[0], values[1], values[2]};
}

NamedGroups read_graph(const JsonReader& json, std::size_t index) {
  json.expect(json.is_object(), "an object");
  NamedGroups graph{.name = json.optional<std::string>("name", "graph " + std::to_string(index + 1))};
  const std::vector<JsonReader> nodes = json.children("features");
  json.expect(!nodes.empty() && nodes.size() <= kMostNodes, "features", "1 to 1000 nodes");
  for (const JsonReader& node : nodes) graph.groups.features.push_back(read_features(node));
  if (json.has("num_nodes"))
    json.expect(json.required<std::int64_t>("num_nodes") == static_cast<std::int64_t>(nodes.size()), "num_nodes",
                "as many as there are features, " + std::to_string(nodes.size()));
  for (const JsonReader& edge : json.children("undirected_edges")) {
    const std::vector<std::int64_t> ends = edge.as<std::vector<std::int64_t>>();
    edge.expect(ends.size() == 2 && ends[0] != ends[1] &&
                    std::ranges::all_of(ends, [&](std::int64_t end) { return end >= 0 && end < std::ssize(nodes); }),
                "two different nodes, from 0 to " + std::to_string(nodes.size() - 1));
    graph.groups.edges.emplace_back(std::min(ends[0], ends[1]), std::max(ends[0], ends[1]));
  }
  std::ranges::sort(graph.groups.edges);
  graph.groups.edges.erase(std::unique(graph.groups.edges.begin(), graph.groups.edges.end()), graph.groups.edges.end());
  for (const char* key : {"output_float32", "output_float64"})
    if (json.has(key)) {
      graph.outputs = json.required<std::vector<double>>(key);
      json.expect(graph.outputs.size() == kBurstLabels, key, "twelve numbers");
    }
  json.reject_unknown_keys();
  return graph;
}

}  // namespace

bool is_grouped_graphs(const Json& json) {
  return json.is_object() && json.contains("graphs") && !json.contains("cluster") && !json.contains("workload");
}

std::vector<NamedGroups> read_grouped_graphs(const Json& json, const std::string& file_name) {
  const JsonReader root{json, file_name};
  root.expect(root.is_object(), "an object");
  std::vector<NamedGroups> graphs;
  const std::vector<JsonReader> entries = root.children("graphs");
  root.expect(!entries.empty() && entries.size() <= kMostGraphs, "graphs", "1 to 10000 graphs");
  for (std::size_t i = 0; i < entries.size(); ++i) graphs.push_back(read_graph(entries[i], i));
  for (const char* key : {"description", "model", "output_order"}) (void)root.has(key);
  root.reject_unknown_keys();
  return graphs;
}

std::string grouped_graphs_schema() {
  return object_schema({.title = "Rehearse graphs of groups of operators, for the networks that Driple published",
                        .required = {"graphs"}},
                       R"json({
    "description": { "type": "string", "description": "not read" },
    "model": { "type": "object", "description": "which network gave the outputs; not read" },
    "output_order": { "type": "array", "description": "names of the outputs; not read" },
    "graphs": { "type": "array", "minItems": 1, "maxItems": 10000,
      "items": { "type": "object", "required": ["features", "undirected_edges"], "additionalProperties": false, "properties": {
          "name": { "type": "string" },
          "num_nodes": { "type": "integer", "description": "as many as there are features" },
          "features": { "type": "array", "minItems": 1, "maxItems": 1000, "description": "of each node: summed tensor size, number of operators, summed frequency of their types",
            "items": { "type": "array", "minItems": 3, "maxItems": 3, "items": { "type": "number", "minimum": 0 } } },
          "undirected_edges": { "type": "array", "description": "pairs of nodes, from 0 on; both directions of a pair are one edge",
            "items": { "type": "array", "minItems": 2, "maxItems": 2, "items": { "type": "integer", "minimum": 0 } } },
          "output_float32": { "type": "array", "description": "the network's twelve outputs by another program: predict says how far its own are from them",
            "items": { "type": "number" } },
          "output_float64": { "type": "array", "description": "the same, preferred",
            "items": { "type": "number" } } } } }
  })json");
}

}  // namespace rehearse
