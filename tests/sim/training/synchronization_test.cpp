// Synchronous and stale-synchronous parameter servers, colocated servers, several GPUs per machine.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/random.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::check_time;
using test::exactly;
using test::in_child;
using test::kAlpha;
using test::resolved;
using test::timed_scenario;
using test::with_servers;

Json synchronous() { return {{"kind", "parameter_server"}, {"synchronization", "synchronous"}}; }

/// One tensor of 10 MB; 10 ms on a NIC.
Json one_tensor(int workers, const Json& strategy, int servers = 1) {
  return with_servers(timed_scenario(workers, {{"10000000B"}}, strategy), servers);
}

}  // namespace

TEST_CASE("synchronous: pull, compute, push and acknowledgement of all workers, who share the server's NIC") {
  // request a, w pulls in w * 10 ms, a; 3 ms; w pushes in w * 10 ms, a; acknowledgement a
  for (const int w : {1, 2, 5}) {
    CAPTURE(w);
    Json scenario = one_tensor(w, synchronous());
    scenario["training"]["steps"] = 3;
    check_time(scenario, 3 * (4 * kAlpha + 2 * w * 10e-3 + 3e-3));
  }
}

TEST_CASE("steps of synchronous servers that repeat, in a cycle of however many, are simulated once") {
  // Which worker's gradient comes first changes from step to step.
  Json scenario = with_servers(timed_scenario(8, {{"3000000B"}, {"20000000B"}, {"100000B"}}, synchronous()), 2);
  scenario["training"]["steps"] = 5000;
  scenario["training"]["warmup_steps"] = 10;
  const auto run = [&](bool is_exact) {
    return in_child([&] {
      const Scenario all = resolved(scenario);
      const RunRecord record = simulate(all, {.keeps_activity = false, .is_exact = is_exact, .on_update = {}});
      std::int64_t steps = 0;
      Seconds held{};
      for (const StepSpan& step : record.recorder.steps) {
        steps += step.repeats;
        held += step.times.held * static_cast<double>(step.repeats);
      }
      return Json{{"end", record.end.value()},   {"window", (record.window.end - record.window.start).value()},
                  {"updates", record.updates},   {"computed", record.samples.computed},
                  {"sent", record.sent.value()}, {"steps", steps},
                  {"held", held.value()},        {"recorded", record.recorder.steps.size()}};
    });
  };
  const auto check_alike = [&] {
    const Json by_default = run(false), exact = run(true);
    CAPTURE(by_default.dump());
    CAPTURE(exact.dump());
    for (const char* key : {"end", "window", "held"}) CHECK(by_default[key].get<double>() == exactly(exact[key]));
    for (const char* key : {"updates", "computed", "sent", "steps"}) CHECK(by_default[key] == exact[key]);
    CHECK(by_default["recorded"].get<int>() < exact["recorded"].get<int>() / 20);
  };
  check_alike();
  SUBCASE("until somebody comes or leaves") {
    Json late = scenario["cluster"]["groups"][0];
    late["name"] = "late";
    late["count"] = 3;
    late["joins_at"] = "40s";
    late["leaves_at"] = "150s";
    scenario["cluster"]["groups"].push_back(late);
    check_alike();
  }
}

TEST_CASE("pushing back each variable: one push and one pull, no request and no acknowledgement") {
  // First step: as initialised. 3 ms, w pushes, a, w values back, a; the next one waits for the value before layer 0.
  Json strategy = synchronous();
  strategy["pushes_back_each_variable"] = true;
  for (const int w : {1, 3}) {
    CAPTURE(w);
    Json scenario = one_tensor(w, strategy);
    scenario["training"]["steps"] = 4;
    check_time(scenario, 4 * (3e-3 + 2 * kAlpha + 2 * w * 10e-3));
  }
  Json profile = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
  profile["servers"]["time_per_update"] = "7ms";  // once per variable and step, when all gradients are in
  Json scenario = one_tensor(3, strategy);
  scenario["calibration"] = profile;
  check_time(scenario, 3e-3 + 7e-3 + 2 * kAlpha + 2 * 3 * 10e-3);
}

