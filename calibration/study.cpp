#include "calibration/study.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "calibration/job_log.hpp"
#include "calibration/measurements.hpp"
#include "calibration/metric.hpp"
#include "calibration/replayed_metric.hpp"
#include "calibration/trace_measurements.hpp"
#include "platforms/catalog.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_schema.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/random.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace fs = std::filesystem;
using nlohmann::literals::operator""_json_pointer;

namespace {

/// A column of plans, "5*g3.8xlarge;3*g3.16xlarge": each part adds a group to the array at `pointer`, named after its
/// instance, with what `group` and the instance's entry of `instances` say besides.
struct PlanMapping {
  std::string pointer;
  Json group;
  std::map<std::string, Json> instances;  // if there are any, no others are known
};

/// How a column's value changes the scenario: the value goes to each of `pointers`, unless it is empty, a known value stands
/// for several changes, or it is a plan.
struct ColumnMapping {
  std::string column;
  std::string place;  // "study.json: /columns/gpu", for messages
  std::vector<std::string> pointers;
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> changes;  // value -> (pointer, JSON text)
  std::optional<PlanMapping> plan;
  bool is_list = false;  // numbers that blanks separate, as an array
};

/// A value that is computed for the place at a pointer, from the row's columns and from what is at pointers by then.
struct Derivation {
  std::string pointer;
  RowFormula formula;
};

std::string scalar_text(const JsonReader& json) {
  if (json.is_string()) return json.as<std::string>();
  if (json.is_number()) return json.value().dump();
  json.fail("expected a string or a number");
}

void expect_column(const JsonReader& json, const std::string& column, const CsvTable& table) {
  if (!table.has_column(column))
    json.fail(unknown_name_message("column", column, table.columns()) + ", of " + table.file_name());
}

RowFormula read_formula(const JsonReader& json, const CsvTable& table, bool may_point) {
  const auto text = json.as<std::string>();
  RowFormula formula{.expression = {}, .place = json.place()};
  try {
    formula.expression = Expression::parse(text);
  } catch (const InputError& error) { json.fail(error.what()); }
  for (const std::string& name : formula.expression.names()) {
    if (name.starts_with('/'))
      json.expect(may_point, "names of columns alone");
    else
      expect_column(json, name, table);
  }
  return formula;
}

/// What a column says in a formula: a number if it is one, nothing if it is empty.
ExpressionValue value_of(const CsvRow& row, const std::string& column) {
  const std::string_view text = row.text(column);
  if (text.empty()) return {};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size() && std::isfinite(number)) return number;
  return std::string{text};
}

/// What `ask` says of the formula in this row; errors say where both are.
template <typename Ask>
auto asked(const RowFormula& formula, const CsvRow& row, Ask ask) {
  try {
    return ask(formula.expression);
  } catch (const InputError& error) {
    throw InputError{formula.place + " (line " + std::to_string(row.line()) + " of the measurements): " + error.what()};
  }
}

RowFilter read_filter(const JsonReader& json, const CsvTable& table) {
  if (json.is_string()) return {.condition = read_formula(json, table, false)};
  RowFilter filter;
  for (const auto& [column, value] : json.items()) {
    expect_column(value, column, table);
    if (value.is_array())
      for (const JsonReader& one : value.elements()) filter.values[column].push_back(scalar_text(one));
    else
      filter.values[column].push_back(scalar_text(value));
  }
  return filter;
}

/// Gives each row its probability within its sample, as Study::sample_of says.
void rank_samples(Study& study) {
  std::map<std::vector<std::string>, std::vector<StudyRow*>> samples;
  for (StudyRow& row : study.rows) {
    std::vector<std::string> key{to_text(row.use)};
    for (const std::string& column : study.sample_of) key.emplace_back(row.row.text(column));
    samples[key].push_back(&row);
  }
  for (auto& [key, rows] : samples) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const StudyRow* a, const StudyRow* b) { return a->measured < b->measured; });
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i]->probability = (static_cast<double>(i) + 0.5) / static_cast<double>(rows.size());
  }
}

std::vector<std::string> read_columns(const JsonReader& json, std::string_view key, const CsvTable& table) {
  if (!json.has(key)) return {};
  const JsonReader value = json.child(key);
  auto columns = value.is_string() ? std::vector{value.as<std::string>()} : value.as<std::vector<std::string>>();
  for (const std::string& column : columns) expect_column(value, column, table);
  return columns;
}

