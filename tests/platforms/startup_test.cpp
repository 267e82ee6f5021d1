#include "platforms/startup.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/json.hpp"
#include "sim/base/random.hpp"

namespace rehearse::startup_test {

namespace {

StartupParameters read(const std::string& text) {
  const Json json = parse_json(text, "p.json");
  return read_startup(JsonReader{json, "p.json"});
}

const char* const kTimes = R"({"source": "made up",
  "provisioning": [{"time": {"law": "exponential", "mean": "2s"}}],
  "staging": [{"market": "spot", "time": {"law": "lognormal", "median": "40s", "sigma": 0.1}},
              {"accelerator": "K80", "time": {"law": "lognormal", "median": "30s", "sigma": 0.1}}],
  "booting": [{"region": "west", "time": {"law": "lognormal", "median": "35s", "sigma": 0.1}},
              {"time": {"law": "lognormal", "median": "38s", "sigma": 0.1}}]})";

double median_of(const Distribution& distribution) { return distribution.quantile(0.5).value(); }

}  // namespace

TEST_CASE("of each stage the first entry that fits the machine counts") {
  const StartupParameters times = read(kTimes);
  const auto spot = times.find({"spot", "west", "K80"}), on_demand = times.find({"on-demand", "east", "K80"});
  REQUIRE(spot);
  REQUIRE(on_demand);
  CHECK(median_of(spot->staging) == doctest::Approx(40));
  CHECK(median_of(spot->booting) == doctest::Approx(35));
  CHECK(median_of(on_demand->staging) == doctest::Approx(30));
  CHECK(median_of(on_demand->booting) == doctest::Approx(38));
  CHECK_FALSE(times.find({"on-demand", "east", "P100"}));
}

TEST_CASE("a start-up is the sum of its stages") {
  const Startup startup = *read(kTimes).find({"spot", "west", "K80"});
  CHECK(startup.mean().value() ==
        doctest::Approx((startup.provisioning.mean() + startup.staging.mean() + startup.booting.mean()).value()));
  Rng rng{3, "sum"}, apart{3, "sum"};
  const Seconds sum = startup.draw(rng);
  const Seconds first = startup.provisioning.draw(apart);
  const Seconds second = startup.staging.draw(apart);
  const Seconds third = startup.booting.draw(apart);
  CHECK(sum.value() == (first + second + third).value());
}

TEST_CASE(
    "the framework starts after the machine runs: a fixed time, a time for each tensor, more on a fresh machine") {
  std::string text = kTimes;
  text.pop_back();
  text += R"(, "framework": {"fixed_time": "10s", "time_per_tensor": "100ms", "cold_time": "60s"}})";
  const Startup startup = *read(text).find({"spot", "west", "K80"});
  CHECK(startup.framework.time(50, false).value() == doctest::Approx(10 + 50 * 0.1));
  CHECK(startup.framework.time(50, true).value() == doctest::Approx(10 + 50 * 0.1 + 60));
  Rng stages_rng{3, "stages"}, rng{3, "stages"};
  const StartupStages stages = startup.draw(stages_rng, 50, true);
  CHECK(stages.until_running() == startup.draw(rng));
  CHECK(stages.total().value() == doctest::Approx(stages.until_running().value() + 75));
  CHECK(stages.until_charged() == stages.provisioning + stages.staging);
  // Without "framework": neglected.
  CHECK(read(kTimes).find({"spot", "west", "K80"})->framework.time(1000, true) == Seconds{});
}

TEST_CASE("quantiles of a start-up rise, repeat themselves, and average to its mean") {
  const Startup startup = *read(kTimes).find({"spot", "west", "K80"});
  double total = 0, last = 0;
  for (int i = 0; i < 100; ++i) {
    const double quantile = startup.quantile((i + 0.5) / 100).value();
    CHECK(quantile > last);
    last = quantile;
    total += quantile;
  }
  CHECK(total / 100 == doctest::Approx(startup.mean().value()).epsilon(0.005));
  CHECK(startup.quantile(0.3) == startup.quantile(0.3));
}

TEST_CASE("a market is on-demand or spot") {
  std::string text = kTimes;
  text.replace(text.find("\"spot\""), 6, "\"free\"");
  CHECK_THROWS_WITH_AS(read(text), "p.json: /staging/0/market: expected \"on-demand\" or \"spot\"; found \"free\"",
                       InputError);
}

}  // namespace rehearse::startup_test
