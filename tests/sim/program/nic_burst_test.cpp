// NICs that let bytes pass at once after they have been idle: token buckets.

#include <doctest/doctest.h>

#include <cmath>

#include "sim/record/resource_profile.hpp"
#include "sim/training/collective_time.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

/// Rings of machines with NICs of 1 GB/s and 10 us between them; each step computes for so long, then reduces 8 MB.
Json ring(int machines, const std::string& burst, int steps = 1, const std::string& forward = "1us") {
  Json json =
      test::timed_scenario(machines, {{"8000000B", forward, "1us"}}, {{"kind", "all_reduce"}, {"algorithm", "ring"}});
  json["cluster"]["groups"][0]["instance"]["nic_burst"] = burst;
  json["training"]["steps"] = steps;
  return json;
}

double time_of(const Json& json) { return test::times_of(json).by_default; }

}  // namespace

TEST_CASE("a burst is spared once after a rest, and what a pause has let in later") {
  const double without = time_of(ring(2, "0B"));
  // The first of two messages in each direction; before the second one the latency has let 10 kB in.
  CHECK(time_of(ring(2, "1000000B")) == doctest::Approx(without - 1e-3 - 1e-5).epsilon(1e-9));
  CHECK(time_of(ring(2, "4000B")) == doctest::Approx(without - 4e-6 - 4e-6).epsilon(1e-9));
  // A second step begins after 2 us of computation, or after 2 ms, when the bucket is full again.
  const double second = time_of(ring(2, "1000000B", 2)) - time_of(ring(2, "1000000B", 1));
  CHECK(second == doctest::Approx(without - 1.2e-5 - 1e-5).epsilon(1e-6));
  const double rested = time_of(ring(2, "1000000B", 2, "2ms")) - time_of(ring(2, "1000000B", 1, "2ms"));
  CHECK(rested == doctest::Approx(time_of(ring(2, "0B", 1, "2ms")) - 1e-3 - 1e-5).epsilon(1e-9));
}

TEST_CASE("a message that a burst holds takes the latency alone") {
  const double microseconds = 1e6 * time_of(ring(2, "1GB"));
  CHECK(microseconds == doctest::Approx(2 * 10 + 2).epsilon(1e-3));
}

TEST_CASE("the longer the burst the sooner, and never sooner than the latency") {
  double last = time_of(ring(4, "0B"));
  for (const char* burst : {"1000B", "30000B", "500000B", "3000000B"}) {
    const double time = time_of(ring(4, burst));
    CHECK(time < last);
    CHECK(time > 6 * 1e-5);
    last = time;
  }
}

TEST_CASE("exact runs and SimGrid's own network agree; samples hold what the NICs have carried") {
  const Json json = ring(3, "700000B", 3);
  const test::Times times = test::times_of(json);
  CHECK(times.by_default == test::exactly(times.exact));
  const Scenario scenario = test::resolved(json);
  const RunRecord record = simulate(scenario, {.keeps_activity = true});
  const ResourceProfile profile = resource_profile(scenario, record);
  double carried = 0, sampled = 0;
  for (const auto& [machines, bytes] : record.carried) carried += as_double(bytes);
  for (const ResourceSeries& machine : profile.series)
    for (const double rate : machine.transmit) sampled += rate * profile.period.value();
  CHECK(sampled == doctest::Approx(carried).epsilon(1e-6));
}

TEST_CASE("the closed form of an all-reduce spares the burst of its first messages") {
  const auto closed_form = [](const std::string& burst) {
    return collective_time(test::resolved(ring(4, burst))).value();
  };
  CHECK(closed_form("500000B") == doctest::Approx(closed_form("0B") - 5e-4));
  CHECK(closed_form("1GB") == doctest::Approx(closed_form("0B") - 2e-3));
}

TEST_CASE("a burst below 0 is refused") {
  CHECK(test::problem_of(ring(2, "-1B")).find("nic_burst") != std::string::npos);
}

}  // namespace rehearse