/// "/gpu/peak_efficiency/K80" or { "value": "/gpu/peak_efficiency/K80", "min": 0.05, "max": 1 }.
FreeValue read_free_value(const JsonReader& json) {
  const std::string place = json.file_name() + ": " + json.pointer();
  if (!json.is_object()) return {.pointer = json.as<std::string>(), .min = {}, .max = {}, .prior = {}, .place = place};
  const auto limit = [&](const char* key) { return json.has(key) ? scalar_text(json.child(key)) : std::string{}; };
  FreeValue value{.pointer = json.required<std::string>("value"),
                  .min = limit("min"),
                  .max = limit("max"),
                  .prior = limit("prior"),
                  .prior_factor = json.optional<double>("prior_factor", 2),
                  .place = place};
  json.expect(value.prior_factor > 1 && value.prior_factor <= 1e6, "prior_factor", "a factor above 1, at most 1e6");
  json.reject_unknown_keys();
  return value;
}

ColumnMapping read_mapping(const std::string& column, const JsonReader& json) {
  ColumnMapping mapping{.column = column, .place = json.place(), .pointers = {}, .changes = {}, .plan = {}};
  if (json.is_string()) {
    mapping.pointers = {json.as<std::string>()};
    return mapping;
  }
  if (json.is_array()) {
    mapping.pointers = json.as<std::vector<std::string>>();
    json.expect(!mapping.pointers.empty(), "at least one JSON pointer");
    return mapping;
  }
  if (json.has("plan") && json.child("plan").is_string()) {
    const auto object_in = [](const JsonReader& reader) {
      (void)reader.items();  // or it is refused
      return reader.value();
    };
    mapping.plan = PlanMapping{json.required<std::string>("plan"), object_in(json.child("group")), {}};
    if (json.has("instances"))
      for (const auto& [instance, entry] : json.child("instances").items())
        mapping.plan->instances[instance] = object_in(entry);
    json.reject_unknown_keys();
    return mapping;
  }
  if (json.has("list") && json.child("list").is_string()) {
    mapping.pointers = {json.required<std::string>("list")};
    mapping.is_list = true;
    json.reject_unknown_keys();
    return mapping;
  }
  for (const auto& [value, changes] : json.items()) {
    auto& list = mapping.changes[value];  // may stay empty: a value that changes nothing
    for (const auto& [pointer, replacement] : changes.items()) list.emplace_back(pointer, replacement.value().dump());
  }
  return mapping;
}

/// The rows that fit the filter under `key` are for `use`; all rows if there is no filter.
void mark(Study& study, const JsonReader& fit, std::string_view key, RowUse use, const CsvTable& table) {
  const RowFilter filter = fit.has(key) ? read_filter(fit.child(key), table) : RowFilter{};
  for (StudyRow& row : study.rows)
    if (row.fits(filter)) row.use = use;
}

/// Appends the groups of a plan; returns what is wrong with it, or nothing.
std::string add_plan(Json& scenario, JsonOrigins& origins, const PlanMapping& mapping, const std::string& plan,
                     const std::string& place) {
  const Json* found = json_pointer_find(scenario, mapping.pointer);
  if (found == nullptr || !found->is_array()) return "the scenario has no array at " + mapping.pointer;
  Json& groups = scenario[Json::json_pointer{mapping.pointer}];
  for (std::size_t begin = 0; begin <= plan.size();) {
    const std::size_t end = std::min(plan.find(';', begin), plan.size());
    const std::string part = plan.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t star = part.find('*');
    int count = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + std::min(star, part.size()), count);
    if (star == std::string::npos || error != std::errc{} || rest != part.data() + star)
      return "expected a plan such as \"5*g3.8xlarge;3*g3.16xlarge\"; found " + in_quotes(plan);
    const std::string instance = part.substr(star + 1);
    Json group{{"name", instance}, {"instance", instance}, {"count", count}};
    group.update(mapping.group);
    if (const auto own = mapping.instances.find(instance); own != mapping.instances.end()) {
      group.update(own->second);
    } else if (!mapping.instances.empty()) {
      std::vector<std::string> known;
      for (const auto& [name, entry] : mapping.instances) known.push_back(name);
      return unknown_name_message("instance", instance, known);
    }
    origins.add(mapping.pointer + "/" + std::to_string(groups.size()), place);
    groups.push_back(std::move(group));
  }
  return {};
}

