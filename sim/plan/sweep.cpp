#include "sim/plan/sweep.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/csv.hpp"
#include "sim/base/names.hpp"
#include "sim/plan/monte_carlo.hpp"
#include "sim/pool/experiment.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/unmodelled.hpp"

namespace rehearse {

namespace {

struct Combination {
  std::uint32_t index = 0;
  RunKey key;
};

struct Constraint {
  std::string origin;
  Expression expression;
};

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

bool starts_with_pointer(std::string_view pointer, std::string_view prefix) {
  return pointer.starts_with(prefix) && (pointer.size() == prefix.size() || pointer[prefix.size()] == '/');
}

bool is_plain(const Json& value) { return !value.is_object() && !value.is_array(); }

}  // namespace

std::vector<std::pair<std::string, Json>> plain_values(const Json& summary) {
  std::vector<std::pair<std::string, Json>> values;
  if (!summary.is_object()) return values;
  for (const auto& [key, value] : summary.items()) {
    if (key == "format" || key == "name" || key == "seed") continue;
    if (key == "warnings" && value.is_array())
      values.emplace_back(key, value.size());
    else if (is_plain(value))
      values.emplace_back(key, value);
    else if (value.is_object())
      for (const auto& [part, of_part] : value.items())
        if (is_plain(of_part)) values.emplace_back(key + "." + part, of_part);
  }
  return values;
}

std::string parameter_text(const Json* value) {
  if (!value || value->is_null()) return "";
  if (value->is_string()) return value->get<std::string>();
  if (value->is_number_float()) return CsvField{value->get<double>()}.text();
  if (value->is_object() && value->contains("name") && (*value)["name"].is_string())
    return (*value)["name"].get<std::string>();
  return value->dump(-1, ' ', false, Json::error_handler_t::replace);
}

void expect_known_place(const Json& schema, std::string_view pointer) {
  const Json* node = &schema;
  std::string done;
  std::string_view rest = pointer;
  while (!rest.empty()) {
    rest.remove_prefix(1);
    std::string key{rest.substr(0, rest.find('/'))};
    rest.remove_prefix(key.size());
    if (key.find('~') != std::string::npos) return;  // no key of ours
    if (node->contains("items") && (*node)["items"].is_object()) {
      node = &(*node)["items"];
    } else if (node->contains("properties")) {
      const Json& properties = (*node)["properties"];
      const bool is_closed = node->contains("additionalProperties") && (*node)["additionalProperties"] == false;
      if (!properties.contains(key)) {
        if (!is_closed) return;
        if (const auto what = unmodelled_key(key)) throw InputError{shortened(pointer, 200) + ": " + *what};
        throw InputError{shortened(pointer, 200) + ": at " + (done.empty() ? "the top level" : done) + ": " +
                         unknown_name_message("key", key, keys_of(properties))};
      }
      node = &properties[key];
    } else {
      return;
    }
    done += "/" + key;
  }
}

struct Sweep::State {
  State(SweepRequest wanted, const Catalog& known, std::string own_program)
      : request{std::move(wanted)}, catalog{known}, program{std::move(own_program)} {
    base = load_json_file(request.scenario);
    const JsonReader reader{base, request.scenario.string()};
    reader.expect(reader.is_object(), "an object");
    for (const Setting& setting : request.set) {
      make_inline(base, setting.pointer, request.scenario.string(), catalog, base_origins);
      set(base, base_origins, setting);
    }
    add_seeds();
    count = count_combinations(request);
    const Json schema = parse_json(scenario_schema(), "schema");
    find_places(schema);
    for (const auto& [origin, text] : request.constraints) {
      try {
        constraints.push_back({origin, Expression::parse(text)});
      } catch (const InputError& error) { throw InputError{origin + ": " + error.what()}; }
      for (const std::string& name : constraints.back().expression.names()) {
        if (!name.starts_with('/'))
          throw InputError{origin + ": expected JSON pointers and values only, since nothing has run yet; found " +
                           in_quotes(name)};
        expect_place(schema, origin, name);
      }
    }
  }

  static void set(Json& json, JsonOrigins& origins, const Setting& setting) {
    origins.set(json, setting.pointer, setting.value, setting.place);
  }

  void add_seeds() {
    if (!request.seeds) return;
    const bool has_seed = base.is_object() && base.contains("seed");
    if (has_seed && !base["seed"].is_number_unsigned()) return;  // refused later
    const std::uint64_t first = has_seed ? base["seed"].get<std::uint64_t>() : 1;
    const auto more = static_cast<std::uint64_t>(*request.seeds - 1);
    if (first > std::numeric_limits<std::uint64_t>::max() - more)
      throw InputError{request.seeds_origin + ": expected " + std::to_string(*request.seeds) +
                       " seeds up to 2^64 - 1; found " + std::to_string(first) + " as the first"};
    SweepAxis axis{.origin = request.seeds_origin, .choices = {}};
    for (int i = 0; i < *request.seeds; ++i)
      axis.choices.push_back({{"/seed", std::to_string(first + static_cast<std::uint64_t>(i)), axis.origin}});
    add_axis(request, std::move(axis));
  }

