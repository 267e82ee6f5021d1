#include "platforms/spot_pool.hpp"

#include <cmath>
#include <utility>

#include "sim/base/json.hpp"
#include "sim/base/random.hpp"

namespace rehearse {

namespace {

BulkRevocations read_bulk(const JsonReader& json) {
  BulkRevocations bulk{.interval = read_distribution(json.child("interval"))};
  json.child("interval").expect(bulk.interval.mean() >= Seconds{1}, "a mean of at least 1s");
  const JsonReader share = json.child("share");
  const auto shape = [&](const char* key) {
    const auto value = share.required<double>(key);
    share.expect(value >= 0.01 && value <= 1000, key, "0.01 to 1000");
    return value;
  };
  bulk.share_a = shape("a");
  bulk.share_b = shape("b");
  share.expect(bulk.mean_share() >= 0.001, "a and b of a mean share of at least 0.001");
  share.reject_unknown_keys();
  json.reject_unknown_keys();
  return bulk;
}

}  // namespace

double BulkRevocations::draw_share(Rng& rng) const {
  // x = (1 - (1 - u)^(1/b))^(1/a)
  return std::pow(-std::expm1(std::log1p(-rng.uniform()) / share_b), 1 / share_a);
}

double BulkRevocations::mean_share() const {
  const double a = 1 + 1 / share_a;
  return share_b * std::exp(std::lgamma(a) + std::lgamma(share_b) - std::lgamma(a + share_b));
}

SpotPool read_spot_pool(std::string name, const JsonReader& json) {
  SpotPool pool{.name = std::move(name),
                .source = json.required<std::string>("source"),
                .lifetime = read_lifetime(json.child("lifetime")),
                .notice = json.optional<Seconds>("notice", Seconds{})};
  json.expect(pool.notice <= Seconds{86400}, "notice", "at most 1d");
  if (json.has("bulk")) pool.bulk = read_bulk(json.child("bulk"));
  if (json.has("wait")) pool.wait = read_time_law(json.child("wait"));
  json.reject_unknown_keys();
  return pool;
}

}  // namespace rehearse