/// Sets what is derived, in the study's order; returns what has no value, or nothing.
std::string derive(Json& scenario, const std::vector<Derivation>& derivations, const std::string& row_place,
                   StudyRow& row) {
  for (const auto& [pointer, formula] : derivations) {
    const auto look_up = [&](const std::string& name) -> ExpressionValue {
      if (!name.starts_with('/')) return value_of(row.row, name);
      const Json* found = json_pointer_find(scenario, name);
      return found == nullptr ? ExpressionValue{} : to_expression_value(*found, name);
    };
    const ExpressionValue value =
        asked(formula, row.row, [&](const Expression& expression) { return expression.evaluate(look_up); });
    if (std::holds_alternative<std::monostate>(value))
      return in_quotes(formula.expression.text(), 200) + " has no value";
    std::string text;
    if (const auto* number = std::get_if<double>(&value))
      text = *number == std::floor(*number) && std::abs(*number) < 1e15
                 ? std::to_string(static_cast<std::int64_t>(*number))
                 : to_text(*number);
    else if (const auto* truth = std::get_if<bool>(&value))
      text = *truth ? "true" : "false";
    else
      text = std::get<std::string>(value);
    row.origins.set(scenario, pointer, text, formula.place + " (" + row_place + ")");
  }
  return {};
}

/// The scenario of a row, whose place is `row_place`; sets its problem if a value is not mapped.
std::string make_scenario(const Json& base, const std::vector<ColumnMapping>& mappings,
                          const std::vector<Derivation>& derivations, const std::string& row_place, StudyRow& row) {
  Json scenario = base;
  for (const ColumnMapping& mapping : mappings) {
    std::string value{row.row.text(mapping.column)};
    if (mapping.is_list) {
      std::ranges::replace(value, ' ', ',');
      value = "[" + value + "]";
    }
    const std::string place = mapping.place + " (" + row_place + ")";
    if (!mapping.pointers.empty()) {
      if (!value.empty())  // or the measurement does not state it
        for (const std::string& pointer : mapping.pointers) row.origins.set(scenario, pointer, value, place);
      continue;
    }
    if (mapping.plan) {
      row.problem = add_plan(scenario, row.origins, *mapping.plan, value, place);
      if (!row.problem.empty()) return {};
      continue;
    }
    const auto changes = mapping.changes.find(value);
    if (changes == mapping.changes.end()) {
      std::vector<std::string> known;
      for (const auto& [name, change] : mapping.changes) known.push_back(name);
      row.problem = unknown_name_message(mapping.column, value, known);
      return {};
    }
    for (const auto& [pointer, text] : changes->second)
      row.origins.set(
          scenario, pointer, text,
          mapping.place + extend_json_pointer(extend_json_pointer("", value), pointer) + " (" + row_place + ")");
  }
  row.problem = derive(scenario, derivations, row_place, row);
  return row.problem.empty() ? to_json_text(scenario) : std::string{};
}

/// What the table at `path` states of others on the study's metric.
std::vector<PeerErrors> read_peers(const fs::path& path, const Study& study) {
  const CsvTable table = load_csv_file(path);
  const auto maybe = [](const CsvRow& row, const char* column) {
    return row.text(column).empty() ? std::nullopt : std::optional{row.number(column)};
  };
  std::vector<PeerErrors> peers;
  for (const CsvRow row : table.rows()) {
    if (row.text("study") != fs::path{study.file_name}.stem().string() || row.text("metric") != study.metric) continue;
    const auto count = [&](const char* column) {
      return static_cast<std::size_t>(std::max<std::int64_t>(row.integer(column), 0));
    };
    peers.push_back({.peer = std::string{row.text("peer")},
                     .rows = count("rows"),
                     .mape = row.number("mape"),
                     .median = maybe(row, "median"),
                     .p90 = maybe(row, "p90")});
    if (!row.text("choices").empty())
      peers.back().choices = ChoiceStatistics{.choices = count("choices"),
                                              .median_regret_pct = row.number("regret_median"),
                                              .mean_regret_pct = row.number("regret_mean"),
                                              .rank_correlation = row.number("rank_correlation")};
  }
  return peers;
}

/// How the rows are put together in tables and curves, and what is said of them.
void read_report(const JsonReader& json, const CsvTable& table, Study& study) {
  study.group_by = read_columns(json, "group_by", table);
  study.choice_by = read_columns(json, "choice_by", table);
  if (json.has("curves")) {
    const JsonReader curves = json.child("curves");
    study.curve_x = curves.required<std::string>("x");
    expect_column(curves.child("x"), study.curve_x, table);
    study.curve_by = read_columns(curves, "by", table);
    curves.reject_unknown_keys();
  }
  if (json.has("ratios"))
    for (const JsonReader& ratio : json.children("ratios")) {
      study.ratios.push_back({ratio.required<std::string>("label"), read_filter(ratio.child("numerator"), table),
                              read_filter(ratio.child("denominator"), table)});
      ratio.reject_unknown_keys();
    }
  if (json.has("about")) {
    const JsonReader about = json.child("about");
    study.about = {.source = about.required<std::string>("source"),
                   .hardware = about.required<std::string>("hardware"),
                   .best_published = about.optional<std::string>("best_published", "")};
    if (about.has("peers")) study.peers = read_peers(about.resolve(about.required<std::string>("peers")), study);
    about.reject_unknown_keys();
  }
}

