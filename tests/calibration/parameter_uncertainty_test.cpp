#include "calibration/parameter_uncertainty.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "calibration/detail/free_values.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

/// One worker whose step is almost all host: its speed is nearly 1 / (step_overhead + the rest).
Scenario lone_worker(std::vector<std::map<std::string, double>> components) {
  Json json = test::shipped_scenario({{"/cluster/groups/1/count", "1"}, {"/training/steps", "60"}});
  Json profile = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
  profile["host"]["step_overhead"] = "1s";
  json["calibration"] = profile;
  Scenario scenario = test::resolved(json);
  scenario.profile.uncertainty = {.residual = 0.05, .low = -1, .high = 2, .components = std::move(components)};
  return scenario;
}

}  // namespace

TEST_CASE("the uncertainty of the speed is what the profile's components change it by, in quadrature") {
  CHECK(speed_uncertainty(lone_worker({}), 1) == 0);
  const double one = speed_uncertainty(lone_worker({{{"/host/step_overhead", 0.1}}}), 1);
  CHECK(one > 1 - 1 / 1.1);  // with 1.1 and 1 / 1.1 of an overhead that is the step
  CHECK(one < 0.1);
  CHECK(speed_uncertainty(lone_worker({{{"/host/step_overhead", 0.1}}, {{"/host/step_overhead", 0.1}}}), 2) ==
        doctest::Approx(std::sqrt(2.0) * one).epsilon(1e-6));
  CHECK(speed_uncertainty(lone_worker({{{"/network/nic_efficiency", 0.1}}}), 1) < 0.01);  // against it: 1 is its limit
}

TEST_CASE("profiles are moved as files are whose values a fit moves") {
  for (const char* name : {"cm-dare", "cm-dare-startup", "cm-dare-checkpoint", "nccl", "collective-microbenchmarks",
                           "hkbu-ddl-benchmarks", "vtrain-a100-megatron", "cscs"}) {
    CAPTURE(std::string{name});
    const Json file = load_json_file(source_folder() + "/calibration/profiles/" + name + ".json");
    const Profile profile = read_profile(JsonReader{file, name});
    REQUIRE(!profile.uncertainty.components.empty());
    const std::vector<Profile> moved = moved_profiles(profile);
    std::size_t next = 0;
    for (const auto& component : profile.uncertainty.components)
      for (const double sign : {1.0, -1.0}) try {
          Json changed = file;
          for (const auto& [pointer, change] : component) {
            const FreeValue value{.pointer = pointer, .min = {}, .max = {}, .prior = {}, .place = {}};
            const FreeValues values{changed, name, {value}, [](const Json&) { return true; }};
            changed = Json(values.profile_with(values.start().array() + sign * change));
          }
          const Profile expected = read_profile(JsonReader{changed, name});
          REQUIRE(next < moved.size());
          CHECK(to_json(moved[next]) == to_json(expected));
          ++next;
          break;
        } catch (const InputError&) { continue; }
    CHECK(next == moved.size());
  }
}

TEST_CASE("an interval reaches as far as another profile that would do nearly as well") {
  Scenario scenario = lone_worker({});
  scenario.profile.prediction =
      StatedPrediction{.kind = "data sheet; no exchange", .low = -0.05, .high = 0.1, .others = {"slower"}};
  Json effective = *scenario.effective;
  Json slower = effective["calibration"];
  slower["host"]["step_overhead"] = "1.5s";
  effective["calibration"]["prediction"] = {{"kind", "data sheet; no exchange"}, {"low", -0.05}, {"high", 0.1}};
  effective["calibration"]["prediction"]["others"]["slower"] = slower;
  scenario.effective = share(effective);
  CHECK(has_uncertain_values(scenario));
  const double low = scenario.profile.uncertainty.interval(speed_uncertainty(scenario, 1)).first;
  CHECK(low == doctest::Approx(1 / 1.5).epsilon(0.03));  // the step is nearly all host
  slower["host"]["step_overhead"] = "1.01s";             // within what errors of the kind cover
  effective["calibration"]["prediction"]["others"]["slower"] = slower;
  scenario.effective = share(effective);
  CHECK(speed_uncertainty(scenario, 1) == 0);
}

TEST_CASE("an interval multiplies by the percentiles of unseen errors times their deviation") {
  const PredictionUncertainty uncertainty{.residual = 0.03, .low = -1, .high = 2, .components = {}};
  const auto [slowest, fastest] = uncertainty.interval(0.04);
  CHECK(uncertainty.probability_of(slowest, 0.04) == doctest::Approx(0.95).epsilon(1e-3));
  CHECK(uncertainty.probability_of(1, 0.04) == doctest::Approx(0.5));
  CHECK(uncertainty.probability_of(fastest, 0.04) == doctest::Approx(0.05).epsilon(1e-3));
  CHECK(PredictionUncertainty{}.probability_of(1, 0) == 1);
  CHECK(PredictionUncertainty{}.probability_of(1.01, 0) == 0);
  CHECK(uncertainty.interval(0.04).first == doctest::Approx(std::exp(-0.1)));
  CHECK(uncertainty.interval(0.04).second == doctest::Approx(std::exp(0.05)));
}

TEST_CASE("only the steps that a speed needs are run for its uncertainty, and all where machines come and go") {
  Scenario scenario = lone_worker({});
  scenario.training.steps = 5000;
  CHECK(shortened(scenario).training.steps == scenario.training.warmup_steps + 20);
  scenario.groups[1].leaves_at = Seconds{100};
  CHECK(shortened(scenario).training.steps == 5000);
}

}  // namespace rehearse
