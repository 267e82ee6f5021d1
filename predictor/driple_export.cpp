#include "predictor/driple_export.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "predictor/labels.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

namespace {

constexpr std::array<std::pair<const char*, Split>, 3> kPartOfSplit{
    {{"train", Split::kTrain}, {"val", Split::kValidation}, {"test", Split::kTest}}};

const char* part_of(Split split) {
  return std::ranges::find(kPartOfSplit, split, &std::pair<const char*, Split>::second)->first;
}

/// What a note says.
struct Noted {
  Origin origin = Origin::kMeasured;
  DatasetSetting setting;
  std::map<Split, std::vector<std::pair<std::string, std::string>>>
      graphs;  // families and names; none: there is no note
};

std::vector<std::pair<std::string, std::string>> read_graphs(const JsonReader& list) {
  std::vector<std::pair<std::string, std::string>> graphs;
  for (const JsonReader& graph : list.elements()) {
    const std::vector<std::string> words = graph.as<std::vector<std::string>>();
    graph.expect(words.size() == 2, "the family and the name of a graph");
    graphs.emplace_back(words[0], words[1]);
  }
  return graphs;
}

Noted read_note(const DripleDataset& driple, const DripleSource& source) {
  Noted noted;
  noted.setting = {.name = source.name, .group = source.name, .provenance = "{}"};
  if (driple.note.empty()) return noted;
  const Json json = parse_json(driple.note, source.file_name + ": rehearse.json");
  const JsonReader root{json, source.file_name + ": rehearse.json"};
  root.expect(root.is_object(), "an object");
  root.expect_format();
  const std::string origin = root.required<std::string>("origin");
  root.expect(origin == "simulated" || origin == "measured", "origin", "simulated or measured");
  noted.origin = origin == "simulated" ? Origin::kSimulated : Origin::kMeasured;
  noted.setting.name = root.required<std::string>("setting");
  noted.setting.group = root.required<std::string>("group");
  const JsonReader scenario = root.child("scenario");
  scenario.expect(scenario.is_object(), "a scenario");
  noted.setting.provenance = scenario.value().dump();
  for (const auto& [part, split] : kPartOfSplit) noted.graphs[split] = read_graphs(root.child("graphs").child(part));
  return noted;
}

}  // namespace

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
  Json graphs{{"train", Json::array()}, {"val", Json::array()}, {"test", Json::array()}};
  std::set<Origin> origins;
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
    const DatasetGraph& whole = dataset.graphs[static_cast<std::size_t>(sample.graph)];
    graphs[part_of(sample.split)].push_back({whole.family, whole.name});
    origins.insert(sample.origin);
    for (const auto& row : graph.features)
      made.features.push_back({static_cast<float>(row[0]), static_cast<float>(row[1]), static_cast<float>(row[2])});
    std::ranges::transform(metrics, made.labels.begin(), [](double metric) { return static_cast<float>(metric); });
  }
  if (origins.size() != 1) return driple;
  const DatasetSetting& own = dataset.settings[static_cast<std::size_t>(setting)];
  driple.note = to_json_text({{"format", 1},
                              {"origin", to_text(*origins.begin())},
                              {"setting", own.name},
                              {"group", own.group},
                              {"scenario", parse_json(own.provenance, "setting")},
                              {"graphs", std::move(graphs)}});
  return driple;
}

Dataset dataset_of(const DripleDataset& driple, const DripleSource& source) {
  Noted noted = read_note(driple, source);
  Dataset dataset;
  dataset.node_features = group_feature_names();
  dataset.labels = label_names();
  dataset.settings.push_back(std::move(noted.setting));
  for (const auto& [part, split] : kPartOfSplit) {
    const std::vector<DripleSample>& samples = split == Split::kTrain        ? driple.train
                                               : split == Split::kValidation ? driple.val
                                                                             : driple.test;
    const auto& names = noted.graphs[split];
    if (!driple.note.empty() && names.size() < samples.size())
      throw InputError{source.file_name + ": rehearse.json: /graphs/" + part + ": expected the names of " +
                       std::to_string(samples.size()) + " graphs; found " + std::to_string(names.size())};
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const DripleSample& from = samples[i];
      Sample sample{.graph = static_cast<std::int32_t>(dataset.graphs.size()), .split = split, .origin = noted.origin};
      sample.labels.assign(from.labels.begin(), from.labels.end());
      sample.labels.resize(dataset.labels.size(), kUnknown);
      DatasetGraph graph{
          .family = driple.note.empty() ? "driple" : names[i].first,
          .name = driple.note.empty() ? source.name + " " + part + " " + std::to_string(i + 1) : names[i].second,
          .provenance = "{}"};
      for (const auto& row : from.features) graph.features.insert(graph.features.end(), row.begin(), row.end());
      for (const auto& [a, b] : from.edges)
        graph.edges.push_back({static_cast<std::int32_t>(a), static_cast<std::int32_t>(b)});
      dataset.graphs.push_back(std::move(graph));
      dataset.samples.push_back(std::move(sample));
    }
  }
  return dataset;
}

std::size_t repeated_graphs(const Dataset& dataset) {
  using Key = std::pair<std::size_t, std::size_t>;
  const auto key_of = [&](const DatasetGraph& graph) {
    const auto hash = [](const auto& values) {
      return std::hash<std::string_view>{}(
          {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])});
    };
    return Key{hash(graph.features), hash(graph.edges)};
  };
  std::set<Key> learnt;
  std::set<std::int32_t> others;
  for (const Sample& sample : dataset.samples)
    if (sample.split == Split::kTrain)
      learnt.insert(key_of(dataset.graphs[static_cast<std::size_t>(sample.graph)]));
    else
      others.insert(sample.graph);
  return static_cast<std::size_t>(std::ranges::count_if(others, [&](std::int32_t graph) {
    return learnt.contains(key_of(dataset.graphs[static_cast<std::size_t>(graph)]));
  }));
}

}  // namespace rehearse
