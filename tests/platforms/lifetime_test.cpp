#include "platforms/lifetime.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/base/random.hpp"

namespace rehearse::lifetime_test {

namespace {

Lifetime read(const std::string& text) {
  const Json json = parse_json(text, "l.json");
  return read_lifetime(JsonReader{json, "l.json"});
}

/// max over t of |share of draws above t - S(t)|; 1.95 / sqrt(n) is passed by 99.9 % of samples.
double distance(const Lifetime& lifetime, int draws, double last) {
  Rng rng{11, "lives"};
  std::vector<double> ages;
  for (int i = 0; i < draws; ++i) ages.push_back(lifetime.draw(rng, 0).value());
  std::sort(ages.begin(), ages.end());
  double largest = 0;
  for (double t = 0; t < last; t += last / 500) {
    const auto below = std::upper_bound(ages.begin(), ages.end(), t) - ages.begin();
    const double above = 1 - static_cast<double>(below) / draws;
    largest = std::max(largest, std::abs(above - lifetime.survival(Seconds{t})));
  }
  return largest;
}

const char* const kLaws[] = {
    R"({"law": {"law": "exponential", "mean": "5h"}})",
    R"({"law": {"law": "weibull", "scale": "8h", "shape": 0.7}})",
    R"({"law": {"law": "lognormal", "median": "3h", "sigma": 1.2, "minimum": "10min"}})",
    R"({"law": {"law": "mixture", "parts": [
         {"weight": 0.3, "time": {"law": "exponential", "mean": "20min"}},
         {"weight": 0.4, "time": {"law": "weibull", "scale": "12h", "shape": 3}}]}})",
    R"({"law": {"law": "bathtub", "early": 0.3, "early_mean": "1h", "late": 0.4, "late_rise": "2h",
                "deadline": "24h"}})",
    R"({"law": {"law": "empirical", "ages": ["1h", "2h", "10h"], "cumulative": [0.2, 0.2, 0.7]}})",
    R"({"law": {"law": "exponential", "mean": "10h"}, "start": {"share": 0.4, "within": "1h"}})",
};

}  // namespace

TEST_CASE("lives drawn from each law survive as its survival function says") {
  constexpr int kDraws = 20'000;
  for (const char* law : kLaws) {
    CAPTURE(law);
    CHECK(distance(read(law), kDraws, 86400) < 1.95 / std::sqrt(kDraws));
  }
}

TEST_CASE("survival starts at 1 and does not rise") {
  for (const char* law : kLaws) {
    CAPTURE(law);
    const Lifetime lifetime = read(law);
    double last = lifetime.survival(Seconds{});
    CHECK(last == 1);
    for (double t = 60; t < 2e5; t += 600) {
      const double survival = lifetime.survival(Seconds{t});
      CHECK(survival <= last);
      CHECK(survival >= 0);
      last = survival;
    }
  }
}

TEST_CASE("a mixture's survival is the weighted sum of its parts', and what the weights leave lives for ever") {
  const Lifetime lifetime = read(kLaws[3]);
  // 0.3 exp(-2 h / 20 min) + 0.4 exp(-(2/12)^3) + 0.3
  const double expected = 0.3 * std::exp(-6.0) + 0.4 * std::exp(-std::pow(2.0 / 12, 3)) + 0.3;
  CHECK(lifetime.survival(Seconds{7200}) == doctest::Approx(expected).epsilon(1e-12));
  CHECK(lifetime.survival(Seconds{1e8}) == doctest::Approx(0.3));
  CHECK(lifetime.law.at(0.75).value() == std::numeric_limits<double>::infinity());
}

TEST_CASE("a bathtub loses its two shares, the late one towards the deadline") {
  const Lifetime lifetime = read(kLaws[4]);
  CHECK(lifetime.survival(Seconds{24 * 3600.0}) == doctest::Approx(0.3).epsilon(1e-6));
  const double first = 1 - lifetime.survival(Seconds{3600.0});
  const double middle = lifetime.survival(Seconds{11 * 3600.0}) - lifetime.survival(Seconds{12 * 3600.0});
  const double last = lifetime.survival(Seconds{23 * 3600.0}) - lifetime.survival(Seconds{24 * 3600.0});
  CHECK(first > 5 * middle);
  CHECK(last > 5 * middle);
}

TEST_CASE("a mass at the start: 14 of 30 in the first hour and none later") {
  const Lifetime lifetime =
      read(R"({"law": {"law": "exponential", "mean": "1e9s"}, "start": {"share": 0.4666, "within": "1h"}})");
  CHECK(lifetime.survival(Seconds{1800}) == doctest::Approx(1 - 0.4666 / 2).epsilon(1e-4));
  CHECK(lifetime.survival(Seconds{3600}) == doctest::Approx(1 - 0.4666).epsilon(1e-4));
  CHECK(lifetime.survival(Seconds{86400}) == doctest::Approx(1 - 0.4666).epsilon(1e-3));
}

