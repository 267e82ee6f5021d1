#include "predictor/driple_export.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse {

GroupedGraph group_graph(const DatasetGraph& graph, const TypeFrequencies& frequencies) {
  const OperatorNetwork whole = largest_component(operator_network(graph, frequencies));
  return group_operators(whole, std::min(kDripleGroups, whole.operators.size()));
}

const std::vector<std::string>& group_feature_names() {
  static const std::vector<std::string> names{"tensor_size", "operators", "type_frequency"};
  return names;
}

DatasetGraph to_dataset_graph(const GroupedGraph& grouped) {
  DatasetGraph graph;
  for (const auto& row : grouped.features)
    for (const double feature : row) graph.features.push_back(static_cast<float>(feature));
  for (const auto& [a, b] : grouped.edges)
    graph.edges.push_back({static_cast<std::int32_t>(a), static_cast<std::int32_t>(b)});
  return graph;
}

GroupedGraph to_grouped_graph(const DatasetGraph& graph) {
  GroupedGraph grouped;
  for (std::size_t i = 0; i + 2 < graph.features.size(); i += 3)
    grouped.features.push_back({graph.features[i], graph.features[i + 1], graph.features[i + 2]});
  for (const GraphEdge& edge : graph.edges)
    if (edge.from != edge.to) grouped.edges.emplace_back(std::min(edge.from, edge.to), std::max(edge.from, edge.to));
  std::ranges::sort(grouped.edges);
  grouped.edges.erase(std::unique(grouped.edges.begin(), grouped.edges.end()), grouped.edges.end());
  return grouped;
}

DripleDataset driple_dataset_of(const Dataset& dataset, std::int32_t setting, std::span<const GroupedGraph> grouped,
                                std::size_t& left_out) {
  DripleDataset driple;
  for (const Sample& sample : dataset.samples) {
    if (sample.setting != setting) continue;
    const GroupedGraph& graph = grouped[static_cast<std::size_t>(sample.graph)];
    const auto metrics = std::span{sample.labels}.first(kBurstLabels);
    if (graph.features.size() != kDripleGroups ||
        std::ranges::any_of(metrics, [](double metric) { return std::isnan(metric); })) {
      ++left_out;
      continue;
    }
    DripleSample& made = (sample.split == Split::kTrain        ? driple.train
                          : sample.split == Split::kValidation ? driple.val
                                                               : driple.test)
                             .emplace_back();
    made.edges = graph.edges;
    for (const auto& row : graph.features)
      made.features.push_back({static_cast<float>(row[0]), static_cast<float>(row[1]), static_cast<float>(row[2])});
    std::ranges::transform(metrics, made.labels.begin(), [](double metric) { return static_cast<float>(metric); });
  }
  return driple;
}

}  // namespace rehearse