TEST_CASE("forward overlap: the next forward pass of a layer waits only for its own variables") {
  // One tensor leaves nothing to overlap: a pull and a push, and a round trip for each.
  for (const int w : {1, 2, 5}) {
    Json strategy = synchronous();
    strategy["overlap"] = "forward";
    Json scenario = one_tensor(w, strategy);
    scenario["training"]["steps"] = 4;
    check_time(scenario, 4 * (4 * kAlpha + 2 * w * 10e-3 + 3e-3));
  }
  // Two tensors, of layers a and b. Kernels: 0 to 6 ms; the gradient of b at 4 ms, that of a at 6 ms. Pushes of b: 4 to
  // 14 ms, a: 14 to 24 ms. Three latencies after 14 ms the server sends b, to 24 ms, and then a, which has been applied
  // meanwhile, to 34 ms; a latency later the next step's first kernel runs.
  for (const auto& [synchronization, bound] : {std::pair{"synchronous", -1}, std::pair{"asynchronous", -1},
                                               std::pair{"stale_synchronous", 0}, std::pair{"stale_synchronous", 2}}) {
    Json strategy{{"kind", "parameter_server"}, {"synchronization", synchronization}, {"overlap", "forward"}};
    if (bound >= 0) strategy["staleness_bound"] = bound;
    CAPTURE(strategy.dump());
    Json scenario = with_servers(timed_scenario(1, {{"10000000B"}, {"10000000B"}}, strategy), 1);
    scenario["training"]["steps"] = 5;
    check_time(scenario, 5 * (4 * kAlpha + 34e-3));
    const Json summary = test::simulated(scenario);
    CHECK(summary["samples_done"] == 5);
    CHECK(summary["sent_B"] == 5 * 2 * 20'000'000);
    strategy["overlap"] = "backward";
    scenario["training"]["strategy"] = strategy;
    check_time(scenario, 5 * (4 * kAlpha + 43e-3));
  }
}

TEST_CASE("forward overlap: a worker is ahead of others by its bound on staleness, counted in steps that are applied") {
  // The slow worker's step: 3 ms + 100 ms of compute; the fast one waits for it at the gate in most of its steps.
  for (const int bound : {0, 1, 3}) {
    CAPTURE(bound);
    Json scenario = with_servers(timed_scenario(1, {{"1000B"}},
                                                {{"kind", "parameter_server"},
                                                 {"synchronization", "stale_synchronous"},
                                                 {"staleness_bound", bound},
                                                 {"overlap", "forward"}}),
                                 1);
    Json slow = scenario["cluster"]["groups"][0];
    slow["name"] = "slow";
    slow["instance"]["accelerator"]["host_link"] = "1MBps";
    scenario["cluster"]["groups"].push_back(slow);
    scenario["training"]["steps"] = 40;
    const Json summary = test::simulated(scenario);
    REQUIRE_MESSAGE(!summary.contains("error"), summary.dump());
    // Every copy of the slow one takes 1 ms more: both work at its pace but for the first steps of the fast one.
    const double step = 3e-3 + 2e-3 + 4 * kAlpha + 2 * 1e-6;
    CHECK(summary["time_s"].get<double>() == doctest::Approx((40.0 - bound) / 2 * step).epsilon(0.05));
    CHECK(summary["staleness_max"].get<int>() <= 2 * bound + 2);
  }
}

TEST_CASE("gradients that are ready within a cycle go to a server as one message, or in several of the bucket's size") {
  // The server has one core, which takes as long for a tensor as the network: reads at 10 and 20 ms, values sent until
  // 30 ms, gradients at 33 and 35 ms. At the end of the cycle both go, 100 to 120 ms, and are applied one after the
  // other; in two messages the first is applied while the second is on its way.
  Json profile = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
  profile["servers"]["time_per_byte"] = "1ns";
  for (const char* synchronization : {"synchronous", "asynchronous"}) {
    CAPTURE(synchronization);
    Json scenario = with_servers(
        timed_scenario(1, {{"10000000B"}, {"10000000B"}},
                       {{"kind", "parameter_server"}, {"synchronization", synchronization}, {"cycle_time", "100ms"}}),
        1);
    scenario["cluster"]["groups"][1]["instance"]["vcpus"] = 1;
    scenario["calibration"] = profile;
    check_time(scenario, 140e-3 + 2 * kAlpha);
    scenario["training"]["strategy"]["bucket_size"] = "15MB";
    check_time(scenario, 130e-3 + 2 * kAlpha);
    CHECK(test::simulated(scenario)["sent_B"] == 40'000'000);
    // Cycles of 5 ms: the second layer's gradient, at 33 ms, goes at 35 ms, and the first one's two latencies after
    // 35 ms at 40 ms, so behind it.
    scenario["training"]["strategy"]["cycle_time"] = "5ms";
    check_time(scenario, 65e-3 + 2 * kAlpha);
  }
}

