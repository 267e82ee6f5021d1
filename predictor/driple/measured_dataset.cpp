#include "predictor/driple/measured_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "predictor/described_step.hpp"
#include "predictor/driple/driple_jobs.hpp"
#include "predictor/driple_export.hpp"
#include "predictor/engine_labels.hpp"
#include "predictor/labels.hpp"
#include "predictor/measured_series.hpp"
#include "predictor/merge.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"

namespace rehearse {
namespace {

namespace fs = std::filesystem;

constexpr double kSamePeriod = 0.01;  // relative difference of sampling periods that does not matter

Scenario load_scenario_of(const MeasuredScenario& where, const Catalog& catalog) {
  Json json = load_json_file(where.file);
  JsonOrigins origins;
  for (std::size_t i = 0; i < where.overrides.size(); ++i) {
    const std::string& text = where.overrides[i];
    const std::size_t equals = text.find('=');
    origins.set(json, text.substr(0, equals), text.substr(equals + 1), where.places[i]);
  }
  Scenario scenario = read_scenario(json, where.file.string(), catalog, origins);
  require_regular(scenario, where.file.string());
  return scenario;
}

DatasetSetting setting_of(const MeasuredScenario& where, const Scenario& scenario, std::optional<Seconds> period) {
  const Seconds own = scenario.output.sampling_period;
  Json provenance = *scenario.effective;
  provenance["workload"] = rest_of_workload(provenance["workload"]);
  if (period && std::abs(*period / own - 1) > kSamePeriod) {
    provenance["output"]["sampling_period"] = Json(period->value()).dump() + "s";
  }
  const std::string name = where.name.empty() ? scenario.name : where.name;
  const std::string& group = where.study.empty() ? name : where.study;
  return {.name = name, .group = group, .provenance = provenance.dump()};
}

DatasetGraph graph_of(const Scenario& scenario) {
  const Json& effective = *scenario.effective;
  const Json provenance = graph_provenance(scenario, effective["workload"]["model"]);
  return {.family = {},
          .name = scenario.model.name + " batch " + std::to_string(provenance["batch_per_worker"].get<int>()),
          .provenance = provenance.dump(),
          .features = node_features_of(scenario),
          .edges = edges_of(scenario.workload)};
}

/// "GPU_DataSet_Model_SyncAsync_HyperParameter_Job" in parts; the name itself if it has others.
std::vector<std::string> parts_of(const std::string& job) {
  std::vector<std::string> parts{""};
  for (const char letter : job)
    if (letter == '_')
      parts.emplace_back();
    else
      parts.back() += letter;
  return parts.size() == 6 ? parts : std::vector<std::string>{job};
}

class Builder {
 public:
  Builder(const MeasurementList& list, const Catalog& catalog, const std::optional<TypeFrequencies>& frequencies)
      : list_{list}, catalog_{catalog}, frequencies_{frequencies} {}

  MeasuredDataset build() {
    for (const MeasuredRun& run : list_.runs) add(run);
    for (const MeasuredJobs& jobs : list_.jobs) add(jobs);
    if (merged_.dataset().samples.empty())
      throw InputError{list_.file_name + ": expected a job with labels; found none"};
    MeasuredDataset made{.dataset = merged_.take()};
    std::vector<std::string> models;
    for (const DatasetGraph& graph : made.dataset.graphs) models.push_back(models_.at(graph.name));
    deal_splits(made.dataset, models);
    for (Sample& sample : made.dataset.samples)
      if (const auto told = told_.find(models[static_cast<std::size_t>(sample.graph)]); told != told_.end())
        sample.split = told->second;
    made.dataset.provenance = Json{{"source", list_.source}}.dump();
    return made;
  }

 private:
  void add(const MeasuredRun& run) {
    Scenario scenario = load_scenario_of(run.where, catalog_);
    if (run.graph) scenario.profile.step_times.clear();  // of the scenario's own model
    DatasetGraph graph;
    if (run.graph) {
      graph = load_graph_def_graph(*run.graph, frequencies_);
    } else {
      graph = graph_of(scenario);
      if (frequencies_) {
        DatasetGraph groups = to_dataset_graph(group_graph(graph, *frequencies_));
        graph.features = std::move(groups.features);
        graph.edges = std::move(groups.edges);
      }
    }
    graph.family = run.family;
    MeasuredSeries series;
    if (run.series) series = load_measured_series(*run.series);
    models_.emplace(graph.name, model_of(graph.name));
    note_split(run.where, std::string{model_of(graph.name)});
    const std::optional<Seconds> period = run.series ? std::optional{series.period} : std::nullopt;
    const DatasetSetting setting = setting_of(run.where, scenario, period);
    std::vector<float> step;
    if (period) scenario.output.sampling_period = *period;
    if (!run.graph) step = numbers_of(describe_step(scenario));
    add(std::move(graph), setting,
        {.weight = run.weight, .labels = labels_of(series, run.step_time), .step = std::move(step)});
  }

