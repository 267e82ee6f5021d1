#include "predictor/merge.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "predictor/driple_export.hpp"
#include "predictor/study_weights.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"

namespace rehearse {
namespace {

void require_same(const std::vector<std::string>& a, const std::vector<std::string>& b, const char* what) {
  if (a != b) throw InputError{std::string{"the datasets cannot be put together: their "} + what + " differ"};
}

Json provenance_of(const Dataset& whole, const Dataset& more) {
  Json parts = Json::array();
  const Json before = parse_json(whole.provenance, "provenance");
  if (before.contains("datasets"))
    parts = before["datasets"];
  else
    parts.push_back(before);
  parts.push_back(parse_json(more.provenance, "provenance"));
  return Json{{"datasets", std::move(parts)}};
}

constexpr std::array kShares{0.6, 0.2, 0.2};  // of the splits, in the order of Split
/// Samples that go from one split to another.
struct Moved {
  std::size_t samples = 0;
  std::set<std::string, std::less<>> models;
};

std::string to_text(Split from, Split to, const Moved& moved) {
  constexpr std::size_t kMostNamed = 3;
  std::string models;
  std::size_t count = 0;
  for (const std::string& model : moved.models)
    if (++count <= kMostNamed) models += (models.empty() ? "" : ", ") + in_quotes(model);
  if (moved.models.size() > kMostNamed) models += " and " + std::to_string(moved.models.size() - kMostNamed) + " more";
  return std::to_string(moved.samples) + (moved.samples == 1 ? " sample moves" : " samples move") + " from the split " +
         in_quotes(to_text(from)) + " to " + in_quotes(to_text(to)) + ", where earlier datasets have " + models;
}

}  // namespace

std::string_view model_of(std::string_view graph_name) {
  const auto at = graph_name.rfind(" batch ");
  return at == std::string_view::npos ? graph_name : graph_name.substr(0, at);
}

void deal_splits(Dataset& dataset, std::span<const std::string> models) {
  std::vector<std::size_t> all(dataset.samples.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const std::vector<double> factors = study_factors(dataset, all, [](const Sample&) { return 1.0; });
  using Unit = std::pair<std::string, std::string>;  // model, study
  const auto unit_of = [&](const Sample& sample) {
    return Unit{models[static_cast<std::size_t>(sample.graph)], study_of(dataset, sample)};
  };
  std::map<Unit, double> weights;
  for (const std::size_t i : all) weights[unit_of(dataset.samples[i])] += factors[i];
  std::vector<std::pair<Unit, double>> order{weights.begin(), weights.end()};
  std::ranges::stable_sort(order, std::ranges::greater{}, &std::pair<Unit, double>::second);
  struct Dealt {
    double total = 0;
    std::array<double, 3> to{};
    double lacks(std::size_t split) const { return kShares[split] * total - to[split]; }
  };
  Dealt whole;
  std::map<std::string, Dealt> of_studies;
  std::map<Unit, Split> splits;
  for (const auto& [unit, weight] : order) {
    Dealt& study = of_studies[unit.second];
    whole.total += weight;
    study.total += weight;
    std::size_t lacking = 0;
    for (std::size_t s = 1; s < kShares.size(); ++s)
      if (whole.lacks(s) + study.lacks(s) > whole.lacks(lacking) + study.lacks(lacking)) lacking = s;
    whole.to[lacking] += weight;
    study.to[lacking] += weight;
    splits[unit] = static_cast<Split>(lacking);
  }
  for (Sample& sample : dataset.samples) sample.split = splits.at(unit_of(sample));
}

/// Numbers of the settings in the whole.
std::vector<std::int32_t> MergedDataset::add_settings(std::vector<DatasetSetting>& more) {
  std::vector<std::int32_t> numbers;
  for (DatasetSetting& setting : more) {
    const std::string wanted = setting.name;
    auto found = settings_.find(wanted);
    for (int next = 2; found != settings_.end() && whole_.settings[found->second].provenance != setting.provenance;
         ++next) {
      setting.name = wanted + " " + std::to_string(next);
      found = settings_.find(setting.name);
    }
    if (found == settings_.end()) {
      found = settings_.emplace(setting.name, whole_.settings.size()).first;
      whole_.settings.push_back(std::move(setting));
    }
    numbers.push_back(static_cast<std::int32_t>(found->second));
  }
  return numbers;
}

/// Numbers of the graphs in the whole.
std::vector<std::int32_t> MergedDataset::add_graphs(std::vector<DatasetGraph>& more) {
  std::vector<std::int32_t> numbers;
  for (DatasetGraph& graph : more) {
    const auto [begin, end] = graphs_.equal_range(graph.name);
    auto found = std::find_if(begin, end, [&](const auto& entry) {
      const DatasetGraph& other = whole_.graphs[entry.second];
      return other.features == graph.features && other.edges == graph.edges;
    });
    if (found == end) {
      found = graphs_.emplace(graph.name, whole_.graphs.size());
      whole_.graphs.push_back(std::move(graph));
    }
    numbers.push_back(static_cast<std::int32_t>(found->second));
  }
  return numbers;
}

std::vector<std::string> MergedDataset::add(Dataset more) {
  if (whole_.node_features.empty()) {
    whole_.provenance = more.provenance;
    whole_.node_features = more.node_features;
    whole_.labels = more.labels;
  } else {
    if ((whole_.node_features == group_feature_names()) != (more.node_features == group_feature_names()))
      throw InputError{
          "the datasets cannot be put together: the graphs of one are operators, of the other groups of them, as in "
          "data files of Driple; --grouped makes groups of all"};
    require_same(whole_.node_features, more.node_features, "node features");
    require_same(whole_.labels, more.labels, "labels");
    if (more.provenance != "{}") whole_.provenance = provenance_of(whole_, more).dump();
  }
  const std::vector<std::int32_t> settings = add_settings(more.settings), graphs = add_graphs(more.graphs);
  const std::size_t before = whole_.samples.size();
  const auto model_and_study = [&](const Sample& sample) {
    const DatasetGraph& graph = whole_.graphs[static_cast<std::size_t>(sample.graph)];
    return std::pair{std::string{model_of(graph.name)}, study_of(whole_, sample)};
  };
  std::map<std::pair<Split, Split>, Moved> moved;  // from, to
  for (Sample& sample : more.samples) {
    sample.graph = graphs[static_cast<std::size_t>(sample.graph)];
    sample.setting = settings[static_cast<std::size_t>(sample.setting)];
    const auto model = model_and_study(sample);
    const auto known = split_of_.find(model);
    const Split wanted = known == split_of_.end() ? sample.split : known->second;
    const Split split = split_of_graph_.emplace(std::pair{sample.graph, model.second}, wanted).first->second;
    if (split != sample.split) {
      Moved& those = moved[{sample.split, split}];
      ++those.samples;
      those.models.insert(model.first);
    }
    sample.split = split;
    whole_.samples.push_back(std::move(sample));
  }
  for (std::size_t s = before; s < whole_.samples.size(); ++s)
    split_of_.emplace(model_and_study(whole_.samples[s]), whole_.samples[s].split);
  std::vector<std::string> lines;
  for (const auto& [splits, those] : moved) lines.push_back(to_text(splits.first, splits.second, those));
  return lines;
}

Dataset with_groups(Dataset dataset, const TypeFrequencies& frequencies) {
  if (dataset.node_features == group_feature_names()) return dataset;
  require_same(dataset.node_features, node_feature_names(), "node features");
  dataset.node_features = group_feature_names();
  for (DatasetGraph& graph : dataset.graphs) {
    DatasetGraph grouped = to_dataset_graph(group_graph(graph, frequencies));
    graph.features = std::move(grouped.features);
    graph.edges = std::move(grouped.edges);
  }
  return dataset;
}

}  // namespace rehearse
