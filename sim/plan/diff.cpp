#include "sim/plan/diff.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/files.hpp"
#include "sim/base/json.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/plan/sweep.hpp"
#include "sim/pool/experiment.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/step_time.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

/// A part of the scenario that is taken over from B as a whole, and what it means.
struct Place {
  std::string pointer;
  std::string mechanism;
};

/// Null for nothing.
SharedJson shared(const Json* value) { return value != nullptr ? share(*value) : nullptr; }

bool has_same_groups(const Json& a, const Json& b) {
  const Json* groups_a = json_pointer_find(a, "/cluster/groups");
  const Json* groups_b = json_pointer_find(b, "/cluster/groups");
  if (!groups_a || !groups_b || groups_a->size() != groups_b->size()) return false;
  for (std::size_t i = 0; i < groups_a->size(); ++i)
    if ((*groups_a)[i].value("role", Json{}) != (*groups_b)[i].value("role", Json{})) return false;
  return true;
}

std::string group_mechanism(const std::string& key, bool is_server) {
  if (key == "count") return is_server ? "number of parameter servers" : "number of workers";
  if (key == "instance") return is_server ? "server machines" : "worker machines and GPUs";
  if (key == "region") return "regions and network";
  if (key == "market") return "market";
  if (key == "name") return "";
  return "groups: " + key;
}

/// The places in which two effective scenarios differ, one or two levels below the parts of a scenario: what users
/// think of as one thing. Groups are compared one by one if both clusters have the same roles in the same order. A
/// strategy that needs other machines, servers or none, is one thing with them.
class Places {
 public:
  Places(const Json& a, const Json& b)
      : a_{a},
        b_{b},
        has_same_groups_{has_same_groups(a, b)},
        needs_other_machines_{!has_same_groups_ && strategy_kind(a) != strategy_kind(b)} {
    for (const std::string& key : keys("")) {
      const std::string pointer = extend_json_pointer("", key);
      if (key == "workload" || key == "cluster" || key == "training" || key == "calibration")
        add_part(key, pointer);
      else
        add(pointer, key == "seed" ? "seed" : key == "name" || key == "output" || key == "format" ? "" : key);
    }
  }

  const std::vector<Place>& all() const { return places_; }

 private:
  std::vector<std::string> keys(const std::string& pointer) const {
    std::vector<std::string> found;
    for (const Json* side : {json_pointer_find(a_, pointer), json_pointer_find(b_, pointer)})
      if (side && side->is_object())
        for (const auto& [key, value] : side->items())
          if (std::find(found.begin(), found.end(), key) == found.end()) found.push_back(key);
    return found;
  }

  void add(const std::string& pointer, const std::string& mechanism) {
    const Json* a = json_pointer_find(a_, pointer);
    const Json* b = json_pointer_find(b_, pointer);
    if ((a && b && *a == *b) || (!a && !b)) return;
    places_.push_back({pointer, mechanism});
  }

  void add_part(const std::string& part, const std::string& pointer) {
    for (const std::string& key : keys(pointer)) {
      if (part == "calibration" && (key == "fit" || key == "substitutes" || key == "prediction" || is_substitute(key) ||
                                    (key == "servers" && needs_other_machines_)))
        continue;  // where the values come from, and what follows from the rest
      const std::string child = extend_json_pointer(pointer, key);
      if (part == "cluster" && key == "groups")
        add_groups(child);
      else
        add(child, mechanism_of(part, key));
    }
  }

  /// Whether either side has taken the section of the profile, or a part of it, from another profile.
  bool is_substitute(const std::string& section) const {
    for (const Json* side : {&a_, &b_}) {
      const Json* substitutes = json_pointer_find(*side, "/calibration/substitutes");
      if (substitutes == nullptr) continue;
      for (const Json& substitute : *substitutes)
        if (const auto places = substitute.find("components"); places != substitute.end())
          for (const auto& [place, change] : places->items())
            if (place.starts_with("/" + section + "/")) return true;
    }
    return false;
  }

