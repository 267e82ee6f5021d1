#include "platforms/price.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "platforms/instance.hpp"
#include "platforms/schemas.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/utc_time.hpp"

namespace rehearse {

namespace {

constexpr double kMonthHours = 730;
constexpr double kMostUsdPerHour = 1e6;

using Key = std::pair<std::string, std::string>;
using Points = std::map<Key, std::map<double, double>>;  // zone and instance -> time -> price

/// False if the series has another price for the same time.
bool add_point(Points& points, Key key, double utc_s, double usd_per_hour) {
  const auto [place, is_new] = points[std::move(key)].try_emplace(utc_s, usd_per_hour);
  return is_new || place->second == usd_per_hour;
}

Points load_points(const std::filesystem::path& path) {
  const CsvTable table = load_csv_file(path);
  Points points;
  for (const CsvRow& row : table.rows()) {
    double time = 0;
    try {
      time = parse_utc(row.text("timestamp_utc"));
    } catch (const std::invalid_argument& error) { row.fail("timestamp_utc", error.what()); }
    const double price = row.number("usd_per_hour");
    if (price < 0 || price > kMostUsdPerHour) row.fail("usd_per_hour", "expected a price of 0 to 1000000 USD");
    if (!add_point(points, {std::string{row.text("zone")}, std::string{row.text("instance_type")}}, time, price))
      row.fail("timestamp_utc", "another price for the same zone, instance type and time");
  }
  return points;
}

Points read_points(const JsonReader& json) {
  Points points;
  for (const JsonReader& series : json.children("series")) {
    const Key key{series.required<std::string>("zone"), series.required<std::string>("instance")};
    const std::vector<JsonReader> entries = series.children("points");
    series.expect(!entries.empty(), "points", "at least one [utc_s, usd_per_hour]");
    for (const JsonReader& entry : entries) {
      const auto pair = entry.as<std::vector<double>>();
      entry.expect(pair.size() == 2 && pair[0] >= 0 && pair[1] >= 0 && pair[1] <= kMostUsdPerHour,
                   "[utc_s, usd_per_hour], both at least 0");
      if (!add_point(points, key, pair[0], pair[1])) entry.fail("another price for the same time");
    }
    series.reject_unknown_keys();
  }
  return points;
}

}  // namespace

Seconds billed_time(const BillingRule& rule, Seconds running, bool is_spot, Ended ended) {
  if (running < Seconds{}) throw std::invalid_argument{"a machine ran for a negative time"};
  if (running == Seconds{}) return {};
  if (is_spot && ended == Ended::kByProvider && running < rule.free_if_revoked) return {};
  const Seconds charged = std::max(running, rule.minimum);
  if (rule.granularity == Seconds{}) return charged;
  // Rounding of the clock must not make another unit of a whole number of them.
  return rule.granularity * std::ceil(charged / rule.granularity * (1 - 1e-12));
}

const BillingRule& billing_rule_of(const std::string& provider) {
  static const std::vector<BillingRule> rules{
      {.name = "aws",
       .minimum = Seconds{60},
       .free_if_revoked = Seconds{3600},
       .source = "Amazon EC2 User Guide: Linux (except SUSE) by the second, at least 60 s, since October 2017; Billing "
                 "for interrupted Spot Instances: no charge if EC2 interrupts in the first hour, seconds used after "
                 "it, seconds used if the user ends it"},
      {.name = "gce",
       .minimum = Seconds{60},
       .free_if_revoked = Seconds{60},
       .source = "Google Compute Engine, VM instance pricing (July 2019): by the second, at least 1 minute, from start "
                 "to TERMINATED; Preemptible VM instances: no charge if preempted in the first minute"},
      {.name = "azure",
       .minimum = Seconds{60},
       .source = "Azure virtual machines, 2025: by the second, at least 1 minute, spot machines alike, evicted or not"},
  };
  static const BillingRule every_moment{.granularity = {}, .source = "none: every moment is charged"};
  const auto rule = std::ranges::find(rules, provider, &BillingRule::name);
  return rule == rules.end() ? every_moment : *rule;
}

BillingRule read_billing_rule(const JsonReader& json) {
  BillingRule rule{.name = json.optional<std::string>("name", "inline"),
                   .granularity = json.optional<Seconds>("granularity", Seconds{1}),
                   .minimum = json.optional<Seconds>("minimum", {}),
                   .free_if_revoked = json.optional<Seconds>("free_if_revoked", {}),
                   .source = json.required<std::string>("source")};
  json.reject_unknown_keys();
  return rule;
}

PriceSeries::PriceSeries(std::vector<Point> points) : points_{std::move(points)} {
  const auto is_late = [](const Point& a, const Point& b) { return a.utc_s >= b.utc_s; };
  if (points_.empty() || std::adjacent_find(points_.begin(), points_.end(), is_late) != points_.end())
    throw std::invalid_argument{"a price series needs points in rising order of their times"};
}

double PriceSeries::usd_per_hour(double utc_s) const {
  const auto next = std::upper_bound(points_.begin(), points_.end(), utc_s,
                                     [](double time, const Point& point) { return time < point.utc_s; });
  return next == points_.begin() ? next->usd_per_hour : std::prev(next)->usd_per_hour;
}

double PriceSeries::usd(double from_utc_s, double to_utc_s) const {
  auto next = std::upper_bound(points_.begin(), points_.end(), from_utc_s,
                               [](double time, const Point& point) { return time < point.utc_s; });
  double price = usd_per_hour(from_utc_s), total = 0;
  for (; next != points_.end() && next->utc_s < to_utc_s; ++next) {
    total += price * (next->utc_s - from_utc_s);
    from_utc_s = next->utc_s;
    price = next->usd_per_hour;
  }
  return (total + price * (to_utc_s - from_utc_s)) / kHour.value();
}

double PriceSeries::mean_usd_per_hour(double from_utc_s, double to_utc_s) const {
  if (to_utc_s <= from_utc_s) return usd_per_hour(from_utc_s);
  return usd(from_utc_s, to_utc_s) * kHour.value() / (to_utc_s - from_utc_s);
}

std::string PriceSeries::doubt_at(double utc_s) const {
  const auto text = [](double later, double earlier) { return to_text(Seconds{later - earlier}); };
  if (utc_s < points_.front().utc_s) return "begins " + text(points_.front().utc_s, utc_s) + " after the start";
  if (utc_s > points_.back().utc_s) return "ends " + text(utc_s, points_.back().utc_s) + " before the start";
  return {};
}

bool PriceSeries::covers(double from_utc_s, double to_utc_s) const {
  return points_.front().utc_s <= from_utc_s && to_utc_s <= points_.back().utc_s;
}

const PriceSeries* PriceHistory::find(const std::string& zone, const std::string& instance) const {
  const auto found = series.find({zone, instance});
  return found == series.end() ? nullptr : &found->second;
}

PriceHistory read_price_history(const JsonReader& json) {
  json.begin_file(price_history_schema);
  PriceHistory history{.source = json.required<std::string>("source"), .series = {}};
  const bool has_file = json.has("file");
  if (has_file == json.has("series")) json.fail(R"(expected either "file" or "series")");
  const Points points = has_file ? load_points(json.resolve(json.required<std::string>("file"))) : read_points(json);
  for (const auto& [key, prices] : points) {
    std::vector<PriceSeries::Point> list;
    for (const auto& [time, price] : prices) list.push_back({time, price});
    history.series.emplace(key, PriceSeries{std::move(list)});
  }
  json.reject_unknown_keys();
  return history;
}

Json to_json(const PriceHistory& history, std::span<const std::pair<std::string, std::string>> wanted) {
  Json series = Json::array();
  for (const auto& [zone, instance] : wanted) {
    const PriceSeries* prices = history.find(zone, instance);
    if (prices == nullptr) continue;
    Json points = Json::array();
    for (const PriceSeries::Point& point : prices->points()) points.push_back({point.utc_s, point.usd_per_hour});
    series.push_back({{"zone", zone}, {"instance", instance}, {"points", std::move(points)}});
  }
  return {{"format", 1}, {"source", history.source}, {"series", std::move(series)}};
}

bool lies_in(std::string_view place, std::string_view region) {
  if (!place.starts_with(region)) return false;
  std::string_view rest = place.substr(region.size());
  if (rest.starts_with('-')) rest.remove_prefix(1);
  return place == region || (rest.size() == 1 && std::islower(static_cast<unsigned char>(rest.front())) != 0);
}

const PriceSeries* CostModel::series_of(const Instance& instance, bool is_spot, const std::string& place) const {
  return is_spot && history_ ? history_->find(place, instance.name) : nullptr;
}

std::optional<double> CostModel::usd(const Instance& instance, bool is_spot, const std::string& place, Seconds from,
                                     Seconds to, Ended ended, Charged charged) const {
  Seconds billed = billed_time(instance.billing_rule(), to - from, is_spot, ended);
  if (charged == Charged::kByTheMoment) billed = std::min(billed, to - from);
  if (const PriceSeries* series = series_of(instance, is_spot, place)) {
    const double begin = start_utc_s_ + from.value();
    return series->usd(begin, begin + billed.value());
  }
  const std::optional<double> price = instance.usd_per_hour(is_spot, place);
  if (!price) return {};
  return *price * billed.value() / kHour.value();
}

std::optional<double> CostModel::usd_per_hour(const Instance& instance, bool is_spot, const std::string& place,
                                              Seconds from, Seconds to) const {
  if (const PriceSeries* series = series_of(instance, is_spot, place))
    return series->mean_usd_per_hour(start_utc_s_ + from.value(), start_utc_s_ + to.value());
  return instance.usd_per_hour(is_spot, place);
}

double storage_usd(const StoragePrice& price, Bytes size, Seconds time) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  return price.usd_per_gib_month * (as_double(size) / kGiB) * (time.value() / (kMonthHours * kHour.value()));
}

StoragePrice read_storage_price(std::string name, const JsonReader& json) {
  json.use_schema(storage_schema);
  StoragePrice price{.name = std::move(name),
                     .usd_per_gib_month = json.required<double>("usd_per_gib_month"),
                     .date = json.required<std::string>("date"),
                     .source = json.required<std::string>("source")};
  json.expect(price.usd_per_gib_month >= 0, "usd_per_gib_month", "a price of at least 0");
  json.reject_unknown_keys();
  return price;
}

}  // namespace rehearse