/// Which values rows are fitted to, and how that is cross-validated.
void read_fit(const JsonReader& json, const CsvTable& table, Study& study) {
  if (json.has("free"))
    for (const JsonReader& value : json.children("free")) study.free.push_back(read_free_value(value));
  // Without free values, "where" says which rows the profile's fit saw in another study.
  if (!study.free.empty() || json.has("where")) mark(study, json, "where", RowUse::kFitted, table);
  if (json.has("step_times")) mark(study, json, "step_times", RowUse::kStepTime, table);
  study.cross_validate = read_columns(json, "cross_validate", table);
  study.interval_by = read_columns(json, "interval_by", table);
  json.expect(study.interval_by.empty() || !study.cross_validate.empty(), "interval_by",
              "\"cross_validate\" beside it");
  if (json.has("leave_out_of")) {
    const auto scope = json.required<std::string>("leave_out_of");
    json.expect(scope == "all_studies" || scope == "this_study", "leave_out_of", "\"all_studies\" or \"this_study\"");
    study.leaves_out_of_all_studies = scope == "all_studies";
  }
  json.reject_unknown_keys();
}

/// The target, or each of a list of them.
std::vector<JsonReader> targets_of(const JsonReader& json) {
  const JsonReader target = json.child("target");
  if (!target.is_array()) return {target};
  std::vector<JsonReader> targets = json.children("target");
  target.expect(!targets.empty(), "at least one target");
  return targets;
}

/// Whoever needs a column learns why it is empty.
void require_stated(const JsonReader& json, const Measurements& measurements) {
  const auto require = [&](const std::string& column) {
    if (const auto found = measurements.missing.find(column); found != measurements.missing.end())
      throw InputError{found->second + "; column " + in_quotes(column) + " is needed"};
  };
  for (const auto& [column, mapping] : json.child("columns").items()) require(column);
  for (const JsonReader& target : targets_of(json))
    if (target.has("column")) require(target.required<std::string>("column"));
}

MeasurementFormat load_table(const JsonReader& json, const std::optional<fs::path>& measurements, Study& study) {
  const JsonReader source = json.child("measurements");
  const bool is_csv = source.is_string();
  const fs::path own = json.resolve(is_csv ? source.as<std::string>() : source.required<std::string>("file"));
  study.measurements_file = (measurements ? *measurements : own.lexically_normal()).string();
  const MeasurementFormat format = is_csv ? MeasurementFormat::kCsv : read_measurement_format(source.child("format"));
  const bool is_log = format == MeasurementFormat::kTrainingLog;
  const JobLogOptions options = is_log ? read_job_log_options(source) : JobLogOptions{};
  if (!is_csv) source.reject_unknown_keys();
  Measurements loaded =
      is_log ? load_job_logs(study.measurements_file, options) : load_measurements(study.measurements_file, format);
  require_stated(json, loaded);
  study.table = std::make_shared<const CsvTable>(std::move(loaded.table));
  study.remarks = std::move(loaded.remarks);
  study.gpu_column = loaded.gpu_column;
  study.is_of_collectives = loaded.is_of_collectives;
  return format;
}

/// The scenario that rows change, with what the study sets in all of them.
struct BaseScenario {
  Json json;
  std::vector<std::pair<std::string, std::string>> set;  // pointer, place
};
BaseScenario read_base(const JsonReader& json, Study& study) {
  BaseScenario base{.json = load_json_file(study.scenario_file), .set = {}};
  JsonOrigins origins;
  if (json.has("set"))
    for (const auto& [pointer, value] : json.child("set").items()) {
      origins.set(base.json, pointer, value.value().dump(), value.place());
      base.set.emplace_back(pointer, value.place());
    }
  const Json* profile = json_pointer_find(base.json, "/calibration");
  if (profile == nullptr)
    study.profile_name = kAutomaticProfile;
  else if (profile->is_string())
    study.profile_name = study.own_profile = profile->get<std::string>();
  return base;
}

std::vector<ColumnMapping> read_mappings(const JsonReader& columns, const CsvTable& table) {
  std::vector<ColumnMapping> mappings;
  for (const auto& [column, mapping] : columns.items()) {
    expect_column(mapping, column, table);
    mappings.push_back(read_mapping(column, mapping));
  }
  return mappings;
}

