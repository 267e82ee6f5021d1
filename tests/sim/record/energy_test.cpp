// What runs of measured layers draw, worked out by hand.

#include "sim/record/energy.hpp"

#include <doctest/doctest.h>

#include "sim/record/summary.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::number_at;
using test::summary_with_result;
using test::timed_scenario;

const BoardPowerValues kPowerValues;
constexpr double kBoardWatts = 200;  // W
constexpr double kJoulesPerKwh = 3.6e6;

Json with_boards(Json scenario, const std::vector<std::pair<std::string, Json>>& changes = {}) {
  for (Json& group : scenario["cluster"]["groups"])
    if (group["instance"].contains("accelerator"))
      group["instance"]["accelerator"].update({{"power", "200W"},
                                               {"process_nm", 16},
                                               {"memory_kind", "GDDR6"},
                                               {"peak_fp32", "10Tflops"},
                                               {"memory_bandwidth", "500GBps"}});
  for (const auto& [pointer, value] : changes) set_json_pointer(scenario, pointer, value.dump());
  return scenario;
}

const double kRestWatts = 500 * kPowerValues.rest_soldered, kActiveWatts = 10 * kPowerValues.active;

}  // namespace

TEST_CASE("a GPU draws its rest all the time and the rest of it while kernels run") {
  // One worker, 4 steps of 3 ms, nothing exchanged.
  Json scenario = with_boards(timed_scenario(1, {{"1000B"}}, {{"kind", "all_reduce"}}));
  scenario["training"]["steps"] = 4;
  const Json summary = summary_with_result(scenario);
  CHECK(number_at(summary, "gpu_power_w") == doctest::Approx(kRestWatts + kActiveWatts));
  CHECK(number_at(summary, "gpu_energy_kwh") * kJoulesPerKwh == doctest::Approx((kRestWatts + kActiveWatts) * 12e-3));
  CHECK(number_at(summary, "gpu_energy_per_sample_j") == doctest::Approx((kRestWatts + kActiveWatts) * 3e-3));
  CHECK(number_at(summary, "energy_per_step_j") == doctest::Approx(number_at(summary, "node_power_w") * 3e-3));
  CHECK(number_at(summary, "node_power_w") > kRestWatts + kActiveWatts);
  CHECK(summary["co2_kg"].is_null());
}

TEST_CASE("waiting for a collective draws what its kernels need to poll") {
  // Ring of two: 2 rounds of 1 MB / 1 GB/s + 10 us after 3 ms of kernels.
  Json scenario = with_boards(timed_scenario(2, {{"2000000B"}}, {{"kind", "all_reduce"}}));
  scenario["training"]["steps"] = 8;
  const Json summary = summary_with_result(scenario);
  const double wait = 2 * (10e-6 + 1e-3), step = 3e-3 + wait;
  CHECK(number_at(summary, "gpu_power_w") ==
        doctest::Approx(kRestWatts + (kActiveWatts * 3e-3 + kBoardWatts * kPowerValues.polling * wait) / step)
            .epsilon(1e-6));
  // Energy over time is mean power times time.
  CHECK(number_at(summary, "gpu_energy_kwh") * kJoulesPerKwh ==
        doctest::Approx(2 * number_at(summary, "gpu_power_w") * number_at(summary, "time_s")).epsilon(1e-6));
  CHECK(number_at(summary, "energy_kwh") * kJoulesPerKwh ==
        doctest::Approx(2 * number_at(summary, "node_power_w") * number_at(summary, "time_s")).epsilon(1e-6));
}

TEST_CASE("a machine that has left draws nothing") {
  // Of two workers one leaves after 4 steps of 12.
  Json scenario =
      with_boards(timed_scenario(1, {{"1000B"}}, {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}));
  scenario = test::with_servers(scenario, 1);
  scenario["training"]["steps"] = 400;
  Json leaver = scenario["cluster"]["groups"][0];
  leaver["name"] = "leaver";
  scenario["cluster"]["groups"].push_back(leaver);
  const double both = number_at(summary_with_result(scenario), "gpu_energy_kwh") * kJoulesPerKwh;
  const double time = number_at(summary_with_result(scenario), "time_s");
  scenario["cluster"]["groups"].back()["leaves_at"] = "30ms";
  const Json left = summary_with_result(scenario);
  CHECK(number_at(left, "time_s") > 1.8 * time);
  // The same steps in all; at rest for the time of one machine and 30 ms of the other.
  const double busy = both - kRestWatts * 2 * time;
  CHECK(number_at(left, "gpu_energy_kwh") * kJoulesPerKwh ==
        doctest::Approx(busy + kRestWatts * (number_at(left, "time_s") + 0.03)).epsilon(0.01));
}