  void add(const MeasuredJobs& jobs) {
    Scenario scenario = load_scenario_of(jobs.where, catalog_);
    scenario.profile.step_times.clear();  // of the scenario's own model
    const DatasetSetting setting = setting_of(jobs.where, scenario, std::nullopt);
    const auto labels_of_jobs = load_job_labels(jobs.results);
    std::map<std::string, fs::path> files;  // by job
    std::error_code failed;
    fs::directory_iterator folder{jobs.graphs, failed};
    if (failed) throw InputError{jobs.graphs.string() + ": " + failed.message()};
    for (const auto& entry : folder) {
      const std::string extension = entry.path().extension().string(), job = entry.path().stem().string();
      if ((extension == ".pbtxt" || extension == ".pb") && labels_of_jobs.contains(job))
        files.emplace(job, entry.path());
    }
    if (files.empty())
      throw InputError{jobs.graphs.string() + ": has no graph (NAME.pbtxt or NAME.pb) of a job in " +
                       jobs.results.string()};
    for (const auto& [job, file] : files) {
      DatasetGraph graph = load_graph_def_graph(file, frequencies_);
      const std::vector<std::string> parts = parts_of(job);
      graph.family = parts.size() == 6 ? parts[2] : "measured";
      const std::string model = parts.size() == 6 ? parts[1] + "_" + parts[2] + "_" + parts[4] : job;
      std::vector<double> labels(label_names().size(), std::numeric_limits<double>::quiet_NaN());
      const auto& known = labels_of_jobs.at(job);
      if (std::ranges::any_of(known, [](float label) { return label < 0; }))
        throw InputError{jobs.results.string() + ": job " + job + ": expected numbers of at least 0"};
      std::copy(known.begin(), known.end(), labels.begin());
      models_.emplace(graph.name, model);
      note_split(jobs.where, model);
      add(std::move(graph), setting, {.weight = jobs.weight, .labels = std::move(labels)});
    }
  }

  void note_split(const MeasuredScenario& where, const std::string& model) {
    if (!where.split) return;
    if (const Split told = told_.emplace(model, *where.split).first->second; told != *where.split)
      throw InputError{list_.file_name + ": the model " + in_quotes(model) + " is told to be in two splits, " +
                       in_quotes(to_text(told)) + " and " + in_quotes(to_text(*where.split))};
  }

  void add(DatasetGraph graph, DatasetSetting setting, Sample sample) {
    sample.origin = Origin::kMeasured;
    merged_.add({.provenance = "{}",
                 .node_features = frequencies_ ? group_feature_names() : node_feature_names(),
                 .labels = label_names(),
                 .settings = {std::move(setting)},
                 .graphs = {std::move(graph)},
                 .samples = {std::move(sample)}});
  }

  const MeasurementList& list_;
  const Catalog& catalog_;
  const std::optional<TypeFrequencies>& frequencies_;
  MergedDataset merged_;
  std::map<std::string, std::string> models_;  // by name of a graph
  std::map<std::string, Split> told_;          // by model
};

}  // namespace

DatasetGraph load_graph_def_graph(const fs::path& file, const std::optional<TypeFrequencies>& frequencies) {
  const std::vector<GraphDefNode> nodes = load_graph_def(file);
  if (!frequencies)
    throw InputError{file.string() +
                     ": a GraphDef does not say what the kernels of a step cost: only networks of groups of operators "
                     "take it (gcn, gin, gat, mpnn; import --grouped)"};
  DatasetGraph graph = to_dataset_graph(group_gpu_operators(nodes, *frequencies, file.string()));
  graph.family = "graph";
  graph.name = file.stem().string();
  graph.provenance = Json{{"graph_def", file.filename().string()}}.dump();
  return graph;
}

MeasuredDataset measured_dataset_of(const MeasurementList& list, const Catalog& catalog,
                                    const std::optional<TypeFrequencies>& frequencies) {
  return Builder{list, catalog, frequencies}.build();
}

}  // namespace rehearse
