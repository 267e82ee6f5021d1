// rehearse predict MODEL INPUT [--scenario CLUSTER]

#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "predictor/gnn/torch_threads.hpp"
#include "sim/app/any_predictor.hpp"
#include "sim/app/output/document.hpp"
#include "sim/app/predictor_inputs.hpp"
#include "sim/app/setup.hpp"
#include "sim/app/verb.hpp"
#include "sim/base/about.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"
#include "sim/base/output_folder.hpp"

namespace rehearse {

namespace {

void add_options(Options options, PredictCommand& command) {
  options.add_option("MODEL", command.predictor, "Written by rehearse train").required();
  options.add_option("INPUT", command.input, "Scenario, dataset, or with --scenario a model").required();
  options.add_option(
      "--scenario", command.scenario, "FILE",
      "Cluster and training of this scenario, for INPUT instead of its model: a name of the catalog (rehearse list "
      "models), a model file (rehearse schema model), an ONNX model, a PyTorch graph, a HuggingFace config.json, or a "
      "TensorFlow GraphDef (.pbtxt, .pb)");
  options.add_option("--study", command.study, "NAME",
                     "Of the corrected engine: the study, or dataset of your own, that the scenario's cluster is from");
  add_overrides(options, command.overrides);
  add_catalogs(options, command.common, kOwnCatalogs);
  options.add_flag("--json", command.common.prints_json, "Print prediction.json instead of text");
  add_output(options, command.common, "Write prediction.json, or predictions.csv of a dataset, here");
  add_wall_time(options, command.common);
}

int run(const PredictCommand& command) {
  use_torch_threads(1);
  keep_freed_memory();
  AnyPredictor predictor{command.predictor};
  const bool is_many = !command.scenario && is_dataset(command.input);
  std::optional<TypeFrequencies> frequencies;
  if (predictor.network() != nullptr && predictor.network()->type_frequencies() != nullptr)
    frequencies = *predictor.network()->type_frequencies();
  std::vector<std::string> warnings;
  Dataset dataset = load_prediction_input(command, predictor.network() != nullptr, frequencies, warnings);
  if (command.study) {
    if (is_many) throw InputError{"--study: expected a scenario, whose study it is; found a dataset, which says it"};
    dataset.settings.front().group = *command.study;
  }
  std::vector<std::size_t> samples(dataset.samples.size());
  std::iota(samples.begin(), samples.end(), std::size_t{0});
  const auto made = make_folder(command.common.output);
  EngineOnDemand engine{dataset, samples, command.common};
  const auto start = std::chrono::steady_clock::now();
  const std::vector<PredictedMetrics> predictions =
      about(command.input.string(), [&] { return predictor.predict(dataset, samples, engine); });
  const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!is_many && !predictions[0].unlearned.empty())
    throw InputError{command.input.string() + ": nothing that the predictor was trained on had a " +
                     in_quotes(predictions[0].unlearned) + " other than 0: simulate it instead"};
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
  if (!is_many && predictions[0].distance > 1)
    warnings.push_back("unlike anything that the predictor was trained on (distance " +
                       display(predictions[0].distance) + ", 1 is the edge; most by " +
                       in_quotes(predictions[0].farthest) + ")");
  print_warnings(warnings, command.common.is_quiet);
  if (command.common.output) {
    OutputFolder files{*command.common.output};
    files.write("predictions.csv", csv.text());
    files.write("prediction.json", text);
    files.commit();
    say_written(command.common, *command.common.output, files.names());
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
  return kSuccess;
}

}  // namespace

CommandVerb predict_verb() {
  return make_verb<PredictCommand>(
      "predict",
      "Resource profile of a scenario, or of every sample of a dataset, without simulation\n\n"
      "Example: rehearse predict model scenarios/driple/01-v100-ps1-w2.json\n"
      "Example: rehearse predict model resnet50 --scenario scenarios/driple/01-v100-ps1-w2.json",
      add_options, run);
}

}  // namespace rehearse
