#include "sim/engine/resource_profile.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "tests/support/simulated.hpp"

namespace rehearse {

TEST_CASE("bursts and gaps of a known series") {
  // gap 2 (cut), burst 2 with peak 5, gap 1, burst 1 with peak 3, gap 3, burst 1 (cut)
  const std::vector<double> series{0, 0, 5, 4, 0, 3, 0, 0, 0, 9};
  const Bursts bursts = find_bursts(series, Seconds{0.1}, 0.5);
  CHECK(bursts.bursts == 2);
  CHECK(bursts.gaps == 2);
  CHECK(bursts.active.value() == doctest::Approx(0.15).epsilon(1e-12));
  CHECK(bursts.idle.value() == doctest::Approx(0.2).epsilon(1e-12));
  CHECK(bursts.peak == doctest::Approx(4.0).epsilon(1e-12));
}

TEST_CASE("the sum of a series times the period is the work that was done") {
  const Json sums = test::in_child([] {
    const Scenario scenario = test::resolved(test::shipped_scenario({{"/training/steps", "80"}}));
    const RunRecord record = simulate(scenario, {.keeps_activity = true, .on_update = {}});
    const ResourceProfile profile = resource_profile(record, scenario.output.sampling_period);
    Json result = Json::array();
    for (std::size_t m = 0; m < record.machines.size(); ++m) {
      const ResourceSeries& series = profile.series[m];
      const auto total = [&](const std::vector<double>& values) {
        return std::accumulate(values.begin(), values.end(), 0.0) * profile.period.value();
      };
      double gpu = 0;
      for (const KernelSpan& kernel : record.recorder.kernels)
        if (kernel.machine == static_cast<MachineIndex>(m)) gpu += (kernel.span.end - kernel.span.start).value();
      result.push_back(Json{total(series.receive), as_double(record.total[m].received), total(series.transmit),
                            as_double(record.total[m].sent), total(series.gpu), gpu});
    }
    return result;
  });
  REQUIRE(sums.is_array());
  for (const Json& machine : sums) {
    CHECK(machine[0].get<double>() == doctest::Approx(machine[1].get<double>()).epsilon(1e-9));
    CHECK(machine[2].get<double>() == doctest::Approx(machine[3].get<double>()).epsilon(1e-9));
    CHECK(machine[4].get<double>() == doctest::Approx(machine[5].get<double>()).epsilon(1e-9));
  }
}

}  // namespace rehearse
