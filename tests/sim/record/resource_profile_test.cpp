#include "sim/record/resource_profile.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "tests/support/timed_cluster.hpp"

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

TEST_CASE("bursts are what a monitor of whole percents shows: memory's are not those of the GPU") {
  const std::vector<double> gpu{0, 0.004, 0.9, 0.006, 0}, memory{0, 0.0001, 0.3, 0.002, 0};
  const Bursts of_gpu = find_bursts_of_utilization(gpu, Seconds{0.01}, {}),
               of_memory = find_bursts_of_utilization(memory, Seconds{0.01}, {});
  CHECK(of_gpu.active == Seconds{0.02});
  CHECK(of_memory.active == Seconds{0.01});
  CHECK(find_bursts_of_utilization(std::vector<double>(3, 0.0049), Seconds{0.01}, {}).bursts == 0);
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

TEST_CASE("recording ends with 60 s and 20 steps of the steady state; what follows is counted, and skipped") {
  // Steps of 3 ms and 2 (10 us + 12 ms), two machines.
  Json scenario = test::timed_scenario(2, {{"24000000B"}}, {{"kind", "all_reduce"}});
  scenario["training"]["steps"] = 100'000;
  scenario["training"]["warmup_steps"] = 5;
  const Json result = test::in_child([&] {
    const Scenario resolved = test::resolved(scenario);
    const RunRecord record = simulate(resolved, {.keeps_activity = true, .on_update = {}});
    const ResourceProfile profile = resource_profile(record, Seconds{0.1});
    std::int64_t steps = 0;
    for (const StepSpan& step : record.recorder.steps) steps += step.repeats;
    return Json{{"end", record.end.value()},
                {"recorded_until", record.recorder.scope.window.end.value()},
                {"steps", steps},
                {"recorded_steps", record.recorder.steps.size()},
                {"samples", profile.samples},
                {"covers_enough", profile.covers_enough()},
                {"sent", record.sent.value()},
                {"carried", record.carried.at({0, 1}).value() + record.carried.at({1, 0}).value()}};
  });
  REQUIRE_MESSAGE(!result.contains("error"), result.dump());
  const double step = 3e-3 + 2 * (10e-6 + 12e-3);
  CHECK(result["end"].get<double>() == doctest::Approx(100'000 * step));
  CHECK(result["recorded_until"].get<double>() == doctest::Approx(60.2 + 5 * step).epsilon(0.001));
  CHECK(result["samples"].get<int>() == 604);
  CHECK(result["covers_enough"] == true);
  CHECK(result["steps"] == 200'000);
  CHECK(result["recorded_steps"].get<int>() < 2 * 61 / step);
  CHECK(result["carried"] == result["sent"]);
  CHECK(result["sent"].get<std::int64_t>() == 100'000LL * 2 * 24'000'000);
}

TEST_CASE(
    "between two readings a monitor takes a counter to grow evenly: it sees no gap shorter than period + interval") {
  RunRecord record;
  record.machines.push_back({.name = "a", .workers = 0});
  record.recorder.links.push_back({.machine = 0, .receives = true, .name = "NIC", .rate = BytesPerSecond{1000}});
  // Bytes until 20 ms, none until 34 ms, and again until 60 ms.
  for (const auto& [start, end] : {std::pair{0.0, 0.020}, {0.034, 0.060}})
    record.recorder.rates.push_back({0, {.start = start, .length = end - start, .rate = 1000}});
  record.end = Seconds{0.060};
  record.window = {Seconds{}, Seconds{0.060}};
  const auto received = [&](double interval) {
    return resource_profile(record, Seconds{0.01}, {}, TrafficOf::kNics, Seconds{interval}).series.front().receive;
  };
  const std::vector<double> exact = received(0);
  CHECK(exact[2] == 0);
  CHECK(exact[3] == doctest::Approx(600));
  // Readings at 15, 20 ... ms fall on the periods' ends; at 28 and 35 ms they see 20 and 21 B, at 21 ms 20 B.
  CHECK(received(0.005)[2] == 0);
  const std::vector<double> read = received(0.007);
  CHECK(read[1] == doctest::Approx((14 + 6 * 6.0 / 7 - 10) / 0.01));  // 14 B at 14 ms, 20 B at 21 ms
  CHECK(read[2] == doctest::Approx((20 + 1 * 2.0 / 7 - 14 - 6 * 6.0 / 7) / 0.01));
  CHECK(std::accumulate(read.begin(), read.end(), 0.0) ==
        doctest::Approx(std::accumulate(exact.begin(), exact.end(), 0.0)));
}

}  // namespace rehearse
