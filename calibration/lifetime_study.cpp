#include "calibration/lifetime_study.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "platforms/pool_origin.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

constexpr double kMostMachines = 1e6;

/// Rows of one series: those with the same values in the columns of "group_by".
using KeyValues = std::vector<std::string>;

std::string field(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

class SeriesReader {
 public:
  explicit SeriesReader(const JsonReader& json) : json_{json} {}

  std::vector<LifetimeSeries> read() {
    const auto rows = json_.required<std::string>("rows");
    const LifetimeSeries common = read_common();
    const fs::path path = json_.resolve(json_.required<std::string>("file"));
    std::vector<LifetimeSeries> result;
    if (rows == "fleet") {
      result.push_back(read_fleet(common, path));
    } else if (rows == "hourly_counts" || rows == "durations") {
      const CsvTable table = load_csv_file(path);
      group_by_ = json_.optional<std::vector<std::string>>("group_by", {});
      for (const auto& [group, members] : grouped(table, json_, group_by_)) {
        LifetimeSeries series = common;
        series.name = replace_columns(common.name, group, true);
        series.fitted_on = replace_columns(common.fitted_on, group, false);
        (rows == "durations" ? read_durations(series, members) : read_counts(series, members));
        if (json_.has("hours")) read_hours(series, group);
        result.push_back(std::move(series));
      }
    } else {
      json_.fail("rows", "expected \"fleet\", \"hourly_counts\" or \"durations\"");
    }
    json_.reject_unknown_keys();
    return result;
  }

 private:
  Seconds time(const char* key, Seconds fallback) const {
    const auto value = json_.optional<Seconds>(key, fallback);
    if (json_.has(key)) json_.expect(value > Seconds{} && value <= kLongest, key, "a time above 0s, at most 1e9s");
    return value;
  }
  std::optional<Seconds> maybe_time(const char* key) const {
    return json_.has(key) ? std::optional{time(key, {})} : std::nullopt;
  }

  LifetimeSeries read_common() const {
    LifetimeSeries series{.name = json_.required<std::string>("name"), .source = json_.required<std::string>("source")};
    (void)read_pool_origin(json_);
    if (json_.has("fitted_on")) series.fitted_on = json_.child("fitted_on").value().dump();
    series.notice = json_.optional<Seconds>("notice", Seconds{});
    json_.expect(!json_.has("notice") || series.notice <= Seconds{86400}, "notice", "at most 1d");
    series.cap = maybe_time("cap");
    series.options.deadline = series.cap;
    series.options.start_within = maybe_time("start_within");
    return series;
  }

  LifetimeSeries read_fleet(LifetimeSeries series, const fs::path& path) const {
    series.fleet = cut(load_fleet_trace(path), json_.optional<Seconds>("from", Seconds{}));
    const int most = most_machines(*series.fleet);
    if (most == 0 || !(series.fleet->end > Seconds{}))
      throw InputError{path.string() + ": expected a trace of some length with at least one machine"};
    series.slots = json_.optional<int>("slots", most);
    json_.expect(!json_.has("slots") || (series.slots >= most && series.slots <= 10'000), "slots",
                 "at least the " + std::to_string(most) + " machines of the trace, at most 10000");
    series.resolution = time("resolution", resolution_of(*series.fleet));
    json_.expect(series.resolution <= series.fleet->end && series.resolution >= shortest_resolution(*series.fleet),
                 "resolution", "less than the trace's length, and at least a billionth of it");
    return series;
  }

  static std::map<KeyValues, std::vector<CsvRow>> grouped(const CsvTable& table, const JsonReader& json,
                                                          const std::vector<std::string>& columns) {
    std::vector<std::pair<std::string, std::string>> conditions;
    if (json.has("where"))
      for (const auto& [column, value] : json.child("where").items())
        conditions.emplace_back(column, value.as<std::string>());
    std::map<KeyValues, std::vector<CsvRow>> groups;
    for (const CsvRow& row : table.rows()) {
      const bool is_wanted = std::all_of(conditions.begin(), conditions.end(), [&](const auto& condition) {
        return row.text(condition.first) == condition.second;
      });
      if (!is_wanted) continue;
      KeyValues group;
      for (const std::string& column : columns) group.emplace_back(row.text(column));
      groups[group].push_back(row);
    }
    if (groups.empty()) json.fail("where", "no row of " + table.file_name() + " is like that");
    return groups;
  }

  std::string replace_columns(std::string name, const KeyValues& group, bool in_lower_case) const {
    for (std::size_t i = 0; i < group_by_.size(); ++i) {
      std::string value = group[i];
      if (in_lower_case)
        std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) {
          return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : static_cast<char>(c);
        });
      const std::string pattern = "{" + group_by_[i] + "}";
      for (std::size_t at = name.find(pattern); at != std::string::npos; at = name.find(pattern, at + value.size()))
        name.replace(at, pattern.size(), value);
    }
    return name;
  }

  /// A number of the row from 0 to `most`.
  static double number(const CsvRow& row, const std::string& column, double most) {
    const double value = row.number(column);
    if (!(value >= 0 && value <= most)) row.fail(column, "expected 0 to " + field(most));
    return value;
  }

  void read_counts(LifetimeSeries& series, const std::vector<CsvRow>& rows) const {
    const auto from = json_.required<std::string>("from"), to = json_.required<std::string>("to");
    const auto count = json_.required<std::string>("count");
    const auto instances = json_.optional<std::string>("instances", "");
    const Seconds unit = time("unit", Seconds{1});
    double revoked = 0, started = 0;
    Seconds last{};
    for (const CsvRow& row : rows) {
      const Seconds low = unit * number(row, from, kLongest / unit), high = unit * number(row, to, kLongest / unit);
      if (!(high > low)) row.fail(to, "expected more than in column \"" + from + "\"");
      if (low < last) row.fail(from, "expected ages that do not overlap those of the row before");
      const double gone = number(row, count, kMostMachines);
      if (gone > 0) series.lives.push_back({low, high, gone});
      series.options.edges.push_back(high);
      revoked += gone;
      last = high;
      if (instances.empty()) continue;
      const double here = number(row, instances, kMostMachines);
      if (started > 0 && here != started) row.fail(instances, "expected the same number in all rows of a series");
      started = here;
    }
    if (!instances.empty() && revoked > started)
      rows.back().fail(instances, "expected at least the " + field(revoked) + " that were revoked");
    if (started > revoked) series.lives.push_back({last, kNever, started - revoked});
    if (series.lives.empty()) rows.back().fail(count, "expected a series with at least one machine");
  }

  void read_durations(LifetimeSeries& series, const std::vector<CsvRow>& rows) const {
    const bool is_bracketed = json_.has("low");
    const auto low_column = json_.required<std::string>(is_bracketed ? "low" : "age");
    const auto high_column = is_bracketed ? json_.required<std::string>("high") : std::string{};
    const auto censored_column = is_bracketed ? std::string{} : json_.optional<std::string>("censored", "");
    const Seconds bin = time("bin", Seconds{1});
    Seconds longest{};
    for (const CsvRow& row : rows) {
      const Seconds low{number(row, low_column, kLongest.value())};
      longest = std::max(longest, low);
      if (is_bracketed) {
        const bool is_running = row.text(high_column).empty();
        const Seconds high = is_running ? kNever : Seconds{number(row, high_column, kLongest.value())};
        if (!(high > low)) row.fail(high_column, "expected more than in column \"" + low_column + "\"");
        series.lives.push_back({low, high});
        continue;
      }
      const double censored = censored_column.empty() ? 0 : row.number(censored_column);
      if (censored != 0 && censored != 1) row.fail(censored_column, "expected 0 or 1");
      const Seconds start = bin * std::floor(low / bin);
      series.lives.push_back(censored == 1 ? LifetimeObservation{low, kNever}
                                           : LifetimeObservation{start, start + bin});
    }
    const Seconds step = std::max(kHour, longest / 1000);
    for (Seconds edge = step; edge <= longest; edge += step) series.options.edges.push_back(edge);
    if (series.options.edges.empty()) series.options.edges.push_back(std::max(longest, bin));
  }

  void read_hours(LifetimeSeries& series, const KeyValues& group) const {
    const JsonReader hours = json_.child("hours");
    const CsvTable table = load_csv_file(hours.resolve(hours.required<std::string>("file")));
    const auto columns = hours.optional<std::vector<std::string>>("group_by", {});
    const auto hour = hours.required<std::string>("hour"), count = hours.required<std::string>("count");
    const auto value_of = [&](const std::string& column) -> const std::string& {
      const auto at = std::find(group_by_.begin(), group_by_.end(), column);
      if (at == group_by_.end()) hours.fail("column \"" + column + "\" is not among the series' \"group_by\"");
      return group[static_cast<std::size_t>(at - group_by_.begin())];
    };
    std::array<double, 24> counts{};
    for (const CsvRow& row : table.rows()) {
      const bool is_ours = std::all_of(columns.begin(), columns.end(),
                                       [&](const std::string& column) { return row.text(column) == value_of(column); });
      if (!is_ours) continue;
      const std::int64_t at = row.integer(hour);
      if (at < 0 || at > 23) row.fail(hour, "expected an hour from 0 to 23");
      counts[static_cast<std::size_t>(at)] += number(row, count, kMostMachines);
    }
    if (std::any_of(counts.begin(), counts.end(), [](double value) { return value > 0; }))
      series.revocations_by_hour = counts;
    if (hours.has("utc_offset_by")) {
      const auto column = hours.required<std::string>("utc_offset_by");
      series.utc_offset_h = hours.child("utc_offset_h").required<double>(value_of(column));
      for (const auto& [key, offset] : hours.child("utc_offset_h").items()) (void)offset.as<double>();
    } else {
      series.utc_offset_h = hours.optional<double>("utc_offset_h", 0);
    }
    hours.expect(std::abs(series.utc_offset_h) <= 14, "utc_offset_h", "-14 to 14 hours");
    hours.reject_unknown_keys();
  }

  JsonReader json_;
  std::vector<std::string> group_by_;
};