  /// Every place that an axis sets must exist, and be set by that axis only.
  void find_places(const Json& schema) {
    std::vector<std::pair<std::string, std::string>> known;  // pointer, origin
    for (const Setting& setting : request.set) expect_place(schema, setting.place, setting.pointer);
    std::set<std::string_view> distinct_places;
    for (const SweepAxis& axis : request.axes)
      for (const std::vector<Setting>& choice : axis.choices)
        for (const Setting& setting : choice)
          if (distinct_places.insert(setting.pointer).second) expect_few_places(distinct_places.size(), setting.place);
    for (const SweepAxis& axis : request.axes) {
      std::vector<std::string> own;
      for (const std::vector<Setting>& choice : axis.choices)
        for (const Setting& setting : choice) {
          if (std::find(own.begin(), own.end(), setting.pointer) != own.end()) continue;
          own.push_back(setting.pointer);
          find_place(schema, setting, known);
        }
      for (const std::string& pointer : own) known.emplace_back(pointer, axis.origin);
    }
    for (const auto& [pointer, origin] : known)
      if (pointer != "/seed") parameters.push_back(pointer);
    for (const Setting& setting : request.set)
      for (const auto& [pointer, swept_by] : known)
        if (pointer == setting.pointer)
          throw InputError{setting.place + ": expected a place that nothing else sets; " + swept_by + " does"};
  }

  static void expect_place(const Json& schema, const std::string& place, const std::string& pointer) {
    try {
      expect_known_place(schema, pointer);
    } catch (const InputError& error) { throw InputError{place + ": " + error.what()}; }
  }

  void find_place(const Json& schema, const Setting& setting,
                  const std::vector<std::pair<std::string, std::string>>& known) {
    for (const auto& [pointer, other] : known)
      if (starts_with_pointer(pointer, setting.pointer) || starts_with_pointer(setting.pointer, pointer))
        throw InputError{setting.place + ": overlaps with " + other + ": together, put them into one entry of a list"};
    expect_place(schema, setting.place, setting.pointer);
    make_inline(base, setting.pointer, request.scenario.string(), catalog, base_origins);
    Json trial = base;
    JsonOrigins origins;
    set(trial, origins, setting);
  }

  Json combination(std::size_t index) const {
    JsonOrigins origins;
    return combination(index, origins);
  }

  Json combination(std::size_t index, JsonOrigins& origins) const {
    Json json = base;
    origins = base_origins;
    for (std::size_t a = request.axes.size(); a-- > 0;) {
      const auto& choices = request.axes[a].choices;
      for (const Setting& setting : choices[index % choices.size()]) set(json, origins, setting);
      index /= choices.size();
    }
    return json;
  }

  Scenario read(std::size_t index) const {
    JsonOrigins origins;
    const Json json = combination(index, origins);
    return read_scenario(json, request.scenario.string(), catalog, origins);
  }

  /// The value at a pointer: as set, or else with every default and catalog entry filled in.
  ExpressionValue value_at(std::size_t index, const Json& json, const std::string& pointer,
                           SharedJson& effective) const {
    if (const Json* found = json_pointer_find(json, pointer)) return to_expression_value(*found, pointer);
    if (!effective) effective = read(index).effective;
    if (const Json* found = json_pointer_find(*effective, pointer)) return to_expression_value(*found, pointer);
    throw InputError{shortened(pointer, 200) + ": the scenario has nothing there"};
  }

  bool is_allowed(std::size_t index, const Json& json) const {
    SharedJson effective;
    for (const Constraint& constraint : constraints) {
      for (const std::string& name : constraint.expression.names())  // what is wrong with the scenario is told as such
        if (!effective && json_pointer_find(json, name) == nullptr) effective = read(index).effective;
      try {
        if (!constraint.expression.holds(
                [&](const std::string& name) { return value_at(index, json, name, effective); }))
          return false;
      } catch (const InputError& error) { throw InputError{constraint.origin + ": " + error.what()}; }
    }
    return true;
  }

  /// What the combination sets, as JSON text, for the store.
  std::string parameters_of(const Json& json) const {
    Json values = Json::object();
    for (const std::string& pointer : parameters)
      if (const Json* value = json_pointer_find(json, pointer)) values[pointer] = *value;
    values["/seed"] = json.value("seed", Json(1));
    return values.dump();
  }

  StoredRun make_run(const Json& json) const {
    const Json* name = json_pointer_find(json, "/name");
    return {.name = parameter_text(name), .parameters = parameters_of(json)};
  }