TEST_CASE("sharded over s servers, a tensor moves s times as fast when the servers' NICs are the limit") {
  // 4 workers, 4 servers: each server has a quarter of the tensor: 4 * 2.5 MB per direction.
  Json strategy = synchronous();
  strategy["placement"] = "sharded";
  check_time(one_tensor(4, strategy, 4), 4 * kAlpha + 2 * 10e-3 + 3e-3);
}

TEST_CASE("overlap of pushes with the backward pass, or none") {
  // Pulls of two tensors: 20 ms; forward 1 + 1 ms as they come: 10, 20 ms, end of forward at 21 ms; gradients at 23 and
  // 25 ms. Overlap: pushes 23 to 33 to 43 ms; without: forward starts at 20 ms, pushes at 26 ms.
  Json scenario = with_servers(timed_scenario(1, {{"10000000B"}, {"10000000B"}}, synchronous()), 1);
  check_time(scenario, 4 * kAlpha + 43e-3);
  scenario["training"]["strategy"]["overlap"] = "none";
  check_time(scenario, 4 * kAlpha + 46e-3);
}

TEST_CASE("stale-synchronous: bound 0 is synchronous, an endless bound is asynchronous, in between lies in between") {
  const auto with = [](const Json& strategy, int steps) {
    Json scenario = with_servers(timed_scenario(4, {{"1000000B"}, {"2000000B"}}, strategy), 2);
    scenario["training"]["steps"] = steps;
    scenario["training"]["step_time_variation"] = 0.5;
    scenario["training"]["start_interval"] = "0s";
    return scenario;
  };
  const auto bounded = [](std::int64_t bound) -> Json {
    return {{"kind", "parameter_server"}, {"synchronization", "stale_synchronous"}, {"staleness_bound", bound}};
  };
  constexpr int kSteps = 100;
  const double synchronous_time = test::times_of(with(synchronous(), kSteps)).by_default;
  const double asynchronous_time =
      test::times_of(with({{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}, 4 * kSteps)).by_default;
  CHECK(test::times_of(with(bounded(0), 4 * kSteps)).by_default == exactly(synchronous_time));
  CHECK(test::times_of(with(bounded(1'000'000), 4 * kSteps)).by_default == exactly(asynchronous_time));
  double last = synchronous_time;
  for (const int bound : {1, 3, 10}) {
    CAPTURE(bound);
    const double time = test::times_of(with(bounded(bound), 4 * kSteps)).by_default;
    CHECK(time < last * 1.001);
    CHECK(time > asynchronous_time * 0.999);
    last = time;
  }
  CHECK(asynchronous_time < 0.9 * synchronous_time);
}

TEST_CASE("a bound is kept: no worker is ever more than s steps ahead of the slowest") {
  constexpr int kBound = 2, kWorkers = 5;
  Json scenario = with_servers(
      timed_scenario(
          kWorkers, {{"1000000B"}},
          {{"kind", "parameter_server"}, {"synchronization", "stale_synchronous"}, {"staleness_bound", kBound}}),
      1);
  scenario["training"]["steps"] = 300;
  scenario["training"]["step_time_variation"] = 1.0;
  const Json lead = test::in_child([&] {
    const RunRecord record = simulate(test::resolved(scenario), {});
    std::vector<StepSpan> steps = record.recorder.steps;
    std::int64_t most = 0;
    for (const StepSpan& started : steps) {  // it may have waited before its pull
      std::vector<std::int64_t> completed(kWorkers);
      for (const StepSpan& other : steps)
        if (other.span.end <= started.last_pull) ++completed[static_cast<std::size_t>(other.machine)];
      most = std::max(most, started.step - *std::min_element(completed.begin(), completed.end()));
    }
    return Json{{"most", most}};
  });
  CHECK(lead["most"] == kBound);
}

TEST_CASE("backup workers: a step lasts as long as the order statistic of the noise says, within Monte Carlo error") {
  // 6 workers of which 2 are backups: the 4th smallest of 6 lognormal factors on 3 ms. The messages take 4 a + 2 us.
  constexpr int kWorkers = 6, kNeeded = 4, kSeeds = 400;
  constexpr double kVariation = 0.3;
  Json strategy = synchronous();
  strategy["backup_workers"] = kWorkers - kNeeded;
  Json scenario = with_servers(timed_scenario(kWorkers, {{"1B"}}, strategy), 1);
  scenario["training"]["step_time_variation"] = kVariation;
  const auto results = run_isolated(kSeeds, 2, [&](std::size_t seed) {
    Json seeded = scenario;
    seeded["seed"] = seed + 1;
    return std::to_string(simulate(test::resolved(seeded), {}).end.value() * 1e9);
  });
  double mean = 0;
  for (const PooledRun& result : results) mean += std::stod(result.text) / 1e9 / kSeeds;
  // The expectation by its own sampling, with 100 times as many draws.
  Rng random{1, "order statistic"};
  const double variance = std::log1p(kVariation * kVariation);
  double expected = 0, square = 0;
  constexpr int kDraws = 100 * kSeeds;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<double> factors(kWorkers);
    for (double& factor : factors) factor = std::exp(std::sqrt(variance) * random.normal() - variance / 2);
    std::nth_element(factors.begin(), factors.begin() + (kNeeded - 1), factors.end());
    const double time = 3e-3 * factors[kNeeded - 1] + 4 * kAlpha;
    expected += time / kDraws;
    square += time * time / kDraws;
  }
  const double standard_error = std::sqrt((square - expected * expected) / kSeeds);
  CHECK(std::abs(mean - expected) < 4 * standard_error);
  CHECK(standard_error < 0.01 * expected);
}

