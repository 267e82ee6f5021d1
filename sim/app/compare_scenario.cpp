// rehearse compare MODEL... SCENARIO [--measured SERIES]: one job predicted, simulated and measured.

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "predictor/described_step.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "predictor/labels.hpp"
#include "predictor/measured_series.hpp"
#include "sim/app/any_predictor.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/predictor_commands.hpp"
#include "sim/app/predictor_inputs.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_folder.hpp"

namespace rehearse {

namespace {

/// The labels of one job from one source.
struct Column {
  std::string name;
  std::vector<double> values;             // [labels]; NaN: not known
  std::vector<LabelPrediction> interval;  // of a predictor
};

/// Signed, in percent; NaN where the reference is 0 or not known.
double error_of(double value, double reference) { return reference > 0 ? 100 * (value / reference - 1) : std::nan(""); }

/// Pairs of columns whose errors are shown: predictors against the simulation, everything against what was measured.
/// The simulation comes first, what was measured last.
std::vector<std::pair<std::size_t, std::size_t>> comparisons(const std::vector<Column>& columns, bool is_measured) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  const std::size_t end = is_measured ? columns.size() - 1 : columns.size();
  for (std::size_t m = 1; m < end; ++m) pairs.emplace_back(m, 0);
  for (std::size_t c = 0; is_measured && c < end; ++c) pairs.emplace_back(c, end);
  return pairs;
}

Table table_of(const std::vector<Column>& columns, const std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
  Table table{.header = {"metric"}, .rows = {}};
  for (const Column& column : columns) table.header.push_back(column.name);
  for (const auto& pair : pairs)
    table.header.push_back(columns[pair.first].name + " / " + columns[pair.second].name + ", %");
  for (std::size_t l = 0; l < label_names().size(); ++l) {
    std::vector<std::string>& row = table.rows.emplace_back(1, label_names()[l]);
    for (const Column& column : columns) row.push_back(display_if_known(column.values[l]));
    for (const auto& pair : pairs)
      row.push_back(display_if_known(error_of(columns[pair.first].values[l], columns[pair.second].values[l])));
  }
  return table;
}

Json to_json(const std::vector<Column>& columns, const std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
  Json metrics = Json::object();
  const auto put = [](Json& json, const std::string& name, double value) {
    if (!std::isnan(value)) json[name] = value;
  };
  for (std::size_t l = 0; l < label_names().size(); ++l) {
    Json& metric = metrics[label_names()[l]] = Json::object();
    for (const Column& column : columns) {
      put(metric, column.name, column.values[l]);
      if (column.interval.empty() || std::isnan(column.values[l])) continue;
      if (std::isnan(column.interval[l].low)) continue;
      metric["interval"][column.name] = {column.interval[l].low, column.interval[l].high};
    }
    for (const auto& pair : pairs)
      put(metric["error_pct"][columns[pair.second].name], columns[pair.first].name,
          error_of(columns[pair.first].values[l], columns[pair.second].values[l]));
  }
  return metrics;
}

std::string csv_of(const std::vector<Column>& columns) {
  CsvWriter csv{{"metric", "source", "value", "low", "high"}};
  for (std::size_t l = 0; l < label_names().size(); ++l)
    for (const Column& column : columns) {
      if (std::isnan(column.values[l])) continue;
      const LabelPrediction none{.value = 0, .low = std::nan(""), .high = std::nan("")};
      const LabelPrediction& interval = column.interval.empty() ? none : column.interval[l];
      csv.row({label_names()[l], column.name, column.values[l], or_empty(interval.low), or_empty(interval.high)});
    }
  return csv.text();
}

Scenario load_comparable(const CompareCommand& command, const std::optional<MeasuredSeries>& series) {
  const Catalog catalog = load_catalog(command.common);
  JsonOrigins origins;
  Json json = load_scenario_json(command.input, command.overrides, catalog, origins);
  // In the text, from which the engine reads the scenario, too.
  if (series) json["output"]["sampling_period"] = Json(series->period.value()).dump() + "s";
  return read_scenario(json, command.input.string(), catalog, origins);
}

std::vector<Column> columns_of(const CompareCommand& command, std::optional<Seconds> step_time,
                               const Scenario& scenario, const std::optional<MeasuredSeries>& series,
                               std::vector<std::string>& warnings) {
  std::vector<Column> columns;
  Dataset dataset = dataset_of(scenario);
  if (command.study) dataset.settings.front().group = *command.study;
  const std::vector<std::size_t> sample{0};
  EngineOnDemand engine{dataset, sample, command.common};
  columns.push_back({.name = "simulated", .values = engine.get().labels[0], .interval = {}});
  const std::vector<std::string> names = names_of_predictors(command.predictors, {"simulated", "measured"});
  for (std::size_t m = 0; m < names.size(); ++m) {
    AnyPredictor predictor{command.predictors[m]};
    require_units(predictor, command.predictors[m]);
    PredictedMetrics prediction = predictor.predict(dataset, sample, engine)[0];
    if (const std::string chance = changes_by_chance(scenario); !chance.empty() && predictor.network() != nullptr)
      warnings.push_back(names[m] + ": says nothing of " + chance +
                         ": machines that come and go by chance: take what is simulated");
    Column& column = columns.emplace_back(Column{.name = names[m], .values = {}, .interval = {}});
    for (const LabelPrediction& label : prediction.labels) column.values.push_back(label.value);
    column.interval = std::move(prediction.labels);
    add_cautions(names[m], {&prediction, 1}, warnings);
    if (!prediction.unlearned.empty())
      warnings.push_back(names[m] + ": nothing that it was trained on had a " + in_quotes(prediction.unlearned) +
                         " other than 0: take what is simulated");
    else if (prediction.distance > 1)
      warnings.push_back(names[m] + ": unlike anything that it was trained on (distance " +
                         display(prediction.distance) + ", 1 is the edge; most by " + in_quotes(prediction.farthest) +
                         ")");
  }
  if (series || step_time)
    columns.push_back(
        {.name = "measured", .values = labels_of(series.value_or(MeasuredSeries{}), step_time), .interval = {}});
  return columns;
}

}  // namespace

