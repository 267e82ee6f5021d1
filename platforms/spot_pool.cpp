#include "platforms/spot_pool.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "platforms/pool_origin.hpp"
#include "platforms/schemas.hpp"
#include "sim/base/json.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/base/random.hpp"

namespace rehearse {

namespace {

BulkRevocations read_bulk(const JsonReader& json) {
  BulkRevocations bulk{.interval = read_distribution(json.child("interval"))};
  json.child("interval").expect(bulk.interval.mean() >= Seconds{10}, "a mean of at least 10s");
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
  if (json.has("outage")) bulk.outage = read_time_law(json.child("outage"));
  json.reject_unknown_keys();
  return bulk;
}

double rounded(double value) {
  constexpr double kDigits = 4;
  if (value == 0) return 0;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) + 1 - kDigits);
  return unit < 1 ? std::round(value / unit) / std::round(1 / unit) : std::round(value / unit) * unit;
}
std::string text(Seconds time) { return to_text(Seconds{rounded(time.value())}); }

Json to_json(const Distribution& law) {
  struct Write {
    Json operator()(const Exponential& part) const { return {{"law", "exponential"}, {"mean", text(part.mean)}}; }
    Json operator()(const Lognormal& part) const {
      return {{"law", "lognormal"}, {"median", text(part.median)}, {"sigma", rounded(part.sigma)}};
    }
    Json operator()(const Weibull& part) const {
      return {{"law", "weibull"}, {"scale", text(part.scale)}, {"shape", rounded(part.shape)}};
    }
  };
  Json json = std::visit(Write{}, law.law);
  if (law.minimum > Seconds{}) json["minimum"] = text(law.minimum);
  return json;
}

/// Shares are rounded down, so that their sum does not grow above 1.
double share_text(double share) { return std::max(1e-6, std::floor(share * 1e6) / 1e6); }

Json to_json(const TimeLaw& law) {
  struct Write {
    Json operator()(const Distribution& simple) const { return to_json(simple); }
    Json operator()(const Mixture& mixture) const {
      Json parts = Json::array();
      double sum = 0, written = 0;
      for (const Mixture::Part& part : mixture.parts) {
        sum += part.weight;
        // The last part gets what the sum leaves, so that a mixture of all machines stays one.
        const bool is_last = &part == &mixture.parts.back();
        const double weight = is_last ? std::round((sum - written) * 1e6) / 1e6 : share_text(part.weight);
        written += weight;
        parts.push_back({{"weight", weight}, {"time", to_json(part.law)}});
      }
      return {{"law", "mixture"}, {"parts", std::move(parts)}};
    }
    Json operator()(const Bathtub& bathtub) const {
      return {{"law", "bathtub"},
              {"early", share_text(bathtub.early)},
              {"early_mean", text(bathtub.early_mean)},
              {"late", share_text(bathtub.late)},
              {"late_rise", text(bathtub.late_rise)},
              {"deadline", text(bathtub.deadline)}};
    }
    Json operator()(const Empirical& empirical) const {
      Json ages = Json::array();
      for (const Seconds age : empirical.ages) ages.push_back(to_text(age));
      return {{"law", "empirical"}, {"ages", std::move(ages)}, {"cumulative", empirical.cumulative}};
    }
  };
  return std::visit(Write{}, law.law);
}

Json to_json(const Lifetime& lifetime) {
  Json json{{"law", to_json(lifetime.law)}};
  if (lifetime.start_share > 0)
    json["start"] = {{"share", share_text(lifetime.start_share)}, {"within", text(lifetime.start_within)}};
  if (lifetime.cap) json["cap"] = text(*lifetime.cap);
  if (lifetime.hours) {
    Json factors = Json::array();
    for (const double factor : lifetime.hours->factors) factors.push_back(std::round(factor * 1e4) / 1e4);
    json["hours"] = {{"utc_offset_h", lifetime.hours->utc_offset_h}, {"factors", std::move(factors)}};
  }
  return json;
}

}  // namespace

namespace {

/// The share x with F(x) = u: (1 - (1 - u)^(1/b))^(1/a).
double share_at(const BulkRevocations& bulk, double u) {
  return std::pow(-std::expm1(std::log1p(-u) / bulk.share_b), 1 / bulk.share_a);
}

}  // namespace

double BulkRevocations::draw_share(Rng& rng) const { return share_at(*this, rng.uniform()); }

double BulkRevocations::hits_any_of(int machines) const {
  constexpr int kShares = 1000;  // alike in probability
  double spared = 0;
  for (int i = 0; i < kShares; ++i) spared += std::pow(1 - share_at(*this, (i + 0.5) / kShares), machines);
  return 1 - spared / kShares;
}

double BulkRevocations::mean_share() const {
  const double a = 1 + 1 / share_a;
  return share_b * std::exp(std::lgamma(a) + std::lgamma(share_b) - std::lgamma(a + share_b));
}

SpotPool read_spot_pool(std::string name, const JsonReader& json) {
  json.use_schema(spot_pool_schema);
  SpotPool pool{.name = std::move(name),
                .source = json.required<std::string>("source"),
                .lifetime = read_lifetime(json.child("lifetime")),
                .notice = json.optional<Seconds>("notice", Seconds{})};
  json.expect(pool.notice <= Seconds{86400}, "notice", "at most 1d");
  if (json.has("bulk")) pool.bulk = read_bulk(json.child("bulk"));
  if (json.has("churn")) {
    pool.churn = read_churn(json.child("churn"));
    json.expect(!pool.lifetime.hours, "churn", "none in a pool with \"hours\"");
  }
  if (json.has("wait")) pool.wait = read_time_law(json.child("wait"));
  (void)read_pool_origin(json);
  json.reject_unknown_keys();
  return pool;
}

Json to_json(const SpotPool& pool) {
  Json json{{"source", pool.source}, {"lifetime", to_json(pool.lifetime)}};
  if (pool.notice > Seconds{}) json["notice"] = text(pool.notice);
  if (pool.bulk) {
    Json bulk{{"interval", to_json(pool.bulk->interval)},
              {"share", {{"a", rounded(pool.bulk->share_a)}, {"b", rounded(pool.bulk->share_b)}}}};
    if (pool.bulk->outage) bulk["outage"] = to_json(*pool.bulk->outage);
    json["bulk"] = std::move(bulk);
  }
  if (pool.churn)
    json["churn"] = {{"factor", rounded(pool.churn->factor)},
                     {"calm_mean", text(pool.churn->calm_mean)},
                     {"churn_mean", text(pool.churn->churn_mean)}};
  if (pool.wait) json["wait"] = to_json(*pool.wait);
  return json;
}

}  // namespace rehearse
