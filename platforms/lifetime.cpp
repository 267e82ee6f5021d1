#include "platforms/lifetime.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/json.hpp"
#include "sim/base/random.hpp"

namespace rehearse {

namespace {

constexpr double kDay = 86400;

struct CumulativeOfLaw {
  Seconds t;  // above 0
  double operator()(const Distribution& law) const { return law.cumulative(t); }
  double operator()(const Mixture& law) const {
    double sum = 0;
    for (const Mixture::Part& part : law.parts) sum += part.weight * part.law.cumulative(t);
    return sum;
  }
  double operator()(const Bathtub& law) const {
    const double early = -std::expm1(-(t / law.early_mean));
    const double at_zero = std::exp(-(law.deadline / law.late_rise));
    const double late =
        (std::exp((std::min(t, law.deadline) - law.deadline) / law.late_rise) - at_zero) / (1 - at_zero);
    return law.early * early + law.late * late;
  }
  double operator()(const Empirical& law) const {
    const auto above = std::upper_bound(law.ages.begin(), law.ages.end(), t);
    const auto i = static_cast<std::size_t>(above - law.ages.begin());
    if (above == law.ages.end()) return law.cumulative.back();
    const Seconds before = i == 0 ? Seconds{} : law.ages[i - 1];
    const double start = i == 0 ? 0 : law.cumulative[i - 1];
    return start + (law.cumulative[i] - start) * ((t - before) / (law.ages[i] - before));
  }
};

struct TimeAt {
  double uniform;  // in [0, 1)
  Seconds operator()(const Distribution& law) const { return law.quantile(uniform); }
  Seconds operator()(const Mixture& law) const {
    double rest = uniform;
    for (const Mixture::Part& part : law.parts) {
      if (rest < part.weight) return part.law.quantile(std::min(rest / part.weight, 1 - 0x1p-53));
      rest -= part.weight;
    }
    return kNever;
  }
  Seconds operator()(const Bathtub& law) const {
    if (uniform < law.early) return law.early_mean * -std::log1p(-std::min(uniform / law.early, 1 - 0x1p-53));
    const double rest = uniform - law.early;
    if (rest >= law.late) return kNever;
    const double at_zero = std::exp(-(law.deadline / law.late_rise));
    const Seconds age = law.deadline + law.late_rise * std::log(at_zero + (1 - at_zero) * (rest / law.late));
    return std::max(age, Seconds{});
  }
  Seconds operator()(const Empirical& law) const {
    const auto above = std::upper_bound(law.cumulative.begin(), law.cumulative.end(), uniform);
    const auto i = static_cast<std::size_t>(above - law.cumulative.begin());
    if (above == law.cumulative.end()) return kNever;
    const Seconds before = i == 0 ? Seconds{} : law.ages[i - 1];
    const double start = i == 0 ? 0 : law.cumulative[i - 1];
    return before + (law.ages[i] - before) * ((uniform - start) / (law.cumulative[i] - start));
  }
};

double read_share(const JsonReader& json, const char* key) {
  const auto share = json.required<double>(key);
  json.expect(share > 0 && share <= 1, key, "a share above 0, at most 1");
  return share;
}

Seconds read_time(const JsonReader& json, const char* key) {
  const auto time = json.required<Seconds>(key);
  json.expect(time > Seconds{} && time <= Seconds{1e9}, key, "a time above 0s, at most 1e9s");
  return time;
}

constexpr double kRounding = 1e-9;  // of a sum of shares that are written in decimals

Mixture read_mixture(const JsonReader& json) {
  Mixture mixture;
  double sum = 0;
  for (const JsonReader& part : json.children("parts")) {
    mixture.parts.push_back({read_share(part, "weight"), read_distribution(part.child("time"))});
    sum += mixture.parts.back().weight;
    part.reject_unknown_keys();
  }
  json.expect(!mixture.parts.empty() && mixture.parts.size() <= 16, "parts", "1 to 16 parts");
  json.expect(sum <= 1 + kRounding, "parts", "weights whose sum is at most 1");
  return mixture;
}

Bathtub read_bathtub(const JsonReader& json) {
  const Bathtub bathtub{.early = read_share(json, "early"),
                        .early_mean = read_time(json, "early_mean"),
                        .late = read_share(json, "late"),
                        .late_rise = read_time(json, "late_rise"),
                        .deadline = read_time(json, "deadline")};
  json.expect(bathtub.early + bathtub.late <= 1 + kRounding, "late", "a share that is at most 1 with \"early\"");
  json.expect(bathtub.late_rise <= bathtub.deadline, "late_rise", "at most the \"deadline\"");
  return bathtub;
}

Empirical read_empirical(const JsonReader& json) {
  Empirical law{json.required<std::vector<Seconds>>("ages"), json.required<std::vector<double>>("cumulative")};
  json.expect(!law.ages.empty() && law.ages.size() <= 100'000, "ages", "1 to 100000 ages");
  json.expect(law.ages.size() == law.cumulative.size(), "cumulative", "as many values as \"ages\"");
  for (std::size_t i = 0; i < law.ages.size(); ++i) {
    json.expect(law.ages[i] > (i == 0 ? Seconds{} : law.ages[i - 1]) && law.ages[i] <= Seconds{1e9}, "ages",
                "rising times above 0s, at most 1e9s");
    json.expect(law.cumulative[i] >= (i == 0 ? 0 : law.cumulative[i - 1]) && law.cumulative[i] <= 1, "cumulative",
                "shares from 0 to 1 that do not fall");
  }
  return law;
}

HourFactors read_hours(const JsonReader& json) {
  HourFactors hours{.utc_offset_h = json.optional<double>("utc_offset_h", 0)};
  json.expect(std::abs(hours.utc_offset_h) <= 14, "utc_offset_h", "-14 to 14 hours");
  const auto factors = json.required<std::vector<double>>("factors");
  json.expect(factors.size() == 24, "factors", "24 factors, one for each hour");
  double sum = 0;
  for (const double factor : factors) {
    json.expect(factor >= 0, "factors", "factors of at least 0");
    sum += factor;
  }
  json.expect(std::abs(sum / 24 - 1) < 1e-3, "factors", "factors whose mean is 1");
  for (std::size_t h = 0; h < 24; ++h) hours.factors[h] = factors[h] * 24 / sum;
  json.reject_unknown_keys();
  return hours;
}

}  // namespace

double TimeLaw::cumulative(Seconds t) const { return t > Seconds{} ? std::visit(CumulativeOfLaw{t}, law) : 0; }

Seconds TimeLaw::at(double uniform) const { return std::visit(TimeAt{uniform}, law); }

Seconds HourFactors::stretch(Seconds age, double start_s_utc) const {
  if (age == kNever) return age;
  const double days = std::floor(age.value() / kDay);
  double left = age.value() - days * kDay;
  const double local = start_s_utc + utc_offset_h * kHour.value();
  double time_of_day = local - kDay * std::floor(local / kDay);
  double stretched = days * kDay;
  for (int i = 0; i < 50; ++i) {  // a day ages by a day, so 25 hours or parts of hours are enough
    const double hour = std::min(std::floor(time_of_day / kHour.value()), 23.0);
    const double until_next = (hour + 1) * kHour.value() - time_of_day;
    const double factor = factors[static_cast<std::size_t>(hour)];
    if (factor * until_next >= left) return Seconds{stretched + (left > 0 ? left / factor : 0)};
    left -= factor * until_next;
    stretched += until_next;
    time_of_day = hour >= 23 ? 0 : (hour + 1) * kHour.value();
  }
  return Seconds{stretched};
}

double Lifetime::survival(Seconds age) const {
  if (age < Seconds{}) return 1;
  if (cap && age >= *cap) return 0;
  const double early = age < start_within ? 1 - age / start_within : 0;
  return (1 - start_share) * (1 - law.cumulative(age)) + start_share * early;
}

Lifetime::Age Lifetime::draw_age(Rng& rng) const {
  const double which = rng.uniform(), where = rng.uniform();
  const bool is_lost_at_start = which < start_share;
  return {is_lost_at_start ? start_within * where : law.at(where), is_lost_at_start};
}

Seconds Lifetime::draw(Rng& rng, double start_s_utc) const {
  const auto [age, is_lost_at_start] = draw_age(rng);
  const Seconds lived = std::max(hours && !is_lost_at_start ? hours->stretch(age, start_s_utc) : age, kShortestPeriod);
  return cap ? std::min(lived, *cap) : lived;
}

TimeLaw read_time_law(const JsonReader& json) {
  const auto law = json.required<std::string>("law");
  TimeLaw time;
  if (law == "mixture")
    time.law = read_mixture(json);
  else if (law == "bathtub")
    time.law = read_bathtub(json);
  else if (law == "empirical")
    time.law = read_empirical(json);
  else
    time.law = read_distribution(json);
  json.reject_unknown_keys();
  return time;
}

Lifetime read_lifetime(const JsonReader& json) {
  Lifetime lifetime{.law = read_time_law(json.child("law"))};
  if (json.has("start")) {
    const JsonReader start = json.child("start");
    lifetime.start_share = read_share(start, "share");
    lifetime.start_within = start.optional<Seconds>("within", Seconds{});
    start.reject_unknown_keys();
  }
  if (json.has("cap")) {
    lifetime.cap = read_time(json, "cap");
    json.expect(*lifetime.cap >= kShortestPeriod, "cap", "at least 1s");
  }
  if (json.has("hours")) lifetime.hours = read_hours(json.child("hours"));
  json.reject_unknown_keys();
  return lifetime;
}

}  // namespace rehearse
