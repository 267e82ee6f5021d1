#include "calibration/metric.hpp"

#include <doctest/doctest.h>

#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/scenario/work.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

double metric_of(const std::string& metric, const Changes& changes, std::optional<double> probability = {}) {
  return simulated_metric(test::resolved(test::shipped_scenario(changes)), metric, probability);
}

std::string refusal(const std::string& metric, const Changes& changes, std::optional<double> probability = {}) {
  try {
    (void)metric_of(metric, changes, probability);
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

}  // namespace

TEST_CASE("checkpoint_time_s is the pause of the chief in a simulation, by the profile's times or the scenario's own") {
  for (const char* checkpoint :
       {R"({"every_steps": 40})", R"({"every_steps": 40, "fixed_time": "2s", "rate": "10MBps"})"}) {
    const Changes changes{{"/training/steps", "100"}, {"/training/checkpoint", checkpoint}};
    const Json pauses = test::in_child([&] {
      const RunRecord record = simulate(test::resolved(test::shipped_scenario(changes)));
      Json result = Json::array();
      for (const EventSpan& event : record.recorder.events)
        if (event.kind == "checkpoint") result.push_back((event.span.end - event.span.start).value());
      return result;
    });
    REQUIRE(pauses.size() == 2);
    for (const Json& pause : pauses)
      CHECK(pause.get<double>() == doctest::Approx(metric_of("checkpoint_time_s", changes)).epsilon(1e-9));
  }
}

TEST_CASE("a checkpoint is its write and its upload; more bytes and more tensors take longer") {
  const double whole = metric_of("checkpoint_time_s", {}), write = metric_of("checkpoint_write_time_s", {});
  CHECK(whole == doctest::Approx(write + metric_of("checkpoint_upload_time_s", {})));
  CHECK(metric_of("checkpoint_time_s", {{"/workload/optimizer", "adam"}}) > whole);
  CHECK(metric_of("checkpoint_time_s", {{"/workload/optimizer", "sgd"}}) < whole);
  // ResNet-32: 104 tensors, as many slots of momentum and 2 x 34 moving averages.
  CHECK(checkpoint_tensors(test::resolved(test::shipped_scenario())) == 276);
}

TEST_CASE("a profile without times of checkpoints or start-ups says so") {
  const Changes ideal{{"/calibration", "ideal"}};
  CHECK(refusal("checkpoint_time_s", ideal) == "profile \"ideal\" has no times of checkpoints");
  CHECK(refusal("startup_time_s", ideal) ==
        "profile \"ideal\" has no start-up times of a machine like those of group \"workers\"");
  CHECK(refusal("checkpoint_time_s", {}, 0.5) == "metric \"checkpoint_time_s\" has no distribution");
  const std::string message =
      refusal("checkpoint_time_s", {{"/calibration", "ideal"}, {"/training/checkpoint", R"({"every_steps": 4})"}});
  CHECK(
      message.ends_with("/training/checkpoint: expected \"fixed_time\" and \"rate\", since profile \"ideal\" has no "
                        "times of checkpoints"));
}

TEST_CASE("start-up times: means of stages add up, a quantile of a stage is its distribution's") {
  const double provisioning = metric_of("startup_provisioning_time_s", {}),
               staging = metric_of("startup_staging_time_s", {}), booting = metric_of("startup_booting_time_s", {});
  CHECK(metric_of("startup_time_s", {}) == doctest::Approx(provisioning + staging + booting));
  // CM-DARE: preemptible machines spend longer in staging.
  CHECK(metric_of("startup_time_s", {{"/cluster/groups/1/market", "spot"}}) > metric_of("startup_time_s", {}) + 5);
  const Scenario scenario = test::resolved(test::shipped_scenario());
  CHECK(metric_of("startup_staging_time_s", {}, 0.9) ==
        startup_of(scenario, scenario.groups[1])->staging.quantile(0.9).value());
}

TEST_CASE("the framework's start grows with the model's tensors, and takes a constant longer on a fresh machine") {
  const auto times = [](const char* model) {
    const Changes changes{{"/workload/model", model}};
    return std::pair{metric_of("startup_framework_cold_time_s", changes),
                     metric_of("startup_framework_warm_time_s", changes)};
  };
  const auto [small_cold, small_warm] = times("cm-dare/resnet15");
  const auto [large_cold, large_warm] = times("cm-dare/shake_small");
  const FrameworkStart start = test::resolved(test::shipped_scenario()).profile.startup->framework;
  CHECK(small_cold - small_warm == doctest::Approx(start.cold_time.value()));
  CHECK(large_cold - large_warm == doctest::Approx(start.cold_time.value()));
  CHECK(large_warm - small_warm == doctest::Approx((216 - 50) * start.time_per_tensor.value()));
  CHECK(refusal("startup_framework_cold_time_s", {{"/calibration", "ideal"}}) ==
        "profile \"ideal\" has no start-up times");
}

TEST_CASE("a transfer is as fast as the slower NIC, or as its window goes round") {
  const auto rate = [](const char* window, const char* latency) {
    Json scenario = test::shipped_scenario();
    Json profile = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
    if (window[0] != '\0') profile["network"]["connection_window"] = window;
    scenario["calibration"] = profile;
    scenario["cluster"]["network"]["links"] = {
        {{"from", "us-west1"}, {"to", "us-west1"}, {"latency", latency}, {"source", "made up"}}};
    return simulated_metric(test::resolved(scenario), "transfer_rate_Bps");
  };
  CHECK(rate("", "15ms") == doctest::Approx(1e9));       // 8 Gbit/s
  CHECK(rate("3MB", "15ms") == doctest::Approx(100e6));  // 3 MB every 30 ms
  CHECK(rate("6MB", "15ms") == doctest::Approx(200e6));
  CHECK(rate("3MB", "0.1ms") == doctest::Approx(1e9));  // 15 GB/s, more than the NICs
  CHECK(rate("3MB", "0s") == doctest::Approx(1e9));
}

TEST_CASE(
    "rates and bursts of the first worker's NIC: what it receives in a step, its share of time, at most the rate") {
  const Changes synchronous{{"/training/strategy/synchronization", "\"synchronous\""},
                            {"/training/steps", "40"},
                            {"/output/sampling_period", "\"10ms\""}};
  const auto simulated = [&](const char* metric) {
    return test::in_child([&] { return Json(metric_of(metric, synchronous)); }).get<double>();
  };
  const double step = simulated("iteration_time_s"), mean = simulated("nic_receive_mean_Bps");
  const double peak = simulated("nic_receive_peak_Bps");
  const double active = simulated("nic_receive_active_s"), idle = simulated("nic_receive_idle_s");
  const double bytes = as_double(test::resolved(test::shipped_scenario()).workload.parameter_bytes());
  CHECK(mean * step == doctest::Approx(bytes).epsilon(0.05));  // the variables are pulled once a step
  CHECK(peak > mean);
  CHECK(active + idle <= step + 0.01);  // a step has a burst and a gap, or more of both; a sample is 10 ms
  const Json known = test::in_child([] { return Json(refusal("nic_receive_maximum", {})); });
  CHECK(known.get<std::string>().find("\"nic_receive_mean_Bps\"") != std::string::npos);
}

TEST_CASE("the wait for gradients: the step without what comes before the last kernel's end, and without the update") {
  const auto simulated = [](const char* metric, const char* overlap, const char* nic) {
    const Json result = test::in_child([&] {
      Json scenario = load_json_file(source_folder() + "/scenarios/resnet50-ec2.json");
      scenario["training"]["strategy"]["overlap"] = overlap;
      scenario["training"]["steps"] = 20;
      scenario["training"]["step_time_variation"] = 0;
      scenario["cluster"]["groups"][0]["instance"] = {{"vcpus", 16},       {"memory", "64GiB"}, {"accelerator", "V100"},
                                                      {"accelerators", 1}, {"nic", nic},        {"source", "made up"}};
      scenario["training"]["strategy"]["algorithm"] = "ring";
      return Json(simulated_metric(test::resolved(scenario), metric));
    });
    return result.get<double>();
  };
  constexpr const char* kWait = "gradient_wait_first_worker_s";
  const double slow = simulated(kWait, "none", "10Gbps"), fast = simulated(kWait, "none", "20Gbps");
  CHECK(slow > 1.5 * fast);  // all-reduce takes what the NIC takes, and what stays within machines
  CHECK(slow < 2 * fast);
  CHECK(simulated("iteration_time_s", "none", "10Gbps") - slow ==
        doctest::Approx(simulated("iteration_time_s", "none", "20Gbps") - fast).epsilon(1e-3));
  CHECK(simulated(kWait, "backward", "10Gbps") < slow);
}

TEST_CASE("kernel_time_s is the kernel-time model of the first kernel") {
  const Changes one_kernel{{"/workload/model", R"({"name": "k", "format": 1, "source": "s", "input": [1, 1, 512],
                             "structure": {"family": "layers", "layers": [{"layer": "dense", "features": 256}]}})"},
                           {"/workload/batch_per_worker", "1024"}};
  const Scenario scenario = test::resolved(test::shipped_scenario(one_kernel));
  const Operator& kernel = scenario.workload.graph[0];
  CHECK(kernel.matrix.rows == 1024);
  CHECK(kernel.matrix.columns == 256);
  CHECK(kernel.matrix.reduction == 512);
  const Accelerator& gpu = *scenario.groups[1].accelerator;
  CHECK(simulated_metric(scenario, "kernel_time_s") ==
        kernel_time(kernel, gpu, gpu.peak_fp32, scenario.profile.gpu).total.value());
}