Answer compare_scenario(const CompareCommand& command, std::optional<Seconds> step_time) {
  use_torch_threads(1);
  keep_freed_memory();
  std::optional<MeasuredSeries> series;
  if (command.measured) series = load_measured_series(*command.measured);
  const Scenario scenario = load_comparable(command, series);
  const auto made = make_folder(command.common.output);
  std::vector<std::string> warnings;
  const std::vector<Column> columns = columns_of(command, step_time, scenario, series, warnings);
  const auto pairs = comparisons(columns, series || step_time);
  print_warnings(warnings, command.common.is_quiet);

  const Table table = table_of(columns, pairs);
  const std::string title = scenario.workload.name + " in " + scenario.name;
  Answer answer{
      .json = to_json_text(Json{{"format", 1}, {"scenario", scenario.name}, {"metrics", to_json(columns, pairs)}}),
      .parts = {title + "\n\n", table}};
  if (command.common.output) {
    OutputFolder files{*command.common.output};
    files.write("comparison.json", answer.json);
    files.write("comparison.csv", csv_of(columns));
    files.write("report.html", render_html({.title = "Predicted, simulated and measured",
                                            .subtitle = command.common.command_line,
                                            .headlines = {},
                                            .sections = {{.title = title, .paragraphs = warnings, .tables = {table}}},
                                            .verdict = std::to_string(table.rows.size()) + " metrics of " + title +
                                                       (series || step_time ? ", measured beside them." : ".")}));
    files.commit();
    say_written(command.common, *command.common.output, files.names());
  }
  return answer;
}

}  // namespace rehearse
