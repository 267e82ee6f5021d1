#include "calibration/detail/row_simulator.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "calibration/metric.hpp"
#include "platforms/profile.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/substitutes.hpp"

namespace rehearse {

namespace {

/// The name under which `profile` has the framework of `scenario`; "otherwise" if it does not name that.
std::string framework_used(const Scenario& scenario, const Json& profile) {
  std::vector<std::string> names;
  if (profile.contains("frameworks"))
    for (const auto& [name, framework] : profile.at("frameworks").items()) names.push_back(name);
  return framework_name(names, scenario.framework);
}

/// Leaves `used` and what all frameworks share.
void keep_framework(Json& profile, const std::string& used) {
  if (!profile.contains("frameworks")) return;
  const Json all = profile["frameworks"];
  profile["frameworks"] = Json::object();
  for (const std::string& name : {std::string{"otherwise"}, used})
    if (all.contains(name)) profile["frameworks"][name] = all.at(name);
}

}  // namespace

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
  keep_framework(profile, framework_used(scenario, profile));
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

bool RowSimulator::complete(Prepared& prepared, const Profile& stated) const {
  prepared.scenario.profile = stated;
  return !prepared.is_complete.value_or(false) && complete_profile(prepared.scenario, catalog_);
}

std::size_t RowSimulator::number_used(std::size_t scenario, Stated& stated) {
  Prepared& prepared = scenarios_[scenario];
  const auto used_by_metric = [&](const Json& profile) {
    return is_closed_form(prepared.metric) ? profile_used_by(prepared.metric, profile)
                                           : used_profile(prepared.scenario, profile);
  };
  if (prepared.is_complete.value_or(false)) {
    if (!is_closed_form(prepared.metric)) return number_of(used_by_metric(stated.file));
    const auto [found, is_new] = stated.by_metric.try_emplace(prepared.metric, 0);
    if (is_new) found->second = number_of(used_by_metric(stated.file));
    return found->second;
  }
  const std::string framework = framework_used(prepared.scenario, stated.file);
  const auto [without_others, is_new_framework] = stated.by_framework.try_emplace(framework, 0);
  if (is_new_framework) {
    Json profile = stated.file;
    keep_framework(profile, framework);
    without_others->second = number_of(profile.dump());
  }
  const auto [used, is_new] = completed_.try_emplace({scenario, without_others->second}, 0);
  if (is_new) {
    Json whole = stated.file;
    if (complete(prepared, stated.profile)) put_changes(whole, stated.profile, prepared.scenario.profile);
    const std::string text = used_by_metric(whole);
    if (!prepared.is_complete) prepared.is_complete = text == used_by_metric(stated.file);
    used->second = number_of(text);
  }
  return used->second;
}

std::vector<std::vector<double>> RowSimulator::simulate(const std::vector<Json>& profiles,
                                                        const std::vector<std::vector<std::size_t>>& rows) {
  struct Job {
    std::size_t row, profile;
    Key key;
  };
  std::vector<std::vector<Key>> keys(profiles.size());  // [profiles][rows[profile]]
  std::map<Key, Job> wanted;
  std::vector<Stated> all;
  for (std::size_t p = 0; p < profiles.size(); ++p) {
    Stated& stated = all.emplace_back(Stated{.file = profiles[p],
                                             .profile = read_profile(JsonReader{profiles[p], "fitted profile"}),
                                             .by_metric = {},
                                             .by_framework = {}});
    std::map<std::size_t, std::size_t> used;  // by scenario
    for (const std::size_t row : rows[p]) {
      const std::size_t scenario = scenario_of_[row];
      const auto [number, is_new] = used.try_emplace(scenario, 0);
      if (is_new) number->second = number_used(scenario, stated);
      const Key key = keys[p].emplace_back(scenario, number->second);
      if (!known_.contains(key)) wanted.try_emplace(key, Job{row, p, key});
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
      (void)complete(prepared, all[job.profile].profile);
      keep(job, simulated_metric(prepared.scenario, prepared.metric, prepared.probability));
    } catch (const std::runtime_error& error) { throw cannot_simulate(job, error.what()); }
  }
  std::size_t done = 0;
  const auto text_of = [&](std::size_t i) {
    Prepared& prepared = scenarios_[jobs[i].key.first];
    (void)complete(prepared, all[jobs[i].profile].profile);
    Json options{{"metric", prepared.metric}};
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
