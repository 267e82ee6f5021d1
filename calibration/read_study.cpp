// Study files, and sets of them: what they hold is in study_schemas.cpp.

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "calibration/detail/row_changes.hpp"
#include "calibration/detail/row_formula.hpp"
#include "calibration/job_log.hpp"
#include "calibration/measurements.hpp"
#include "calibration/metric.hpp"
#include "calibration/replayed_metric.hpp"
#include "calibration/study.hpp"
#include "calibration/trace_measurements.hpp"
#include "platforms/catalog.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_schema.hpp"
#include "sim/base/named.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/random.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

std::string scalar_text(const JsonReader& json) {
  if (json.is_string()) return json.as<std::string>();
  if (json.is_number()) return json.value().dump();
  json.fail("expected a string or a number");
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

/// The rows that fit the filter under `key` are for `use`; all rows if there is no filter.
void mark(Study& study, const JsonReader& fit, std::string_view key, RowUse use, const CsvTable& table) {
  const RowFilter filter = fit.has(key) ? read_filter(fit.child(key), table) : RowFilter{};
  for (StudyRow& row : study.rows)
    if (row.fits(filter)) row.use = use;
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

/// One filter for each entry of study.excluded, which this fills with their reasons: those of the study, and of its target.
std::vector<RowFilter> read_exclusions(const JsonReader& json, const JsonReader& target, Study& study) {
  std::vector<RowFilter> filters;
  for (const JsonReader* object : {&json, &target}) {
    if (!object->has("exclude")) continue;
    for (const JsonReader& exclusion : object->children("exclude")) {
      filters.push_back(read_filter(exclusion.child("where"), *study.table));
      study.excluded.push_back({.reason = exclusion.required<std::string>("reason"), .lines = {}});
      exclusion.reject_unknown_keys();
    }
  }
  return filters;
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
  const RowChanges changes{json, table};
  const std::vector<RowFilter> exclusions = read_exclusions(json, target, study);
  TargetUnit unit = read_target(target, study);
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
    entry.scenario = changes.scenario(base.json, row_place, entry);
    study.rows.push_back(std::move(entry));
  }
  if (!without_value.lines.empty()) study.excluded.push_back(std::move(without_value));
  if (study.rows.empty())
    json.fail("exclude", "expected at least one row that is left; all of " + study.measurements_file + " are excluded");
  for (const std::string& remark : changes.remarks(study.rows)) {
    const std::string said = study.measurements_file + ": " + remark;
    if (std::ranges::find(study.remarks, said) == study.remarks.end()) study.remarks.push_back(said);
  }

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

}  // namespace rehearse
