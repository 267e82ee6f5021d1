// What a step consists of: closed forms, and what holds for every scenario.

#include "sim/record/step_parts.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "sim/base/parse_quantity.hpp"
#include "sim/record/summary.hpp"
#include "tests/support/random_scenario.hpp"

namespace rehearse {

namespace {

using test::timed_scenario;
using test::with_servers;

Json summary_of(const Json& scenario, bool is_exact = false) {
  return test::in_child([&] {
    const Scenario resolved = test::resolved(scenario);
    return to_json(resolved, summarize(resolved, simulate(resolved, {.is_exact = is_exact})));
  });
}

/// Part by part, in seconds.
std::map<std::string, double> parts_of(const Json& summary) {
  REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
  std::map<std::string, double> parts;
  for (const Json& part : summary["step_parts"]) parts[part["part"]] += part["time_s"].get<double>();
  return parts;
}

void check_parts(const Json& scenario, const std::map<std::string, double>& expected) {
  for (const bool is_exact : {false, true}) {
    CAPTURE(is_exact);
    const auto parts = parts_of(summary_of(scenario, is_exact));
    double sum = 0, expected_sum = 0;
    for (const auto& [part, time] : expected) {
      CAPTURE(part);
      expected_sum += time;
      REQUIRE(parts.contains(part));
      CHECK(parts.at(part) == doctest::Approx(time).epsilon(1e-6));
    }
    for (const auto& [part, time] : parts) sum += time;
    CHECK(sum == doctest::Approx(expected_sum).epsilon(1e-6));
  }
}

Json all_reduce_of_two() {
  Json scenario = timed_scenario(2, {{"20000000B"}}, {{"kind", "all_reduce"}});
  scenario["training"]["steps"] = 20;
  return scenario;
}

}  // namespace

TEST_CASE("where sockets carry less than the NIC the verdict asks for no faster one, as none helps") {
  Json scenario = all_reduce_of_two();
  Json& instance = scenario["cluster"]["groups"][0]["instance"];
  instance["transport"] = "tcp";
  instance["nic"] = "2GBps";
  scenario["calibration"] = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
  scenario["calibration"]["network"]["tcp_rate"] = "1GBps";
  check_parts(scenario, {{"worker_gpu", 3e-3}, {"worker_nic", 20e-3}, {"latency", 20e-6}});
  const Json limited = summary_of(scenario);
  CHECK(
      limited["bottleneck"].get<std::string>().starts_with("87 % exposed communication over the sockets of workers-0, "
                                                           "sending, busy 87 %: RDMA instead of TCP, whose sockets "
                                                           "carry less than the NICs, or fewer bytes for a sample"));
  CHECK(limited["bottleneck_resource"] == "worker_nic");
  instance["nic"] = "4GBps";
  CHECK(summary_of(scenario)["iteration_time_s"] == limited["iteration_time_s"]);
  instance["nic"] = "0.5GBps";
  CHECK(summary_of(scenario)["bottleneck"].get<std::string>().find("faster NICs") != std::string::npos);
}

TEST_CASE("two workers on a slow NIC: the exposed part is what a faster NIC removes") {
  // 3 ms of compute, then a ring of two: 2 rounds of 10 MB / 1 GB/s + 10 us.
  Json scenario = all_reduce_of_two();
  check_parts(scenario, {{"worker_gpu", 3e-3}, {"worker_nic", 20e-3}, {"latency", 20e-6}});
  const Json summary = summary_of(scenario);
  CHECK(summary["bottleneck"].get<std::string>().starts_with(
      "87 % exposed communication over the NIC of workers-0, sending, busy 87 %: faster NICs, or fewer bytes for a "
      "sample (gradients in half precision, a larger batch, accumulation); 13 % kernels on the GPUs: faster GPUs"));
  CHECK(summary["bottleneck_resource"] == "worker_nic");
  scenario["cluster"]["groups"][0]["instance"]["nic"] = "2GBps";
  check_parts(scenario, {{"worker_gpu", 3e-3}, {"worker_nic", 10e-3}, {"latency", 20e-6}});
  CHECK(summary["iteration_time_s"].get<double>() - summary_of(scenario)["iteration_time_s"].get<double>() ==
        doctest::Approx(10e-3).epsilon(1e-6));
}

TEST_CASE("a worker and its server: two round trips, and the bytes both ways") {
  // 20 MB at 1 GB/s to the worker and back; request, variables, gradients, acknowledgement: 4 x 10 us.
  Json scenario = with_servers(
      timed_scenario(1, {{"20000000B"}}, {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}), 1);
  scenario["training"]["steps"] = 10;
  check_parts(scenario, {{"worker_gpu", 3e-3}, {"worker_nic", 40e-3}, {"latency", 40e-6}});
  // A core of the server takes 1 ns for each of them, too.
  scenario["calibration"] = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
  scenario["calibration"]["servers"]["time_per_byte"] = "1ns";
  check_parts(scenario, {{"worker_gpu", 3e-3}, {"worker_nic", 40e-3}, {"server_cpu", 40e-3}, {"latency", 40e-6}});
  scenario["calibration"]["host"]["step_overhead"] = "5ms";
  check_parts(
      scenario,
      {{"worker_gpu", 3e-3}, {"worker_host", 5e-3}, {"worker_nic", 40e-3}, {"server_cpu", 40e-3}, {"latency", 40e-6}});
}

TEST_CASE("a synchronous step waits for the slower worker's kernels, not for its messages") {
  // Two workers of 3 ms; both exchange 20 kB: 2 (10 us + 10 us).
  Json scenario = timed_scenario(2, {{"20000B"}}, {{"kind", "all_reduce"}});
  scenario["training"]["steps"] = 200;
  scenario["training"]["step_time_variation"] = 0.3;
  const auto parts = parts_of(summary_of(scenario));
  // Of two values with mean m and deviation s the larger is about 0.56 s above the mean: 3 ms x 0.3 x 0.56.
  CHECK(parts.at("slowest_worker") == doctest::Approx(0.5e-3).epsilon(0.2));
  CHECK(parts.at("worker_nic") == doctest::Approx(20e-6).epsilon(1e-3));
  CHECK(parts.at("latency") == doctest::Approx(20e-6).epsilon(1e-3));
}

TEST_CASE("a checkpoint of the chief is a pause for all that wait for it") {
  // After every second step the chief writes for 10 ms; 3 ms of compute, 2 (10 us + 1 us).
  Json scenario = timed_scenario(2, {{"2000B"}}, {{"kind", "all_reduce"}});
  scenario["training"]["steps"] = 41;
  scenario["training"]["warmup_steps"] = 1;
  scenario["training"]["checkpoint"] = {{"every_steps", 2}, {"fixed_time", "10ms"}, {"rate", "1000GBps"}};
  const Json summary = summary_of(scenario);
  const auto parts = parts_of(summary);
  CHECK(parts.at("checkpoint") == doctest::Approx(5e-3).epsilon(0.06));
  CHECK(!parts.contains("slowest_worker"));
  CHECK(summary["iteration_time_s"].get<double>() * summary["steps_per_s"].get<double>() ==
        doctest::Approx(1).epsilon(0.06));
}

TEST_CASE("the update of many small variables is host dispatch, the same on every GPU") {
  // horovod/horovod#416: ResNet-101 on one V100. 314 variables of at most 2048 x 1000 scalars, each of which momentum
  // reads and writes in less than the 122 us that the framework takes to dispatch it.
  const Json profile = load_json_file(source_folder() + "/calibration/profiles/kernels.json");
  const double dispatch =
      parse_seconds(profile["frameworks"]["otherwise"]["update_dispatch"].get<std::string>()).value();
  for (const char* gpu : {"V100", "A100", "H100"}) {
    CAPTURE(gpu);
    Json scenario = load_json_file(source_folder() + "/scenarios/data-sheet.json");
    scenario["workload"] = {{"model", "resnet101"}, {"batch_per_worker", 32}, {"optimizer", "momentum"}};
    scenario["cluster"]["groups"][0]["instance"] = {{"source", "test"}, {"vcpus", 8},        {"memory", "64GiB"},
                                                    {"nic", "40Gbps"},  {"accelerators", 1}, {"accelerator", gpu}};
    scenario["training"]["strategy"] = {{"kind", "all_reduce"}};
    scenario["calibration"] = "kernels";
    const Json summary = summary_of(scenario);
    const auto parts = parts_of(summary);
    REQUIRE(parts.contains("update_dispatch"));
    CHECK(parts.at("update_dispatch") == doctest::Approx(314 * dispatch).epsilon(1e-6));
    CHECK(!parts.contains("worker_update"));
    for (const Json& part : summary["step_parts"])
      if (part["part"] == "update_dispatch") {
        CHECK(part["what"] == "host dispatch of the optimizer's update, of 314 variables one after the other");
        CHECK(part["remedy"].get<std::string>().find("memory") == std::string::npos);
      }
  }
}

TEST_CASE("kernels that end while the host dispatches others are the host's, whatever the GPU") {
  // A sample at a time: a GPU twice as fast gains nothing of what its host holds up.
  Json scenario = load_json_file(source_folder() + "/scenarios/data-sheet.json");
  scenario["workload"] = {{"model", "resnet101"}, {"batch_per_worker", 1}, {"optimizer", "sgd"}};
  scenario["calibration"] = load_json_file(source_folder() + "/calibration/profiles/kernels.json");
  scenario["calibration"]["frameworks"]["otherwise"]["dispatch"] = "100us";
  const auto parts = parts_of(summary_of(scenario));
  scenario["cluster"]["groups"][0]["instance"] = {{"source", "test"}, {"vcpus", 8},        {"memory", "64GiB"},
                                                  {"nic", "40Gbps"},  {"accelerators", 1}, {"accelerator", "H100"}};
  const auto faster = parts_of(summary_of(scenario));
  CHECK(parts.at("worker_host") > parts.at("worker_gpu"));
  CHECK(faster.at("worker_host") == doctest::Approx(parts.at("worker_host")).epsilon(0.05));
}

TEST_CASE("in every random scenario the parts of a step are positive and add up to it, the largest first") {
  constexpr std::uint64_t kCount = 40;
  const auto results = run_isolated(2 * kCount, 2, [](std::size_t job) {
    const Scenario scenario = test::resolved(test::ScenarioGenerator{1000 + job / 2}.generate());
    return to_json(scenario, summarize(scenario, simulate(scenario, {.is_exact = job % 2 == 1}))).dump();
  });
  std::uint64_t with_parts = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const std::uint64_t seed = 1000 + i;
    CAPTURE(seed);
    REQUIRE_MESSAGE(results[2 * i].has_succeeded, results[2 * i].text);
    REQUIRE_MESSAGE(results[2 * i + 1].has_succeeded, results[2 * i + 1].text);
    const Json summary = Json::parse(results[2 * i].text), exact = Json::parse(results[2 * i + 1].text);
    const Json& parts = summary["step_parts"];
    const double step = summary["iteration_time_s"].get<double>();
    if (parts.empty()) continue;  // no step after the warm-up without a stop
    ++with_parts;
    double sum = 0, shares = 0, largest = parts[0]["time_s"].get<double>();
    for (const Json& part : parts) {
      CHECK(part["time_s"].get<double>() > 0);
      CHECK(part["time_s"].get<double>() <= largest);
      largest = part["time_s"].get<double>();
      sum += largest;
      shares += part["share"].get<double>();
    }
    CHECK(sum == doctest::Approx(step).epsilon(1e-8));
    CHECK(shares == doctest::Approx(1).epsilon(1e-8));
    CHECK(summary["bottleneck"].get<std::string>().find(parts[0]["what"].get<std::string>()) != std::string::npos);
    if (test::ScenarioGenerator{seed}.generate()["training"]["strategy"]["kind"] != "all_reduce") continue;
    const auto by_default = parts_of(summary), as_exact = parts_of(exact);
    for (const auto& [part, time] : by_default) {
      CAPTURE(part);
      CHECK(std::abs(time - (as_exact.contains(part) ? as_exact.at(part) : 0)) <= 1e-6 * step);
    }
  }
  CHECK(with_parts > kCount / 2);
}

}  // namespace rehearse