TEST_CASE("with backup workers a late worker goes on with the step that the others are at") {
  // Of two noisy workers, one backup: each step takes the faster one's time, not the slower one's.
  Json strategy = synchronous();
  Json scenario = with_servers(timed_scenario(2, {{"1000B", "10ms", "10ms"}}, strategy), 1);
  scenario["training"]["steps"] = 30;
  const double together = test::times_of(scenario).by_default;
  scenario["training"]["step_time_variation"] = 0.8;
  const double waits = test::times_of(scenario).by_default;
  scenario["training"]["strategy"]["backup_workers"] = 1;
  const double does_not_wait = test::times_of(scenario).by_default;
  CHECK(waits > 1.1 * together);
  CHECK(does_not_wait < 0.9 * waits);
}

TEST_CASE("a server on the worker's machine is reached without the NIC") {
  // Worker 0 shares machine 0 with the only server; worker 1 is 10 ms per direction away.
  Json scenario = timed_scenario(2, {{"10000000B"}}, synchronous());
  scenario["cluster"]["groups"].push_back(
      {{"name", "ps"}, {"role", "parameter_server"}, {"colocated_with", "workers"}, {"count", 1}});
  check_time(scenario, 4 * kAlpha + 2 * 10e-3 + 3e-3);
  // One machine: nothing crosses a NIC.
  scenario["cluster"]["groups"][0]["count"] = 1;
  check_time(scenario, 3e-3);
  const Json summary = test::simulated(scenario);
  CHECK(summary["sent_B"] == 0);
  CHECK(summary["machines"][0]["servers"] == 1);
}

TEST_CASE("the GPUs of a machine share its NIC") {
  // 2 GPUs on one machine, a server on another: as two workers on two machines, whose server's NIC is the limit.
  const double one_machine =
      test::times_of(with_servers(timed_scenario(1, {{"10000000B"}}, synchronous(), 2), 1)).by_default;
  CHECK(one_machine == exactly(4 * kAlpha + 4 * 10e-3 + 3e-3));
  // With two servers, the machine's own NIC is: 40 ms of pulls, 1 ms forward, 40 ms of pushes, the first of which hide
  // the backward pass of the layer whose gradient comes last.
  const double two_servers =
      test::times_of(with_servers(timed_scenario(1, {{"10000000B"}, {"10000000B", "0s", "0s"}}, synchronous(), 2), 2))
          .by_default;
  CHECK(two_servers == exactly(4 * kAlpha + 8 * 10e-3 + 1e-3));
}

