#include "sim/app/predictor_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "predictor/described_step.hpp"
#include "predictor/driple/measured_dataset.hpp"
#include "predictor/driple_export.hpp"
#include "predictor/engine_labels.hpp"
#include "predictor/grouped_graphs.hpp"
#include "predictor/labels.hpp"
#include "sim/app/setup.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json.hpp"
#include "workloads/importers/importer.hpp"

namespace rehearse {
namespace {

namespace fs = std::filesystem;

DatasetSetting setting_of(const Scenario& scenario) {
  Json setting = *scenario.effective;
  setting["workload"] = rest_of_workload(setting["workload"]);
  return {.name = scenario.name, .group = scenario.name, .provenance = setting.dump()};
}

Dataset dataset_of(DatasetGraph graph, const Scenario& scenario, bool is_grouped, std::vector<float> step = {}) {
  Dataset dataset;
  dataset.node_features = is_grouped ? group_feature_names() : node_feature_names();
  dataset.labels = label_names();
  dataset.settings.push_back(setting_of(scenario));
  dataset.graphs.push_back(std::move(graph));
  dataset.samples.push_back(
      {.labels = std::vector<double>(dataset.labels.size(), std::nan("")), .step = std::move(step)});
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

bool is_torch_file(const fs::path& file) {
  const FormatReader* reader = find_format(Source{file});
  return reader != nullptr && reader->format == SourceFormat::kTorchFile;
}

bool is_graph_def(const fs::path& file) { return file.extension() == ".pb" || file.extension() == ".pbtxt"; }

Dataset dataset_of(const Scenario& scenario) {
  const Json& workload = scenario.effective->at("workload");
  return dataset_of({.family = "scenario",
                     .name = scenario.workload.name,
                     .provenance = graph_provenance(scenario, workload.at("model")).dump(),
                     .features = node_features_of(scenario),
                     .edges = edges_of(scenario.workload)},
                    scenario, false,
                    changes_by_chance(scenario).empty() ? numbers_of(describe_step(scenario)) : std::vector<float>{});
}

Dataset load_driple_file(const fs::path& file, const std::string& name, const std::optional<Scenario>& scenario) {
  const DripleDataset driple = load_driple_dataset(file);
  const DripleSource source{.file_name = file.string(), .name = name};
  if (!scenario) return dataset_of(driple, source);
  Dataset dataset = dataset_of(driple, source);
  dataset.settings.front() = setting_of(*scenario);
  return dataset;
}

namespace {

/// Graphs of groups, none of which is labelled.
PredictionInput input_of(std::vector<NamedGroups> graphs, const std::optional<Scenario>& scenario) {
  PredictionInput input{.dataset = dataset_of(DripleDataset{}, DripleSource{.file_name = "", .name = "not given"}),
                        .is_many = true,
                        .outputs = {}};
  if (scenario) input.dataset.settings.front() = setting_of(*scenario);
  for (NamedGroups& named : graphs) {
    DatasetGraph graph = to_dataset_graph(named.groups);
    graph.name = std::move(named.name);
    graph.provenance = "{}";
    input.dataset.samples.push_back({.graph = static_cast<std::int32_t>(input.dataset.graphs.size()),
                                     .labels = std::vector<double>(input.dataset.labels.size(), kUnknown)});
    input.dataset.graphs.push_back(std::move(graph));
    input.outputs.push_back(std::move(named.outputs));
  }
  return input;
}

/// The graphs of a file of groups; none: it is another one.
std::optional<std::vector<NamedGroups>> grouped_graphs_in(const fs::path& file) {
  if (!fs::exists(file) || fs::is_directory(file) || is_graph_def(file) || !Source{file}.is_json()) return {};
  const Json json = load_json_file(file);
  if (!is_grouped_graphs(json)) return {};
  return read_grouped_graphs(json, file.string());
}

}  // namespace

PredictionInput load_prediction_input(const PredictCommand& command, bool is_for_network,
                                      const std::optional<TypeFrequencies>& frequencies) {
  const auto described = [&](Scenario scenario, const fs::path& file) {
    if (is_for_network) require_regular(scenario, file.string());
    return scenario;
  };
  const auto refuse_overrides = [&] {
    if (!command.scenario && !command.overrides.empty())
      throw InputError{"--set: expected a scenario whose values it changes; found " + command.input.string()};
  };
  const bool is_file = fs::exists(command.input);
  if (!command.scenario && is_file && is_dataset(command.input)) {
    refuse_overrides();
    return {.dataset = load_dataset(command.input), .is_many = true, .outputs = {}};
  }
  const Catalog catalog = load_catalog(command.common);
  JsonOrigins origins;
  if (is_file && is_dataset(command.input))
    throw InputError{"--scenario: expected a model file or a GraphDef beside it; found a dataset"};
  Json json;
  std::optional<Scenario> scenario;  // of --scenario
  const auto load_cluster = [&] {
    refuse_overrides();
    if (!command.scenario) return;
    json = load_scenario_json(*command.scenario, command.overrides, catalog, origins);
    scenario = described(read_scenario(json, command.scenario->string(), catalog, origins), *command.scenario);
  };
  if (is_file && is_torch_file(command.input)) {
    load_cluster();
    return {.dataset = load_driple_file(command.input, command.input.stem().string(), scenario),
            .is_many = true,
            .outputs = {}};
  }
  if (auto graphs = grouped_graphs_in(command.input)) {
    load_cluster();
    return input_of(std::move(*graphs), scenario);
  }
  const auto alone = [](Dataset dataset) {
    return PredictionInput{.dataset = std::move(dataset), .is_many = false, .outputs = {}};
  };
  if (!command.scenario) {
    if (is_graph_def(command.input))
      throw InputError{command.input.string() + ": a GraphDef tells of no cluster: expected --scenario beside it"};
    json = load_scenario_json(command.input, command.overrides, catalog, origins);
    if (json.is_object() && json.contains("structure") && !json.contains("cluster"))
      throw InputError{command.input.string() + ": a model file tells of no cluster: expected --scenario beside it"};
    return alone(dataset_of(described(read_scenario(json, command.input.string(), catalog, origins), command.input)));
  }
  if (!is_graph_def(command.input)) {
    json = load_scenario_json(*command.scenario, command.overrides, catalog, origins);
    set_model(json, command.input, catalog);
    return alone(
        dataset_of(described(read_scenario(json, command.scenario->string(), catalog, origins), *command.scenario)));
  }
  load_cluster();
  scenario->profile.step_times.clear();  // of the scenario's own model
  return alone(dataset_of(load_graph_def_graph(command.input, frequencies), *scenario, frequencies.has_value()));
}

}  // namespace rehearse
