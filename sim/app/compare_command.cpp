// rehearse compare MODEL... DATASET

#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "predictor/baselines.hpp"
#include "predictor/gnn/model_file.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "predictor/scoring.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/predictor_commands.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

namespace {

using Values = std::vector<std::vector<double>>;  // [samples][labels]

/// One way to predict.
struct Contender {
  std::string name;
  Values values;
  Score score;
  std::vector<ProfilePrediction> predictions;  // of models
};

Score score_of(const Dataset& dataset, const std::vector<std::size_t>& samples, const Values& values,
               const std::function<bool(const Sample&)>& counts) {
  std::vector<std::size_t> chosen;
  Values of_chosen;
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (counts(dataset.samples[samples[i]])) {
      chosen.push_back(samples[i]);
      of_chosen.push_back(values[i]);
    }
  return score(dataset, chosen, of_chosen);
}

/// Score of each part of the samples, by name.
std::map<std::string, Score> scores_by(const Dataset& dataset, const std::vector<std::size_t>& samples,
                                       const Values& values, const std::function<std::string(const Sample&)>& part_of) {
  std::map<std::string, Score> scores;
  for (const std::size_t s : samples) scores[part_of(dataset.samples[s])];
  for (auto& [name, of_part] : scores)
    of_part = score_of(dataset, samples, values, [&](const Sample& sample) { return part_of(sample) == name; });
  return scores;
}

Json to_json(const Score& score) {
  Json labels = Json::object();
  for (const LabelScore& label : score.labels)
    labels[label.label] = {{"samples", label.samples}, {"on_scale", label.on_scale}, {"median_ape", label.median_ape},
                           {"mape", label.mape},       {"p90_ape", label.p90_ape},   {"r2", label.r2}};
  return {{"median_ape", score.median_ape},
          {"worst_median_ape", score.worst_median_ape},
          {"r2", score.r2},
          {"on_scale", score.on_scale},
          {"labels", std::move(labels)}};
}

Table summary_of(const std::vector<Contender>& contenders) {
  Table table{.header = {"predictor", "median APE, %", "worst metric, %", "R2"}, .rows = {}};
  for (const Contender& contender : contenders)
    table.rows.push_back({contender.name, display(contender.score.median_ape),
                          display(contender.score.worst_median_ape), display(contender.score.r2)});
  return table;
}

Table table_of(const Score& score) {
  Table table{.header = {"metric", "samples", "below 1 % of the median", "median APE, %", "MAPE, %", "p90, %", "R2"},
              .rows = {}};
  for (const LabelScore& label : score.labels)
    table.rows.push_back({label.label, std::to_string(label.samples), std::to_string(label.on_scale),
                          display(label.median_ape), display(label.mape), display(label.p90_ape), display(label.r2)});
  return table;
}

Table table_of(const std::map<std::string, Score>& parts, const std::string& what) {
  Table table{.header = {what, "median APE, %", "worst metric, %", "R2"}, .rows = {}};
  for (const auto& [name, score] : parts)
    table.rows.push_back({name, display(score.median_ape), display(score.worst_median_ape), display(score.r2)});
  return table;
}

std::string csv_of(const Dataset& dataset, const std::vector<std::size_t>& samples, const Contender& contender) {
  CsvWriter csv{{"graph", "family", "setting", "origin", "metric", "label", "predicted", "low", "high", "distance"}};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Sample& sample = dataset.samples[samples[i]];
    const DatasetGraph& graph = dataset.graphs[static_cast<std::size_t>(sample.graph)];
    for (std::size_t l = 0; l < dataset.labels.size(); ++l) {
      const LabelPrediction& prediction = contender.predictions[i].labels[l];
      if (std::isnan(sample.labels[l]) || std::isnan(prediction.value)) continue;
      csv.row({graph.name, graph.family, dataset.settings[static_cast<std::size_t>(sample.setting)].name,
               to_text(sample.origin), dataset.labels[l], sample.labels[l], prediction.value, prediction.low,
               prediction.high, contender.predictions[i].distance});
    }
  }
  return csv.text();
}

/// Predicted against labelled, a plot for each metric.
std::vector<Plot> scatter_of(const Dataset& dataset, const std::vector<std::size_t>& samples, const Values& values) {
  std::vector<Plot> plots;
  for (std::size_t l = 0; l < dataset.labels.size(); ++l) {
    Series simulated{.name = "simulated", .is_points = true}, measured{.name = "measured", .is_points = true};
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const Sample& sample = dataset.samples[samples[i]];
      if (std::isnan(sample.labels[l]) || std::isnan(values[i][l])) continue;
      Series& series = sample.origin == Origin::kMeasured ? measured : simulated;
      series.x.push_back(sample.labels[l]);
      series.y.push_back(values[i][l]);
    }
    Plot plot{.title = dataset.labels[l], .x_label = "label", .y_label = "predicted", .has_diagonal = true};
    for (Series* series : {&simulated, &measured})
      if (!series->x.empty()) plot.series.push_back(std::move(*series));
    if (!plot.series.empty()) plots.push_back(std::move(plot));
  }
  return plots;
}