  void add_groups(const std::string& pointer) {
    if (!has_same_groups_) return add(pointer, needs_other_machines_ ? kStrategyAndMachines : "groups of machines");
    const Json& groups = *json_pointer_find(a_, pointer);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const std::string group = pointer + "/" + std::to_string(i);
      const bool is_server = groups[i].value("role", Json{}) == "parameter_server";
      for (const std::string& key : keys(group)) add(extend_json_pointer(group, key), group_mechanism(key, is_server));
    }
  }

  static Json strategy_kind(const Json& scenario) {
    const Json* kind = json_pointer_find(scenario, "/training/strategy/kind");
    return kind ? *kind : Json{};
  }

  std::string mechanism_of(const std::string& part, const std::string& key) const {
    if (part == "workload")
      return key == "batch_per_worker" ? "batch" : key == "samples_per_epoch" ? "length of the run" : key;
    if (part == "cluster") return key == "network" ? "regions and network" : "cluster: " + key;
    if (part == "training") {
      const bool is_of_strategy =
          key == "strategy" || (key == "share_variation" && strategy_kind(a_) != strategy_kind(b_));
      if (needs_other_machines_ && (is_of_strategy || key == "start_interval")) return kStrategyAndMachines;
      if (is_of_strategy) return "strategy";
      if (key == "steps" || key == "samples" || key == "epochs" || key == "warmup_steps") return "length of the run";
      return "training: " + key;
    }
    return key == "name" || key == "source" ? "" : "profile: " + key;
  }

  static constexpr const char* kStrategyAndMachines = "strategy and its machines";

  const Json& a_;
  const Json& b_;
  bool has_same_groups_, needs_other_machines_;
  std::vector<Place> places_;
};

/// Appends the places below `pointer` at which a and b differ. Objects and arrays of one size are gone into.
void append_differences(const Json* a, const Json* b, const std::string& pointer, const std::string& mechanism,
                        std::vector<InputDifference>& differences) {
  if (a && b && *a == *b) return;
  if (a && b && a->is_object() && b->is_object()) {
    for (const auto& [key, value] : a->items())
      append_differences(&value, b->contains(key) ? &(*b)[key] : nullptr, extend_json_pointer(pointer, key), mechanism,
                         differences);
    for (const auto& [key, value] : b->items())
      if (!a->contains(key))
        append_differences(nullptr, &value, extend_json_pointer(pointer, key), mechanism, differences);
    return;
  }
  if (a && b && a->is_array() && b->is_array() && a->size() == b->size()) {
    for (std::size_t i = 0; i < a->size(); ++i)
      append_differences(&(*a)[i], &(*b)[i], pointer + "/" + std::to_string(i), mechanism, differences);
    return;
  }
  differences.push_back({pointer, shared(a), shared(b), mechanism});
}

/// `target` with the place at `pointer` as in `source`, or without it if that has none.
void take_over(Json& target, const Json& source, const std::string& pointer) {
  const Json* value = json_pointer_find(source, pointer);
  if (value) return put_at_pointer(target, pointer, *value);
  const std::size_t slash = pointer.rfind('/');
  const Json* parent = json_pointer_find(target, pointer.substr(0, slash));
  if (!parent || !parent->is_object()) return;
  Json rest = Json::object();
  for (const auto& [key, member] : parent->items())
    if (extend_json_pointer(pointer.substr(0, slash), key) != pointer) rest[key] = member;
  if (slash == 0)
    target = std::move(rest);
  else
    put_at_pointer(target, pointer.substr(0, slash), rest);
}

std::vector<ResultDifference> compare_summaries(const Json& a, const Json& b) {
  std::vector<ResultDifference> results;
  const auto values_a = plain_values(a), values_b = plain_values(b);
  std::map<std::string, std::pair<const Json*, const Json*>> by_key;
  for (const auto& [key, value] : values_a) by_key[key].first = &value;
  for (const auto& [key, value] : values_b) by_key[key].second = &value;
  for (const auto& [key, pair] : by_key) {
    const auto [left, right] = pair;
    if (left && right && *left == *right) continue;
    ResultDifference difference{.key = key, .a = shared(left), .b = shared(right)};
    if (left && right && left->is_number() && right->is_number()) {
      difference.change = right->get<double>() - left->get<double>();
      const double relative = *difference.change / std::abs(left->get<double>());
      if (std::isfinite(relative)) difference.relative_change = relative;  // not from 0, nor from next to it
    }
    results.push_back(std::move(difference));
  }
  constexpr std::array<std::string_view, 6> kAskedFirst{"steps_per_s", "samples_per_s", "iteration_time_s",
                                                        "time_s",      "cost_usd",      "usd_per_million_samples"};
  const auto rank = [&](const ResultDifference& difference) {
    const auto asked = std::ranges::find(kAskedFirst, difference.key) - kAskedFirst.begin();
    if (!difference.change) return std::pair{asked, 1.0};
    return std::pair{asked, difference.relative_change ? -std::abs(*difference.relative_change)
                                                       : -std::numeric_limits<double>::infinity()};
  };
  std::ranges::stable_sort(results, {}, rank);
  return results;
}

Speed speed_of(const Json& summary) {
  return {summary.at("iteration_time_s").get<double>(), summary.at("steps_per_s").get<double>()};
}

