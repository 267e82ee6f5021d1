#include "platforms/churn.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/json.hpp"

namespace rehearse {

TEST_CASE("a zone is in churn for its share of the time, and ages by the factor there") {
  // calm 3 h, churn 1 h: share 1/4; at factor 9 a long time ages 1 + 8/4 = 3 times
  const Churn churn{.factor = 9, .calm_mean = Seconds{10800}, .churn_mean = Seconds{3600}};
  CHECK(churn.share() == doctest::Approx(0.25).epsilon(1e-12));
  CHECK(churn.mean_factor() == doctest::Approx(3).epsilon(1e-12));
  ChurnClock clock{churn, Rng{1, "churn"}};
  constexpr int kLooks = 200'000;
  int in_churn = 0;
  for (int i = 0; i < kLooks; ++i) in_churn += clock.is_churn(Seconds{600.0 * i});
  CHECK(in_churn / static_cast<double>(kLooks) == doctest::Approx(0.25).epsilon(0.03));
  CHECK(clock.aged(Seconds{600.0 * kLooks}).value() == doctest::Approx(3 * 600.0 * kLooks).epsilon(0.03));
}

TEST_CASE("zones start in churn with its share") {
  int in_churn = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed)
    in_churn += ChurnClock{{5, Seconds{10800}, Seconds{3600}}, Rng{seed, "churn"}}.is_churn(Seconds{});
  CHECK(in_churn / 4000.0 == doctest::Approx(0.25).epsilon(0.1));
}

TEST_CASE("the date of an age is the age of the date turned round, and does not depend on how far one looked") {
  const Churn churn{.factor = 20, .calm_mean = Seconds{5000}, .churn_mean = Seconds{900}};
  ChurnClock clock{churn, Rng{7, "churn"}}, other{churn, Rng{7, "churn"}};
  CHECK(clock.aged(Seconds{}) == Seconds{});
  CHECK_FALSE(clock.date(Seconds{1e9}, Seconds{1e5}));
  Seconds last{};
  for (int i = 1; i < 500; ++i) {
    const Seconds at{200.0 * i}, age = clock.aged(at);
    CHECK(age - last >= Seconds{200 * (1 - 1e-9)});
    CHECK(age - last <= Seconds{4000 * (1 + 1e-9)});
    last = age;
    CHECK(clock.date(age, Seconds{1e6})->value() == doctest::Approx(at.value()).epsilon(1e-9));
    CHECK(other.aged(at) == age);
  }
}

TEST_CASE("with factor 1 the clock of a zone is the clock") {
  ChurnClock clock{{1, Seconds{500}, Seconds{200}}, Rng{3, "churn"}};
  for (const double at : {0.0, 17.0, 1e4, 3e6})
    CHECK(clock.aged(Seconds{at}).value() == doctest::Approx(at).epsilon(1e-9));
}

TEST_CASE("mistakes in churn are named") {
  const auto read = [](const std::string& text) {
    const Json json = parse_json(text, "p.json");
    return read_churn(JsonReader{json, "p.json"});
  };
  CHECK(read(R"({"factor": 2, "calm_mean": "3h", "churn_mean": "1h"})").share() == doctest::Approx(0.25));
  CHECK_THROWS_WITH_AS((void)read(R"({"factor": 0.5, "calm_mean": "3h", "churn_mean": "1h"})"),
                       "p.json: /factor: expected 1 to 10000; found 0.5", InputError);
  CHECK_THROWS_WITH_AS((void)read(R"({"factor": 2, "calm_mean": "3s", "churn_mean": "1h"})"),
                       "p.json: /calm_mean: expected a time of at least 1min, at most 1e9s; found \"3s\"", InputError);
  CHECK_THROWS_WITH_AS((void)read(R"({"factor": 2, "calm_mean": "3h", "churn": "1h"})"),
                       "p.json: expected the key \"churn_mean\"; found none", InputError);
}

}  // namespace rehearse
