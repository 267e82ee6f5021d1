#include "sim/app/output/dataset_document.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/statistics.hpp"

namespace rehearse {

namespace {

constexpr double kPercents[] = {5, 25, 50, 75, 95};

/// Those of one setting, or of all (-1); none of samples that are planned but not simulated.
std::vector<double> values_of(const Generated& generated, std::size_t label, std::int32_t setting) {
  std::vector<double> values;
  for (const Sample& sample : generated.samples)
    if (!sample.labels.empty() && (setting < 0 || sample.setting == setting)) values.push_back(sample.labels[label]);
  return values;
}

double share_of_zeros(const std::vector<double>& values) {
  return static_cast<double>(std::count(values.begin(), values.end(), 0.0)) / static_cast<double>(values.size());
}

std::vector<std::string> row_of(const std::string& name, const std::vector<double>& values) {
  std::vector<std::string> row{name};
  for (const double percent : kPercents) row.push_back(values.empty() ? "-" : display(percentile(values, percent)));
  row.push_back(values.empty() ? "-" : display(100 * share_of_zeros(values)) + " %");
  return row;
}

Table percentile_table(const std::string& of) {
  Table table{.header = {of}, .rows = {}};
  for (const double percent : kPercents) table.header.push_back("p" + display(percent));
  table.header.emplace_back("zero");
  return table;
}

/// F(x) as a line of steps, of each setting.
Plot distributions(const Generated& generated, std::size_t label) {
  Plot plot{.title = label_names()[label], .x_label = label_names()[label], .y_label = "share of the graphs"};
  for (std::size_t s = 0; s < generated.settings.size(); ++s) {
    std::vector<double> values = values_of(generated, label, static_cast<std::int32_t>(s));
    std::sort(values.begin(), values.end());
    Series line{.name = generated.settings[s].name, .x = {}, .y = {}};
    for (std::size_t i = 0; i < values.size(); ++i) {
      line.x.insert(line.x.end(), 2, values[i]);
      line.y.push_back(static_cast<double>(i) / static_cast<double>(values.size()));
      line.y.push_back(static_cast<double>(i + 1) / static_cast<double>(values.size()));
    }
    if (!values.empty()) plot.series.push_back(std::move(line));
  }
  return plot;
}

std::map<std::string, std::size_t> graphs_by_family(const Generated& generated) {
  std::map<std::string, std::size_t> counts;
  for (const std::string& family : generated.families) ++counts[family];
  return counts;
}

std::map<std::string, std::size_t> samples_by_split(const Generated& generated) {
  std::map<std::string, std::size_t> counts;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) counts[to_text(split)] = 0;
  for (const Sample& sample : generated.samples) ++counts[to_text(sample.split)];
  return counts;
}

}  // namespace

Table label_table(const Generated& generated) {
  Table table = percentile_table("label");
  for (std::size_t label = 0; label < label_names().size(); ++label)
    table.rows.push_back(row_of(label_names()[label], values_of(generated, label, -1)));
  return table;
}

Json to_json(const Space& space, const GenerateRequest& request, const Generated& generated) {
  Json labels = Json::object();
  for (std::size_t label = 0; label < label_names().size(); ++label) {
    const std::vector<double> values = values_of(generated, label, -1);
    if (values.empty()) continue;
    Json entry = Json::object();
    for (const double percent : kPercents) entry["p" + display(percent)] = percentile(values, percent);
    entry["zero_share"] = share_of_zeros(values);
    labels[label_names()[label]] = std::move(entry);
  }
  return {{"format", 1},
          {"space", space.name},
          {"seed", request.seed},
          {"samples", generated.samples.size()},
          {"graphs", generated.graphs},
          {"settings", generated.settings.size()},
          {"median_operators", generated.median_operators},
          {"without_result", generated.without_result},
          {"redrawn",
           {{"duplicates", generated.redrawn.duplicates},
            {"exceeding_memory", generated.redrawn.exceeding_memory},
            {"other_sizes", generated.redrawn.other_sizes},
            {"unbuildable", generated.redrawn.unbuildable}}},
          {"graphs_by_family", graphs_by_family(generated)},
          {"samples_by_split", samples_by_split(generated)},
          {"labels", std::move(labels)}};
}

Document dataset_document(const Space& space, const GenerateRequest& request, const Generated& generated) {
  Document document{.title = "Dataset of space " + space.name,
                    .subtitle = "seed " + std::to_string(request.seed),
                    .headlines = {{"samples", std::to_string(generated.samples.size())},
                                  {"graphs", std::to_string(generated.graphs)},
                                  {"settings", std::to_string(generated.settings.size())},
                                  {"median operators", display(generated.median_operators)}},
                    .sections = {}};
  document.verdict =
      std::to_string(generated.samples.size()) + " labelled samples of " + std::to_string(generated.graphs) +
      " graphs" +
      (generated.without_result > 0 ? "; " + std::to_string(generated.without_result) + " could not be simulated"
                                    : "; all could be simulated") +
      ".";
  Table families{.header = {"family", "graphs"}, .rows = {}};
  for (const auto& [family, count] : graphs_by_family(generated))
    families.rows.push_back({family, std::to_string(count)});
  Table splits{.header = {"split", "samples"}, .rows = {}};
  for (const auto& [split, count] : samples_by_split(generated)) splits.rows.push_back({split, std::to_string(count)});
  const Redrawn& redrawn = generated.redrawn;
  document.sections.push_back(
      {.title = "Graphs",
       .paragraphs = {"Drawn again: " + std::to_string(redrawn.duplicates) + " duplicates, " +
                      std::to_string(redrawn.exceeding_memory) + " too large for a GPU, " +
                      std::to_string(redrawn.other_sizes) + " with another number of operators, " +
                      std::to_string(redrawn.unbuildable) +
                      " that cannot be built. Without result: " + std::to_string(generated.without_result) + "."},
       .tables = {std::move(families), std::move(splits)}});
  document.sections.push_back({.title = "Labels, all settings",
                               .paragraphs = {"Of the chief's machine; rates are those of its network cards, or, in a "
                                              "cluster of one machine, of the links of its GPUs."},
                               .tables = {label_table(generated)}});
  Section by_setting{.title = "Labels by setting", .paragraphs = {}, .tables = {}};
  for (std::size_t label = 0; label < label_names().size(); ++label) {
    Table table = percentile_table(label_names()[label]);
    for (std::size_t s = 0; s < generated.settings.size(); ++s)
      table.rows.push_back(
          row_of(generated.settings[s].name, values_of(generated, label, static_cast<std::int32_t>(s))));
    by_setting.tables.push_back(std::move(table));
    by_setting.figures.emplace_back(distributions(generated, label));
  }
  document.sections.push_back(std::move(by_setting));
  return document;
}

}  // namespace rehearse
