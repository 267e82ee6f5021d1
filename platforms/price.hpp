#pragma once
// What rented machines and storage cost.
//
//   const CostModel costs{history, start_utc_s};           // or CostModel{}: list prices
//   costs.usd(group.instance, is_spot, zone, running, revoked, Ended::kByProvider)
//
// A machine costs the integral of its price over the time that the provider bills: billed_time() from when it runs.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

struct Instance;

/// How a provider turns the time that a machine runs into the time that it charges. Billing begins when the provider
/// has started the machine, before its system has booted (platforms/startup.hpp: after staging).
struct BillingRule {
  std::string name;
  Seconds granularity{1};     // what is charged is a multiple of this, rounded up
  Seconds minimum{};          // and at least this much
  Seconds free_if_revoked{};  // a spot machine that the provider takes back before it has run this long is not charged
  std::string source;
};

enum class Ended { kByUser, kByProvider };

/// As the provider's rule says, or as long as the machine runs where that is charged at all.
enum class Charged { kAsBilled, kByTheMoment };

/// The time that is charged: 0 if `running` is 0 or, for a spot machine ended by the provider, below free_if_revoked;
/// otherwise `running`, or the minimum if that is more, rounded up to whole granularities.
Seconds billed_time(const BillingRule& rule, Seconds running, bool is_spot, Ended ended);

/// The rules of "aws" (Linux), "gce" and "azure"; of any other provider, and of none: every moment is charged.
const BillingRule& billing_rule_of(const std::string& provider);

/// { "name": "my-cloud", "granularity": "1min", "minimum": "1h", "free_if_revoked": "0s", "source": "..." }. Throws
/// InputError.
BillingRule read_billing_rule(const JsonReader& json);

/// A price that changes at known moments and stays in between; before the first it is the first.
class PriceSeries {
 public:
  struct Point {
    double utc_s;  // seconds since 1970
    double usd_per_hour;
  };
  /// Takes at least one point, in rising order of their times; otherwise throws std::invalid_argument.
  explicit PriceSeries(std::vector<Point> points);

  double usd_per_hour(double utc_s) const;
  /// The integral of the price over [from, to], from <= to.
  double usd(double from_utc_s, double to_utc_s) const;
  /// usd() by the length of the interval, per hour; the price at `from` if it has none.
  double mean_usd_per_hour(double from_utc_s, double to_utc_s) const;

  std::span<const Point> points() const { return points_; }
  /// "begins 50 s after the start", if its prices are none of that date; empty if it has begun by then and not ended.
  std::string doubt_at(double utc_s) const;
  /// Whether the price is known over the interval: it begins after the first point and ends before the last.
  bool covers(double from_utc_s, double to_utc_s) const;

 private:
  std::vector<Point> points_;
};

/// Spot prices by zone and instance type, from a catalog's prices/NAME.json:
///   { "format": 1, "source": "...", "file": "spot_prices.csv.gz" }, relative to itself, with the columns zone,
///   instance_type, timestamp_utc, usd_per_hour; or, in place of "file",
///   "series": [ { "zone": "us-east-1a", "instance": "p3.2xlarge", "points": [[utc_s, usd_per_hour], ...] } ]
class PriceHistory {
 public:
  /// The prices of an instance type in a zone; nullptr if there are none.
  const PriceSeries* find(const std::string& zone, const std::string& instance) const;

  std::string source;
  std::map<std::pair<std::string, std::string>, PriceSeries> series;  // by zone and instance type
};

/// Reads such a file. Throws InputError.
PriceHistory read_price_history(const JsonReader& json);
/// The series of these zones and instances alone, written so that read_price_history() reads them back.
Json to_json(const PriceHistory& history, std::span<const std::pair<std::string, std::string>> wanted);

/// Whether `place`, a zone or a region, lies in `region`: us-east-1c in us-east-1, us-west1-b in us-west1.
bool lies_in(std::string_view place, std::string_view region);

/// What rented machines cost. Without a history: at list prices.
class CostModel {
 public:
  CostModel() = default;
  /// Spot machines whose zone and type the history has cost what they did at that time, from `start_utc_s` on.
  CostModel(std::shared_ptr<const PriceHistory> history, double start_utc_s)
      : history_{std::move(history)}, start_utc_s_{start_utc_s} {}

  /// USD for one machine that runs from `from` to `to` after the start; none if its price is unknown.
  std::optional<double> usd(const Instance& instance, bool is_spot, const std::string& place, Seconds from, Seconds to,
                            Ended ended, Charged charged = Charged::kAsBilled) const;
  /// Mean price over the interval, whatever is billed.
  std::optional<double> usd_per_hour(const Instance& instance, bool is_spot, const std::string& place, Seconds from,
                                     Seconds to) const;

 private:
  const PriceSeries* series_of(const Instance& instance, bool is_spot, const std::string& place) const;

  std::shared_ptr<const PriceHistory> history_;
  double start_utc_s_ = 0;
};

/// Disks and buckets, charged by the size that is set aside and the time.
struct StoragePrice {
  std::string name;
  double usd_per_gib_month = 0;  // a month has 730 hours
  std::string date, source;
};

/// USD of a disk or bucket of `size` for `time`:  usd_per_gib_month * size / 2^30 B * time / 730 h.
double storage_usd(const StoragePrice& price, Bytes size, Seconds time);

/// One entry of a catalog's "storage". Throws InputError.
StoragePrice read_storage_price(std::string name, const JsonReader& json);

}  // namespace rehearse