  RunKey key_of(const std::string& content) const {
    return run_key(request.runs ? "runs " + std::to_string(*request.runs) + content : content, program);
  }

  /// The runs of one combination after another, each on all processes; memberships that several have are simulated once.
  bool run_many(ResultStore& store, const Experiment& experiment, const SimulationMeans& means) const {
    SimulatedMemberships known;
    const std::size_t total = find_pending(store).size();
    std::size_t done = 0;
    for (std::size_t i = 0; i < experiment.count; ++i) {
      if (store.is_finished(experiment.key(i))) continue;
      PooledRun run;
      try {
        const Scenario scenario = read(combinations[distinct[i]].index);
        run.text = to_json_text(
            to_json(scenario,
                    run_monte_carlo(
                        scenario, {.runs = *request.runs, .pool = means.pool, .known = &known, .limits = means.limits}),
                    {}));
        run.has_succeeded = true;
      } catch (const MonteCarloStopped&) { return false; } catch (const NoResultError& error) {
        run.text = error.what();
      }
      store.put(experiment.key(i), with_result(experiment.row(i), run));
      if (means.on_done) means.on_done(++done, total);
    }
    return true;
  }

  /// Positions in `combinations` of the first of each distinct scenario that `store` lacks.
  std::vector<std::size_t> find_pending(const ResultStore& store) const {
    std::vector<std::size_t> positions;
    for (const std::size_t position : distinct)
      if (!store.is_finished(combinations[position].key)) positions.push_back(position);
    return positions;
  }

  SweepRequest request;
  const Catalog& catalog;
  std::string program;
  Json base;
  JsonOrigins base_origins;
  std::vector<Constraint> constraints;
  std::vector<std::string> parameters;
  std::size_t count = 1;