std::vector<Derivation> read_derivations(const JsonReader& json, const CsvTable& table) {
  std::vector<Derivation> derivations;
  if (json.has("derive"))
    for (const auto& [pointer, formula] : json.child("derive").items())
      derivations.push_back({.pointer = pointer, .formula = read_formula(formula, table, true)});
  return derivations;
}

/// How measured values are written.
struct TargetUnit {
  double scale = 1;           // in the metric's unit
  std::string noise_column;   // with their standard deviations; empty: none
  std::string trials;         // column with the number of trials that counts are out of; empty: no counts
  bool may_be_empty = false;  // then a row is not one of this target's
};

/// What a measured value is multiplied by; the metric's name says what it is in.
double read_unit(const JsonReader& target, const std::string& metric) {
  using Units = std::map<std::string, double>;
  const auto unit = target.optional<std::string>("unit", "");
  const bool is_time = metric.ends_with("_s") && !metric.ends_with("_per_s");
  const Units known = is_time ? Units{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}}
                      : metric.ends_with("_bytes") || metric.ends_with("_B")
                          ? Units{{"GB", 1e9}, {"GiB", 1024.0 * kMiB}}
                          : Units{};
  target.expect(
      unit.empty() || known.contains(unit), "unit",
      "\"s\", \"ms\" or \"us\" for a metric in seconds, \"GB\" or \"GiB\" for one in bytes, none for another");
  return unit.empty() ? 1 : known.at(unit);
}

TargetUnit read_target(const JsonReader& target, Study& study) {
  const CsvTable& table = *study.table;
  study.target_column = target.required<std::string>("column");
  study.metric = target.required<std::string>("metric");
  const auto noise_column = target.optional<std::string>("noise_column", "");
  const double scale = read_unit(target, study.metric);
  expect_column(target.child("column"), study.target_column, table);
  if (!noise_column.empty()) expect_column(target.child("noise_column"), noise_column, table);
  const auto trials = target.optional<std::string>("trials", "");
  if (!trials.empty()) expect_column(target.child("trials"), trials, table);
  study.sample_of = read_columns(target, "sample_of", table);
  study.quantile = target.maybe<double>("quantile");
  target.expect(!study.quantile || (*study.quantile > 0 && *study.quantile < 1 && study.sample_of.empty()), "quantile",
                "a number above 0 and below 1, and no sample_of beside it");
  if (target.has("traces"))
    study.traces = target.resolve(target.required<std::string>("traces")).lexically_normal().string();
  target.expect(is_replayed(study.metric) == target.has("traces"), "traces",
                "a trace beside a metric of replays, and none beside another");
  target.reject_unknown_keys();
  return {.scale = scale, .noise_column = noise_column, .trials = trials};
}

/// One filter for each entry of study.excluded, which this fills with their reasons.
std::vector<RowFilter> read_exclusions(const JsonReader& json, Study& study) {
  std::vector<RowFilter> filters;
  if (json.has("exclude"))
    for (const JsonReader& exclusion : json.children("exclude")) {
      filters.push_back(read_filter(exclusion.child("where"), *study.table));
      study.excluded.push_back({.reason = exclusion.required<std::string>("reason"), .lines = {}});
      exclusion.reject_unknown_keys();
    }
  return filters;
}

void read_only_by_step_times(const JsonReader& json, Study& study) {
  if (!json.has("only_by_step_times")) return;
  for (const JsonReader& rows : json.children("only_by_step_times")) {
    study.only_by_step_times.emplace_back(read_filter(rows.child("where"), *study.table),
                                          rows.required<std::string>("reason"));
    rows.reject_unknown_keys();
  }
}

void read_measured(const CsvRow& row, const TargetUnit& unit, const std::string& column, StudyRow& entry) {
  entry.measured = row.number(column);
  if (!unit.trials.empty()) {
    entry.trials = row.number(unit.trials);
    if (!(*entry.trials >= 1)) row.fail(unit.trials, "expected at least one trial");
    if (!(entry.measured >= 0 && entry.measured <= *entry.trials)) row.fail(column, "expected a count of trials");
    entry.measured /= *entry.trials;
    return;
  }
  if (entry.measured <= 0) row.fail(column, "expected a number above 0");
  if (!unit.noise_column.empty() && !row.text(unit.noise_column).empty())
    entry.noise = row.number(unit.noise_column) * unit.scale;
  entry.measured *= unit.scale;
}

void read_logged_job(const CsvRow& row, StudyRow& entry) {
  const auto number = [&](const char* column) {
    return row.text(column).empty() ? std::nullopt : std::optional{row.number(column)};
  };
  entry.logged_batch = number("batch");
  entry.logged_gpus = number("gpus");
}