TEST_CASE("closed forms know what they use of a profile") {
  const Json profile = load_json_file(source_folder() + "/calibration/profiles/cm-dare.json");
  CHECK(is_closed_form("kernel_time_s"));
  CHECK_FALSE(is_closed_form("steps_per_s"));
  Json other = profile;
  set_json_pointer(other, "/gpu/kernel_overhead", "1us");
  CHECK(profile_used_by("checkpoint_time_s", other) == profile_used_by("checkpoint_time_s", profile));
  CHECK(profile_used_by("kernel_time_s", other) != profile_used_by("kernel_time_s", profile));
}

TEST_CASE("a metric's job gives its value: of the scenario, of another profile, of other steps") {
  const Scenario scenario = test::resolved(test::shipped_scenario({{"/training/steps", "40"}}));
  const auto value_of = [](const PoolJob& job) {
    return run_isolated(1, 1, [&](std::size_t) { return run_job(job.text()); }).front().text;
  };
  const auto alone = [](const Scenario& any) {
    return run_isolated(1, 1, [&](std::size_t) { return to_text(simulated_metric(any, "steps_per_s")); }).front().text;
  };
  CHECK(value_of(kMeasure.job(scenario, {{"metric", "steps_per_s"}})) == alone(scenario));
  Json profile = scenario.effective->at("calibration");
  profile["host"]["dispatch"] = "1ms";
  Scenario other = scenario;
  other.profile = read_profile(JsonReader{profile, "profile"});
  set_steps(other, 20);
  CHECK(alone(other) != alone(scenario));
  Scenario longer = other;
  set_steps(longer, 40);
  CHECK(value_of(kMeasure.job(longer, {{"metric", "steps_per_s"}, {"steps", 20}})) == alone(other));
  CHECK(value_of(kMeasure.job(scenario, {{"metric", "startup_time_s"}, {"probability", 0.9}})) ==
        to_text(simulated_metric(scenario, "startup_time_s", 0.9)));
  CHECK(value_of(kMeasure.job(scenario)) == "job: /options: expected the key \"metric\"; found none");
}

}  // namespace rehearse
