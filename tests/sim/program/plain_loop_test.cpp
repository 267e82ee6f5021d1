// Without SimGrid the same events happen at the same dates: the fingerprints of both loops are equal.

#include "sim/resources/plain_loop.hpp"

#include <doctest/doctest.h>

#include "tests/support/random_scenario.hpp"

namespace rehearse {

namespace {

std::string outcome_of(std::uint64_t seed, bool is_on_simgrid) {
  const Scenario scenario = test::resolved(test::ScenarioGenerator{seed}.generate());
  const RunRecord record = simulate(scenario, {.keeps_activity = seed % 2 == 0, .is_on_simgrid = is_on_simgrid});
  return Json{record.fingerprint, record.events, record.end.value(), record.sent.value(), record.updates}.dump();
}

}  // namespace

TEST_CASE("random scenarios have the same fingerprint with SimGrid's loop and with ours") {
  constexpr std::uint64_t kScenarios = 150;
  const auto with_simgrid = run_isolated(kScenarios, 2, [](std::size_t job) { return outcome_of(job + 1, true); });
  for (std::uint64_t i = 0; i < kScenarios; ++i) {
    CAPTURE(i + 1);
    REQUIRE(with_simgrid[i].has_succeeded);
    CHECK(with_simgrid[i].text == outcome_of(i + 1, false));  // in this process, one after another
  }
}

}  // namespace rehearse
