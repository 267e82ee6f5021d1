#include "predictor/engine_labels.hpp"

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "predictor/labels.hpp"
#include "sim/base/errors.hpp"

namespace rehearse {

Json rest_of_workload(const Json& workload) {
  Json rest = Json::object();
  for (const char* key : {"framework", "copies_input"})
    if (workload.contains(key)) rest[key] = workload[key];
  return rest;
}

std::optional<Json> scenario_of(const Dataset& dataset, const Sample& sample) {
  const Json graph = parse_json(dataset.graphs[static_cast<std::size_t>(sample.graph)].provenance, "graph");
  if (!graph.contains("model")) return {};
  Json scenario = parse_json(dataset.settings[static_cast<std::size_t>(sample.setting)].provenance, "setting");
  Json workload = scenario.value("workload", Json::object());
  workload.update(graph);
  scenario["workload"] = std::move(workload);
  return scenario;
}

EngineLabels engine_labels(const Dataset& dataset, std::span<const std::size_t> samples, const Catalog& catalog,
                           const std::function<void(std::size_t done, std::size_t total)>& on_progress) {
  const std::vector<double> unknown(dataset.labels.size(), std::numeric_limits<double>::quiet_NaN());
  EngineLabels found;
  if (dataset.labels != label_names()) {
    found.labels.assign(samples.size(), unknown);
    found.without_scenario = samples.size();
    return found;
  }
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<double>> known;
  for (const std::size_t s : samples) {
    on_progress(found.labels.size(), samples.size());
    const Sample& sample = dataset.samples[s];
    const auto [at, is_new] = known.try_emplace({sample.graph, sample.setting}, unknown);
    if (is_new) {
      try {
        if (const auto scenario = scenario_of(dataset, sample))
          at->second = simulate_labels(read_scenario(*scenario, "sample " + std::to_string(s), catalog));
        else
          ++found.without_scenario;
      } catch (const InputError& error) {
        ++found.without_result;
        found.last_failure = error.what();
      } catch (const NoResultError& error) {
        ++found.without_result;
        found.last_failure = error.what();
      }
    }
    found.labels.push_back(at->second);
  }
  on_progress(samples.size(), samples.size());
  return found;
}

}  // namespace rehearse