  // Found by check():
  std::vector<Combination> combinations;      // allowed ones, in order
  std::map<std::size_t, std::string> errors;  // by combination index: refused before it ran
  std::vector<std::size_t> distinct;          // positions in `combinations`
  Json example;                               // keys of a summary, with values of the right kind
  std::size_t example_index = 0;
};

Sweep::Sweep(SweepRequest request, const Catalog& catalog, std::string program)
    : state_{std::make_unique<State>(std::move(request), catalog, std::move(program))} {}
Sweep::Sweep(Sweep&&) noexcept = default;
Sweep::~Sweep() = default;

std::size_t Sweep::combinations() const { return state_->count; }

const std::vector<std::string>& Sweep::parameters() const { return state_->parameters; }

SweepCheck Sweep::check(const std::function<void(std::size_t, const Scenario*)>& on_checked) {
  State& state = *state_;
  state.combinations.clear();
  state.errors.clear();
  state.distinct.clear();
  SweepCheck check{.combinations = state.count};
  bool has_input_error = false;
  for (std::size_t i = 0; i < state.count; ++i) {
    std::optional<Scenario> scenario;
    std::string error;
    const Json json = state.combination(i);
    bool is_allowed = true;
    try {
      is_allowed = state.is_allowed(i, json);
      if (is_allowed) scenario = state.read(i);
    } catch (const InputError& failure) {
      error = failure.what();
      has_input_error = true;
    } catch (const NoResultError& failure) { error = failure.what(); }
    if (scenario && state.example.is_null()) {
      state.example = state.request.runs ? to_json(*scenario, MonteCarlo{.runs = {RunOutcome{}}}, std::nullopt)
                                         : to_json(*scenario, Summary{});
      state.example_index = i;
    }
    if (!is_allowed) {
      ++check.left_out;
    } else {
      const std::string content = scenario ? to_json_text(*scenario->effective) : "refused " + error + json.dump();
      state.combinations.push_back({static_cast<std::uint32_t>(i), state.key_of(content)});
      if (!error.empty()) state.errors.emplace(i, error);
    }
    if (on_checked) on_checked(i + 1, scenario ? &*scenario : nullptr);
  }
  check.failed = state.errors.size();
  if (state.combinations.empty())
    throw InputError{state.request.constraints.front().first + ": no combination fulfils " +
                     (state.request.constraints.size() == 1 ? "this condition" : "all conditions")};
  if (check.failed == state.combinations.size()) {
    const std::string& first = state.errors.begin()->second;
    const std::string message = state.count == 1 ? first : "every combination is refused; the first: " + first;
    if (has_input_error) throw InputError{message};
    throw NoResultError{message};
  }
  for (std::size_t position = 0; position < state.combinations.size(); ++position)
    if (!state.errors.contains(state.combinations[position].index)) state.distinct.push_back(position);
  const auto key_at = [&](std::size_t position) { return std::pair{state.combinations[position].key, position}; };
  std::sort(state.distinct.begin(), state.distinct.end(),
            [&](std::size_t a, std::size_t b) { return key_at(a) < key_at(b); });
  const auto repeated = std::unique(state.distinct.begin(), state.distinct.end(), [&](std::size_t a, std::size_t b) {
    return state.combinations[a].key == state.combinations[b].key;
  });
  state.distinct.erase(repeated, state.distinct.end());
  std::sort(state.distinct.begin(), state.distinct.end());
  check.distinct = state.distinct.size();
  return check;
}

ExpressionValue Sweep::look_up(const SweepRow& row, const std::string& name) const {
  if (name.starts_with('/')) {
    SharedJson effective;
    return state_->value_at(row.combination, row.scenario, name, effective);
  }
  if (name == "seed") return static_cast<double>(row.seed);
  for (const auto& [key, value] : plain_values(row.summary))
    if (key == name) return to_expression_value(value, name);
  return {};
}

void Sweep::check_expression(const Expression& expression, bool is_condition) const {
  std::vector<std::string> known{"seed"};
  for (const auto& [key, value] : plain_values(state_->example)) known.push_back(key);
  for (const std::string& name : expression.names())
    if (!name.starts_with('/') && std::find(known.begin(), known.end(), name) == known.end())
      throw InputError{in_quotes(expression.text(), 200) + ": " + unknown_name_message("value", name, known)};
  const Json scenario = state_->combination(state_->example_index);
  const SweepRow row{
      .combination = state_->example_index, .scenario = scenario, .summary = state_->example, .is_finished = true};
  const auto look = [&](const std::string& name) { return look_up(row, name); };
  if (is_condition)
    (void)expression.holds(look);
  else
    (void)expression.number(look);
}

std::size_t Sweep::pending(const ResultStore& store) const { return state_->find_pending(store).size(); }

bool Sweep::run(ResultStore& store, const Pool& pool, const std::function<void(std::size_t, std::size_t)>& on_done,
                const JobLimits& limits) const {
  const State& state = *state_;
  for (const Combination& combination : state.combinations) {
    const auto error = state.errors.find(combination.index);
    if (error == state.errors.end() || store.is_finished(combination.key)) continue;
    StoredRun row = state.make_run(state.combination(combination.index));
    row.error = error->second;
    store.put(combination.key, row);
  }
  const auto of = [&](std::size_t i) -> const Combination& { return state.combinations[state.distinct[i]]; };
  const Experiment experiment{.count = state.distinct.size(),
                              .job = [&](std::size_t i) { return kSimulate.job(state.read(of(i).index)); },
                              .key = [&](std::size_t i) { return of(i).key; },
                              .row = [&](std::size_t i) { return state.make_run(state.combination(of(i).index)); }};
  const SimulationMeans means{.pool = pool, .on_done = on_done, .limits = limits};
  return state.request.runs ? state.run_many(store, experiment, means) : experiment.run(store, means);
}

void Sweep::for_each_row(const ResultStore& store, const std::function<void(const SweepRow&)>& on_row) const {
  for (const Combination& combination : state_->combinations) {
    const Json scenario = state_->combination(combination.index);
    const Json* seed = json_pointer_find(scenario, "/seed");
    Json summary;
    std::string error;
    const auto refused = state_->errors.find(combination.index);
    std::optional<StoredRun> run;
    if (refused != state_->errors.end())
      error = refused->second;
    else if ((run = store.find(combination.key))) {
      error = run->error;
      if (!run->summary.empty()) summary = parse_json(run->summary, "result store");
    }
    on_row({.combination = combination.index,
            .scenario = scenario,
            .seed = seed && seed->is_number() ? seed->get<std::uint64_t>() : 1,
            .summary = summary,
            .error = error,
            .is_finished = run.has_value() || refused != state_->errors.end()});
  }
}

std::string Sweep::csv(const ResultStore& store) const {
  std::vector<std::string> keys;
  for_each_row(store, [&](const SweepRow& row) {
    for (const auto& [key, value] : plain_values(row.summary))
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  });
  std::vector<std::string> columns = parameters();
  columns.emplace_back("seed");
  columns.insert(columns.end(), keys.begin(), keys.end());
  columns.emplace_back("error");
  CsvWriter csv{columns};
  for_each_row(store, [&](const SweepRow& row) {
    std::vector<CsvField> fields;
    for (const std::string& pointer : parameters())
      fields.emplace_back(parameter_text(json_pointer_find(row.scenario, pointer)));
    fields.emplace_back(row.seed);
    const auto values = plain_values(row.summary);
    for (const std::string& key : keys) {
      const auto found =
          std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == key; });
      fields.emplace_back(found == values.end() ? std::string{} : parameter_text(&found->second));
    }
    fields.emplace_back(row.error);
    csv.row(fields);
  });
  return csv.text();
}

}  // namespace rehearse
