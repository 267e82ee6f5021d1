#include <nlohmann/json.hpp>

#include "platforms/profile_choice.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/refusals.hpp"
#include "sim/scenario/scenario_checks.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "sim/scenario/scenario_warnings.hpp"
#include "sim/scenario/substitutes.hpp"
#include "sim/scenario/training_facts.hpp"

namespace rehearse {

namespace {

/// The profile of that name, at `place`, or the one that stands there without one.
Profile profile_at(const JsonReader& place, const std::string& name, const Catalog& catalog) {
  const Profile* known = name.empty() ? nullptr : catalog.readable_profile(name);
  return known != nullptr ? *known : read_profile(place);
}

/// Gives the scenario the profile `stated`, with what it does not state itself; `document` is the object that this was read
/// from, and becomes that of the whole.
void set_profile(Scenario& scenario, Profile stated, Json& document, const Catalog& catalog) {
  scenario.profile = stated;
  if (complete_profile(scenario, catalog)) put_changes(document, stated, scenario.profile);
}

/// Profiles that would do nearly as well as the one that `others` were left for, with what they do not state themselves.
Json complete_profiles(const std::vector<std::string>& others, const Catalog& catalog, const JsonReader& asked_by,
                       const Scenario& scenario) {
  constexpr std::size_t kMost = 2;
  Json complete = Json::object();
  for (const std::string& name : others) {
    if (complete.size() == kMost) break;
    const JsonReader stated = catalog.profile(name, asked_by);
    Json profile = stated.value();
    Scenario other = scenario;
    set_profile(other, profile_at(stated, name, catalog), profile, catalog);
    for (const char* record : {"fit", "substitutes"}) profile.erase(record);
    complete[name] = std::move(profile);
  }
  return complete;
}

/// Where the scenario is not of what the profile was fitted on: how far predictions of its kind have been off, by the
/// recipe of its framework if that says so, else by those of all profiles.
std::optional<StatedPrediction> prediction_by(const Profile& stated, const Catalog& catalog, Scenario& scenario) {
  const TrainingFacts facts = facts_of(scenario);
  scenario.prediction_kind = kind_of(facts, stated);
  if (const auto errors = stated.framework(scenario.framework).errors; errors && stated.kernels && facts.computes) {
    std::vector<std::string> gpus;
    for (const Accelerator& gpu : facts.gpus) gpus.push_back(gpu.name);
    if (!stated.prediction && errors->are_of(gpus, facts.nic))
      return StatedPrediction{
          .kind = "steps by " + scenario.framework, .low = errors->low, .high = errors->high, .others = {}};
  }
  const bool is_told_by_fit = scenario.prediction_kind.is_of_fit() && stated.uncertainty.residual > 0;
  if (stated.prediction || stated.fitted_models.empty() || is_told_by_fit) return {};
  const Json known = catalog.prediction_errors();
  const auto errors = read_prediction_errors(JsonReader{known, "prediction_errors"}).of(scenario.prediction_kind);
  if (!errors) return {};
  return StatedPrediction{
      .kind = to_text(scenario.prediction_kind), .low = errors->low, .high = errors->high, .others = {}};
}

void read_calibration(const JsonReader& root, const Catalog& catalog, Scenario& scenario, Json& effective) {
  static const Json automatic = kAutomaticProfile;
  const JsonReader asked =
      root.has("calibration") ? root.child("calibration") : JsonReader{automatic, root.file_name()};
  std::string name, of_catalog;
  std::vector<std::string> others;
  const JsonReader place = resolve(asked, effective, name, [&](const std::string& n, const JsonReader& by) {
    of_catalog = n;
    if (n != kAutomaticProfile) return catalog.profile(n, by);
    const ProfileChoice choice = choose_profile(facts_of(scenario), catalog, by);
    scenario.warnings.push_back("calibration \"auto\" takes profile " + in_quotes(choice.name) + ": " + choice.reason);
    others = choice.others;
    of_catalog = choice.name;
    return catalog.profile(choice.name, by);
  });
  Profile stated = profile_at(place, of_catalog, catalog);
  if (auto prediction = prediction_by(stated, catalog, scenario)) {
    Json& written =
        effective["prediction"] = {{"kind", prediction->kind}, {"low", prediction->low}, {"high", prediction->high}};
    if (!others.empty()) {
      written["others"] = complete_profiles(others, catalog, asked, scenario);
      for (const auto& [other, profile] : written["others"].items()) prediction->others.push_back(other);
    }
    stated.prediction = std::move(prediction);
    set_consequences(stated);
  }
  set_profile(scenario, std::move(stated), effective, catalog);
  for (const Substitute& substitute : scenario.profile.substitutes) scenario.warnings.push_back(substitute.text);
  if (scenario.training.checkpoint && !checkpoint_time(scenario))
    root.child("training")
        .fail("checkpoint", "expected \"fixed_time\" and \"rate\", since profile " + in_quotes(scenario.profile.name) +
                                " has no times of checkpoints");
}

/// Gradients that are sent in more bits than kernels compute in were added up so, unless the scenario says how they are held:
/// Megatron's 18 bytes of a parameter instead of 16.
void hold_gradients_as_sent(Scenario& scenario, const Json& json) {
  const auto sent = scenario.training.strategy.exchange.gradient_precision;
  if (sent && !is_half(*sent) && json_pointer_find(json, "/workload/states/gradients") == nullptr)
    scenario.states.gradients = *sent;
}

void read_output(const JsonReader& root, OutputOptions& output, Json& effective) {
  if (root.has("output")) {
    const JsonReader json = root.child("output");
    output.sampling_period = json.optional<Seconds>("sampling_period", output.sampling_period);
    if (json.has("sampling_period"))
      json.expect(output.sampling_period >= Seconds{1e-4}, "sampling_period", "at least 0.1ms");
    output.reading_interval = json.optional<Seconds>("reading_interval", output.reading_interval);
    if (output.reading_interval > Seconds{})
      json.expect(
          output.reading_interval * 10 >= output.sampling_period && output.reading_interval <= output.sampling_period,
          "reading_interval", "0s, or a tenth of the sampling period to that");
    output.timeline_start = json.optional<Seconds>("timeline_start", output.timeline_start);
    output.timeline_length = json.optional<Seconds>("timeline_length", output.timeline_length);
    json.reject_unknown_keys();
  }
  effective = Json{{"sampling_period", to_text(output.sampling_period)},
                   {"timeline_start", to_text(output.timeline_start)},
                   {"timeline_length", to_text(output.timeline_length)}};
  if (output.reading_interval > Seconds{}) effective["reading_interval"] = to_text(output.reading_interval);
}

}  // namespace

JsonReader resolve(const JsonReader& json, std::string_view key, Json& effective, std::string& name,
                   const FindEntry& find) {
  return resolve(json.child(key), effective, name, find);
}

JsonReader resolve(const JsonReader& value, Json& effective, std::string& name, const FindEntry& find) {
  if (!value.is_string()) {
    value.expect(value.is_object(), "a name or an object");
    name = name_of_inline(value);
    return value;
  }
  name = value.as<std::string>();
  JsonReader found = find(name, value);
  // Members are appended: to look for each key among the others first takes quadratic time.
  effective = Json::object();
  std::vector<Json::object_t::value_type>& members = effective.get_ref<Json::object_t&>();
  members.emplace_back("name", name);
  for (const auto& [entry_key, entry] : found.value().get_ref<const Json::object_t&>()) {
    if (entry_key == "name")
      members.front().second = entry;
    else
      members.emplace_back(entry_key, entry);
  }
  return found;
}

Scenario read_scenario(const Json& json, const std::string& file_name, const Catalog& catalog,
                       const JsonOrigins& origins, const ReadOptions& options) {
  const JsonReader root{json, file_name, "", &origins};
  root.begin_file(scenario_schema);
  Scenario scenario;
  Json effective = json;
  scenario.file_name = file_name;
  scenario.set_by = origins.with();
  scenario.name = root.optional<std::string>("name", "unnamed");
  scenario.seed = root.optional<std::uint64_t>("seed", 1);
  effective["name"] = scenario.name;
  effective["seed"] = scenario.seed;
  const auto samples_per_epoch = read_workload(root.child("workload"), catalog, scenario, effective["workload"]);
  const JsonReader cluster = root.child("cluster");
  const PoolOrigins pool_origins = read_cluster(cluster, catalog, scenario, effective["cluster"]);
  read_training(root.child("training"), samples_per_epoch, scenario, effective["training"]);
  hold_gradients_as_sent(scenario, json);
  check_combinations(scenario, root);
  read_calibration(root, catalog, scenario, effective["calibration"]);
  read_output(root, scenario.output, effective["output"]);
  root.reject_unknown_keys();
  check_fits(scenario, root, options);
  warn_about(scenario, pool_origins, root);
  scenario.effective = share(std::move(effective));
  return scenario;
}

void make_inline(Json& scenario, const std::string& pointer, const std::string& file_name, const Catalog& catalog,
                 const JsonOrigins& origins) {
  for (std::size_t slash = pointer.find('/', 1); slash != std::string::npos; slash = pointer.find('/', slash + 1)) {
    const std::string parent = pointer.substr(0, slash);
    const Json* place = json_pointer_find(scenario, parent);
    if (!place || !place->is_string()) continue;
    Json unfinished = scenario;  // what follows may make it fit into memory
    if (Json& training = unfinished["training"]; training.is_object()) training["memory_check"] = "warn";
    const Scenario finished = read_scenario(unfinished, file_name, catalog, origins);
    const Json* resolved = json_pointer_find(*finished.effective, parent);
    if (resolved && resolved->is_object()) put_at_pointer(scenario, parent, *resolved);
  }
}

}  // namespace rehearse
