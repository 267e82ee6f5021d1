#include "sim/plan/remaining_time.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/errors.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/readme_part.hpp"
#include "tests/support/simulated.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

const std::string kCases = source_folder() + "/calibration/data/cm-dare/remaining_time_after_revocation.csv";

RemainingPrediction predicted(const std::vector<std::pair<std::string, std::string>>& changes,
                              const RemainingRequest& request) {
  auto with_steps = changes;
  with_steps.insert(with_steps.begin(), {"/training/steps", "64000"});
  return *predict_remaining(test::shipped_scenario(with_steps), source_folder() + "/scenarios/test.json",
                            test::shipped_catalog(), request, 2);
}

std::string refusal(const RemainingRequest& request,
                    const std::vector<std::pair<std::string, std::string>>& changes = {}) {
  try {
    (void)predicted(changes, request);
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

double error_pct(const RemainingPrediction& prediction, const RemainingCase& one, Seconds until_replaced) {
  const Seconds time = remaining_time(one.steps_left, prediction.degraded, prediction.full, until_replaced);
  return 100 * std::abs(time / one.measured - 1);
}

}  // namespace

TEST_CASE("what is left is done at the degraded speed until the replacement works, then at the full one") {
  // 30 s at 3 steps/s, 90 steps; 910 of 1000 steps are left at 4 steps/s: 227.5 s
  CHECK(remaining_time(1000, 3, 4, Seconds{30}).value() == 30 + 227.5);
  CHECK(controller_remaining_time(1000, 3, 4, Seconds{30}).value() == doctest::Approx(257.5).epsilon(1e-12));
  CHECK(remaining_time(1000, 0, 4, Seconds{30}).value() == 30 + 250);
  // It ends before: 60 steps at 3 steps/s. The controller does not see that.
  CHECK(remaining_time(60, 3, 4, Seconds{30}).value() == 20);
  CHECK(controller_remaining_time(60, 3, 4, Seconds{30}).value() == doctest::Approx(30 + (60 - 90) / 4.0));
}

TEST_CASE("a fit finds the speed and the time until replaced that made the cases") {
  std::vector<RemainingCase> cases;
  for (const double n : {1000.0, 5000.0, 20000.0})
    cases.push_back({n, remaining_time(n, 3 * 1.1, 4 * 1.1, Seconds{70})});
  const RemainingFit fit = fit_remaining_time(cases, 3, 4);
  CHECK(fit.speed_factor == doctest::Approx(1.1).epsilon(1e-9));
  CHECK(fit.until_replaced.value() == doctest::Approx(70).epsilon(1e-9));
  CHECK_THROWS_AS((void)fit_remaining_time(std::vector{cases[0]}, 3, 4), InputError);
  CHECK_THROWS_AS((void)fit_remaining_time(std::vector{cases[0], cases[0]}, 3, 4), InputError);
  CHECK_THROWS_AS((void)fit_remaining_time(cases, 4, 4), InputError);
}

TEST_CASE("CM-DARE's revocations: two values fitted on cases 1 to 4 predict 5 to 8 within 2 % in the mean") {
  const std::vector<RemainingCase> cases = load_remaining_cases(kCases);
  REQUIRE(cases.size() == 8);
  RemainingRequest request{.step = 6170, .group = {}, .until_replaced = {}, .measured_speed = {}, .history = {}};
  const std::vector<std::pair<std::string, std::string>> spot{{"/cluster/groups/1/market", "spot"}};
  // Nothing fitted: simulated speeds, the profile's start-up times.
  const RemainingPrediction unfitted = predicted(spot, request);
  CHECK(unfitted.steps_left == 57830);
  double sum = 0;
  for (const RemainingCase& one : cases) sum += error_pct(unfitted, one, unfitted.until_replaced) / 8;
  MESSAGE("without a fit: mean error of all 8 cases " << sum << " %");
  CHECK(sum <= 2);
  test::check_calibration_row("| time left after a revocation, nothing fitted | CM-DARE | " +
                              test::with_decimals(sum, 2) + " % |");
  request.history.assign(cases.begin(), cases.begin() + 4);
  const RemainingPrediction fitted = predicted(spot, request);
  CHECK(std::abs(fitted.fit->speed_factor - 1) < 0.05);
  double worst = sum = 0;
  for (std::size_t i = 4; i < 8; ++i) {
    const double error = error_pct(fitted, cases[i], fitted.until_replaced);
    sum += error / 4;
    worst = std::max(worst, error);
  }
  MESSAGE("two values fitted on cases 1 to 4 (speed x "
          << fitted.fit->speed_factor << ", " << fitted.until_replaced.value() << " s): mean error of cases 5 to 8 "
          << sum << " %");
  CHECK(sum <= 2);
  test::check_calibration_row("| the same, two values fitted on cases 1 to 4, cases 5 to 8 | CM-DARE | " +
                              test::with_decimals(sum, 2) + " % |");
  CHECK(worst <= 3);
}

TEST_CASE("the parts of a prediction hold together") {
  RemainingRequest request{
      .step = 60000, .group = "workers", .until_replaced = {}, .measured_speed = {}, .history = {}};
  const RemainingPrediction cold = predicted({}, request);
  CHECK(cold.degraded == doctest::Approx(cold.full * 3 / 4).epsilon(0.02));
  CHECK(cold.by_addition == doctest::Approx(cold.full).epsilon(0.02));
  CHECK(cold.until_replaced == *cold.machine + *cold.framework);
  CHECK(cold.interval->first < cold.remaining);
  CHECK(cold.remaining < cold.interval->second);
  request.is_warm = true;
  const RemainingPrediction warm = predicted({}, request);
  CHECK((cold.until_replaced - warm.until_replaced).value() == doctest::Approx(60.19));
  // One of four workers for so long
  CHECK((cold.remaining - warm.remaining).value() == doctest::Approx(60.19 * (1 - cold.degraded / cold.full)));
  request.until_replaced = Seconds{100};
  request.measured_speed = 20;
  const RemainingPrediction measured = predicted({}, request);
  CHECK(measured.full == doctest::Approx(20));
  CHECK(measured.remaining.value() == doctest::Approx(100 + (4000 - 100 * measured.degraded) / 20));
  request.lost = 4;
  CHECK(predicted({}, request).remaining.value() == doctest::Approx(100 + 4000 / 20.0));
}

TEST_CASE("a chief that pauses for checkpoints makes the rest longer") {
  const RemainingRequest request{
      .step = 0, .group = {}, .until_replaced = Seconds{0}, .measured_speed = {}, .history = {}};
  const RemainingPrediction without = predicted({}, request);
  const RemainingPrediction with = predicted({{"/training/checkpoint", R"({"every_steps": 4000})"}}, request);
  const Scenario scenario =
      test::resolved(test::shipped_scenario({{"/training/checkpoint", R"({"every_steps": 4000})"}}));
  // 15 checkpoints, in each of which one of four workers pauses; the last update is the end
  const double pause = checkpoint_time(scenario)->value();
  CHECK((with.remaining - without.remaining).value() == doctest::Approx(15 * pause / 4));
  // One in 100 s, from beginning to beginning: a quarter of the cluster's time is lost while it lasts, or all of it.
  const RemainingPrediction by_time = predicted({{"/training/checkpoint", R"({"every": "100s"})"}}, request);
  CHECK(by_time.full == doctest::Approx(without.full * (1 - pause / 4 / 100)));
  const RemainingPrediction of_all =
      predicted({{"/training/checkpoint", R"({"every": "100s", "pauses": "all"})"}}, request);
  CHECK(of_all.full == doctest::Approx(without.full * (1 - pause / 100)));
}

namespace {

/// A job of four machines with a checkpoint after every 30 of its 400 steps.
Json job_of_four(const Json& strategy, const Json& recovery) {
  Json scenario = test::timed_scenario(4, {{"1000B"}, {"1000B"}}, strategy);
  for (Json& layer : scenario["workload"]["model"]["structure"]["layers"]) layer["output"] = "4B";
  scenario["training"]["steps"] = 400;
  scenario["training"]["checkpoint"] = {
      {"every_steps", 30}, {"fixed_time", "10ms"}, {"rate", "1TBps"}, {"pauses", "all"}};
  scenario["training"]["recovery"] = recovery;
  return scenario;
}

/// The same after a loss of its last machine as step 100 ends, simulated message by message.
double simulated_rest(Json scenario, Seconds until_replaced) {
  Json first = scenario;
  first["training"]["steps"] = 100;
  const double date = test::simulated(first)["time_s"].get<double>() + 1e-9;
  Json& group = scenario["cluster"]["groups"][0];
  group["market"] = "spot";
  Json events = Json::array();
  for (int m = 0; m < 4; ++m) events.push_back({0, "add", std::to_string(m)});
  events.push_back({date, "remove", "3"});
  events.push_back({date + until_replaced.value(), "add", "4"});
  group["spot_pool"] = {{"replay", std::move(events)}};
  const Json summary = test::simulated(scenario);
  CAPTURE(summary.dump());
  REQUIRE(summary.contains("time_s"));
  return summary["time_s"].get<double>() - date;
}

}  // namespace

TEST_CASE("what is left takes as long as the simulation of the same loss says, whatever the recovery") {
  const Json all_reduce{{"kind", "all_reduce"}};
  const Json sharded{{"kind", "all_reduce"}, {"sharding", "parameters"}};
  const Json pipeline{{"kind", "all_reduce"}, {"pipeline", {{"stages", 2}, {"microbatches", 3}}}};
  Json servers{{"kind", "parameter_server"}, {"synchronization", "synchronous"}, {"backup_workers", 1}};
  const auto with = [](Json recovery) {
    recovery["timeout"] = "50ms";
    recovery["restart_time"] = "20ms";
    return recovery;
  };
  const Json restart = with({{"lost_worker", "restart"}});
  struct Case {
    Json strategy, recovery;
    bool waits;
  };
  for (const auto& [strategy, recovery, waits] : std::vector<Case>{
           {all_reduce, with(Json::object()), false},
           {all_reduce, with({{"membership_change", "at_once"}}), false},
           {all_reduce, with({{"membership_change", "restart"}}), false},
           {all_reduce, with({{"lost_worker", "wait"}}), true},
           {all_reduce, with({{"minimum_workers", 4}}), true},
           {all_reduce, with({{"minimum_workers", 3}}), false},
           {all_reduce, restart, true},
           {all_reduce, with({{"lost_worker", "restart"}, {"minimum_workers", 2}}), false},
           {sharded, restart, true},
           {pipeline, restart, true},
           {servers, with(Json::object()), false},
       }) {
    CAPTURE(strategy.dump());
    CAPTURE(recovery.dump());
    Json scenario = job_of_four(strategy, recovery);
    if (strategy["kind"] == "parameter_server") scenario = test::with_servers(scenario, 1);
    const Seconds until_replaced{1.5};
    const RemainingPrediction predicted =
        *predict_remaining(scenario, source_folder() + "/scenarios/test.json", test::shipped_catalog(),
                           {.step = 100, .group = {}, .until_replaced = until_replaced}, 2);
    const double simulated = simulated_rest(scenario, until_replaced);
    CHECK(predicted.remaining.value() == doctest::Approx(simulated).epsilon(0.005));
    CHECK((predicted.degraded == 0) == waits);
    CHECK((predicted.stopped >= until_replaced) == waits);
  }
}

TEST_CASE("a recovery that cannot follow the loss is refused") {
  const Json pipeline{{"kind", "all_reduce"}, {"pipeline", {{"stages", 2}, {"microbatches", 3}}}};
  for (const auto& [recovery, found] :
       {std::pair{Json::object(), "shrink"}, std::pair{Json{{"lost_worker", "wait"}}, "wait"}}) {
    const std::string expected =
        "test.json: /training/recovery/lost_worker: expected \"restart\" where workers share the model: the part of a "
        "lost "
        "worker is in checkpoints only; found \"" +
        std::string{found} + '"';
    CHECK_THROWS_WITH_AS((void)predict_remaining(job_of_four(pipeline, recovery), "test.json", test::shipped_catalog(),
                                                 {.step = 1, .group = {}, .until_replaced = Seconds{1}}, 2),
                         expected.c_str(), InputError);
  }
}

TEST_CASE("the speeds are those of clusters that stay, whoever was to replace whom") {
  // Five of eight workers are replaced by three on standby: neither those nor a replay of five machines fit one alone.
  const std::string file = source_folder() + "/scenarios/spotdnn-revocation.json";
  const auto predict = [&](int lost) {
    return *predict_remaining(load_json_file(file), file, test::shipped_catalog(),
                              {.step = 1, .group = "g3.8xlarge", .lost = lost, .until_replaced = Seconds{125.8}}, 2);
  };
  const RemainingPrediction one = predict(1), all = predict(5);
  CHECK(one.full == all.full);
  CHECK(all.degraded < one.degraded);
  CHECK(one.degraded < one.full);
  CHECK_THROWS_AS((void)predict_remaining(load_json_file(file), file, test::shipped_catalog(),
                                          {.step = 1, .group = "p3.2xlarge", .lost = 1}, 2),
                  InputError);
}

TEST_CASE("a loss that cannot be is refused") {
  RemainingRequest request{.step = 64000, .group = {}, .until_replaced = {}, .measured_speed = {}, .history = {}};
  CHECK(refusal(request) == "--step: expected a loss before the last of 64000 steps; found step 64000");
  request.step = 1;
  request.lost = 5;
  CHECK(refusal(request) == "--lost: expected a loss of 1 to 4 machines of group \"workers\"; found 5");
  request.lost = 1;
  request.group = "worker";
  CHECK(refusal(request) == "--group: unknown group of workers \"worker\"; did you mean \"workers\"?");
  request.group.clear();
  CHECK(refusal(request, {{"/calibration", "ideal"}})
            .ends_with("/scenarios/test.json: /calibration: profile \"ideal\" has no start-up times of a machine like "
                       "those of group \"workers\"; --replaced-after says when its replacement works"));
}

}  // namespace rehearse
