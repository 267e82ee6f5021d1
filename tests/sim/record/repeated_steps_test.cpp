// Synchronous steps repeat exactly, so that the profile of many follows from a few.

#include "sim/record/repeated_steps.hpp"

#include <doctest/doctest.h>

#include "sim/record/resource_profile.hpp"
#include "tests/support/random_scenario.hpp"

namespace rehearse {

namespace {

RunRecord record_of(Json json, std::int64_t steps) {
  json["training"]["steps"] = steps;
  json["training"]["warmup_steps"] = 1;
  return simulate(test::resolved(json), {.keeps_activity = true, .records_gpu_links = true});
}

Json four_workers(const char* synchronization) {
  const Json strategy{{"kind", "parameter_server"}, {"synchronization", synchronization}, {"placement", "round_robin"}};
  return test::with_servers(test::timed_scenario(4, {{"4MB"}, {"1MB"}, {"7MB"}, {"2MB"}}, strategy), 2);
}

void check_equal(const Bursts& a, const Bursts& b) {
  CHECK(a.idle.value() == doctest::Approx(b.idle.value()).epsilon(1e-9));
  CHECK(a.active.value() == doctest::Approx(b.active.value()).epsilon(1e-9));
  CHECK(a.peak == doctest::Approx(b.peak).epsilon(1e-9));
  CHECK(a.gaps == b.gaps);
  CHECK(a.bursts == b.bursts);
}

void check_equal_profiles(const RunRecord& a, const RunRecord& b, TrafficOf traffic) {
  const ResourceProfile x = resource_profile(a, Seconds{1e-3}, {}, traffic);
  const ResourceProfile y = resource_profile(b, Seconds{1e-3}, {}, traffic);
  CHECK(x.covered.start == y.covered.start);
  CHECK(x.covered.end == y.covered.end);
  CHECK(x.iterations == y.iterations);
  REQUIRE(x.bursts.size() == y.bursts.size());
  for (std::size_t m = 0; m < x.bursts.size(); ++m) {
    check_equal(x.bursts[m].gpu, y.bursts[m].gpu);
    check_equal(x.bursts[m].memory, y.bursts[m].memory);
    check_equal(x.bursts[m].receive, y.bursts[m].receive);
    check_equal(x.bursts[m].transmit, y.bursts[m].transmit);
  }
}

}  // namespace

TEST_CASE("the profile of 21 synchronous steps follows from ten") {
  const RunRecord whole = record_of(four_workers("synchronous"), 22);
  const auto extended = extend_steps(record_of(four_workers("synchronous"), 10), 12, 4);
  REQUIRE(extended);
  CHECK(extended->recorder.steps.size() == whole.recorder.steps.size());
  CHECK(extended->updates == whole.updates);
  check_equal_profiles(whole, *extended, TrafficOf::kNics);
  check_equal_profiles(whole, *extended, TrafficOf::kGpus);
  CHECK(summarize(test::resolved(four_workers("synchronous")), *extended).iteration_time.value() ==
        doctest::Approx(summarize(test::resolved(four_workers("synchronous")), whole).iteration_time.value()));
}

TEST_CASE("random synchronous scenarios either repeat their steps or say that they do not") {
  int repeated = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    const Json json = test::ScenarioGenerator{seed}.generate();
    if (!may_repeat(test::resolved(json))) continue;
    const auto extended = extend_steps(record_of(json, 4), 6, 1);
    if (!extended) continue;
    ++repeated;
    check_equal_profiles(record_of(json, 10), *extended, TrafficOf::kNics);
  }
  CHECK(repeated >= 10);
}

TEST_CASE("steps that differ are not extended") {
  CHECK(!extend_steps(record_of(four_workers("asynchronous"), 12), 1, 1));
  Json noisy = four_workers("synchronous");
  noisy["training"]["step_time_variation"] = 0.1;
  CHECK(!extend_steps(record_of(noisy, 4), 1, 1));
  CHECK(!may_repeat(test::resolved(noisy)));
  CHECK(!may_repeat(test::resolved(four_workers("asynchronous"))));
  CHECK(may_repeat(test::resolved(four_workers("synchronous"))));
  CHECK(!extend_steps(record_of(four_workers("synchronous"), 2), 1, 1));
}

}  // namespace rehearse
