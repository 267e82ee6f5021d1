#include "platforms/distribution.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/base/random.hpp"
#include "sim/base/statistics.hpp"

namespace rehearse::distribution_test {

namespace {

const Distribution kLognormal{Lognormal{Seconds{40}, 0.2}, Seconds{5}}, kExponential{Exponential{Seconds{10}}, {}},
    kWeibull{Weibull{Seconds{8}, 0.7}, Seconds{1}};

std::string refusal(const char* text) {
  const Json json = parse_json(text, "d.json");
  try {
    (void)read_distribution(JsonReader{json, "d.json"});
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

}  // namespace

TEST_CASE("the standard normal's quantiles") {
  // Abramowitz and Stegun, table 26.5
  CHECK(normal_quantile(0.5) == doctest::Approx(0).epsilon(1e-12));
  CHECK(normal_quantile(0.975) == doctest::Approx(1.959963984540054).epsilon(1e-12));
  CHECK(normal_quantile(0.001) == doctest::Approx(-3.090232306167813).epsilon(1e-12));
  for (const double p : {1e-15, 1e-6, 0.02, 0.3, 0.77, 0.9999})
    CHECK(normal_cumulative(normal_quantile(p)) == doctest::Approx(p).epsilon(1e-10));
}

TEST_CASE("a quantile is where the cumulative share reaches its probability, and never below the minimum") {
  for (const Distribution& distribution : {kLognormal, kExponential, kWeibull}) {
    for (const double p : {0.01, 0.3, 0.5, 0.9, 0.999})
      CHECK(distribution.cumulative(distribution.quantile(p)) == doctest::Approx(p).epsilon(1e-9));
    CHECK(distribution.quantile(0) == distribution.minimum);
    CHECK(distribution.cumulative(distribution.minimum) == 0);
  }
  CHECK(kLognormal.quantile(0.5).value() == doctest::Approx(45));
  CHECK(kExponential.quantile(0.5).value() == doctest::Approx(10 * std::log(2)));
  CHECK(kWeibull.quantile(1 - std::exp(-1)).value() == doctest::Approx(9));  // the scale, after the minimum
}

TEST_CASE("means: 5 + 40 exp(0.02), 10, 1 + 8 Gamma(1 + 1 / 0.7)") {
  CHECK(kLognormal.mean().value() == doctest::Approx(5 + 40 * std::exp(0.02)));
  CHECK(kExponential.mean().value() == doctest::Approx(10));
  CHECK(kWeibull.mean().value() == doctest::Approx(1 + 8 * std::tgamma(1 + 1 / 0.7)));
}

TEST_CASE("draws follow the distribution, and a stream repeats them") {
  for (const Distribution& distribution : {kLognormal, kExponential, kWeibull}) {
    constexpr int kDraws = 20'000;
    Rng rng{7, "test"}, again{7, "test"};
    std::vector<double> draws;
    for (int i = 0; i < kDraws; ++i) {
      draws.push_back(distribution.draw(rng).value());
      CHECK(draws.back() == distribution.draw(again).value());
    }
    // Standard errors: of the mean below 0.02 of it, of a share of one half 0.0035.
    CHECK(mean(draws) == doctest::Approx(distribution.mean().value()).epsilon(0.05));
    CHECK(distribution.cumulative(Seconds{median(draws)}) == doctest::Approx(0.5).epsilon(0.03));
  }
}

TEST_CASE("mistakes in a distribution are named") {
  CHECK(refusal(R"({"law": "lognormal", "median": "40s", "sigma": 0.2, "minimum": "1s"})") == "accepted");
  CHECK(refusal(R"({"law": "weibul", "scale": "1s", "shape": 1})") ==
        "d.json: /law: unknown law \"weibul\"; did you mean \"weibull\"?");
  CHECK(refusal(R"({"law": "exponential", "mean": "0s"})") ==
        "d.json: /mean: expected a time above 0s, at most 1e9s; found \"0s\"");
  CHECK(refusal(R"({"law": "weibull", "scale": "1s", "shape": 0})") == "d.json: /shape: expected 0.05 to 100; found 0");
  CHECK(refusal(R"({"law": "exponential", "mean": "1s", "sigma": 1})").find("unknown key \"sigma\"") !=
        std::string::npos);
}

}  // namespace rehearse::distribution_test
