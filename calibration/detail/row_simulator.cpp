#include "calibration/detail/row_simulator.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "calibration/metric.hpp"
#include "platforms/profile.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/substitutes.hpp"

namespace rehearse {

std::string used_profile(const Scenario& scenario, Json profile) {
  for (const char* description : {"name", "source", "fit", "startup", "substitutes"}) profile.erase(description);
  const auto& checkpoint = scenario.training.checkpoint;
  if (!checkpoint || checkpoint->stage) profile.erase("checkpoint");
  if (profile.contains("gpu")) {
    Json efficiencies = Json::object();
    const Json& all = profile["gpu"].at("peak_efficiency");
    for (const Group& group : scenario.groups)
      if (group.accelerator && all.contains(group.accelerator->name))
        efficiencies[group.accelerator->name] = all.at(group.accelerator->name);
    profile["gpu"]["peak_efficiency"] = std::move(efficiencies);
  }
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
  if (profile.contains("frameworks")) {
    const Json all = profile["frameworks"];
    std::vector<std::string> names;
    for (const auto& [name, framework] : all.items()) names.push_back(name);
    profile["frameworks"] = Json::object();
    for (const std::string& used : {std::string{"otherwise"}, framework_name(names, scenario.framework)})
      if (all.contains(used)) profile["frameworks"][used] = all.at(used);
  }
  if (scenario.count(Role::kParameterServer) == 0) profile.erase("servers");
  return profile.dump();
}

RowSimulator::RowSimulator(const std::vector<Study>& studies, const Catalog& catalog, Pool pool,
                           std::function<void(std::size_t, std::size_t)> on_simulated, Budget budget)
    : studies_{studies},
      catalog_{catalog},
      pool_{std::move(pool)},
      on_simulated_{std::move(on_simulated)},
      budget_{std::move(budget)} {
  std::map<std::tuple<std::string, std::string, std::optional<double>>, std::size_t>
      known;  // scenario, metric, probability
  for (std::size_t s = 0; s < studies.size(); ++s)
    for (std::size_t r = 0; r < studies[s].rows.size(); ++r) {
      budget_.check();
      const StudyRow& row = studies[s].rows[r];
      if (!row.problem.empty())
        throw InputError{studies[s].measurements_file + ":" + std::to_string(row.row.line()) + ": " + row.problem};
      rows_.push_back({s, r});
      const auto [entry, is_new] =
          known.try_emplace({row.scenario, studies[s].metric, row.probability}, scenarios_.size());
      scenario_of_.push_back(entry->second);
      if (!is_new && (row.logged_batch || row.logged_gpus)) (void)read_row(row, studies[s].scenario_file, catalog);
      if (!is_new) continue;
      scenarios_.push_back({.scenario = read_row(row, studies[s].scenario_file, catalog),
                            .metric = studies[s].metric,
                            .probability = row.probability,
                            .is_complete = {}});
    }
}

std::string RowSimulator::used_by(const Prepared& prepared, const Json& profile) {
  return is_closed_form(prepared.metric) ? profile_used_by(prepared.metric, profile)
                                         : used_profile(prepared.scenario, profile);
}

std::vector<std::vector<double>> RowSimulator::simulate(const std::vector<Json>& profiles,
                                                        const std::vector<std::vector<std::size_t>>& rows) {
  struct Job {
    std::size_t row, profile;
    Key key;
  };
  std::vector<Json> used_in_jobs = profiles;            // what jobs take
  std::vector<std::vector<Key>> keys(profiles.size());  // [profiles][rows[profile]]
  std::map<Key, Job> wanted;
  for (std::size_t p = 0; p < profiles.size(); ++p) {
    const JsonReader stated{profiles[p], "fitted profile"};
    (void)read_profile(stated);
    std::map<std::string, std::size_t> used_by_metric;
    for (const std::size_t row : rows[p]) {
      Prepared& prepared = scenarios_[scenario_of_[row]];
      std::size_t used = 0;
      Json complete;
      if (!prepared.is_complete.value_or(false)) {
        complete = profiles[p];
        set_profile(prepared.scenario, stated, complete, catalog_);
        const std::string text = used_by(prepared, complete);
        if (!prepared.is_complete) prepared.is_complete = text == used_by(prepared, profiles[p]);
        used = number_of(text);
      } else if (!is_closed_form(prepared.metric)) {
        used = number_of(used_by(prepared, profiles[p]));
      } else if (const auto found = used_by_metric.find(prepared.metric); found != used_by_metric.end()) {
        used = found->second;
      } else {
        used = used_by_metric[prepared.metric] = number_of(used_by(prepared, profiles[p]));
      }
      const Key key = keys[p].emplace_back(scenario_of_[row], used);
      if (known_.contains(key) || wanted.contains(key)) continue;
      if (!*prepared.is_complete) used_in_jobs.push_back(std::move(complete));
      wanted.try_emplace(key, Job{row, *prepared.is_complete ? p : used_in_jobs.size() - 1, key});
    }
  }
  const auto cannot_simulate = [&](const Job& job, const std::string& reason) {
    const Row& row = rows_[job.row];
    return InputError{studies_[row.study].measurements_file + ":" +
                      std::to_string(studies_[row.study].rows[row.row].row.line()) +
                      ": cannot be simulated: " + reason};
  };
  const auto keep = [&](const Job& job, double value) {
    if (!(value > 0))
      throw cannot_simulate(job, "its " + studies_[rows_[job.row].study].metric + " is " + to_text(value));
    known_[job.key] = value;
  };
  std::vector<Job> jobs;  // to be simulated
  for (const auto& [key, job] : wanted) {
    if (!is_closed_form(scenarios_[key.first].metric)) {
      jobs.push_back(job);
      continue;
    }
    try {
      Prepared& prepared = scenarios_[key.first];
      prepared.scenario.profile = read_profile(JsonReader{used_in_jobs[job.profile], "fitted profile"});
      keep(job, simulated_metric(prepared.scenario, prepared.metric, prepared.probability));
    } catch (const std::runtime_error& error) { throw cannot_simulate(job, error.what()); }
  }
  std::size_t done = 0;
  const auto text_of = [&](std::size_t i) {
    const Prepared& prepared = scenarios_[jobs[i].key.first];
    Json options{{"metric", prepared.metric}, {"profile", used_in_jobs[jobs[i].profile]}};
    if (prepared.probability) options["probability"] = *prepared.probability;
    return kMeasure.job(prepared.scenario, options);
  };
  const bool is_complete = pool_.run(jobs.size(), text_of,
                                     [&](std::size_t i, const PooledRun& result) {
                                       if (!result.has_succeeded) throw cannot_simulate(jobs[i], result.text);
                                       keep(jobs[i], std::strtod(result.text.c_str(), nullptr));
                                       ++simulations_;
                                       if (on_simulated_) on_simulated_(++done, jobs.size());
                                     },
                                     {.is_stopped = budget_.asked(), .job_wall_s = {}});
  if (!is_complete) budget_.stop();
  std::vector<std::vector<double>> values(profiles.size());
  for (std::size_t p = 0; p < profiles.size(); ++p)
    for (const Key& key : keys[p]) values[p].push_back(known_.at(key));
  return values;
}

}  // namespace rehearse