namespace {

/// Machines of four GPUs with PCIe of 10 GB/s whose gradients are added up in the machine; one server on its own.
Json aggregating(int machines, const std::vector<test::TimedTensor>& tensors, const std::string& where,
                 const Json& interconnect) {
  Json strategy = synchronous();
  strategy["aggregation"] = where;
  Json scenario = with_servers(timed_scenario(machines, tensors, strategy, 4), 1);
  scenario["cluster"]["groups"][0]["instance"]["interconnect"] = interconnect;
  return scenario;
}

}  // namespace

TEST_CASE("added up in host memory, a machine's gradients cross its NIC once and each GPU's PCIe once") {
  // Both ways: 10 ms for each machine at the server's NIC, a; 1 ms of PCIe, or 4 ms where the GPUs share a root.
  for (const int m : {1, 3}) {
    CAPTURE(m);
    const std::vector<test::TimedTensor> tensor{{"10000000B"}};
    check_time(aggregating(m, tensor, "host", {{"pcie", "10GBps"}}), 4 * kAlpha + 2 * (m * 10e-3 + 1e-3) + 3e-3);
    check_time(aggregating(m, tensor, "host", {{"pcie", "10GBps"}, {"pcie_root", "10GBps"}}),
               4 * kAlpha + 2 * (m * 10e-3 + 4e-3) + 3e-3);
  }
  Json scenario = aggregating(2, {{"10000000B"}}, "host", {{"pcie", "10GBps"}});
  scenario["training"]["steps"] = 5;
  check_time(scenario, 5 * (4 * kAlpha + 2 * (2 * 10e-3 + 1e-3) + 3e-3));
  CHECK(test::simulated(scenario)["sent_B"] == 5 * 2 * 2 * 10'000'000);
}

TEST_CASE("added up on a GPU, gradients of the others cross its PCIe link one after another, and it alone sends") {
  // Both ways: 3 copies between GPUs, one to or from the host, 10 ms for each machine at the server's NIC, a.
  for (const int m : {1, 3}) {
    CAPTURE(m);
    check_time(aggregating(m, {{"10000000B"}}, "gpu", {{"pcie", "10GBps"}}),
               4 * kAlpha + 2 * (m * 10e-3 + 1e-3 + 3e-3) + 3e-3);
  }
  // Two GPUs for each root of 5 GB/s: 2 of the 3 copies cross both roots, together in 4 ms; that to the host takes 2
  // ms.
  check_time(aggregating(1, {{"10000000B"}}, "gpu", {{"pcie", "10GBps"}, {"pcie_root", "5GBps"}, {"gpus_per_root", 2}}),
             4 * kAlpha + 2 * (10e-3 + 2e-3 + 4e-3) + 3e-3);
}

TEST_CASE("each variable is added up on the GPU that has the fewest bytes, the largest first") {
  const Json scenario = aggregating(1, {{"1000000B"}, {"4000000B"}, {"2000000B"}, {"3000000B"}, {"500000B"}}, "gpu",
                                    {{"pcie", "10GBps"}});
  const Json adders = test::in_child([&] {
    const RunRecord record =
        simulate(test::resolved(scenario), {.keeps_activity = true, .is_exact = false, .on_update = {}});
    std::vector<int> adder(5, -1);
    for (const MessageSpan& message : record.recorder.messages) {
      if (message.unit < 0) continue;  // samples
      int& known = adder[static_cast<std::size_t>(message.unit)];
      if (message.from.gpu != Endpoint::kHost && known < 0) known = message.from.gpu;
    }
    return Json(adder);
  });
  CHECK(adders == Json({3, 0, 2, 1, 3}));  // the first copies of a unit are of its value, from there to the others
}

TEST_CASE("with one GPU per machine aggregation changes nothing") {
  for (const bool pushes_back : {false, true}) {
    Json strategy = synchronous();
    strategy["pushes_back_each_variable"] = pushes_back;
    Json scenario = with_servers(timed_scenario(3, {{"10000000B"}, {"3000000B"}}, strategy), 2);
    scenario["training"]["steps"] = 3;
    const double alone = test::times_of(scenario).by_default;
    for (const char* where : {"host", "gpu"}) {
      scenario["training"]["strategy"]["aggregation"] = where;
      check_time(scenario, alone);
    }
  }
}

}  // namespace rehearse
