// rehearse compare MODEL... DATASET

#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "predictor/baselines.hpp"
#include "predictor/gnn/model_file.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "predictor/scoring.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/predictor_commands.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_folder.hpp"

namespace rehearse {

namespace {

using Values = std::vector<std::vector<double>>;  // [samples][labels]

/// One way to predict.
struct Contender {
  std::string name;
  Values values;
  Score score;
  std::vector<ProfilePrediction> predictions;          // of models
  std::map<std::string, Score> by_family, by_setting;  // of models
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

Table summary_of(std::span<const Contender> contenders) {
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

/// A row for each part and model.
Table table_of(std::span<const Contender> models, std::map<std::string, Score> Contender::*parts,
               const std::string& what) {
  Table table{.header = {what, "predictor", "median APE, %", "worst metric, %", "R2"}, .rows = {}};
  for (const auto& [part, unused] : models.front().*parts)
    for (const Contender& model : models) {
      const Score& score = (model.*parts).at(part);
      table.rows.push_back(
          {part, model.name, display(score.median_ape), display(score.worst_median_ape), display(score.r2)});
    }
  return table;
}

void append(CsvWriter& csv, const Dataset& dataset, const std::vector<std::size_t>& samples,
            const Contender& contender) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Sample& sample = dataset.samples[samples[i]];
    const DatasetGraph& graph = dataset.graphs[static_cast<std::size_t>(sample.graph)];
    for (std::size_t l = 0; l < dataset.labels.size(); ++l) {
      const LabelPrediction& prediction = contender.predictions[i].labels[l];
      if (std::isnan(sample.labels[l]) || std::isnan(prediction.value)) continue;
      csv.row({contender.name, graph.name, graph.family,
               dataset.settings[static_cast<std::size_t>(sample.setting)].name, to_text(sample.origin),
               dataset.labels[l], sample.labels[l], prediction.value, prediction.low, prediction.high,
               contender.predictions[i].distance});
    }
  }
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

constexpr std::array kBaselines{Baseline::kMean, Baseline::kLinear, Baseline::kNeighbours, Baseline::kSketch};

Contender contender_of(const std::string& name, Model& model, const Dataset& dataset,
                       const std::vector<std::size_t>& samples) {
  Contender contender{.name = name, .predictions = model.predict(dataset, samples)};
  for (const ProfilePrediction& prediction : contender.predictions) {
    std::vector<double>& values = contender.values.emplace_back();
    for (const LabelPrediction& label : prediction.labels) values.push_back(label.value);
  }
  return contender;
}

/// Of what the models may have been trained on. All but the mean need operators.
void add_baselines(std::vector<Contender>& contenders, const CompareCommand& command, const Dataset& dataset,
                   const std::vector<std::size_t>& samples) {
  SampleChoice seen = command.choice;
  seen.family.reset();
  if (command.choice.family) seen.left_out_families.push_back(*command.choice.family);
  const std::vector<std::size_t> train = choose_samples(dataset, Split::kTrain, seen);
  const bool has_operators = dataset.node_features == node_feature_names();
  if (train.empty() || command.skips_baselines) return;
  Baselines baselines{dataset, train, samples};
  for (const Baseline baseline : kBaselines)
    if (has_operators || baseline == Baseline::kMean)
      contenders.push_back({.name = to_text(baseline), .values = baselines.predict(baseline)});
}

Json to_json(const Contender& contender) {
  Json json = to_json(contender.score);
  for (const auto& [name, of_part] : contender.by_family) json["by_family"][name] = to_json(of_part);
  for (const auto& [name, of_part] : contender.by_setting) json["by_setting"][name] = to_json(of_part);
  return json;
}

Document document_of(const CompareCommand& command, const Dataset& dataset, const std::vector<std::size_t>& samples,
                     std::span<const Contender> contenders, std::span<const Contender> models, const Table& by_family) {
  const Score& first = models.front().score;
  Document document{.title = "Predicted against labels",
                    .subtitle = command.common.command_line,
                    .headlines = {{"samples", std::to_string(samples.size())},
                                  {"median APE over the twelve metrics", display(first.median_ape) + " %"},
                                  {"of the worst metric", display(first.worst_median_ape) + " %"},
                                  {"R2", display(first.r2)}},
                    .sections = {{.title = "Predictors", .paragraphs = {}, .tables = {summary_of(contenders)}}}};
  for (const Contender& model : models)
    document.sections.push_back({.title = "Metrics of " + model.name, .tables = {table_of(model.score)}});
  document.sections.push_back(
      {.title = "Parts", .tables = {by_family, table_of(models, &Contender::by_setting, "setting")}});
  for (const Contender& model : models)
    document.sections.push_back({.title = "Predictions of " + model.name + " against labels",
                                 .plots = scatter_of(dataset, samples, model.values)});
  return document;
}

}  // namespace

std::vector<std::string> names_of_models(const std::vector<std::filesystem::path>& models,
                                         const std::vector<std::string>& taken) {
  std::vector<std::string> names, paths;
  for (const std::filesystem::path& model : models) {
    const std::filesystem::path path = (model / "").lexically_normal().parent_path();  // without a slash at the end
    paths.push_back(path.string());
    names.push_back(path.filename().string());
  }
  std::map<std::string, int> uses;
  for (const std::string& name : names) ++uses[name];
  for (const std::string& name : taken) ++uses[name];
  for (std::size_t m = 0; m < models.size(); ++m)
    if (uses[names[m]] > 1) names[m] = paths[m];
  std::set<std::string> known{taken.begin(), taken.end()};
  for (const std::string& name : names)
    if (!known.insert(name).second)
      throw InputError{"compare: expected models in different folders; found " + in_quotes(name) + " twice"};
  return names;
}

int run(const CompareCommand& command) {
  use_torch_threads(1);
  keep_freed_memory();
  const Dataset dataset = load_dataset(command.input);
  const std::vector<std::size_t> samples = choose_samples(dataset, split_of(command.split), command.choice);
  if (samples.empty()) throw InputError{command.input.string() + ": has no sample of that kind to compare with"};
  if (command.common.output) create_folder(*command.common.output);

  std::vector<Contender> contenders;
  std::vector<std::string> baselines;
  for (const Baseline baseline : kBaselines) baselines.push_back(to_text(baseline));
  const std::vector<std::string> names = names_of_models(command.models, baselines);
  for (std::size_t m = 0; m < names.size(); ++m)
    contenders.push_back(contender_of(names[m], *load_model(command.models[m] / "model.pt"), dataset, samples));
  add_baselines(contenders, command, dataset, samples);
  for (Contender& contender : contenders) contender.score = score(dataset, samples, contender.values);
  const std::span<Contender> models{contenders.data(), names.size()};
  for (Contender& model : models) {
    model.by_family = scores_by(dataset, samples, model.values, [&](const Sample& sample) {
      return dataset.graphs[static_cast<std::size_t>(sample.graph)].family;
    });
    model.by_setting = scores_by(dataset, samples, model.values, [&](const Sample& sample) {
      return dataset.settings[static_cast<std::size_t>(sample.setting)].name;
    });
  }

  Json json{{"format", 1}, {"samples", samples.size()}, {"predictors", Json::object()}};
  for (const Contender& contender : contenders) json["predictors"][contender.name] = to_json(contender);
  const std::string text = to_json_text(json);
  const Table by_family = table_of(models, &Contender::by_family, "family");
  if (command.common.output) {
    CsvWriter csv{{"predictor", "graph", "family", "setting", "origin", "metric", "label", "predicted", "low", "high",
                   "distance"}};
    for (const Contender& model : models) append(csv, dataset, samples, model);
    OutputFolder files{*command.common.output};
    files.write("comparison.json", text);
    files.write("predictions.csv", csv.text());
    files.write("report.html",
               render_html(document_of(command, dataset, samples, contenders, models, by_family)));
    files.commit();
    say_written(command.common, *command.common.output, files.names());
  }
  if (command.common.prints_json) {
    std::fputs(text.c_str(), stdout);
  } else {
    std::printf("%zu samples of split %s\n\n%s\n", samples.size(), command.split.c_str(),
                to_text(summary_of(contenders)).c_str());
    for (const Contender& model : models)
      std::printf("%s\n%s\n", model.name.c_str(), to_text(table_of(model.score)).c_str());
    std::fputs(to_text(by_family).c_str(), stdout);
  }
  return kSuccess;
}

}  // namespace rehearse
