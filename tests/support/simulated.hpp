#pragma once
// Simulations for tests: each in a process of its own, since SimGrid keeps one clock per process.

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/json.hpp"
#include "sim/job/simulate.hpp"
#include "sim/record/run_record.hpp"
#include "sim/record/summary.hpp"
#include "tests/support/isolated.hpp"
#include "tests/support/paths.hpp"

namespace rehearse::test {

/// Read once: it takes longer than a short simulation.
inline const Catalog& shipped_catalog() {
  static const std::string root = source_folder();
  static const Catalog catalog{
      {{root + "/platforms/catalog", root + "/workloads/models", root + "/calibration/profiles"}}};
  return catalog;
}

/// Before the first child, which then has it too.
inline const bool kHasReadCatalog = !shipped_catalog().accelerator_names().empty();

/// Runs `job` in a child and parses the JSON that it returns; an exception there becomes {"error": message}.
inline Json in_child(const std::function<Json()>& job) {
  const PooledRun result = run_isolated(1, 1, [&](std::size_t) { return job().dump(); }).front();
  return result.has_succeeded ? Json::parse(result.text) : Json{{"error", result.text}};
}

/// scenarios/cm-dare.json with changes: {{"/cluster/groups/1/count", "8"}, ...}.
inline Json shipped_scenario(const std::vector<std::pair<std::string, std::string>>& changes = {}) {
  Json json = load_json_file(source_folder() + "/scenarios/cm-dare.json");
  for (const auto& [pointer, value] : changes) set_json_pointer(json, pointer, value);
  return json;
}

inline Scenario resolved(const Json& json) {
  return read_scenario(json, source_folder() + "/scenarios/test.json", shipped_catalog());
}

/// Whether a warning of the scenario has the text.
inline bool warns_of(const Scenario& scenario, const std::string& text) {
  return std::any_of(scenario.warnings.begin(), scenario.warnings.end(),
                     [&](const std::string& warning) { return warning.find(text) != std::string::npos; });
}

/// What is wrong with a scenario, from the place on: "/training/steps: ..."; empty if nothing is.
inline std::string problem_of(const Json& json) {
  try {
    (void)resolved(json);
  } catch (const InputError& error) {
    const std::string message = error.what();
    return message.substr(message.find(": /") + 2);
  }
  return {};
}

/// summary.json of a scenario after `prepare` has changed the resolved one.
inline Json simulated(const Json& json, const std::function<void(Scenario&)>& prepare = {},
                      bool keeps_activity = false) {
  return in_child([&] {
    Scenario scenario = resolved(json);
    if (prepare) prepare(scenario);
    const RunRecord record = simulate(scenario, {.keeps_activity = keeps_activity, .on_update = {}});
    Json summary = to_json(scenario, summarize(scenario, record));
    summary["sent_B"] = record.sent.value();
    summary["received_B"] = record.received.value();
    return summary;
  });
}

inline double steps_per_s(const std::vector<std::pair<std::string, std::string>>& changes,
                          const std::function<void(Scenario&)>& prepare = {}) {
  const Json summary = simulated(shipped_scenario(changes), prepare);
  if (summary.contains("error")) throw std::runtime_error{summary["error"].get<std::string>()};
  return summary["steps_per_s"].get<double>();
}

}  // namespace rehearse::test
