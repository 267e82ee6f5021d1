#include "platforms/distribution.hpp"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "platforms/profile_fields.hpp"
#include "sim/base/names.hpp"
#include "sim/base/random.hpp"

namespace rehearse {

namespace {

struct Mean {
  Seconds operator()(const Exponential& law) const { return law.mean; }
  Seconds operator()(const Lognormal& law) const { return law.median * std::exp(law.sigma * law.sigma / 2); }
  Seconds operator()(const Weibull& law) const { return law.scale * std::tgamma(1 + 1 / law.shape); }
};

struct Cumulative {
  Seconds t;  // above 0
  double operator()(const Exponential& law) const { return -std::expm1(-(t / law.mean)); }
  double operator()(const Lognormal& law) const { return normal_cumulative(std::log(t / law.median) / law.sigma); }
  double operator()(const Weibull& law) const { return -std::expm1(-std::pow(t / law.scale, law.shape)); }
};

struct Quantile {
  double probability;  // in (0, 1)
  Seconds operator()(const Exponential& law) const { return law.mean * -std::log1p(-probability); }
  Seconds operator()(const Lognormal& law) const {
    return law.median * std::exp(law.sigma * normal_quantile(probability));
  }
  Seconds operator()(const Weibull& law) const {
    return law.scale * std::pow(-std::log1p(-probability), 1 / law.shape);
  }
};

}  // namespace

Seconds Distribution::mean() const { return minimum + std::visit(Mean{}, law); }

double Distribution::cumulative(Seconds t) const { return t > minimum ? std::visit(Cumulative{t - minimum}, law) : 0; }

Seconds Distribution::quantile(double probability) const {
  return probability > 0 ? minimum + std::visit(Quantile{probability}, law) : minimum;
}

Seconds Distribution::draw(Rng& rng) const { return quantile(rng.uniform()); }

double normal_cumulative(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

double normal_quantile(double probability) {
  if (probability > 0.5) return -normal_quantile(1 - probability);
  const double t = std::sqrt(-2 * std::log(probability));
  double x = (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
  for (int i = 0; i < 3; ++i) {
    // Halley on Phi(x) - p: with u = (Phi(x) - p) / phi(x), x -= u / (1 + x u / 2).
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    const double u = (normal_cumulative(x) - probability) / density;
    x -= u / (1 + x * u / 2);
  }
  return x;
}

namespace {

template <class Law>
Law read_law(const JsonReader& json) {
  Law law;
  read_fields(json, law);
  return law;
}

}  // namespace

Distribution read_distribution(const JsonReader& json) {
  Distribution distribution;
  const auto law = json.required<std::string>("law");
  if (law == kTimeLaws[0])
    distribution.law = read_law<Exponential>(json);
  else if (law == kTimeLaws[1])
    distribution.law = read_law<Lognormal>(json);
  else if (law == kTimeLaws[2])
    distribution.law = read_law<Weibull>(json);
  else
    json.fail("law", unknown_name_message("law", law, std::vector<std::string>{kTimeLaws.begin(), kTimeLaws.end()}));
  read_fields(json, distribution);
  json.reject_unknown_keys();
  return distribution;
}

}  // namespace rehearse
