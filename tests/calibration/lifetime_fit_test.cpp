#include "calibration/lifetime_fit.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "sim/base/random.hpp"

namespace rehearse {

namespace {

std::vector<LifetimeObservation> hourly(const std::vector<double>& counts, double machines) {
  std::vector<LifetimeObservation> seen;
  double left = machines;
  for (std::size_t h = 0; h < counts.size(); ++h) {
    if (counts[h] > 0)
      seen.push_back(
          {Seconds{3600.0 * static_cast<double>(h)}, Seconds{3600.0 * static_cast<double>(h + 1)}, counts[h]});
    left -= counts[h];
  }
  if (left > 0) seen.push_back({Seconds{3600.0 * static_cast<double>(counts.size())}, kNever, left});
  return seen;
}

LifetimeFitOptions hour_edges(int hours) {
  LifetimeFitOptions options;
  for (int h = 1; h <= hours; ++h) options.edges.push_back(Seconds{3600.0 * h});
  return options;
}

/// Lives drawn from the law, seen exactly up to `watched`, then still running.
std::vector<LifetimeObservation> draws(const Lifetime& truth, int machines, double watched_s) {
  Rng rng{21, "lives"};
  std::vector<LifetimeObservation> seen;
  for (int i = 0; i < machines; ++i) {
    const double age = truth.draw(rng, 0).value();
    seen.push_back(age > watched_s ? LifetimeObservation{Seconds{watched_s}, kNever}
                                   : LifetimeObservation{Seconds{age - 0.5}, Seconds{age + 0.5}});
  }
  return seen;
}

const LifetimeFit& find(const std::vector<LifetimeFit>& fits, const std::string& law) {
  for (const LifetimeFit& fit : fits)
    if (fit.law == law) return fit;
  FAIL("no fit of " << law);
  return fits.front();
}

}  // namespace

TEST_CASE("Kaplan and Meier's curve of a worked example") {
  // 6 machines: gone at 6, 6, 10, 13; still running when last seen at 6 and 11.
  //   S(6) = 1 - 2/6 = 2/3;  S(10) = 2/3 (1 - 1/3) = 4/9;  S(13) = 4/9 (1 - 1/1) = 0
  const SurvivalCurve curve = kaplan_meier({{Seconds{6}, Seconds{6}},
                                            {Seconds{6}, Seconds{6}},
                                            {Seconds{6}, kNever},
                                            {Seconds{10}, Seconds{10}},
                                            {Seconds{11}, kNever},
                                            {Seconds{13}, Seconds{13}}});
  REQUIRE(curve.ages == std::vector<Seconds>{Seconds{6}, Seconds{10}, Seconds{13}});
  CHECK(curve.at(Seconds{5.9}) == 1);
  CHECK(curve.at(Seconds{6}) == doctest::Approx(2.0 / 3));
  CHECK(curve.at(Seconds{12}) == doctest::Approx(4.0 / 9));
  CHECK(curve.at(Seconds{13}) == doctest::Approx(0));
}

TEST_CASE("the likeliest exponential mean is the time at risk over the revocations") {
  const std::vector<LifetimeObservation> seen = draws({.law = {Distribution{Exponential{Seconds{7200}}}}}, 400, 10'000);
  double at_risk = 0, revoked = 0;
  for (const LifetimeObservation& one : seen) {
    at_risk += one.high == kNever ? one.low.value() : (one.low + one.high).value() / 2;
    revoked += one.high != kNever;
  }
  const LifetimeFit fit = find(fit_lifetime(seen, {.edges = {Seconds{3600}}}), "exponential");
  const auto& law = std::get<Exponential>(std::get<Distribution>(fit.lifetime.law.law).law);
  CHECK(law.mean.value() == doctest::Approx(at_risk / revoked).epsilon(1e-3));
}

TEST_CASE("values of a Weibull law are found again from hourly counts") {
  const Lifetime truth{.law = {Distribution{Weibull{Seconds{6 * 3600}, 0.7}}}};
  std::vector<double> counts;
  for (int h = 0; h < 24; ++h)
    counts.push_back(1000 * (truth.survival(Seconds{3600.0 * h}) - truth.survival(Seconds{3600.0 * (h + 1)})));
  const LifetimeFit fit = find(fit_lifetime(hourly(counts, 1000), hour_edges(24)), "Weibull");
  const auto& law = std::get<Weibull>(std::get<Distribution>(fit.lifetime.law.law).law);
  CHECK(law.scale.value() == doctest::Approx(6 * 3600).epsilon(0.01));
  CHECK(law.shape == doctest::Approx(0.7).epsilon(0.01));
  CHECK(fit.distance < 0.002);
}

TEST_CASE("K80 in us-east1, 14 of 30 lost in the first hour and none later: a mass at the start does that") {
  LifetimeFitOptions options = hour_edges(24);
  options.start_within = Seconds{3600};
  std::vector<double> counts(24, 0.0);
  counts[0] = 14;
  const LifetimeFit fit = fit_lifetime(hourly(counts, 30), options).front();
  CHECK(fit.law == "mass at the start, the others never");
  CHECK(fit.values == 1);
  CHECK(fit.lifetime.start_share == doctest::Approx(14.0 / 30).epsilon(1e-3));
  CHECK(fit.distance < 0.001);
}

TEST_CASE("of laws that are near enough the one with the least AIC is chosen, with at most so many values") {
  const auto seen = draws(
      {.law = {Mixture{{{0.4, {Exponential{Seconds{600}}}}, {0.6, {Exponential{Seconds{40'000}}}}}}}}, 500, 86'400);
  for (const int most : {1, 2, 5}) {
    LifetimeFitOptions options = hour_edges(24);
    options.most_values = most;
    options.most_distance = 0.03;
    const auto fits = fit_lifetime(seen, options);
    for (const LifetimeFit& fit : fits) {
      CHECK(fit.values <= most);
      CHECK(fit.aic == doctest::Approx(2 * fit.values - 2 * fit.log_likelihood));
      if (fit.distance <= 0.03) CHECK(fits.front().aic <= fit.aic + 1e-9);
    }
    if (most == 5) CHECK(fits.front().distance <= 0.03);
    if (most == 1) CHECK(fits.front().distance > 0.1);
  }
}

TEST_CASE("a probe sees lives in whole looks and misses short ones; the law is found all the same") {
  const double every = 600, mean = 1500;
  Rng rng{8, "lives"};
  std::vector<LifetimeObservation> seen;
  while (seen.size() < 4000) {
    const double start = rng.uniform(0, every), end = start + rng.exponential(mean);
    const double looks = std::floor(end / every);  // at every, 2 every, ...
    if (looks > 0) seen.push_back({Seconds{(looks - 1) * every}, Seconds{looks * every}});
  }
  LifetimeFitOptions options;
  options.edges = {Seconds{600}, Seconds{1200}, Seconds{3000}};
  options.looked_at_every = Seconds{every};
  const LifetimeFit fit = find(fit_lifetime(seen, options), "exponential");
  const auto& law = std::get<Exponential>(std::get<Distribution>(fit.lifetime.law.law).law);
  CHECK(law.mean.value() == doctest::Approx(mean).epsilon(0.05));
  CHECK(fit.distance < 0.02);
}

TEST_CASE("where nobody was revoked nobody is") {
  const auto fits = fit_lifetime({{Seconds{1e5}, kNever}}, {.edges = {Seconds{3600}}});
  REQUIRE(fits.size() == 1);
  CHECK(fits[0].values == 0);
  CHECK(fits[0].lifetime.survival(Seconds{1e6}) > 0.99);
}

TEST_CASE("revocations by hour: waves are found where there are some, none where there are none") {
  std::array<double, 24> flat{}, wave{};
  for (std::size_t h = 0; h < 24; ++h) {
    flat[h] = 40;
    wave[h] = 40 * std::exp(0.8 * std::cos(2 * std::numbers::pi * (static_cast<double>(h) + 0.5 - 13) / 24));
  }
  CHECK(fit_hours(flat).values == 0);
  const HourFit fit = fit_hours(wave);
  CHECK(fit.values == 2);
  double sum = 0, most = 0;
  for (const double count : wave) sum += count;
  for (std::size_t h = 0; h < 24; ++h) {
    CHECK(fit.factors[h] == doctest::Approx(wave[h] * 24 / sum).epsilon(1e-3));
    most += fit.factors[h] / 24;
  }
  CHECK(most == doctest::Approx(1));
}

TEST_CASE("no law has more values than machines were revoked, and its name says so") {
  const Seconds never{std::numeric_limits<double>::infinity()};
  const std::vector<LifetimeObservation> lives{
      {Seconds{3600}, Seconds{7200}, 1}, {Seconds{7200}, Seconds{10800}, 1}, {Seconds{86400}, never, 30}};
  const std::vector<LifetimeFit> fits = fit_lifetime(lives, {.edges = {Seconds{3600}, Seconds{7200}, Seconds{86400}}});
  for (const LifetimeFit& fit : fits) CHECK(fit.values <= 2);
  CHECK(fits.front().law.ends_with(" (no law of more values: 2 losses)"));
}

}  // namespace rehearse