constexpr std::size_t kMostRows = 100'000;  // whose scenarios take a second to make

/// The study of one of its targets, with the table and whatever else is the same for all of them in `study`. Values are
/// fitted to the first one.
Study with_target(const JsonReader& json, const JsonReader& target, Study study, MeasurementFormat format) {
  const CsvTable& table = *study.table;
  const BaseScenario base = read_base(json, study);
  const std::vector<ColumnMapping> mappings = read_mappings(json.child("columns"), table);
  const std::vector<Derivation> derivations = read_derivations(json, table);
  TargetUnit unit = read_target(target, study);
  const std::vector<RowFilter> exclusions = read_exclusions(json, study);
  ExcludedRows without_value{.reason = in_quotes(study.target_column) + " is empty", .lines = {}};
  const bool is_listed = json.child("target").is_array();
  if (is_listed) {
    study.name += "." + study.metric;
    unit.may_be_empty = true;
  }

  for (const CsvRow row : table.rows()) {
    const std::string row_place = table.file_name() + ":" + std::to_string(row.line());
    StudyRow entry{.row = row,
                   .scenario = {},
                   .origins = JsonOrigins{"row " + row_place + " of " + study.file_name},
                   .problem = {},
                   .use = RowUse::kPredicted};
    for (const auto& [pointer, place] : base.set) entry.origins.add(pointer, place);
    const auto excluded = std::find_if(exclusions.begin(), exclusions.end(),
                                       [&](const RowFilter& exclusion) { return entry.fits(exclusion); });
    if (excluded != exclusions.end()) {
      study.excluded[static_cast<std::size_t>(excluded - exclusions.begin())].lines.push_back(row.line());
      continue;
    }
    if (unit.may_be_empty && row.text(study.target_column).empty()) {
      without_value.lines.push_back(row.line());
      continue;
    }
    if (study.rows.size() == kMostRows)
      row.fail(study.target_column,
               "expected at most " + std::to_string(kMostRows) + " rows that are not excluded, as each is simulated");
    read_measured(row, unit, study.target_column, entry);
    if (format == MeasurementFormat::kTrainingLog) read_logged_job(row, entry);
    entry.scenario = make_scenario(base.json, mappings, derivations, row_place, entry);
    study.rows.push_back(std::move(entry));
  }
  if (!without_value.lines.empty()) study.excluded.push_back(std::move(without_value));
  if (study.rows.empty())
    json.fail("exclude", "expected at least one row that is left; all of " + study.measurements_file + " are excluded");

  read_only_by_step_times(json, study);
  study.predicted_framework = json.optional<std::string>("predicted_framework", "");
  read_report(json, table, study);
  if (json.has("fit") && (!is_listed || target.pointer() == json.pointer() + "/target/0"))
    read_fit(json.child("fit"), table, study);
  if (!study.sample_of.empty()) rank_samples(study);
  if (study.quantile)
    for (StudyRow& row : study.rows) row.probability = study.quantile;
  json.reject_unknown_keys();
  return study;
}

std::vector<Study> read_studies(const fs::path& path, const Json& file, const std::optional<fs::path>& measurements) {
  const JsonReader json{file, path.string()};
  json.begin_file(study_schema);
  refuse_missing_keys(json, study_schema);
  Study common;
  common.name = path.stem().string();
  common.file_name = path.string();
  common.scenario_file = json.resolve(json.required<std::string>("scenario")).lexically_normal().string();
  const MeasurementFormat format = load_table(json, measurements, common);
  std::vector<Study> studies;
  for (const JsonReader& target : targets_of(json)) studies.push_back(with_target(json, target, common, format));
  return studies;
}

}  // namespace

bool StudyRow::fits(const RowFilter& filter) const {
  const auto look_up = [this](const std::string& name) { return value_of(row, name); };
  if (filter.condition &&
      !asked(*filter.condition, row, [&](const Expression& condition) { return condition.holds(look_up); }))
    return false;
  return std::all_of(filter.values.begin(), filter.values.end(), [this](const auto& column) {
    const std::string_view found = row.text(column.first);
    return std::find(column.second.begin(), column.second.end(), found) != column.second.end();
  });
}

std::string to_text(RowUse use) {
  constexpr std::array kUses{Named{"step_time", RowUse::kStepTime}, Named{"fitted", RowUse::kFitted},
                             Named{"predicted", RowUse::kPredicted}};
  return name_in(kUses, use);
}

