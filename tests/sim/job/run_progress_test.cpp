#include <doctest/doctest.h>

#include <vector>

#include "tests/support/simulated.hpp"

namespace rehearse::test {

namespace {

constexpr std::uint64_t kMostBetween = 256;

std::vector<RunProgress> reports_of(const Scenario& scenario) {
  std::vector<RunProgress> reports;
  (void)simulate(scenario, {.on_progress = [&](const RunProgress& progress) { reports.push_back(progress); }});
  return reports;
}

Scenario many_workers(const char* steps) {
  return resolved(shipped_scenario({{"/cluster/groups/0/count", "8"},
                                    {"/cluster/groups/1/count", "400"},
                                    {"/training/steps", steps},
                                    {"/training/warmup_steps", "0"}}));
}

}  // namespace

TEST_CASE("a run says how far it is while it is set up and within its first update") {
  const std::vector<RunProgress> reports = reports_of(many_workers("401"));
  std::size_t during_set_up = 0, before_first_update = 0;
  RunProgress last;
  for (const RunProgress& now : reports) {
    during_set_up += now.is_set_up ? 0 : 1;
    before_first_update += now.is_set_up && now.updates == 0 ? 1 : 0;
    CHECK(now.updates >= last.updates);
    CHECK(now.simulated >= last.simulated);
    CHECK(now.messages >= last.messages);
    if (now.is_set_up == last.is_set_up) CHECK(now.events <= last.events + kMostBetween);
    last = now;
  }
  // 400 workers have a path to and from each of 8 servers.
  CHECK(during_set_up == 400 * (2 * 8) / kMostBetween);
  CHECK(before_first_update > 10);
  CHECK(last.updates > 0);
  CHECK(last.messages > 400);
}

TEST_CASE("a run can be ended while it is set up and within its first update") {
  struct Enough {};
  for (const bool is_set_up : {false, true})
    CHECK_THROWS_AS(simulate(many_workers("401"), {.on_progress =
                                                       [&](const RunProgress& progress) {
                                                         if (progress.is_set_up == is_set_up) throw Enough{};
                                                       }}),
                    Enough);
}

}  // namespace rehearse::test