/// Without what is not a revocation.
Lifetime without_cap(Lifetime lifetime) {
  lifetime.cap.reset();
  return lifetime;
}

/// Machines of 1000 fleets, each started at its own time of day, that are lost up to each age.
std::vector<LossBand> loss_bands(const LifetimeSeries& series, const SpotPool& pool,
                                 const std::function<void()>& on_step) {
  std::vector<LossBand> bands;
  Seconds watched = kNever;   // for so long all machines were
  std::vector<Seconds> ends;  // of watching, by machine
  for (const LifetimeObservation& seen : series.lives) {
    if (seen.high == kNever) watched = std::min(watched, seen.low);
    ends.insert(ends.end(), static_cast<std::size_t>(std::round(seen.count)), seen.high == kNever ? seen.low : kNever);
  }
  for (const double hours : {1.0, 6.0, 12.0, 24.0}) {
    const Seconds age = kHour * hours;
    if (age > series.options.edges.back()) break;
    LossBand band{.age = age};
    for (const LifetimeObservation& seen : series.lives)
      if (seen.high <= age) band.counted += seen.count;
    bands.push_back(band);
  }
  constexpr int kFleets = 1000;
  std::vector<std::vector<double>> lost(bands.size());
  Rng starts{1, "starts of simulated machines"};
  for (int fleet = 0; fleet < kFleets; ++fleet) {
    if (on_step) on_step();
    std::vector<double> counts(bands.size());
    for (const Seconds end : ends) {
      Fleet machine{{{.slots = 1, .pool = pool}}, starts.uniform(0, 86400), starts.bits()};
      Seconds gone = kNever;
      while (const auto event = machine.next())
        if (event->kind == FleetEvent::Kind::kRevoked) gone = event->at;
      if (gone > end || (series.cap && gone >= *series.cap)) continue;
      for (std::size_t i = 0; i < bands.size(); ++i)
        if (gone <= bands[i].age) ++counts[i];
    }
    for (std::size_t i = 0; i < bands.size(); ++i) lost[i].push_back(counts[i]);
  }
  for (std::size_t i = 0; i < bands.size(); ++i) {
    bands[i].low = percentile(lost[i], 2.5);
    bands[i].high = percentile(lost[i], 97.5);
  }
  return bands;
}

}  // namespace