TEST_CASE("a pipeline's bubble is at rest") {
  Json strategy{{"kind", "all_reduce"}, {"pipeline", {{"stages", 2}, {"microbatches", 2}}}};
  Json scenario = with_boards(timed_scenario(2, {{"1000B"}, {"1000B"}}, strategy));
  for (Json& layer : scenario["workload"]["model"]["structure"]["layers"]) layer["output"] = "4B";
  scenario["training"]["steps"] = 5;
  scenario["cluster"]["network"]["links"][0]["latency"] = "0us";
  const Json summary = summary_with_result(scenario);
  // Each stage computes 2 x 3 ms of a step of (2 + 1) x 3 ms.
  CHECK(number_at(summary, "iteration_time_s") == doctest::Approx(9e-3).epsilon(0.01));
  CHECK(number_at(summary, "gpu_power_w") == doctest::Approx(kRestWatts + kActiveWatts * 2 / 3).epsilon(0.01));
}

TEST_CASE("under a limit kernels take longer and draw it") {
  Json scenario = with_boards(timed_scenario(1, {{"1000B"}}, {{"kind", "all_reduce"}}),
                              {{"/cluster/groups/0/power_limit", "100W"}});
  scenario["training"]["steps"] = 4;
  const Json limited = summary_with_result(scenario);
  CHECK(number_at(limited, "gpu_power_w") == doctest::Approx(100).epsilon(1e-6));
  CHECK(number_at(limited, "iteration_time_s") > 3e-3);
  // The same step measured under the limit: its time is kept.
  scenario["cluster"]["groups"][0]["step_time"] = {{"time", "3ms"}, {"power_limit", "100W"}};
  const Json measured = summary_with_result(scenario);
  CHECK(number_at(measured, "iteration_time_s") == doctest::Approx(3e-3));
  CHECK(number_at(measured, "gpu_power_w") == doctest::Approx(100).epsilon(1e-6));
}

TEST_CASE("electricity has a price, an intensity and what the site adds") {
  Json scenario = with_boards(timed_scenario(1, {{"1000B"}}, {{"kind", "all_reduce"}}));
  const double plain = number_at(summary_with_result(scenario), "energy_kwh");
  scenario["cluster"]["electricity"] = {{"usd_per_kwh", 0.1}, {"gco2_per_kwh", 400}, {"pue", 1.25}};
  scenario["training"]["target"] = {{"samples", 1000}};
  const Json summary = summary_with_result(scenario);
  CHECK(number_at(summary, "energy_kwh") == doctest::Approx(1.25 * plain));
  CHECK(number_at(summary, "usd_energy") == doctest::Approx(0.125 * plain));
  CHECK(number_at(summary, "co2_kg") == doctest::Approx(0.5 * plain));
  CHECK(number_at(summary, "training_energy_kwh") == doctest::Approx(1250 * plain));
  CHECK(number_at(summary, "training_co2_kg") == doctest::Approx(500 * plain));
}

TEST_CASE("what a board draws that states no power is not known") {
  const Json summary = summary_with_result(timed_scenario(1, {{"1000B"}}, {{"kind", "all_reduce"}}));
  for (const char* key : {"gpu_power_w", "node_power_w", "energy_kwh", "gpu_energy_kwh", "energy_per_step_j", "co2_kg"})
    CHECK(summary.at(key).is_null());
}

TEST_CASE("machines that run for others draw as much as where each runs: stages, and experts with other loads") {
  const auto drawn = [](const Json& scenario, bool is_exact) {
    const Json summary = test::in_child([&] {
      const Scenario resolved = test::resolved(scenario);
      return to_json(resolved,
                     summarize(resolved, simulate(resolved, {.keeps_activity = false, .is_exact = is_exact})));
    });
    REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
    return number_at(summary, "gpu_energy_kwh");
  };
  const auto check = [&](const Json& scenario) {
    CHECK(drawn(scenario, false) == doctest::Approx(drawn(scenario, true)).epsilon(1e-6));
  };
  check(load_json_file(source_folder() + "/scenarios/gpt2-xl-pipeline.json"));
  const Json pipeline{{"stages", 4}, {"microbatches", 3}}, experts{{"degree", 4}, {"zipf", 1}};
  for (const Json& strategy :
       {Json{{"pipeline", pipeline}, {"rank_order", "tensor_pipeline_data"}}, Json{{"experts", experts}},
        Json{{"tensor", {{"degree", 2}}}, {"pipeline", {{"stages", 2}, {"microbatches", 2}}}}}) {
    CAPTURE(strategy.dump());
    Json scenario = with_boards(test::small_training(4, 4, strategy));
    if (strategy.contains("experts"))
      scenario["workload"]["model"]["structure"].update(
          {{"experts", 8}, {"experts_per_token", 2}, {"grouped_experts", true}});
    check(scenario);
  }
}

}  // namespace rehearse