TEST_CASE("nobody outlives the cap") {
  const Lifetime lifetime = read(R"({"law": {"law": "exponential", "mean": "30d"}, "cap": "24h"})");
  CHECK(lifetime.survival(Seconds{86399}) > 0.9);
  CHECK(lifetime.survival(Seconds{86400}) == 0);
  Rng rng{1, "lives"};
  int at_cap = 0;
  for (int i = 0; i < 1000; ++i) {
    const Seconds age = lifetime.draw(rng, 0);
    CHECK(age <= Seconds{86400});
    at_cap += age == Seconds{86400};
  }
  CHECK(at_cap > 900);  // exp(-1/30) = 0.967
}

TEST_CASE("no life is shorter than a second") {
  const Lifetime lifetime = read(R"({"law": {"law": "exponential", "mean": "1us"}, "start": {"share": 0.5}})");
  Rng rng{1, "lives"};
  for (int i = 0; i < 100; ++i) CHECK(lifetime.draw(rng, 0) == Seconds{1});
}

TEST_CASE("factors of the hour: a whole day ages by a day, and an hour of factor f by f hours") {
  HourFactors hours{.utc_offset_h = -8};
  for (std::size_t h = 0; h < 24; ++h) hours.factors[h] = h < 12 ? 1.5 : 0.5;
  for (const double start : {0.0, 12'345.0, 86'000.0, 1e6})
    CHECK(hours.stretch(Seconds{3 * 86400.0}, start).value() == doctest::Approx(3 * 86400.0).epsilon(1e-12));
  // 8:00 UTC is local midnight: one hour of age passes in 40 minutes
  CHECK(hours.stretch(Seconds{3600}, 8 * 3600.0).value() == doctest::Approx(2400));
  // local noon: half as fast
  CHECK(hours.stretch(Seconds{3600}, 20 * 3600.0).value() == doctest::Approx(7200));
  // local 11:30: half an hour gives 45 minutes of age, then 15 minutes take 30
  CHECK(hours.stretch(Seconds{3600}, 19.5 * 3600).value() == doctest::Approx(3600));
  CHECK(hours.stretch(Seconds{}, 5).value() == 0);
}

TEST_CASE("hours without hazard are passed over") {
  HourFactors hours;
  hours.factors[0] = 24;
  CHECK(hours.stretch(Seconds{10}, 3600).value() == doctest::Approx(23 * 3600 + 10.0 / 24));
}

TEST_CASE("the hour of day moves revocations, not their number per day") {
  Lifetime lifetime = read(R"({"law": {"law": "exponential", "mean": "1h"}})");
  HourFactors hours;
  for (std::size_t h = 0; h < 24; ++h) hours.factors[h] = h == 13 ? 2.15 : 0.95;
  lifetime.hours = hours;
  Rng rng{5, "lives"};
  double now = 0;
  std::array<int, 24> counts{};
  int revocations = 0;
  while (now < 86400.0 * 2000) {  // always one machine, replaced at once
    now += lifetime.draw(rng, now).value();
    ++counts[static_cast<std::size_t>(std::fmod(now, 86400) / 3600)];
    ++revocations;
  }
  CHECK(revocations / 2000.0 == doctest::Approx(24).epsilon(0.02));  // 48000 +- 220
  CHECK(counts[13] / 2000.0 == doctest::Approx(2.15).epsilon(0.06));
  CHECK(counts[3] / 2000.0 == doctest::Approx(0.95).epsilon(0.08));
}

TEST_CASE("mistakes in lifetimes are named") {
  const auto refused = [](const std::string& text, const char* message) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS((void)read(text), message, InputError);
  };
  refused(R"({"law": {"law": "weibul", "scale": "1h", "shape": 1}})",
          "l.json: /law/law: unknown law \"weibul\"; did you mean \"weibull\"?");
  refused(R"({"law": {"law": "exponential", "mean": "1h"}, "cap": "0s"})",
          "l.json: /cap: expected a time above 0s, at most 1e9s; found \"0s\"");
  refused(R"({"law": {"law": "exponential", "mean": "1h"}, "start": {"share": 1.2}})",
          "l.json: /start/share: expected a share above 0, at most 1; found 1.2");
  refused(
      R"({"law": {"law": "mixture", "parts": [{"weight": 0.7, "time": {"law": "exponential", "mean": "1h"}},
                                                  {"weight": 0.7, "time": {"law": "exponential", "mean": "1h"}}]}})",
      "l.json: /law/parts: expected weights whose sum is at most 1; found an array of 2");
  refused(R"({"law": {"law": "empirical", "ages": ["2h", "1h"], "cumulative": [0.1, 0.2]}})",
          "l.json: /law/ages: expected rising times above 0s, at most 1e9s; found an array of 2");
  refused(R"({"law": {"law": "exponential", "mean": "1h"}, "hours": {"factors": [1, 2]}})",
          "l.json: /hours/factors: expected 24 factors, one for each hour; found an array of 2");
  refused(R"({"law": {"law": "exponential", "mean": "1h"}, "capp": "1h"})",
          "l.json: unknown key \"capp\"; did you mean \"cap\"?");
}

}  // namespace rehearse::lifetime_test