std::string measurements_hash(const Study& study) {
  std::string content;
  for (const fs::path& file : measurement_files(study.measurements_file)) content += read_file(file, 256 * kMiB);
  std::array<char, 17> hash{};
  std::snprintf(hash.data(), hash.size(), "%016llx", static_cast<unsigned long long>(fnv1a(content)));
  return hash.data();
}

bool has_use(const Study& study, RowUse use) {
  return std::any_of(study.rows.begin(), study.rows.end(), [use](const StudyRow& row) { return row.use == use; });
}

std::string study_kind(const Json& file) {
  if (!file.is_object() || !file.contains("kind") || !file["kind"].is_string()) return {};
  return file["kind"].get<std::string>();
}

StudySet load_study_set(const fs::path& path, const std::optional<fs::path>& measurements) {
  const Json file = load_json_file(path);
  const JsonReader json{file, path.string()};
  if (!json.has("studies")) return {.studies = read_studies(path, file, measurements), .headlines = {}};
  json.begin_file(study_set_schema);
  if (measurements) throw InputError{path.string() + ": is a set of studies; --measurements goes with a single one"};
  StudySet set;
  const auto files = json.required<std::vector<std::string>>("studies");
  if (files.empty()) json.fail("studies", "expected at least one study");
  std::map<std::string, std::vector<std::string>> names;  // by file, those of the studies that it became
  for (const std::string& name : files) {
    const fs::path member = json.resolve(name);
    for (Study& study : read_studies(member, load_json_file(member), {})) {
      names[name].push_back(study.name);
      set.studies.push_back(std::move(study));
    }
  }
  if (json.has("headlines"))
    for (const JsonReader& entry : json.children("headlines")) {
      Headline headline{.of = entry.required<std::string>("of"), .studies = {}};
      for (const auto& name : entry.required<std::vector<std::string>>("studies")) {
        const auto found = std::find(files.begin(), files.end(), name);
        if (found == files.end()) entry.fail("studies", unknown_name_message("study of this set", name, files));
        for (const std::string& study : names.at(name)) headline.studies.push_back(study);
      }
      entry.expect(!headline.studies.empty(), "studies", "at least one study");
      entry.reject_unknown_keys();
      set.headlines.push_back(std::move(headline));
    }
  json.reject_unknown_keys();
  return set;
}

std::vector<Study> load_studies(const fs::path& path, const std::optional<fs::path>& measurements) {
  return load_study_set(path, measurements).studies;
}

Json profile_of(const Study& study, const Catalog& catalog) {
  if (study.profile_name == kAutomaticProfile) return Json::object();
  if (study.profile_name.empty()) {
    const auto mapped = std::ranges::find_if(study.rows, [](const StudyRow& row) { return !row.scenario.empty(); });
    return mapped == study.rows.end() ? Json::object()
                                      : parse_json(mapped->scenario, study.scenario_file).at("calibration");
  }
  const Json base = load_json_file(study.scenario_file);
  const JsonReader scenario{base, study.scenario_file};
  return catalog.profile(study.profile_name, scenario.has("calibration") ? scenario.child("calibration") : scenario)
      .value();
}

double gpus_of_workers(const Scenario& scenario) {
  double gpus = 0;
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker && !group.is_standby)
      gpus += static_cast<double>(group.workers()) * group.gpus_per_worker;
  return gpus;
}

std::string log_contradiction(const std::optional<double>& logged_batch, const std::optional<double>& logged_gpus,
                              const Scenario& scenario) {
  const double gpus = gpus_of_workers(scenario);
  const double batch = samples_per_update(scenario);
  const auto differ = [](const std::optional<double>& logged, double simulated) {
    return logged && std::abs(*logged - simulated) > 0.5;
  };
  std::string text;
  if (differ(logged_gpus, gpus)) text = to_text(*logged_gpus) + " GPUs, the scenario has " + to_text(gpus);
  if (differ(logged_batch, batch))
    text +=
        (text.empty() ? "" : "; ") + to_text(*logged_batch) + " samples in a step, the scenario has " + to_text(batch);
  return text.empty() ? text : "the log is of a training with " + text;
}

Scenario read_row(const StudyRow& row, const std::string& file_name, const Catalog& catalog) {
  Json json = parse_json(row.scenario, file_name);
  Scenario scenario = read_scenario(json, file_name, catalog, row.origins);
  if (const std::string text = log_contradiction(row.logged_batch, row.logged_gpus, scenario); !text.empty())
    throw InputError{text};
  if (scenario.training.starts != Starts::kInAStep) return scenario;
  json["training"]["start_interval"] = "even";
  return read_scenario(json, file_name, catalog, row.origins);
}

