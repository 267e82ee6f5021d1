// How long the whole training takes, from the speed of a few steps.

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

/// `workers` machines with one GPU, a server, and a loss of 1000 sqrt(n) / (j + 100) + 0.5.
Json trained(int workers, const Json& target) {
  Json scenario = test::with_servers(
      test::timed_scenario(workers, {{"1000B"}}, {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}),
      1);
  scenario["workload"]["convergence"] = {{"offset", 100},   {"batch_slope", 0},         {"batch_intercept", 1000},
                                         {"floor", 0.5},    {"weighted_batch", {1, 1}}, {"workers", {1, 4}},
                                         {"source", "test"}};
  scenario["training"].update({{"steps", 50 * workers}, {"target", target}});
  for (Json& group : scenario["cluster"]["groups"]) group["instance"]["usd_per_hour_on_demand"] = 36;
  return scenario;
}

}  // namespace

TEST_CASE("the time to a loss is its updates over updates per second") {
  const Json summary = test::simulated(trained(4, {{"loss", 1.5}}));
  REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
  // j = 1000 sqrt(4) / (1.5 - 0.5) - 100
  CHECK(summary["training_updates"].get<double>() == doctest::Approx(1900).epsilon(1e-9));
  CHECK(summary["training_samples"].get<double>() == doctest::Approx(1900).epsilon(1e-9));
  const double seconds = 1900 / summary["steps_per_s"].get<double>();
  CHECK(summary["training_time_s"].get<double>() == doctest::Approx(seconds).epsilon(1e-9));
  // five machines of 36 USD an hour: 0.05 USD a second
  CHECK(summary["training_cost_usd"].get<double>() == doctest::Approx(0.05 * seconds).epsilon(1e-9));
}

TEST_CASE("the whole training is billed once, whatever the few steps that are simulated would cost") {
  Json scenario = trained(4, {{"loss", 1.5}});
  for (Json& group : scenario["cluster"]["groups"]) group["instance"]["provider"] = "aws";  // at least 60 s
  const Json summary = test::simulated(scenario);
  REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
  REQUIRE(summary["time_s"].get<double>() < 60);
  CHECK(summary["cost_usd"].get<double>() == doctest::Approx(0.05 * 60).epsilon(1e-9));
  // Rounded up to whole seconds, at least 60
  const double billed = std::max(60.0, std::ceil(summary["training_time_s"].get<double>()));
  CHECK(summary["training_cost_usd"].get<double>() == doctest::Approx(0.05 * billed).epsilon(1e-9));
  scenario["training"]["target"]["loss"] = 0.51;
  const Json longer = test::simulated(scenario);
  REQUIRE(longer["training_time_s"].get<double>() > 60);
  CHECK(longer["training_cost_usd"].get<double>() ==
        doctest::Approx(0.05 * std::ceil(longer["training_time_s"].get<double>())).epsilon(1e-9));
}

TEST_CASE("the spread of the workers' speeds counts if the model has it") {
  Json scenario = trained(4, {{"loss", 1.5}});
  scenario["workload"]["convergence"]["spread_offset"] = 0.25;
  // R of four equal workers is sqrt(3/4)
  CHECK(test::simulated(scenario)["training_updates"].get<double>() ==
        doctest::Approx(2000 * std::sqrt(std::sqrt(0.75) + 0.25) - 100).epsilon(1e-4));
}

TEST_CASE("a model's own convergence counts unless the workload has another, and one that is missing says why") {
  Json scenario = trained(4, {{"loss", 1.5}});
  scenario["workload"]["model"]["convergence"] = scenario["workload"]["convergence"];
  scenario["workload"].erase("convergence");
  CHECK(test::simulated(scenario)["training_updates"].get<double>() == doctest::Approx(1900).epsilon(1e-9));
  scenario["workload"]["convergence"] = scenario["workload"]["model"]["convergence"];
  scenario["workload"]["convergence"]["batch_intercept"] = 500;
  CHECK(test::simulated(scenario)["training_updates"].get<double>() == doctest::Approx(900).epsilon(1e-9));
  scenario["workload"].erase("convergence");
  scenario["workload"]["model"]["convergence"] = Json{{"missing", "nobody measured it"}};
  const auto refusal = [](const Json& asked) { return test::simulated(asked)["error"].get<std::string>(); };
  CHECK(refusal(scenario).ends_with(
      "/training/target/loss: expected \"convergence\" in the workload, which rehearse calibrate fits to logs of its "
      "training; found none. That of model \"inline\" is missing: nobody measured it"));
  scenario["workload"]["model"].erase("convergence");
  CHECK(refusal(scenario).ends_with("; found none, and model \"inline\" has none of its own"));
  scenario["training"]["target"] = {{"samples", 1000}};
  CHECK(!test::simulated(scenario).contains("error"));
}

TEST_CASE("spotDNN's models have the convergence that was published, or say that none was") {
  const auto with = [](const std::string& model) {
    Json scenario = load_json_file(source_folder() + "/scenarios/spotdnn.json");
    scenario["workload"]["model"] = "spotdnn/" + model;
    return scenario;
  };
  const Scenario known = test::resolved(with("resnet110"));
  REQUIRE(known.convergence);
  CHECK(known.convergence->batch_intercept == 2507.6);
  CHECK(test::resolved(*known.effective).convergence->offset == 876.5);
  for (const char* model : {"vgg19", "inception_v3", "esperberto"}) {
    CHECK_THROWS_WITH_AS((void)test::resolved(with(model)),
                         doctest::Contains("is missing: spotDNN publishes coefficients for ResNet-110 alone"),
                         InputError);
    Json other = with(model);
    other["training"]["target"] = {{"samples", 1000}};
    CHECK(!test::resolved(other).convergence);
  }
}

