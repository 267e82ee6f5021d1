#include "sim/app/predictor_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "predictor/driple/measured_dataset.hpp"
#include "predictor/driple_export.hpp"
#include "predictor/engine_labels.hpp"
#include "predictor/labels.hpp"
#include "predictor/undescribed.hpp"
#include "sim/app/program.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json.hpp"
#include "workloads/importers/importer.hpp"

namespace rehearse {
namespace {

namespace fs = std::filesystem;

Dataset dataset_of(DatasetGraph graph, const Scenario& scenario, bool is_grouped) {
  Dataset dataset;
  dataset.node_features = is_grouped ? group_feature_names() : node_feature_names();
  dataset.descriptors = descriptor_names();
  dataset.labels = label_names();
  Json setting = parse_json(scenario.effective, scenario.file_name);
  setting["workload"] = rest_of_workload(setting["workload"]);
  dataset.settings.push_back({.name = scenario.name,
                              .group = scenario.name,
                              .provenance = setting.dump(),
                              .descriptor = descriptor_of(scenario)});
  dataset.graphs.push_back(std::move(graph));
  dataset.samples.push_back({.labels = std::vector<double>(dataset.labels.size(), std::nan(""))});
  return dataset;
}

/// The workload of `json`, a scenario, becomes the model that `file` describes, or the catalog's of this name.
void set_model(Json& json, const fs::path& file, const Catalog& catalog) {
  if (!fs::exists(file)) {
    const std::vector<std::string> known = catalog.model_names();
    if (std::find(known.begin(), known.end(), file.string()) == known.end())
      throw InputError{file.string() +
                       ": no such file, and no model of the catalog (rehearse list models): expected a name, a model "
                       "file, GraphDef, ONNX model, PyTorch graph or HuggingFace config.json"};
    json["workload"]["model"] = file.string();
    return;
  }
  Json model = import_model(file).model_file;
  const JsonReader reader{model, file.string()};
  if (!model.contains("name")) model["name"] = file.stem().string();
  (void)read_model(file.stem().string(), reader);  // so that its mistakes name its file
  json["workload"]["model"] = std::move(model);
}

}  // namespace

bool is_dataset(const fs::path& file) { return read_file_start(file, 16) == std::string{"SQLite format 3\0", 16}; }

bool is_graph_def(const fs::path& file) { return file.extension() == ".pb" || file.extension() == ".pbtxt"; }

Dataset dataset_of(const Scenario& scenario) {
  const Json workload = parse_json(scenario.effective, scenario.file_name).at("workload");
  return dataset_of({.family = "scenario",
                     .name = scenario.workload.name,
                     .provenance = graph_provenance(scenario, workload.at("model")).dump(),
                     .features = node_features_of(scenario),
                     .edges = edges_of(scenario.workload)},
                    scenario, false);
}

Dataset load_prediction_input(const PredictCommand& command, bool is_for_network,
                              const std::optional<TypeFrequencies>& frequencies, std::vector<std::string>& warnings) {
  const auto described = [&](Scenario scenario, const fs::path& file) {
    if (is_for_network) require_described(scenario, file.string());
    return scenario;
  };
  if (!command.scenario && is_dataset(command.input)) return load_dataset(command.input);
  const Catalog catalog = load_catalog(command.common);
  JsonOrigins origins;
  if (!command.scenario) {
    if (is_graph_def(command.input))
      throw InputError{command.input.string() + ": a GraphDef tells of no cluster: expected --scenario beside it"};
    const Json json = load_scenario_json(command.input, command.overrides, catalog, origins);
    if (json.is_object() && json.contains("structure") && !json.contains("cluster"))
      throw InputError{command.input.string() + ": a model file tells of no cluster: expected --scenario beside it"};
    return dataset_of(described(read_scenario(json, command.input.string(), catalog, origins), command.input));
  }
  if (fs::exists(command.input) && is_dataset(command.input))
    throw InputError{"--scenario: expected a model file or a GraphDef beside it; found a dataset"};
  Json json = load_scenario_json(*command.scenario, command.overrides, catalog, origins);
  if (!is_graph_def(command.input)) {
    set_model(json, command.input, catalog);
    return dataset_of(described(read_scenario(json, command.scenario->string(), catalog, origins), *command.scenario));
  }
  Scenario scenario = described(read_scenario(json, command.scenario->string(), catalog, origins), *command.scenario);
  scenario.profile.step_times.clear();  // of the scenario's own model
  return dataset_of(load_graph_def_graph(command.input, scenario.batch, frequencies, warnings), scenario,
                    frequencies.has_value());
}

void print_warnings(const std::vector<std::string>& warnings, bool is_quiet) {
  for (const std::string& warning : warnings)
    if (!is_quiet) std::fprintf(stderr, "warning: %s\n", warning.c_str());
}

void add_choice(Options options, SampleChoice& choice, std::string& origin) {
  options.add_repeatable("--setting", choice.settings, "NAME",
                         "Only samples of this setting, or group of settings; repeatable");
  options.add_repeatable("--leave-out-setting", choice.left_out_settings, "NAME",
                         "No samples of this setting, or group of settings; repeatable");
  options.add_repeatable("--leave-out-family", choice.left_out_families, "NAME",
                         "No samples of this family; repeatable");
  options.add_option("--family", choice.family, "NAME", "Only samples of this family");
  options.add_option("--origin", origin, "WORD", "Only samples that are simulated, or measured (default: both)")
      .check(is_one_of({"simulated", "measured", "both"}));
}

void set_origin(SampleChoice& choice, const std::string& origin) {
  if (origin == "simulated") choice.origin = Origin::kSimulated;
  if (origin == "measured") choice.origin = Origin::kMeasured;
}

}  // namespace rehearse
