// rehearse predict MODEL INPUT [--scenario CLUSTER]

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "predictor/driple_export.hpp"
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
  options
      .add_option(
          "INPUT", command.input,
          "Scenario, dataset, or with --scenario a model. Of gcn, gin, gat and mpnn also Driple's data files and "
          "graphs of groups of operators (rehearse schema grouped_graphs)")
      .required();
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
  add_output(options, command.common, "Write prediction.json, predictions.csv and prediction.html here");
  add_wall_time(options, command.common);
}

/// What is told of the predictions of a file, or of one scenario.
struct Told {
  CsvWriter csv{{"graph", "setting", "metric", "predicted", "low", "high", "distance"}};
  Json json = Json::array();
  Table table;
  Table page{
      .header = {"graph", "setting", "metric", "predicted", "5 %", "95 %"}, .rows = {}, .csv = "predictions.csv"};
};

constexpr std::size_t kMostRowsOfPage = 2000;

/// The names of a published network's outputs, which have no units: "gpu_idle" of the label gpu_idle_s.
std::string output_name(const std::string& label) {
  const std::string name = label.substr(0, label.rfind('_'));
  return label.ends_with("_s") || label.ends_with("_Bps") ? name : label;
}

void tell(Told& told, const Dataset& dataset, const Sample& sample, const PredictedMetrics& prediction,
          bool has_units) {
  const std::string& graph = dataset.graphs[static_cast<std::size_t>(sample.graph)].name;
  const std::string& setting = dataset.settings[static_cast<std::size_t>(sample.setting)].name;
  const double distance = prediction.distance > 0 ? prediction.distance : std::nan("");  // 0: not known
  Json metrics = Json::object(), outputs = Json::object();
  const auto add = [&](const std::string& name, const LabelPrediction& label) {
    told.csv.row({graph, setting, name, label.value, or_empty(label.low), or_empty(label.high), or_empty(distance)});
    told.table.rows.push_back(
        {name, display_if_known(label.value), display_if_known(label.low), display_if_known(label.high)});
    if (std::isnan(label.low)) told.table.rows.back().resize(2);
    if (told.page.rows.size() < kMostRowsOfPage)
      told.page.rows.push_back({graph, setting, name, display_if_known(label.value), display_if_known(label.low),
                                display_if_known(label.high)});
  };
  for (std::size_t l = 0; l < prediction.outputs.size(); ++l) {
    outputs[output_name(dataset.labels[l])] = prediction.outputs[l];
    if (!has_units) add(output_name(dataset.labels[l]), {prediction.outputs[l], std::nan(""), std::nan("")});
  }
  for (std::size_t l = 0; l < dataset.labels.size(); ++l) {
    const LabelPrediction& label = prediction.labels[l];
    if (std::isnan(label.value)) continue;
    add(dataset.labels[l], label);
    Json& metric = metrics[dataset.labels[l]] = {{"value", label.value}};
    if (!std::isnan(label.low)) metric.update({{"low", label.low}, {"high", label.high}});
  }
  Json entry{{"graph", graph}, {"setting", setting}};
  if (prediction.distance > 0)
    entry.update({{"distance", prediction.distance}, {"is_out_of_distribution", prediction.distance > 1}});
  entry["metrics"] = std::move(metrics);
  if (!outputs.empty()) entry["outputs"] = std::move(outputs);
  told.json.push_back(std::move(entry));
}

/// The largest difference between a network's outputs and what the file has of another program's, as a part of outputs
/// above 1.
void compare_outputs(const PredictionInput& input, const std::vector<PredictedMetrics>& predictions, Told& told,
                     std::vector<std::string>& notes) {
  double largest = 0;
  std::size_t graphs = 0;
  for (std::size_t i = 0; i < input.outputs.size(); ++i) {
    if (input.outputs[i].empty()) continue;
    double of_graph = 0;
    for (std::size_t l = 0; l < predictions[i].outputs.size(); ++l)
      of_graph = std::max(of_graph, std::abs(predictions[i].outputs[l] - input.outputs[i][l]) /
                                        std::max(1.0, std::abs(input.outputs[i][l])));
    told.json[i]["largest_difference"] = of_graph;
    largest = std::max(largest, of_graph);
    ++graphs;
  }
  if (graphs > 0)
    notes.push_back("outputs of " + std::to_string(graphs) + " graphs differ from those in the file by at most " +
                    Json(largest).dump());
}

/// Of a predictor that sees groups of operators, the frequencies by which it makes them.
std::optional<TypeFrequencies> frequencies_of(AnyPredictor& predictor) {
  if (predictor.network() == nullptr || predictor.network()->type_frequencies() == nullptr) return {};
  return *predictor.network()->type_frequencies();
}

void check_input(const PredictCommand& command, const PredictionInput& input, bool sees_groups) {
  if (input.dataset.node_features == group_feature_names() && !sees_groups)
    throw InputError{command.input.string() + ": has groups of operators, which the predictor " +
                     in_quotes(command.predictor.string()) +
                     " does not see: expected one of gcn, gin, gat, gat-textbook or mpnn"};
  if (command.study && input.is_many)
    throw InputError{"--study: expected a scenario, whose study it is; found a dataset, which says it"};
}