Split split_of(const std::string& text) {
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest})
    if (to_text(split) == text) return split;
  throw InputError{"--split: expected train, validation or test; found " + text};
}

}  // namespace

int run(const CompareCommand& command) {
  use_torch_threads(1);
  keep_freed_memory();
  const Dataset dataset = load_dataset(command.input);
  const std::vector<std::size_t> samples = choose_samples(dataset, split_of(command.split), command.choice);
  if (samples.empty()) throw InputError{command.input.string() + ": has no sample of that kind to compare with"};
  if (command.common.output) create_folder(*command.common.output);

  std::vector<Contender> contenders;
  for (const std::filesystem::path& path : command.models) {
    Contender& contender = contenders.emplace_back();
    contender.name = path.filename().empty() ? path.parent_path().filename().string() : path.filename().string();
    const std::unique_ptr<Model> model = load_model(path / "model.pt");
    contender.predictions = model->predict(dataset, samples);
    for (const ProfilePrediction& prediction : contender.predictions) {
      std::vector<double>& values = contender.values.emplace_back();
      for (const LabelPrediction& label : prediction.labels) values.push_back(label.value);
    }
  }
  SampleChoice seen = command.choice;
  seen.family.reset();
  if (command.choice.family) seen.left_out_families.push_back(*command.choice.family);
  std::vector<std::size_t> train = choose_samples(dataset, Split::kTrain, seen);
  if (!train.empty())
    for (const Baseline baseline : {Baseline::kMean, Baseline::kLinear, Baseline::kNeighbours, Baseline::kSketch}) {
      Contender& contender = contenders.emplace_back();
      contender.name = to_text(baseline);
      contender.values = predict_by(baseline, dataset, train, samples);
    }
  for (Contender& contender : contenders) contender.score = score(dataset, samples, contender.values);

  const Contender& first = contenders.front();
  const auto by_family = scores_by(dataset, samples, first.values, [&](const Sample& sample) {
    return dataset.graphs[static_cast<std::size_t>(sample.graph)].family;
  });
  const auto by_setting = scores_by(dataset, samples, first.values, [&](const Sample& sample) {
    return dataset.settings[static_cast<std::size_t>(sample.setting)].name;
  });
  Json json{{"format", 1}, {"samples", samples.size()}, {"predictors", Json::object()}};
  for (const Contender& contender : contenders) json["predictors"][contender.name] = to_json(contender.score);
  for (const auto& [name, of_part] : by_family) json["by_family"][name] = to_json(of_part);
  for (const auto& [name, of_part] : by_setting) json["by_setting"][name] = to_json(of_part);
  const std::string text = to_json_text(json);
  const Table summary = summary_of(contenders), metrics = table_of(first.score);
  if (command.common.output) {
    write_file(*command.common.output / "comparison.json", text);
    write_file(*command.common.output / "predictions.csv", csv_of(dataset, samples, first));
    const Document document{
        .title = "Predicted against labels",
        .subtitle = command.common.command_line,
        .headlines = {{"samples", std::to_string(samples.size())},
                      {"median APE over the twelve metrics", display(first.score.median_ape) + " %"},
                      {"of the worst metric", display(first.score.worst_median_ape) + " %"},
                      {"R2", display(first.score.r2)}},
        .sections = {{.title = "Predictors", .paragraphs = {}, .tables = {summary}, .plots = {}},
                     {.title = "Metrics of " + first.name, .paragraphs = {}, .tables = {metrics}, .plots = {}},
                     {.title = "Parts",
                      .paragraphs = {},
                      .tables = {table_of(by_family, "family"), table_of(by_setting, "setting")},
                      .plots = {}},
                     {.title = "Predicted against labels",
                      .paragraphs = {},
                      .tables = {},
                      .plots = scatter_of(dataset, samples, first.values)}}};
    write_file(*command.common.output / "report.html", render_html(document));
  }
  if (command.common.prints_json) {
    std::fputs(text.c_str(), stdout);
  } else {
    std::printf("%zu samples of split %s\n\n%s\n%s\n%s", samples.size(), command.split.c_str(),
                to_text(summary).c_str(), to_text(metrics).c_str(), to_text(table_of(by_family, "family")).c_str());
  }
  return kSuccess;
}

}  // namespace rehearse
