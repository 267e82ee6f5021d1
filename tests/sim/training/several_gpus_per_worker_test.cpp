// Workers that drive several GPUs of their machine, and batches of their own.

#include <doctest/doctest.h>

#include "sim/scenario/step_time.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

/// One machine with two GPUs, one server, a tensor of 10 MB, compute 1 ms + 2 ms, 10 us one way, NICs of 1 GB/s.
Json two_gpus(int workers_per_machine) {
  Json scenario = test::with_servers(
      test::timed_scenario(1, {{"10000000B"}},
                           {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}, {"overlap", "none"}}, 2),
      1);
  scenario["cluster"]["groups"][0]["workers_per_machine"] = workers_per_machine;
  scenario["cluster"]["groups"][0]["batch_per_worker"] = 2 / workers_per_machine;
  scenario["training"]["steps"] = 10 * workers_per_machine;
  return scenario;
}

}  // namespace

TEST_CASE("a worker with two GPUs exchanges its parameters once") {
  // 4 x 10 us + 10 ms pull + 3 ms + 10 ms push; the PCIe links of its GPUs take no time
  const test::Times times = test::times_of(two_gpus(1));
  CHECK(times.by_default == doctest::Approx(10 * 23.04e-3).epsilon(1e-6));
  CHECK(times.exact == doctest::Approx(times.by_default).epsilon(1e-9));
  const Json summary = test::simulated(two_gpus(1));
  CHECK(summary["samples_per_s"].get<double>() == doctest::Approx(2 / 23.04e-3).epsilon(1e-6));
  CHECK(summary["machines"][0]["workers"] == 1);
  CHECK(summary["sent_B"] == 10 * 2 * 10'000'000);
  // Two workers take turns on the NIC of each direction: 20 ms is more than the rest of a step.
  const Json apart = test::simulated(two_gpus(2));
  CHECK(apart["sent_B"] == 20 * 2 * 10'000'000);
  CHECK(apart["samples_per_s"].get<double>() < summary["samples_per_s"].get<double>());
}

TEST_CASE("the copies to the GPUs of a worker share their way to the host") {
  // 2 x 10 MB over a root of 1 GB/s: 20 ms more each way
  Json scenario = two_gpus(1);
  scenario["cluster"]["groups"][0]["instance"]["interconnect"] = {{"pcie_root", "1GBps"}};
  const test::Times times = test::times_of(scenario);
  CHECK(times.by_default == doctest::Approx(10 * 63.04e-3).epsilon(1e-6));
  CHECK(times.exact == doctest::Approx(times.by_default).epsilon(1e-9));
}

TEST_CASE("without overlap copies begin when all pieces of the variables are there, pushes when all are added up") {
  Json scenario = two_gpus(1);
  scenario["cluster"]["groups"][0]["instance"]["interconnect"] = {{"pcie_root", "1GBps"}};
  scenario["training"]["strategy"]["partition_size"] = "1MB";  // ten pieces take as long as one
  CHECK(test::times_of(scenario).by_default == doctest::Approx(10 * 63.04e-3).epsilon(1e-6));
  scenario["training"]["strategy"]["overlap"] = "backward";
  CHECK(test::times_of(scenario).by_default < 10 * 50e-3);
}

TEST_CASE("each group has its own batch") {
  Json scenario = two_gpus(1);
  Json second = scenario["cluster"]["groups"][0];
  second["name"] = "second";
  second["batch_per_worker"] = 6;
  scenario["workload"]["model"]["structure"]["scales_with_batch"] = true;
  scenario["cluster"]["groups"].push_back(second);
  scenario["training"]["steps"] = 400;
  scenario["training"]["warmup_steps"] = 10;
  const Json summary = test::simulated(scenario);
  REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
  const double first = summary["machines"][0]["steps_per_s"], other = summary["machines"][2]["steps_per_s"];
  CHECK(other < first);  // it computes three times as long
  CHECK(summary["samples_per_s"].get<double>() == doctest::Approx(2 * first + 6 * other).epsilon(1e-9));
}

TEST_CASE("a step time of several GPUs is preferred to that of one") {
  Scenario scenario = test::resolved(two_gpus(1));
  const StepTime one{.model = "inline", .accelerator = "inline", .precision = "fp32", .framework = "", .batch = 1};
  StepTime step = one;
  step.model = scenario.model.name;
  step.accelerator = scenario.groups[0].accelerator->name;
  step.time = Seconds{30e-3};
  scenario.profile.step_times = {step};
  CHECK(step_time_factor(scenario, scenario.groups[0]).value() == doctest::Approx(10).epsilon(1e-9));  // 3 ms
  step.gpus = 2;
  step.batch = 2;
  step.time = Seconds{36e-3};
  scenario.profile.step_times.push_back(step);
  CHECK(step_time_factor(scenario, scenario.groups[0]).value() == doctest::Approx(12).epsilon(1e-9));
  step.gpus = 4;
  step.batch = 4;
  scenario.profile.step_times = {step};
  CHECK(step_time_factor(scenario, scenario.groups[0]).value() == doctest::Approx(12).epsilon(1e-9));
}

TEST_CASE("workers and batches that do not fit the machine are refused") {
  Json scenario = two_gpus(1);
  scenario["cluster"]["groups"][0]["workers_per_machine"] = 3;
  CHECK(test::problem_of(scenario) ==
        "/cluster/groups/0/workers_per_machine: expected a divisor of the 2 GPUs of a machine; found 3");
  scenario = two_gpus(1);
  scenario["cluster"]["groups"][0]["batch_per_worker"] = 3;
  CHECK(test::problem_of(scenario) ==
        "/cluster/groups/0/batch_per_worker: expected a batch that the 2 GPUs of a worker share equally; found 3 "
        "samples");
}

TEST_CASE("all GPUs of all workers add up gradients in one collective, whatever they are workers of") {
  const Json each = test::timed_scenario(3, {{"10000000B"}, {"4000000B"}}, {{"kind", "all_reduce"}}, 4);
  Json shared = each;
  shared["cluster"]["groups"][0]["workers_per_machine"] = 2;
  shared["cluster"]["groups"][0]["batch_per_worker"] = 2;
  const RunRecord a = simulate(test::resolved(each));
  const RunRecord b = simulate(test::resolved(shared));
  CHECK(b.end.value() == doctest::Approx(a.end.value()).epsilon(1e-12));
  CHECK(b.sent == a.sent);
  CHECK(b.samples.done == a.samples.done);
}

TEST_CASE("a worker's GPUs average with another's: what is fetched goes on to them, and gradients are added up first") {
  // Two machines, 1 GB/s, 10 us; two GPUs each, 10 GB/s: 10 MB are fetched in 10 ms, then copied in 1 ms.
  Json scenario = test::timed_scenario(2, {{"10000000B"}}, {{"kind", "pairwise_averaging"}}, 2);
  scenario["cluster"]["groups"][0]["instance"]["interconnect"] = {{"pcie", "10GBps"}, {"latency", "0us"}};
  scenario["cluster"]["groups"][0]["workers_per_machine"] = 1;
  scenario["cluster"]["groups"][0]["batch_per_worker"] = 2;
  const RunRecord record = simulate(test::resolved(scenario));
  CHECK(record.end.value() == doctest::Approx(2 * 10e-6 + 10e-3 + 1e-3).epsilon(1e-3));
}

}  // namespace rehearse