Json to_json(const Speed& speed) {
  return {{"iteration_time_s", speed.iteration_time_s}, {"steps_per_s", speed.steps_per_s}};
}

Speed difference(const Speed& from, const Speed& to) {
  return {to.iteration_time_s - from.iteration_time_s, to.steps_per_s - from.steps_per_s};
}

/// The same values always in the same order, whichever file they came from.
void warn_about_other_version(const ComparedRun& run, const Json& simulated, RunDiff& diff) {
  if (!run.summary) return;
  // Another compiler or library may round otherwise.
  const auto is_same = [&](const char* key) {
    const Json a = run.summary->value(key, Json{}), b = simulated.value(key, Json{});
    return a == b || (a.is_number() && b.is_number() &&
                      std::abs(a.get<double>() - b.get<double>()) <= 1e-9 * std::abs(b.get<double>()));
  };
  if (!is_same("fingerprint") && !(is_same("steps_per_s") && is_same("time_s")))
    diff.warnings.push_back(run.label + ": its summary.json is not what this program gives for its scenario.json; " +
                            "results are compared as recorded, effects as simulated now");
}

/// How far the speed of a summary may be off; 1 and 1 if it does not say so.
std::pair<double, double> interval_of(const Json& summary) {
  if (!summary.value("steps_per_s_low", Json{}).is_number()) return {1, 1};
  const double speed = summary["steps_per_s"].get<double>();
  return {summary["steps_per_s_low"].get<double>() / speed, summary["steps_per_s_high"].get<double>() / speed};
}

/// What both scenarios warn of is said once.
void take_warnings(const ComparedRun& a, const ComparedRun& b, RunDiff& diff) {
  const auto has = [](const ComparedRun& run, const std::string& warning) {
    return std::ranges::find(run.warnings, warning) != run.warnings.end();
  };
  for (const std::string& warning : a.warnings)
    diff.warnings.push_back((has(b, warning) ? "A and B: " : "A: ") + warning);
  for (const std::string& warning : b.warnings)
    if (!has(a, warning)) diff.warnings.push_back("B: " + warning);
}

void warn_about_sources(const Json& a, const Json& b, RunDiff& diff) {
  const auto [low_a, high_a] = interval_of(a);
  const auto [low_b, high_b] = interval_of(b);
  const std::string warning =
      source_warning({a.value("step_source", std::string{}), b.value("step_source", std::string{})},
                     std::min(low_a, low_b), std::max(high_a, high_b));
  if (!warning.empty()) diff.warnings.push_back(warning);
}

RunDiff compare_replays(const ComparedRun& a, const ComparedRun& b) {
  RunDiff diff{.inputs = {},
               .results = compare_summaries(*a.summary, *b.summary),
               .mechanisms = {},
               .a = speed_of(*a.summary),
               .b = speed_of(*b.summary),
               .interaction = {},
               .warnings = {}};
  append_differences(a.scenario.get(), b.scenario.get(), "", "", diff.inputs);
  return diff;
}

}  // namespace

ComparedRun load_compared_run(const fs::path& path, const Catalog& catalog) {
  ComparedRun run{.label = path.string()};
  const bool is_folder = fs::is_directory(path);
  if (is_folder) require_complete(path);
  run.is_replay = is_folder && fs::is_regular_file(path / "what_if.json");
  const fs::path scenario = !is_folder ? path : run.is_replay ? path / "what_if.json" : path / "scenario.json";
  if (run.is_replay) {
    run.scenario = share(load_json_file(scenario));
  } else {
    Scenario read = read_scenario(load_json_file(scenario), scenario.string(), catalog);
    run.scenario = std::move(read.effective);
    run.warnings = std::move(read.warnings);
  }
  if (!is_folder) return run;
  run.summary = share(load_json_file(path / "summary.json"));
  const JsonReader reader{*run.summary, (path / "summary.json").string()};
  reader.expect_format();
  (void)reader.required<double>("iteration_time_s");
  (void)reader.required<double>("steps_per_s");
  return run;
}

