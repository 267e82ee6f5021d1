#include "calibration/detail/row_simulator.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "calibration/metric.hpp"
#include "platforms/profile.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/engine/isolated.hpp"

namespace rehearse {

std::string used_profile(const Scenario& scenario, Json profile) {
  for (const char* description : {"name", "source", "fit"}) profile.erase(description);
  Json efficiencies = Json::object();
  const Json& all = profile.at("gpu").at("peak_efficiency");
  for (const Group& group : scenario.groups)
    if (group.accelerator && all.contains(group.accelerator->name))
      efficiencies[group.accelerator->name] = all.at(group.accelerator->name);
  profile["gpu"]["peak_efficiency"] = std::move(efficiencies);
  if (profile.contains("step_times"))
    std::erase_if(profile["step_times"].get_ref<Json::array_t&>(),
                  [&](const Json& step) { return step.at("model") != scenario.model.name; });
  if (profile.contains("collectives") && profile["collectives"].contains("by_interconnect")) {
    Json& by_interconnect = profile["collectives"]["by_interconnect"];
    Json used = Json::object();
    for (const Group& group : scenario.groups)
      if (by_interconnect.contains(group.interconnect.name))
        used[group.interconnect.name] = by_interconnect.at(group.interconnect.name);
    by_interconnect = std::move(used);
  }
  if (scenario.count(Role::kParameterServer) == 0) profile.erase("servers");
  return profile.dump();
}

RowSimulator::RowSimulator(const std::vector<Study>& studies, const Catalog& catalog, int parallel,
                           std::function<void(std::size_t, std::size_t)> on_simulated)
    : studies_{studies}, parallel_{parallel}, on_simulated_{std::move(on_simulated)} {
  std::map<std::pair<std::string, std::string>, std::size_t> known;  // scenario and metric
  for (std::size_t s = 0; s < studies.size(); ++s)
    for (std::size_t r = 0; r < studies[s].rows.size(); ++r) {
      const StudyRow& row = studies[s].rows[r];
      if (!row.problem.empty())
        throw InputError{studies[s].measurements_file + ":" + std::to_string(row.row.line()) + ": " + row.problem};
      rows_.push_back({s, r});
      const auto [entry, is_new] = known.try_emplace({row.scenario, studies[s].metric}, scenarios_.size());
      scenario_of_.push_back(entry->second);
      if (!is_new) continue;
      const Json json = parse_json(row.scenario, studies[s].scenario_file);
      scenarios_.push_back({read_scenario(json, studies[s].scenario_file, catalog), studies[s].metric});
    }
}

std::vector<std::vector<double>> RowSimulator::simulate(const std::vector<Json>& profiles,
                                                        const std::vector<std::vector<std::size_t>>& rows) {
  struct Job {
    std::size_t row, profile;
    Key key;
  };
  std::vector<Profile> read;
  std::vector<std::vector<Key>> keys(profiles.size());  // [profiles][rows[profile]]
  std::map<Key, Job> wanted;
  for (std::size_t p = 0; p < profiles.size(); ++p) {
    read.push_back(read_profile(JsonReader{profiles[p], "fitted profile"}));
    for (const std::size_t row : rows[p]) {
      keys[p].emplace_back(scenario_of_[row], used_profile(scenario(row), profiles[p]));
      if (!known_.contains(keys[p].back())) wanted.try_emplace(keys[p].back(), Job{row, p, keys[p].back()});
    }
  }
  std::vector<Job> jobs;
  for (const auto& [key, job] : wanted) jobs.push_back(job);
  std::size_t done = 0;
  for_each_isolated(
      jobs.size(), parallel_,
      [&](std::size_t i) {
        Prepared& prepared = scenarios_[jobs[i].key.first];  // the child's own copy
        prepared.scenario.profile = read[jobs[i].profile];
        return to_text(simulated_metric(prepared.scenario, prepared.metric));
      },
      [&](std::size_t i, const IsolatedResult& result) {
        const Row& row = rows_[jobs[i].row];
        const double value = result.has_succeeded ? std::strtod(result.text.c_str(), nullptr) : 0;
        if (!(value > 0))
          throw InputError{
              studies_[row.study].measurements_file + ":" +
              std::to_string(studies_[row.study].rows[row.row].row.line()) + ": cannot be simulated: " +
              (result.has_succeeded ? "its " + studies_[row.study].metric + " is " + result.text : result.text)};
        known_[jobs[i].key] = value;
        ++simulations_;
        if (on_simulated_) on_simulated_(++done, jobs.size());
      });
  std::vector<std::vector<double>> values(profiles.size());
  for (std::size_t p = 0; p < profiles.size(); ++p)
    for (const Key& key : keys[p]) values[p].push_back(known_.at(key));
  return values;
}

}  // namespace rehearse