double LifetimeSeries::machines() const {
  double sum = 0;
  for (const LifetimeObservation& seen : lives) sum += seen.count;
  return sum;
}
double LifetimeSeries::revocations() const {
  double sum = 0;
  for (const LifetimeObservation& seen : lives)
    if (seen.high != kNever) sum += seen.count;
  return sum;
}

LifetimeStudy load_lifetime_study(const fs::path& path) {
  const Json file = load_json_file(path);
  const JsonReader json{file, path.string()};
  json.begin_file(lifetime_study_schema, "lifetimes");
  LifetimeStudy study{.name = path.stem().string(), .series = {}};
  std::set<std::string> names;
  for (const JsonReader& entry : json.children("series")) {
    for (LifetimeSeries& series : SeriesReader{entry}.read()) {
      if (!names.insert(series.name).second) entry.fail("name", "two series are named \"" + series.name + "\"");
      study.series.push_back(std::move(series));
    }
  }
  if (study.series.empty()) json.fail("series", "expected at least one series");
  json.reject_unknown_keys();
  return study;
}

SeriesFit fit_series(const LifetimeSeries& series, const std::function<void()>& on_step) {
  SeriesFit fit;
  if (series.fleet) {
    const FleetRecord record = observe(*series.fleet, series.resolution, series.slots);
    FleetFit fleet = fit_fleet(record, series.fleet->has_names, on_step);
    fit.pool = std::move(fleet.pool);
    fit.law = fleet.life_law + (fleet.wait_law.empty() ? "" : "; " + fleet.wait_law);
    fit.values = fleet.life_values;
    fit.wait_values = fleet.wait_values;
  } else {
    LifetimeFitOptions options = series.options;
    options.on_step = on_step;
    fit.tried = fit_lifetime(series.lives, options);
    fit.pool.lifetime = fit.tried.front().lifetime;
    fit.law = fit.tried.front().law;
    fit.values = fit.tried.front().values;
  }
  fit.pool.name = series.name;
  fit.fitted_on = series.fitted_on;
  fit.pool.notice = series.notice;
  fit.pool.lifetime.cap = series.cap;
  if (series.revocations_by_hour) {
    const HourFit hours = fit_hours(*series.revocations_by_hour);
    fit.hour_values = hours.values;
    if (hours.values > 0) fit.pool.lifetime.hours = HourFactors{hours.factors, series.utc_offset_h};
  }
  fit.pool.source = series.source + ". Fitted: " + describe(fit);
  const Json written = to_json(fit.pool);
  fit.pool = read_spot_pool(series.name, JsonReader{written, series.name});
  return fit;
}

