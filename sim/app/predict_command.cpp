// rehearse predict MODEL INPUT

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "predictor/gnn/model_file.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "predictor/labels.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/predictor_commands.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

namespace {

/// A dataset of one sample without labels.
Dataset dataset_of(const Scenario& scenario) {
  Dataset dataset;
  dataset.node_features = node_feature_names();
  dataset.descriptors = descriptor_names();
  dataset.labels = label_names();
  dataset.settings.push_back(
      {.name = scenario.name, .group = scenario.name, .provenance = "{}", .descriptor = descriptor_of(scenario)});
  dataset.graphs.push_back({.family = "scenario",
                            .name = scenario.workload.name,
                            .provenance = "{}",
                            .features = node_features_of(scenario.workload, scenario.optimizer),
                            .edges = edges_of(scenario.workload)});
  dataset.samples.push_back({.labels = std::vector<double>(dataset.labels.size(), std::nan(""))});
  return dataset;
}

bool is_dataset(const std::filesystem::path& file) {
  std::string start(16, ' ');
  std::ifstream{file, std::ios::binary}.read(start.data(), 16);
  return start == std::string{"SQLite format 3\0", 16};
}

}  // namespace

int run(const PredictCommand& command) {
  use_torch_threads(1);
  keep_freed_memory();
  const std::unique_ptr<Model> model = load_model(command.model / "model.pt");
  const bool is_many = is_dataset(command.input);
  const Dataset dataset = is_many ? load_dataset(command.input)
                                  : dataset_of(read_scenario(load_scenario_json(command.input, command.overrides),
                                                             command.input.string(), load_catalog(command.common)));
  std::vector<std::size_t> samples(dataset.samples.size());
  std::iota(samples.begin(), samples.end(), std::size_t{0});
  if (command.common.output) create_folder(*command.common.output);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<ProfilePrediction> predictions = model->predict(dataset, samples);
  const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!command.common.is_quiet) std::fprintf(stderr, "%zu predictions in %.3g s\n", predictions.size(), spent);
  CsvWriter csv{{"graph", "setting", "metric", "predicted", "low", "high", "distance"}};
  Json json = Json::array();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Sample& sample = dataset.samples[i];
    const std::string& graph = dataset.graphs[static_cast<std::size_t>(sample.graph)].name;
    const std::string& setting = dataset.settings[static_cast<std::size_t>(sample.setting)].name;
    Json metrics = Json::object();
    for (std::size_t l = 0; l < dataset.labels.size(); ++l) {
      const LabelPrediction& label = predictions[i].labels[l];
      if (std::isnan(label.value)) continue;
      metrics[dataset.labels[l]] = {{"value", label.value}, {"low", label.low}, {"high", label.high}};
      csv.row({graph, setting, dataset.labels[l], label.value, label.low, label.high, predictions[i].distance});
    }
    json.push_back({{"graph", graph},
                    {"setting", setting},
                    {"distance", predictions[i].distance},
                    {"is_out_of_distribution", predictions[i].distance > 1},
                    {"metrics", std::move(metrics)}});
  }
  const std::string text = to_json_text(is_many ? json : json[0]);
  if (command.common.output) {
    write_file(*command.common.output / "predictions.csv", csv.text());
    write_file(*command.common.output / "prediction.json", text);
  }
  if (command.common.prints_json) {
    std::fputs(text.c_str(), stdout);
    return kSuccess;
  }
  if (is_many) {
    std::fputs(csv.text().c_str(), stdout);
    return kSuccess;
  }
  Table table{.header = {"metric", "predicted", "5 %", "95 %"}, .rows = {}};
  for (const auto& [metric, values] : json[0]["metrics"].items())
    table.rows.push_back({metric, display(values["value"]), display(values["low"]), display(values["high"])});
  std::printf("%s in %s\n\n%s", json[0]["graph"].get<std::string>().c_str(),
              json[0]["setting"].get<std::string>().c_str(), to_text(table).c_str());
  if (predictions[0].distance > 1)
    std::fprintf(stderr, "warning: unlike anything that the model was trained on (distance %.3g, 1 is the edge)\n",
                 predictions[0].distance);
  return kSuccess;
}

}  // namespace rehearse