std::optional<RunDiff> compare_runs(const ComparedRun& a, const ComparedRun& b, const Catalog& catalog,
                                    const Pool& pool, const std::function<void(std::size_t, std::size_t)>& on_done,
                                    const std::function<bool()>& is_stopped) {
  if (a.is_replay != b.is_replay)
    throw InputError{(a.is_replay ? a : b).label + ": is a replay; expected another one beside it, found a simulation"};
  if (a.is_replay) return compare_replays(a, b);
  const Json &scenario_a = *a.scenario, &scenario_b = *b.scenario;
  RunDiff diff;
  std::vector<Json> scenarios{scenario_a, scenario_b};
  const Places places{scenario_a, scenario_b};
  for (const Place& place : places.all()) {
    append_differences(json_pointer_find(scenario_a, place.pointer), json_pointer_find(scenario_b, place.pointer),
                       place.pointer, place.mechanism, diff.inputs);
    if (place.mechanism.empty()) continue;
    auto found = std::find_if(diff.mechanisms.begin(), diff.mechanisms.end(),
                              [&](const MechanismEffect& effect) { return effect.name == place.mechanism; });
    if (found == diff.mechanisms.end()) {
      found = diff.mechanisms.insert(found, {.name = place.mechanism});
      scenarios.push_back(scenario_a);
    }
    found->places.push_back(place.pointer);
    take_over(scenarios[2 + static_cast<std::size_t>(found - diff.mechanisms.begin())], scenario_b, place.pointer);
  }

  const Experiment experiment{scenarios.size(), [&](std::size_t i) {
                                return kSimulate.job(read_scenario(scenarios[i], i == 1 ? b.label : a.label, catalog));
                              }};
  const auto all =
      experiment.run({.pool = pool, .on_done = on_done, .limits = {.is_stopped = is_stopped, .job_wall_s = {}}});
  if (!all) return std::nullopt;
  const std::vector<PooledRun>& runs = *all;
  for (std::size_t i = 0; i < 2; ++i)
    if (!runs[i].has_succeeded) throw NoResultError{runs[i].error_in((i == 0 ? a : b).label)};

  const Json simulated_a = runs[0].json(), simulated_b = runs[1].json();
  take_warnings(a, b, diff);
  warn_about_other_version(a, simulated_a, diff);
  warn_about_other_version(b, simulated_b, diff);
  warn_about_sources(simulated_a, simulated_b, diff);
  diff.results = compare_summaries(a.summary ? *a.summary : simulated_a, b.summary ? *b.summary : simulated_b);
  diff.a = speed_of(simulated_a);
  diff.b = speed_of(simulated_b);
  diff.interaction = difference(diff.a, diff.b);
  for (std::size_t i = 0; i < diff.mechanisms.size(); ++i) {
    MechanismEffect& effect = diff.mechanisms[i];
    const PooledRun& run = runs[i + 2];
    if (run.has_succeeded)
      effect.speed = speed_of(run.json());
    else
      effect.error = run.text;
    if (!effect.speed) diff.interaction.reset();
    if (!diff.interaction) continue;
    const Speed own = difference(diff.a, *effect.speed);
    diff.interaction->iteration_time_s -= own.iteration_time_s;
    diff.interaction->steps_per_s -= own.steps_per_s;
  }
  const auto size = [&](const MechanismEffect& effect) {
    return effect.speed ? std::abs(difference(diff.a, *effect.speed).iteration_time_s) : -1;
  };
  std::stable_sort(diff.mechanisms.begin(), diff.mechanisms.end(),
                   [&](const auto& x, const auto& y) { return size(x) > size(y); });
  return diff;
}

Json to_json(const ComparedRun& a, const ComparedRun& b, const RunDiff& diff) {
  const auto value = [](const SharedJson& of) { return of ? *of : Json{}; };
  Json inputs = Json::array(), results = Json::array(), mechanisms = Json::array();
  for (const InputDifference& input : diff.inputs)
    inputs.push_back({{"pointer", input.pointer},
                      {"a", value(input.a)},
                      {"b", value(input.b)},
                      {"mechanism", input.mechanism.empty() ? Json{} : Json(input.mechanism)}});
  for (const ResultDifference& result : diff.results)
    results.push_back({{"key", result.key},
                       {"a", value(result.a)},
                       {"b", value(result.b)},
                       {"change", or_null(result.change)},
                       {"relative_change", or_null(result.relative_change)}});
  for (const MechanismEffect& effect : diff.mechanisms)
    mechanisms.push_back({{"name", effect.name},
                          {"places", effect.places},
                          {"speed", effect.speed ? to_json(*effect.speed) : Json{}},
                          {"effect", effect.speed ? to_json(difference(diff.a, *effect.speed)) : Json{}},
                          {"error", effect.error.empty() ? Json{} : Json(effect.error)}});
  return {{"format", 1},
          {"a", {{"run", a.label}, {"speed", to_json(diff.a)}}},
          {"b", {{"run", b.label}, {"speed", to_json(diff.b)}}},
          {"inputs", std::move(inputs)},
          {"results", std::move(results)},
          {"mechanisms", std::move(mechanisms)},
          {"difference", to_json(difference(diff.a, diff.b))},
          {"interaction", diff.interaction ? to_json(*diff.interaction) : Json{}},
          {"warnings", diff.warnings}};
}

}  // namespace rehearse