/// Throws InputError where one scenario is asked about of which the predictor knows nothing.
void require_learnt(const PredictCommand& command, const PredictedMetrics& prediction) {
  if (!prediction.unlearned.empty())
    throw InputError{command.input.string() + ": nothing that the predictor was trained on had a " +
                     in_quotes(prediction.unlearned) + " other than 0: simulate it instead"};
  if (prediction.is_other_setting)
    throw InputError{command.input.string() + ": the network does not know this cluster: " + prediction.caution +
                     ": simulate it, or train one on this setting"};
}

Document prediction_document(const PredictCommand& command, const Told& told,
                             const std::vector<PredictedMetrics>& predictions, const std::vector<std::string>& notes,
                             const std::vector<std::string>& warnings) {
  const auto unlike = std::ranges::count_if(predictions, [](const PredictedMetrics& of) { return of.distance > 1; });
  Document document{.title = "Prediction for " + command.input.filename().string(),
                    .subtitle = "predicted by " + command.predictor.filename().string() + ", without simulation",
                    .headlines = {},
                    .sections = {},
                    .verdict = std::to_string(predictions.size()) +
                               (predictions.size() == 1 ? " graph is predicted" : " graphs are predicted") +
                               (unlike == 0 ? "."
                                            : ", " + std::to_string(unlike) +
                                                  " unlike anything that was learnt: simulate those instead.")};
  if (predictions.size() == 1 && predictions[0].distance > 0)
    document.headlines = {{"distance", display(predictions[0].distance), "1 is the edge of what was learnt"}};
  document.sections.push_back({.title = "Metrics", .paragraphs = {}, .tables = {told.page}});
  if (!notes.empty()) document.sections.push_back({.title = "Notes", .paragraphs = notes});
  if (!warnings.empty()) document.sections.push_back({.title = "Warnings", .paragraphs = warnings});
  return document;
}

Answer run(const PredictCommand& command) {
  AnyPredictor predictor{command.predictor};
  const std::optional<TypeFrequencies> frequencies = frequencies_of(predictor);
  const bool has_units = predictor.network() == nullptr || predictor.network()->has_units();
  std::vector<std::string> warnings, notes;
  PredictionInput input = load_prediction_input(command, predictor.network() != nullptr, frequencies);
  check_input(command, input, frequencies.has_value());
  Dataset& dataset = input.dataset;
  if (command.study) dataset.settings.front().group = *command.study;
  std::vector<std::size_t> samples(dataset.samples.size());
  std::iota(samples.begin(), samples.end(), std::size_t{0});
  const auto made = make_folder(command.common.output);
  EngineOnDemand engine{dataset, samples, command.common};
  const auto start = std::chrono::steady_clock::now();
  const std::vector<PredictedMetrics> predictions =
      about(command.input.string(), [&] { return predictor.predict(dataset, samples, engine); });
  const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!input.is_many) require_learnt(command, predictions[0]);
  if (!command.common.is_quiet) say(formatted("%zu predictions in %.3g s", predictions.size(), spent));
  Told told{
      .table = {.header = {"metric", has_units ? "predicted" : "share of the largest", "5 %", "95 %"}, .rows = {}}};
  for (std::size_t i = 0; i < samples.size(); ++i) tell(told, dataset, dataset.samples[i], predictions[i], has_units);
  if (std::ranges::all_of(told.table.rows, [](const auto& row) { return row.size() == 2; }))
    told.table.header.resize(2);
  compare_outputs(input, predictions, told, notes);
  const std::string text = to_json_text(input.is_many ? told.json : told.json[0]);
  add_cautions(command.predictor.string(), predictions, warnings);
  if (!has_units)
    warnings.emplace_back("shares of the largest labels of what the network was taught, which its file does not have");
  if (!input.is_many && predictions[0].distance > 1)
    warnings.push_back("unlike anything that the predictor was trained on (distance " +
                       display(predictions[0].distance) + ", 1 is the edge; most by " +
                       in_quotes(predictions[0].farthest) + ")");
  if (!input.is_many && predictor.network() != nullptr && !predictions[0].reaches.empty())
    notes.emplace_back(
        "5 % and 95 % are of labels as it has learnt them, which simulations gave as a rule: how far those may be from "
        "what is measured says the interval of `rehearse simulate`");
  print_warnings(warnings, command.common.is_quiet);
  for (const std::string& note : notes)
    if (!command.common.is_quiet) say(note);
  if (command.common.output) {
    OutputFolder files{*command.common.output};
    files.write("predictions.csv", told.csv.text());
    files.write("prediction.json", text);
    files.write("prediction.html", render_html(prediction_document(command, told, predictions, notes, warnings)));
    files.commit();
    say_written(command.common, *command.common.output, files.names());
  }
  if (input.is_many) return {.json = text, .parts = {told.csv.text()}};
  return {
      .json = text,
      .parts = {told.json[0]["graph"].get<std::string>() + " in " + told.json[0]["setting"].get<std::string>() + "\n\n",
                told.table}};
}

}  // namespace

CommandVerb predict_verb() {
  return make_verb<PredictCommand>(
      "predict",
      "Resource profile of a scenario, or of every sample of a dataset, without simulation\n\n"
      "Example: rehearse predict model scenarios/driple/01-v100-ps1-w2.json\n"
      "Example: rehearse predict model resnet50 --scenario scenarios/driple/01-v100-ps1-w2.json\n"
      "Example: rehearse predict pretrained graphs.json",
      add_options, run);
}

}  // namespace rehearse
