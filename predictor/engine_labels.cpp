#include "predictor/engine_labels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "predictor/labels.hpp"
#include "predictor/measured_studies.hpp"
#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

constexpr double kMostGpusPerWorker = 1024;

}  // namespace

Json rest_of_workload(const Json& workload) {
  Json rest = Json::object();
  for (const char* key : {"framework", "copies_input"})
    if (workload.contains(key)) rest[key] = workload[key];
  return rest;
}

int batch_of_group(int group_batch, int own_batch, int batch) {
  return static_cast<int>(std::max(1.0, std::round(static_cast<double>(group_batch) / own_batch * batch)));
}

Json graph_provenance(const Scenario& scenario, const Json& model) {
  return {{"model", model},
          {"batch_per_worker", scenario.workload_of(scenario.first_workers()).batch},
          {"optimizer", to_text(scenario.optimizer)},
          {"precision", to_text(scenario.precision)}};
}

Json with_workload(Json setting, const Json& workload, int gpus_per_worker) {
  Json own = setting.value("workload", Json::object());
  const int batch = workload["batch_per_worker"].get<int>() * gpus_per_worker;
  if (own.contains("batch_per_worker"))
    for (Json& group : setting["cluster"]["groups"])
      if (group.contains("batch_per_worker"))
        group["batch_per_worker"] =
            batch_of_group(group["batch_per_worker"].get<int>(), own["batch_per_worker"].get<int>(), batch);
  own.update(workload);
  own["batch_per_worker"] = batch;
  setting["workload"] = std::move(own);
  return setting;
}

namespace {

/// Of the first group of workers of a resolved scenario; 0 if it cannot be one.
int gpus_per_worker(const Json& scenario) {
  const Json none;
  const auto value = [&](const Json& object, const char* key) -> const Json& {
    return object.is_object() && object.contains(key) ? object[key] : none;
  };
  const Json& groups = value(value(scenario, "cluster"), "groups");
  if (!groups.is_array()) return 0;
  for (const Json& group : groups) {
    if (value(group, "role") != "worker") continue;
    const Json &gpus = value(value(group, "instance"), "accelerators"), &workers = value(group, "workers_per_machine");
    if (!workers.is_number_integer() || workers.get<int>() < 1) return 1;
    return gpus.is_number_integer() ? gpus.get<int>() / workers.get<int>() : 1;
  }
  return 0;
}

}  // namespace

std::optional<Json> scenario_of(const Dataset& dataset, const Sample& sample) {
  const Json graph = parse_json(dataset.graphs[static_cast<std::size_t>(sample.graph)].provenance, "graph");
  if (!graph.contains("model")) return {};
  const DatasetSetting& setting = dataset.settings[static_cast<std::size_t>(sample.setting)];
  Json scenario = parse_json(setting.provenance, "setting");
  const int gpus = gpus_per_worker(scenario);
  if (gpus < 1 || gpus > kMostGpusPerWorker) return {};
  return with_workload(std::move(scenario), graph, gpus);
}

namespace {

/// simulate_labels() of a scenario, unless `finished` has them.
std::vector<double> labels_of(const Scenario& scenario, ResultStore* finished, const std::string& program) {
  if (finished == nullptr) return simulate_labels(scenario);
  const RunKey key = run_key(to_json_text(*scenario.effective), program);
  const auto known = finished->find(key);
  if (known && !known->error.empty()) throw NoResultError{known->error};
  StoredRun run{.name = scenario.name};
  std::vector<double> labels;
  if (known) {
    for (const Json& label : parse_json(known->summary, "labels"))
      labels.push_back(label.is_null() ? std::numeric_limits<double>::quiet_NaN() : label.get<double>());
    if (labels.size() == label_names().size()) return labels;
  }
  try {
    labels = simulate_labels(scenario);
    run.summary = Json(labels).dump();
  } catch (const NoResultError& error) { run.error = error.what(); }
  finished->put(key, run);
  if (!run.error.empty()) throw NoResultError{run.error};
  return labels;
}

}  // namespace

Questions questions_of(const Scenario& scenario) {
  std::map<std::string, int> gpus;
  int count = 0;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker && group.accelerator) {
      gpus[group.accelerator->name] += group.workers() * group.gpus_per_worker;
      count += group.workers() * group.gpus_per_worker;
    }
  const std::string any = scenario.model.name + " on " + std::to_string(count);
  std::string kinds = any + ", " + to_text(scenario.precision) + " " + scenario.framework;
  for (const auto& [gpu, of_kind] : gpus) kinds += ", " + std::to_string(of_kind) + " x " + gpu;
  return {any, kinds, kinds + ", " + std::to_string(std::lround(samples_per_step(scenario))) + " samples"};
}

EngineLabels engine_labels(const Dataset& dataset, std::span<const std::size_t> samples, const Catalog& catalog,
                           const std::function<void(std::size_t done, std::size_t total)>& on_progress,
                           ResultStore* finished, const std::string& program) {
  const std::vector<double> unknown(dataset.labels.size(), std::numeric_limits<double>::quiet_NaN());
  EngineLabels found;
  if (dataset.labels != label_names()) {
    found.labels.assign(samples.size(), unknown);
    found.traits.resize(samples.size());
    found.samples_per_step.resize(samples.size());
    found.questions.resize(samples.size());
    found.without_scenario = samples.size();
    return found;
  }
  struct Known {
    std::vector<double> labels;
    JobTraits traits;
    double samples_per_step = 0;
    Questions questions;
  };
  std::map<std::pair<std::int32_t, std::int32_t>, Known> known;
  for (const std::size_t s : samples) {
    on_progress(found.labels.size(), samples.size());
    const Sample& sample = dataset.samples[s];
    const auto [at, is_new] = known.try_emplace({sample.graph, sample.setting}, Known{.labels = unknown});
    if (is_new) {
      try {
        if (const auto json = scenario_of(dataset, sample)) {
          const Scenario scenario = read_scenario(*json, "sample " + std::to_string(s), catalog);
          at->second.traits = traits_of(scenario, dataset.settings[static_cast<std::size_t>(sample.setting)].group);
          at->second.samples_per_step = samples_per_step(scenario);
          at->second.questions = questions_of(scenario);
          at->second.labels = labels_of(scenario, finished, program);
        } else {
          ++found.without_scenario;
        }
      } catch (const InputError& error) {
        ++found.without_result;
        found.last_failure = error.what();
      } catch (const NoResultError& error) {
        ++found.without_result;
        found.last_failure = error.what();
      }
    }
    found.labels.push_back(at->second.labels);
    found.traits.push_back(at->second.traits);
    found.samples_per_step.push_back(at->second.samples_per_step);
    found.questions.push_back(at->second.questions);
  }
  on_progress(samples.size(), samples.size());
  return found;
}

}  // namespace rehearse