TEST_CASE("a number of samples takes as long with any strategy") {
  Json scenario = trained(2, {{"samples", 12345}});
  for (const char* synchronization : {"asynchronous", "synchronous"}) {
    scenario["training"]["strategy"]["synchronization"] = synchronization;
    const Json summary = test::simulated(scenario);
    REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
    // Whole updates, of two samples each where they are synchronous
    const double samples = synchronization == std::string{"synchronous"} ? 12346 : 12345;
    CHECK(summary["training_time_s"].get<double>() ==
          doctest::Approx(samples / summary["samples_per_s"].get<double>()).epsilon(1e-9));
  }
  CHECK_FALSE(
      test::simulated(test::timed_scenario(1, {{"1000B"}}, {{"kind", "all_reduce"}})).contains("training_time_s"));
}

TEST_CASE("a target of less than a step takes a step") {
  for (const char* synchronization : {"asynchronous", "synchronous"}) {
    Json scenario = trained(2, {{"samples", 1}});
    scenario["training"]["strategy"]["synchronization"] = synchronization;
    const Json summary = test::simulated(scenario);
    REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
    CHECK(summary["training_updates"] == 1);
    CHECK(summary["training_time_s"].get<double>() >= summary["iteration_time_s"].get<double>() * (1 - 1e-9));
  }
}

namespace {

/// Two workers with a step of 3 ms, which write checkpoints or get more workers, and a target.
Json ring_with(const Json& training, double target, std::int64_t samples) {
  Json scenario = test::timed_scenario(2, {{"4B"}}, {{"kind", "all_reduce"}});
  scenario["training"] = {{"strategy", scenario["training"]["strategy"]},
                          {"samples", samples},
                          {"warmup_steps", 1},
                          {"target", {{"samples", target}}}};
  scenario["training"].update(training);
  for (Json& group : scenario["cluster"]["groups"]) group["instance"]["usd_per_hour_on_demand"] = 36;
  return scenario;
}

Json with_two_more(Json scenario, const char* date) {
  Json late = scenario["cluster"]["groups"][0];
  late["name"] = "late";
  late["joins_at"] = date;
  scenario["cluster"]["groups"].push_back(late);
  return scenario;
}

Json run_of(const Json& scenario) {
  Json summary = test::simulated(scenario);
  REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
  return summary;
}

}  // namespace

TEST_CASE("checkpoints count on the way to a target, whether or not the run that tells the speed has any") {
  const Json training{{"checkpoint", {{"every_steps", 100}, {"fixed_time", "50ms"}, {"rate", "1TBps"}}}};
  const double whole = run_of(ring_with(training, 2000, 2000))["time_s"].get<double>();
  CHECK(whole == doctest::Approx(1000 * 3e-3 + 9 * 0.05).epsilon(0.01));
  for (const std::int64_t samples : {100, 500, 1200}) {  // no checkpoint, two, five
    CAPTURE(samples);
    CHECK(run_of(ring_with(training, 2000, samples))["training_time_s"].get<double>() ==
          doctest::Approx(whole).epsilon(0.01));
  }
  const Json by_time{
      {"checkpoint", {{"every", "1s"}, {"fixed_time", "50ms"}, {"rate", "1TBps"}}}};  // 1 s from beginning to beginning
  CHECK(run_of(ring_with(by_time, 20000, 1000))["training_time_s"].get<double>() ==
        doctest::Approx(run_of(ring_with(by_time, 20000, 20000))["time_s"].get<double>()).epsilon(0.01));
}

TEST_CASE("a run that reaches the target takes its own time, one that does not says what it leaves out") {
  const Json training{{"recovery", {{"membership_change", "rendezvous"}, {"restart_time", "100ms"}}}};
  const Json own = run_of(with_two_more(ring_with(training, 2000, 2000), "300ms"));
  CHECK(own["training_time_s"] == own["time_s"]);
  CHECK(own["training_updates"] == own["steps"]);
  CHECK(own["training_cost_usd"] == own["cost_usd"]);
  CHECK(own["warnings"].dump().find("time to the target") == std::string::npos);
  // The same of a longer run, and of its part of the cost
  const Json longer = run_of(with_two_more(ring_with(training, 2000, 4000), "300ms"));
  for (const char* key : {"training_time_s", "training_updates", "training_cost_usd"})
    CHECK(longer[key].get<double>() == doctest::Approx(own[key].get<double>()).epsilon(1e-9));
  CHECK(longer["time_s"].get<double>() > 1.3 * own["time_s"].get<double>());
  const Json shorter = run_of(with_two_more(ring_with(training, 2000, 400), "300ms"));
  CHECK(
      shorter["warnings"].dump().find("time to the target: by the steady state alone: machines that come and go after "
                                      "it are not counted") != std::string::npos);
}

TEST_CASE("a target that the scenario cannot have is refused, one outside of the model's range is warned about") {
  CHECK(test::problem_of(trained(1, {{"loss", 1}, {"samples", 1}})) ==
        "/training/target: expected \"loss\" or \"samples\"; found both");
  CHECK(test::problem_of(trained(1, {{"loss", 0.5}})) ==
        "/training/target/loss: expected a loss above the convergence model's floor of 0.5; found 0.5");
  Json scenario = trained(1, {{"loss", 1}});
  scenario["workload"].erase("convergence");
  CHECK(test::problem_of(scenario) ==
        "/training/target/loss: expected \"convergence\" in the workload, which rehearse calibrate fits to logs of its "
        "training; found none, and model \"inline\" has none of its own");
  CHECK(test::resolved(trained(4, {{"loss", 1}})).warnings.size() + 1 ==
        test::resolved(trained(5, {{"loss", 1}})).warnings.size());
}

}  // namespace rehearse
