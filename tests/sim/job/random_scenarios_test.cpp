// Random valid scenarios of every strategy and topology: each ends, breaks no invariant, and gives by default what it
// gives exact. A few hundred here; REHEARSE_SCENARIOS=20000 and REHEARSE_FIRST_SEED=1 in the environment run more.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "sim/base/parse_quantity.hpp"
#include "tests/support/from_environment.hpp"
#include "tests/support/random_scenario.hpp"

namespace rehearse {

namespace {

using test::ScenarioGenerator;

/// Every second of the clusters with servers has connections of equal shares, as exact runs have all of them.
Json random_scenario(std::uint64_t seed) {
  Json scenario = ScenarioGenerator{seed}.generate();
  if (scenario["training"]["strategy"]["kind"] == "parameter_server" && seed % 2 == 0)
    scenario["training"]["share_variation"] = 0;
  return scenario;
}

std::string outcome_of(const Json& json, bool is_exact, bool keeps_activity) {
  const Scenario scenario = test::resolved(json);
  const RunRecord record =
      simulate(scenario, {.keeps_activity = keeps_activity, .is_exact = is_exact, .on_update = {}});
  const Summary summary = summarize(scenario, record);
  return Json{record.end.value(),  summary.iteration_time.value(), record.sent.value(), record.updates,
              summary.steps_per_s, summary.gpu_utilization}
      .dump();
}

/// |a - b| / |b|; 0 of equal values.
double relative_difference(double a, double b) { return a == b ? 0 : std::abs(a - b) / std::abs(b); }

/// The largest relative change of a value when latencies between machines change by 1e-9 and 1e-8.
double sensitivity(const Json& scenario, std::size_t value, double unchanged) {
  constexpr std::array kChanges{1e-9, -1e-9, 1e-8, -1e-8};
  const auto results = run_isolated(kChanges.size(), 2, [&](std::size_t i) {
    Json changed = scenario;
    for (Json& link : changed["cluster"]["network"]["links"])
      if (link.contains("latency"))
        link["latency"] = to_text(parse_quantity<Seconds>(link["latency"].get<std::string>()) * (1 + kChanges[i]));
    return outcome_of(changed, false, false);
  });
  double largest = 0;
  for (const PooledRun& result : results)
    if (result.has_succeeded)
      largest = std::max(largest, relative_difference(result.json()[value].get<double>(), unchanged));
  return largest;
}

}  // namespace

/// REHEARSE_PRINT_SEED=n prints scenario n instead: what to run a failure with.
TEST_CASE("a random scenario can be printed") {
  if (const std::uint64_t seed = test::from_environment("REHEARSE_PRINT_SEED", 0); seed != 0)
    std::printf("%s", to_json_text(ScenarioGenerator{seed}.generate()).c_str());
}

TEST_CASE("random scenarios end, break no invariant, and agree with their exact run") {
  const std::uint64_t first = test::from_environment("REHEARSE_FIRST_SEED", 1);
  const std::uint64_t count = test::from_environment("REHEARSE_SCENARIOS", 300);
  // With parameter servers and pairwise averaging no reduction but the flow solver is at work, and first come, first
  // served makes them chaotic: which of two messages that end within SimGrid's nanosecond is handled first changes all
  // that follows. Those may differ, if rarely; of the others only those that a change of latencies far below a
  // nanosecond moves as much: collectives whose thousands of rounds compete for links of a dragonfly.
  const auto results = run_isolated(3 * count, 2, [first](std::size_t job) {
    const std::uint64_t seed = first + job / 3;
    return outcome_of(random_scenario(seed), job % 3 == 1, job % 3 == 2);
  });
  std::uint64_t chaotic = 0;
  double largest_difference = 0;  // of a value of a scenario that is not chaotic
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t seed = first + i;
    CAPTURE(seed);
    const PooledRun &by_default = results[3 * i], &exact = results[3 * i + 1], &recorded = results[3 * i + 2];
    CHECK_MESSAGE(by_default.has_succeeded, by_default.text);
    CHECK_MESSAGE(exact.has_succeeded, exact.text);
    CHECK_MESSAGE(recorded.has_succeeded, recorded.text);
    if (!by_default.has_succeeded || !exact.has_succeeded || !recorded.has_succeeded) continue;
    const Json a = Json::parse(by_default.text), b = Json::parse(exact.text), c = Json::parse(recorded.text);
    const bool is_even = test::resolved(random_scenario(seed)).training.share_variation == 0;
    for (std::size_t v = 0; v < a.size(); ++v) {
      const double x = a[v].get<double>(), y = b[v].get<double>(), z = c[v].get<double>();
      const double difference = std::max(is_even ? relative_difference(x, y) : 0, relative_difference(x, z));
      if (difference <= 1e-6) {
        largest_difference = std::max(largest_difference, difference);
      } else {
        const Json scenario = random_scenario(seed);
        const Json& strategy = scenario["training"]["strategy"];
        MESSAGE(strategy.dump() << " value " << v << ": " << x << ", exact " << y << ", recorded " << z);
        ++chaotic;
        if (strategy["kind"] == "all_reduce") CHECK(difference < 10 * sensitivity(scenario, v, x));
        break;
      }
    }
  }
  MESSAGE(chaotic << " of " << count << " are chaotic; values of the others differ by a factor of 1 + "
                  << largest_difference << " at most");
  CHECK(chaotic <= count / 100);
}

TEST_CASE("what is recorded of a machine is the same whether the others are recorded, too, or not") {
  constexpr double kRounding = 1e-9;
  std::size_t kernels = 0, with_others = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Scenario scenario = test::resolved(random_scenario(seed));
    if (!scenario.training.strategy.kind->is_in_lockstep()) continue;  // the others are chaotic
    CAPTURE(seed);
    const Site site{scenario};
    const MachineIndex chosen = site.workers.front().front().machine;
    SimulateOptions options{.keeps_activity = true};
    const RunRecord all = simulate(scenario, options);
    options.scope.machines.assign(site.machines.size(), false);
    options.scope.machines[static_cast<std::size_t>(chosen)] = true;
    const RunRecord alone = simulate(scenario, options);
    CHECK(alone.end.value() == doctest::Approx(all.end.value()).epsilon(kRounding));
    std::vector<KernelSpan> expected = all.recorder.kernels;
    std::erase_if(expected, [&](const KernelSpan& kernel) { return kernel.machine != chosen; });
    REQUIRE(alone.recorder.kernels.size() == expected.size());
    for (std::size_t k = 0; k < expected.size(); ++k) {
      CHECK(alone.recorder.kernels[k].vertex == expected[k].vertex);
      CHECK(std::abs((alone.recorder.kernels[k].span.end - expected[k].span.end).value()) <=
            kRounding * all.end.value());
    }
    kernels += expected.size();
    with_others += site.machines.size() > 1 ? 1 : 0;
  }
  CHECK(kernels > 1000);
  CHECK(with_others > 10);
}

}  // namespace rehearse