Study with_calibration(Study study, const Json& calibration) {
  if (calibration.is_string()) study.profile_name = calibration;
  for (StudyRow& row : study.rows) {
    if (row.scenario.empty()) continue;
    Json scenario = parse_json(row.scenario, study.scenario_file);
    scenario["calibration"] = calibration;
    row.scenario = to_json_text(scenario);
  }
  return study;
}

std::set<std::string> profiles_fitted_on(const Study& study, const Catalog& catalog) {
  const std::string measurements = measurements_hash(study);
  const Json nobody;
  const auto file_of = [&](const std::string& name) -> const Json& {
    return catalog.profile(name, JsonReader{nobody, study.file_name}).value();
  };
  std::set<std::string> names;
  std::set<Json> computations;  // and servers, of them
  const auto computation_of = [](const Json& profile) {
    return Json{profile.value("host", Json{}), profile.value("gpu", Json{}), profile.value("servers", Json{})};
  };
  for (const std::string& name : catalog.profile_names())
    for (const Json& fitted : file_of(name).value("/fit/studies"_json_pointer, Json::array()))
      if (fitted.value("measurements_fnv1a", "") == measurements || fitted.value("study", "") == study.name) {
        names.insert(name);
        if (file_of(name).contains("gpu")) computations.insert(computation_of(file_of(name)));
      }
  if (!study.own_profile.empty() && !file_of(study.own_profile).contains("fit")) names.insert(study.own_profile);
  for (const std::string& name : catalog.profile_names())
    if (computations.contains(computation_of(file_of(name)))) names.insert(name);
  return names;
}

namespace {

/// What the scenario says of a prediction, besides its value.
void describe(const Scenario& scenario, const std::string& metric, Prediction& prediction) {
  prediction.profile = scenario.profile.name;
  prediction.kind = to_text(scenario.prediction_kind);
  const PredictionUncertainty& errors = scenario.profile.uncertainty;  // of speeds
  if (errors.residual > 0 && is_speed(metric)) prediction.interval = errors.interval(0);
}

}  // namespace

std::vector<Prediction> predict(const Study& study, const Catalog& catalog, const Pool& pool,
                                const std::function<void(std::size_t, std::size_t)>& on_done, const Budget& budget) {
  // A scenario's text and, of a value of a sample, its probability.
  using Question = std::pair<std::string, std::optional<double>>;
  std::vector<Question> questions;
  for (const StudyRow& row : study.rows) questions.emplace_back(row.scenario, row.probability);
  std::vector<Question> distinct = questions;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::erase_if(distinct, [](const Question& question) { return question.first.empty(); });  // could not be mapped
  const auto scenario_of = [&](std::size_t i) {
    const auto asked_by = std::find(questions.begin(), questions.end(), distinct[i]) - questions.begin();
    return read_row(study.rows[static_cast<std::size_t>(asked_by)], study.scenario_file, catalog);
  };
  const auto results = pool.run_all(
      distinct.size(),
      [&](std::size_t i) {
        Json options{{"metric", study.metric}};
        if (distinct[i].second) options["probability"] = *distinct[i].second;
        if (!study.traces.empty()) options["traces"] = study.traces;
        return kMeasure.job(scenario_of(i), options);
      },
      on_done, budget);
  std::vector<Prediction> made(distinct.size());  // but for their values
  std::map<std::size_t, Scenario> logged;         // those of rows of training logs
  for (std::size_t i = 0; i < distinct.size(); ++i)
    if (results[i].has_succeeded) describe(scenario_of(i), study.metric, made[i]);
  std::vector<Prediction> predictions;
  for (const Question& question : questions) {
    if (question.first.empty()) {
      predictions.push_back({});
      continue;
    }
    const auto at =
        static_cast<std::size_t>(std::lower_bound(distinct.begin(), distinct.end(), question) - distinct.begin());
    const PooledRun& result = results[at];
    Prediction prediction = made[at];
    const StudyRow& row = study.rows[predictions.size()];
    if (row.logged_batch || row.logged_gpus) {  // rows of other logs may have the same scenario
      if (!logged.contains(at) && result.has_succeeded) logged.emplace(at, scenario_of(at));
      if (const auto scenario = logged.find(at); scenario != logged.end())
        prediction.problem = log_contradiction(row.logged_batch, row.logged_gpus, scenario->second);
    }
    if (result.has_succeeded && prediction.problem.empty()) {
      double value = 0;
      std::from_chars(result.text.data(), result.text.data() + result.text.size(), value);
      prediction.value = value;
    } else if (!result.has_succeeded) {
      prediction.problem = result.text;
    }
    predictions.push_back(std::move(prediction));
  }
  return predictions;
}

}  // namespace rehearse
