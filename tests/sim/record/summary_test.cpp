// What the summary names as the bottleneck: by default, exact (message by message on SimGrid), and with activity
// recorded.

#include "sim/record/summary.hpp"

#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::timed_scenario;
using test::with_servers;

Json summary_of(const Json& scenario, const SimulateOptions& options) {
  return test::in_child([&] {
    const Scenario resolved = test::resolved(scenario);
    return to_json(resolved, summarize(resolved, simulate(resolved, options)));
  });
}

void check_bottleneck(const Json& scenario, const char* resource, double share, const std::string& text) {
  for (const SimulateOptions& options :
       {SimulateOptions{}, SimulateOptions{.is_exact = true}, SimulateOptions{.keeps_activity = true}}) {
    CAPTURE(options.is_exact);
    CAPTURE(options.keeps_activity);
    const Json summary = summary_of(scenario, options);
    REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
    CHECK(summary["bottleneck_resource"] == resource);
    CHECK(summary["bottleneck_share"].get<double>() == doctest::Approx(share).epsilon(1e-6));
    CAPTURE(summary["bottleneck"]);
    CHECK(summary["bottleneck"].get<std::string>().find(text) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("the uplink of an oversubscribed leaf is named when it is the most saturated") {
  // Two machines of 1 GB/s below an uplink of 2 GB/s / 4. Of the ring 0 1 2 3 the message from 1 to 2 crosses it up and
  // that from 3 to 0 down: 6 rounds of 100 MB / 500 MB/s + 10 us, after 3 ms of compute. The NICs are half as busy.
  Json scenario = timed_scenario(4, {{"400000000B"}}, {{"kind", "all_reduce"}});
  scenario["cluster"]["network"].update({{"topology", "fat_tree"}, {"machines_per_leaf", 2}, {"oversubscription", 4}});
  for (const int steps : {4, 200}) {  // 200: most of them are skipped by default
    scenario["training"]["steps"] = steps;
    check_bottleneck(scenario, "link", 1.2 / (1.2 + 6 * 10e-6 + 3e-3),
                     "the link \"uplink 0 of leaf 0, up\", busy 100 %");
  }
}

TEST_CASE("a PCIe root that all GPUs of a machine share is named") {
  // Ring of two GPUs through host memory: 2 rounds, in each of which both send 100 MB over the root's 100 MB/s.
  Json scenario = timed_scenario(1, {{"200000000B"}}, {{"kind", "all_reduce"}}, 2);
  scenario["cluster"]["groups"][0]["instance"]["interconnect"] = {{"pcie_root", "100MBps"},
                                                                  {"stages_copies_in_host", true}};
  scenario["training"]["steps"] = 3;
  check_bottleneck(scenario, "link", 4 / (4 + 3e-3), "PCIe root of workers, ");
}

TEST_CASE("a connection that is slower than the NICs is named") {
  // Ring of two: 2 rounds of 100 MB / 100 MB/s + 10 us, after 3 ms of compute.
  Json scenario = timed_scenario(2, {{"200000000B"}}, {{"kind", "all_reduce"}});
  scenario["cluster"]["network"]["links"][0]["per_flow_rate"] = "100MBps";
  scenario["training"]["steps"] = 3;
  check_bottleneck(scenario, "connection", 2 / (2 + 2 * 10e-6 + 3e-3), "the connection from workers-0 to workers-1");
}

TEST_CASE("synchronous workers that mostly wait for the slowest one") {
  // The second worker starts 1 s late: after their 3 ms of compute the first waits for 1 s, the second not at all. Then
  // 1 MB each way: 2 (10 us + 1 ms).
  Json scenario = timed_scenario(2, {{"2000000B"}}, {{"kind", "all_reduce"}});
  scenario["training"]["start_interval"] = "1s";
  check_bottleneck(scenario, "slowest_worker", 0.5 / (0.5 + 3e-3 + 2 * (10e-6 + 1e-3)),
                   "99 % waiting for the slowest worker");
}

TEST_CASE("with a backup worker nobody waits for the slowest one") {
  // Workers start at 0, 1 and 2 ms and compute for 3 ms; their first step ends with the second, for which the first has
  // waited for 1 ms. The third ends that step late and waits for nobody. Then two workers do their second step
  // together.
  Json scenario = with_servers(
      timed_scenario(3, {{"1000B"}},
                     {{"kind", "parameter_server"}, {"synchronization", "synchronous"}, {"backup_workers", 1}}),
      1);
  scenario["training"]["start_interval"] = "1ms";
  scenario["training"]["steps"] = 2;
  const Json result = test::in_child([&] {
    const Scenario resolved = test::resolved(scenario);
    return Json{{"wait", summarize(resolved, simulate(resolved, {})).wait_for_slowest.value()}};
  });
  CHECK(result["wait"].get<double>() == doctest::Approx(1e-3 / 5).epsilon(1e-3));
}

TEST_CASE("samples that backup workers drop do not count: samples done are the rate by the time") {
  Json strategy{{"kind", "parameter_server"}, {"synchronization", "synchronous"}};
  const auto run = [&](int workers, int backup, const char* overlap) {
    strategy["backup_workers"] = backup;
    strategy["overlap"] = overlap;
    Json scenario = with_servers(timed_scenario(workers, {{"1000B"}}, strategy), 1);
    scenario["training"].update({{"steps", 400}, {"step_time_variation", 0.3}, {"warmup_steps", 5}});
    const Json summary = summary_of(scenario, {});
    REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
    return summary;
  };
  for (const char* overlap : {"backward", "forward"})
    for (const auto& [workers, backup] : {std::pair{4, 1}, {5, 2}, {4, 0}, {3, 2}}) {
      CAPTURE(overlap);
      CAPTURE(workers);
      CAPTURE(backup);
      const Json summary = run(workers, backup, overlap);
      const double time = summary["time_s"].get<double>(), done = summary["samples_done"].get<double>();
      CHECK(done == 400 * (workers - backup));
      CHECK(summary["samples_per_s"].get<double>() == doctest::Approx(done / time).epsilon(0.02));
      CHECK(summary["steps_per_s"].get<double>() == doctest::Approx(400 / time).epsilon(0.02));
      CHECK(summary["samples_per_s"].get<double>() ==
            doctest::Approx(summary["steps_per_s"].get<double>() * (workers - backup)).epsilon(1e-9));
      CHECK((summary["samples_dropped"].get<double>() > 0) == (backup > 0));
    }
}

TEST_CASE("updates of backup workers with unequal batches are counted, not derived from samples") {
  // One worker has a step of 3 ms, another, with three times the batch, one of 9 ms, for which no update waits.
  Json scenario = with_servers(
      timed_scenario(1, {{"4B"}},
                     {{"kind", "parameter_server"}, {"synchronization", "synchronous"}, {"backup_workers", 1}}),
      1);
  scenario["workload"]["model"]["structure"]["scales_with_batch"] = true;
  Json slow = scenario["cluster"]["groups"][0];
  slow["name"] = "slow";
  slow["batch_per_worker"] = 3;
  scenario["cluster"]["groups"].push_back(slow);
  scenario["training"]["steps"] = 200;
  const Json summary = summary_of(scenario, {});
  REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
  const double time = summary["time_s"].get<double>();
  CHECK(summary["steps_per_s"].get<double>() == doctest::Approx(summary["steps"].get<double>() / time).epsilon(0.01));
  CHECK(summary["samples_per_s"].get<double>() ==
        doctest::Approx(summary["samples_done"].get<double>() / time).epsilon(0.01));
}

TEST_CASE("the last step of the warm-up is no part of the steady state") {
  // Eight layers of 12 ms together, 80 MB each way over 1 GB/s: the first step does not wait for what it sends.
  const std::vector<test::TimedTensor> tensors(8, test::TimedTensor{"10000000B", "1ms", "500us"});
  Json scenario = timed_scenario(4, tensors, {{"kind", "all_reduce"}, {"overlap", "forward"}});
  scenario["training"].update({{"steps", 4}, {"warmup_steps", 1}});
  const Json summary = summary_of(scenario, {});
  REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
  const double step = summary["iteration_time_s"].get<double>();
  CHECK(step > 2 * 3.0 / 4 * 80e6 / 1e9);
  CHECK(step * summary["steps_per_s"].get<double>() == doctest::Approx(1).epsilon(1e-6));
}

TEST_CASE("a speed is not told from two steps of workers that do not wait for one another") {
  // Eight workers send 80 MB each way over the server's NIC of 1 GB/s: at most 12.5 steps/s.
  Json strategy{{"kind", "parameter_server"}, {"synchronization", "stale_synchronous"}, {"staleness_bound", 3}};
  const std::vector<test::TimedTensor> tensors(4, test::TimedTensor{"20000000B", "1ms", "2ms"});
  for (const int steps : {60, 80, 100, 200}) {
    CAPTURE(steps);
    Json scenario = with_servers(timed_scenario(8, tensors, strategy), 1);
    scenario["training"].update({{"steps", steps}, {"warmup_steps", 5}});
    const Json summary = summary_of(scenario, {});
    REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
    CHECK(summary["steps_per_s"].get<double>() < 12.5 * 1.1);
  }
}

TEST_CASE("the rate is that of the steady state, which a loss ends; what it destroys counts in the samples") {
  // A job of 3 ms a step that restarts from the beginning when a worker is lost after 1.2 s of 3 s.
  Json scenario = timed_scenario(2, {{"1000B"}}, {{"kind", "all_reduce"}});
  scenario["training"].update(
      {{"steps", 1000}, {"recovery", {{"lost_worker", "restart"}, {"restart_time", "0s"}, {"timeout", "0s"}}}});
  Json& machines = scenario["cluster"]["groups"][0];
  machines["market"] = "spot";
  machines["spot_pool"] = {{"replay", {{0, "add", "a"}, {0, "add", "b"}, {1.2, "remove", "b"}, {1.2, "add", "c"}}}};
  const Json summary = summary_of(scenario, {});
  REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
  CHECK(summary["steady_state_to_s"] == 1.2);
  const double step = summary["iteration_time_s"].get<double>();
  CHECK(summary["steps_per_s"].get<double>() == doctest::Approx(1 / step).epsilon(1e-6));
  CHECK(summary["samples_per_s"].get<double>() == doctest::Approx(2 / step).epsilon(1e-6));
  CHECK(summary["samples_lost"].get<double>() == doctest::Approx(1.2 * 2 / step).epsilon(0.01));
  CHECK(summary["time_s"].get<double>() == doctest::Approx(1.2 + 1000 * step).epsilon(0.01));
}

TEST_CASE("synchronous: a step lasts until the next one, for a worker that waits at the barrier as well") {
  // The first worker has its server on its own machine; the second sends 100 MB each way through its NIC of 1 GB/s.
  Json scenario =
      timed_scenario(2, {{"100000000B"}}, {{"kind", "parameter_server"}, {"synchronization", "synchronous"}});
  scenario["cluster"]["groups"].push_back(
      {{"name", "ps"}, {"role", "parameter_server"}, {"count", 1}, {"colocated_with", "workers"}});
  scenario["training"]["steps"] = 10;
  scenario["training"]["warmup_steps"] = 1;  // its first one, before it had to wait
  for (const bool is_exact : {false, true}) {
    const Json summary = summary_of(scenario, {.is_exact = is_exact});
    REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
    const double step = summary["iteration_time_s"].get<double>();
    CHECK(step == doctest::Approx(0.203).epsilon(0.01));
    CHECK(10 * step == doctest::Approx(summary["time_s"].get<double>()).epsilon(0.01));
    CHECK(summary["exposed_communication_s"].get<double>() == doctest::Approx(step - 3e-3).epsilon(0.01));
  }
}

TEST_CASE("a synchronous worker's steps follow one another: waiting at the barrier belongs to them") {
  // The second worker starts 1 s late, so that the first waits that long before its second step.
  Json scenario = with_servers(
      timed_scenario(2, {{"1000B"}}, {{"kind", "parameter_server"}, {"synchronization", "synchronous"}}), 1);
  scenario["training"]["start_interval"] = "1s";
  scenario["training"]["steps"] = 3;
  const Json gaps = test::in_child([&] {
    double sum = 0;
    std::map<int, double> end_of_step;  // [machines]
    for (const StepSpan& step : simulate(test::resolved(scenario), {}).recorder.steps) {
      if (end_of_step.contains(step.machine)) sum += step.span.start.value() - end_of_step[step.machine];
      end_of_step[step.machine] = step.span.end.value();
    }
    return Json{{"sum", sum}};
  });
  CHECK(gaps["sum"].get<double>() == 0);
}

TEST_CASE("folded workers count as often as they are") {
  // 1 K80 and 3 P100: the mean over workers is not that over the two that run.
  const Json scenario = test::shipped_scenario(
      {{"/cluster/groups/0",
        R"({"name": "fast", "role": "worker", "instance": "gce-custom-8-p100", "count": 3, "region": "us-west1"})"},
       {"/cluster/groups/1/count", "1"},
       {"/training/strategy", R"({"kind": "all_reduce", "bucket_size": "4MiB"})"},
       {"/training/steps", "20"}});
  const Json by_default = summary_of(scenario, {}), exact = summary_of(scenario, {.is_exact = true});
  for (const char* key : {"exposed_communication_s", "iteration_time_s", "gpu_utilization", "bottleneck_share"})
    CHECK(by_default[key].get<double>() == doctest::Approx(exact[key].get<double>()).epsilon(1e-6));
  CHECK(by_default["bottleneck_resource"] == exact["bottleneck_resource"]);
}

}  // namespace rehearse