SeriesQuality check_series(const LifetimeSeries& series, const SpotPool& pool, const std::function<void()>& on_step) {
  SeriesQuality quality;
  if (series.fleet) {
    const FleetRecord record = observe(*series.fleet, series.resolution, series.slots);
    const int fleets = series.slots == 1 ? 500 : 100;
    quality.comparison = compare(record, pool, series.fleet->has_names, fleets, 10'000, on_step);
    quality.distance = quality.comparison->life_distance;
    quality.observed = quality.comparison->observed;
    quality.fitted = quality.comparison->simulated;
    return quality;
  }
  const Lifetime lifetime = without_cap(pool.lifetime);
  quality.observed = kaplan_meier(series.lives);
  quality.distance = survival_distance(lifetime, quality.observed, series.options.edges);
  const Seconds end = series.options.edges.back();
  for (int i = 1; i <= 200; ++i) {
    quality.fitted.ages.push_back(end * (i / 200.0));
    quality.fitted.survival.push_back(lifetime.survival(quality.fitted.ages.back()));
  }
  quality.bands = loss_bands(series, pool, on_step);
  return quality;
}

std::string describe(const SeriesFit& fit) {
  std::string text = fit.law + ", " + std::to_string(fit.values) + (fit.values == 1 ? " value" : " values");
  if (fit.wait_values > 0) text += " and " + std::to_string(fit.wait_values) + " of the time until there is another";
  if (fit.hour_values > 0) text += "; " + std::to_string(fit.hour_values) + " of the hour of day";
  return text;
}

std::string describe(const LifetimeSeries& series, const SeriesQuality& quality) {
  std::string text = "KS " + field(quality.distance);
  if (const auto& comparison = quality.comparison) {
    text += "; mean size " + field(comparison->simulated_mean_size) + ", recorded " + field(comparison->mean_size);
    if (series.slots > 1)
      text += "; sizes of " + std::to_string(comparison->losses) + " losses differ by " +
              field(comparison->loss_size_distance);
    return text;
  }
  text += "; " + field(series.revocations()) + " of " + field(series.machines()) + " revoked";
  for (const LossBand& band : quality.bands) {
    text += "; " + field(band.age / kHour) + " h: " + field(band.counted) + (band.holds() ? " in " : " NOT in ") +
            field(band.low) + ".." + field(band.high);
  }
  return text;
}

Json lifetime_catalog(const std::vector<SeriesFit>& fits) {
  Json pools = Json::object();
  for (const SeriesFit& fit : fits) {
    const Json pool = to_json(fit.pool);
    Json& written = pools[fit.pool.name];
    for (const auto& [key, value] : pool.items()) {
      written[key] = value;
      if (key == "source" && !fit.fitted_on.empty()) written["fitted_on"] = parse_json(fit.fitted_on, fit.pool.name);
    }
  }
  return {{"format", 1}, {"spot_pools", std::move(pools)}};
}

}  // namespace rehearse
