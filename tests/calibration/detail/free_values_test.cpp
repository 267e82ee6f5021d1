#include "calibration/detail/free_values.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/json.hpp"

namespace rehearse {

namespace {

/// What no profile has today: every kind of value that can be fitted, and some that cannot.
const Json& profile() {
  static const Json json = parse_json(
      R"({ "host": { "dispatch": "200us" }, "gpu": { "peak_efficiency": { "K80": 0.5 }, "speed": "2Tflops" },
           "network": { "rate": "10GBps", "window": "64KiB", "loss": 0 } })",
      "p.json");
  return json;
}

/// A reader that wants shares of at most 1 and takes everything else.
bool accepts(const Json& changed) { return changed["gpu"]["peak_efficiency"]["K80"].get<double>() <= 1; }

std::string refusal(const FreeValue& value) {
  try {
    (void)FreeValues{profile(), "p.json", {value}, accepts};
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

}  // namespace

TEST_CASE("numbers, times, rates and speeds keep their unit") {
  const FreeValues values{profile(),
                          "p.json",
                          {{.pointer = "/host/dispatch"},
                           {.pointer = "/gpu/peak_efficiency/K80"},
                           {.pointer = "/gpu/speed"},
                           {.pointer = "/network/rate"}},
                          accepts};
  const Json changed = values.profile_with(values.start().array() + std::log(1.5));
  CHECK(changed["host"]["dispatch"] == "300us");
  CHECK(changed["gpu"]["peak_efficiency"]["K80"] == 0.75);
  CHECK(changed["gpu"]["speed"] == "3Tflops");
  CHECK(changed["network"]["rate"] == "15GBps");
  CHECK(changed["network"]["window"] == profile()["network"]["window"]);
}

TEST_CASE("limits are the reader's own, or narrower ones that are declared, in the value's unit") {
  const FreeValues values{profile(),
                          "p.json",
                          {{.pointer = "/host/dispatch", .min = "50us"},
                           {.pointer = "/gpu/peak_efficiency/K80"},
                           {.pointer = "/host/dispatch", .min = "20us", .max = "150us"}},
                          accepts};
  REQUIRE(values.size() == 2);
  CHECK(std::exp(values.bounds().low[0]) == doctest::Approx(50e-6));
  CHECK(std::exp(values.bounds().high[0]) == doctest::Approx(150e-6));
  CHECK(std::exp(values.start()[0]) == doctest::Approx(150e-6));  // the nearest to the profile's value
  CHECK(values.text(1, values.bounds().high[1]) == "1");
  CHECK(std::exp(values.bounds().low[1]) == doctest::Approx(0.5e-6));  // a factor of 1e6
}

TEST_CASE("a value that is off its prior by the prior's factor counts as a row that is off by 10 %") {
  const FreeValues values{profile(),
                          "p.json",
                          {{.pointer = "/host/dispatch", .prior = "100us", .prior_factor = 2},
                           {.pointer = "/gpu/peak_efficiency/K80", .prior = "/gpu/peak_efficiency/K80"},
                           {.pointer = "/network/rate", .prior = "20GBps"},
                           {.pointer = "/host/dispatch", .prior = "1us"}},
                          accepts};
  REQUIRE(values.priors() == 3);  // the first of two
  const Eigen::VectorXd start = values.prior_residuals(values.start());
  CHECK(start[0] == doctest::Approx(0.1));  // 200 us
  CHECK(start[1] == doctest::Approx(0.0));
  Eigen::VectorXd there = values.start();
  there[0] += std::log(0.25);
  CHECK(values.prior_residuals(there)[0] == doctest::Approx(-0.1));
  CHECK(refusal({.pointer = "/host/dispatch", .prior = "fast", .place = "s.json: /fit/free/0"})
            .find("s.json: /fit/free/0: ") == 0);
  CHECK(refusal({.pointer = "/host/dispatch", .prior = "/host/dispatsh"}).find("the profile has none") !=
        std::string::npos);
}

TEST_CASE("what cannot be free is refused") {
  CHECK(refusal({.pointer = "/host/dispatsh"}) ==
        "p.json: /host/dispatsh: a study wants to fit this value, but the profile has none");
  CHECK(refusal({.pointer = "/network/window"}) ==
        "p.json: /network/window: only plain numbers, times and rates can be fitted; found \"64KiB\"");
  CHECK(refusal({.pointer = "/host"}).find("only plain numbers, times and rates can be fitted") != std::string::npos);
  CHECK(refusal({.pointer = "/network/loss"}) ==
        "p.json: /network/loss: expected a value above 0 to start the fit from; found 0");
  CHECK(refusal({.pointer = "/host/dispatch", .min = "1GBps", .max = {}, .place = "s.json: /fit/free/0"}) ==
        "s.json: /fit/free/0: expected limits above 0 in the unit of /host/dispatch; found 1GBps");
  CHECK(refusal({.pointer = "/gpu/peak_efficiency/K80", .min = "2", .max = {}, .place = "s.json: /fit/free/0"}) ==
        "s.json: /fit/free/0: expected a min below the max, both within what a profile may hold; found 2 to 1");
}

}  // namespace rehearse
