#include "calibration/row_facts.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

RowFacts facts_with(const std::string& metric, const std::vector<std::pair<std::string, std::string>>& changes = {}) {
  return read_facts(test::resolved(test::shipped_scenario(changes)), metric, {});
}

}  // namespace

TEST_CASE("speeds of any metric are times of a worker's step") {
  // Four asynchronous workers with 128 samples each, a step of 0.25 s: 16 steps/s, 2048 samples/s.
  for (const auto& [metric, value] : std::vector<std::pair<std::string, double>>{
           {"steps_per_s", 16}, {"samples_per_s", 2048}, {"iteration_time_s", 0.25}}) {
    const RowFacts facts =
        facts_with(metric, {{"/cluster/groups/1/count", "4"}, {"/workload/batch_per_worker", "128"}});
    CHECK(facts.time_of(value) == doctest::Approx(0.25));
    CHECK(facts.metric_of(0.25) == doctest::Approx(value));
  }
  // A million samples in rounds of 512 take 1953.125 rounds.
  const RowFacts whole = facts_with("training_time_s", {{"/cluster/groups/1/count", "4"},
                                                        {"/workload/batch_per_worker", "128"},
                                                        {"/training/target", R"({"samples": 1000000})"}});
  CHECK(whole.metric_of(0.25) == doctest::Approx(0.25 * 1953.125));
}

TEST_CASE("the roofline is the slowest of kernels and network") {
  const auto scenario = [](const std::string& nic) {
    return test::resolved(test::shipped_scenario(
        {{"/cluster/groups/1/count", "4"},
         {"/cluster/groups/0/instance",
          R"({"name": "server", "vcpus": 4, "memory": "32GB", "source": "test", "nic": ")" + nic + "\"}"}}));
  };
  const Scenario fast = scenario("1000Gbps"), slow = scenario("1Mbps");
  const RowFacts facts = read_facts(fast, "steps_per_s", {});
  REQUIRE(facts.workers.size() == 1);
  const WorkerFacts& worker = facts.workers.front();
  CHECK(worker.workers == 4);
  CHECK(worker.flops == fast.workload.training_flops().value());
  CHECK(worker.roofline() == std::max(worker.flops / worker.peak, worker.bytes / worker.bandwidth));
  CHECK(*facts.bound == doctest::Approx(worker.roofline()));
  // One server receives the gradients of four workers at 125 kB/s.
  CHECK(*read_facts(slow, "steps_per_s", {}).bound ==
        doctest::Approx(4 * as_double(slow.workload.parameter_bytes()) / 125e3));
}

TEST_CASE("all rows of a metric state the same numbers, above 0") {
  for (const char* metric :
       {"steps_per_s", "checkpoint_time_s", "startup_time_s", "startup_framework_cold_time_s", "kernel_gap_s"}) {
    const RowFacts facts = facts_with(metric);
    CHECK(facts.numbers.size() == numbers_of(facts.kind).size());
    for (const double number : facts.numbers) CHECK(number > 0);
  }
  CHECK(facts_of("collective_time_s") == FactsOf::kCollective);
  CHECK(facts_of("checkpoint_write_time_s") == FactsOf::kCheckpoint);
  CHECK_FALSE(facts_with("checkpoint_time_s").bound);
}

TEST_CASE("a profile's step time counts in proportion to the batch") {
  Profile profile;
  profile.step_times = {{.model = "m", .accelerator = "P100", .precision = "fp32", .batch = 32, .time = Seconds{0.1}},
                        {.model = "m", .accelerator = "P100", .precision = "fp32", .batch = 128, .time = Seconds{0.3}}};
  RowFacts facts{.model = "m", .precision = "fp32"};
  WorkerFacts worker{.gpu = "P100", .batch = 48};
  CHECK(*stated_step_time(profile, facts, worker) == doctest::Approx(0.15));
  worker.batch = 256;
  CHECK(*stated_step_time(profile, facts, worker) == doctest::Approx(0.6));
  worker.gpu = "K80";
  CHECK_FALSE(stated_step_time(profile, facts, worker));
}

}  // namespace rehearse
