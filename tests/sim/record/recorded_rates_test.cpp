// Recorded rates: what crosses each link when, never more than the link carries, and in all what was sent.

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "sim/record/resource_profile.hpp"
#include "sim/resources/simgrid_backend.hpp"
#include "sim/scenario/site.hpp"
#include "tests/support/random_scenario.hpp"

namespace rehearse {

namespace {

/// [link][sample] bytes per second.
Json sampled(const Recorder& recorder, double period, std::size_t samples) {
  Json series;
  for (std::size_t link = 0; link < recorder.links.size(); ++link) {
    std::vector<double> sums(samples);
    for (const LinkRate& rate : recorder.rates)
      if (rate.link == link) add_to_samples(rate.pulses, period, 0, sums);
    for (double& sum : sums) sum /= period;
    series[recorder.links[link].name] = sums;
  }
  return series;
}

void check_series(const Json& series, const std::vector<double>& expected) {
  REQUIRE(series.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(series[i].get<double>() == doctest::Approx(expected[i]).epsilon(1e-9).scale(1e9));
  }
}

/// The series of every machine, those of its GPUs' links if there is only one.
Json rates_of(const Json& json, bool is_exact) {
  const Scenario scenario = test::resolved(json);
  const bool is_one = Site{scenario}.machines.size() == 1;
  const RunRecord record =
      simulate(scenario, {.keeps_activity = true, .records_gpu_links = is_one, .is_exact = is_exact});
  const ResourceProfile profile = resource_profile(record, Seconds{std::max(1e-5, record.end.value() / 500)}, {},
                                                   is_one ? TrafficOf::kGpus : TrafficOf::kNics);
  Json machines = Json::array();
  for (std::size_t m = 0; m < record.machines.size(); ++m) {
    const auto in_all = [&](const std::vector<double>& series) {
      return std::accumulate(series.begin(), series.end(), 0.0) * profile.period.value();
    };
    const ResourceSeries& series = profile.series[m];
    machines.push_back({{"received", in_all(series.receive)},
                        {"transmitted", in_all(series.transmit)},
                        {"counted_received", record.total[m].received.value()},
                        {"counted_sent", record.total[m].sent.value()},
                        {"receive", series.receive},
                        {"limit", record.machines[m].nic.value() * record.machines[m].nics}});
  }
  return {
      {"machines", machines}, {"is_one", is_one}, {"period", profile.period.value()}, {"lost", record.lost.value()}};
}

}  // namespace

TEST_CASE("a message that is alone, then shares its links, then is alone again: its rate is a step function") {
  // NICs of 1 GB/s. From 0 on 300 MB from machine 0 to 2, from 0.1 s on 100 MB from 1 to 2. Until then the first has
  // moved 100 MB; both move 100 MB at 500 MB/s until 0.3 s; the rest of the first takes until 0.4 s. From 0.6 s on
  // 50 MB more from 1 to 2.
  for (const FlowSolver solver : {FlowSolver::kMaxMinFlows, FlowSolver::kSimgrid}) {
    const Json series = test::in_child([&] {
      const TopologyMachine machine{.region = "a", .nic = BytesPerSecond{1e9}, .interconnect = {}};
      const Topology topology{{machine, machine, machine}, Star{}, {{"a", "a", 1.0_ms, {}, ""}}};
      SimgridBackend backend{topology, solver};
      Recorder recorder;
      recorder.keeps_activity = true;
      recorder.watch(backend.network(), false);
      const auto send = [&](Seconds when, MachineIndex from, Bytes size) {
        backend.clock().schedule(when, [&backend, from, size] {
          Network& network = backend.network();
          network.start_flow(network.path({from}, {2}), size, [] {});
        });
      };
      send(0.0_s, 0, 300_MB);
      send(0.1_s, 1, 100_MB);
      send(0.6_s, 1, 50_MB);
      backend.run();
      return sampled(recorder, 0.05, 14);
    });
    REQUIRE_MESSAGE(!series.contains("error"), series.dump());
    const double g = 1e9, h = 5e8;
    check_series(series["NIC 0 of machine 0, sending"], {g, g, h, h, h, h, g, g, 0, 0, 0, 0, 0, 0});
    check_series(series["NIC 0 of machine 1, sending"], {0, 0, h, h, h, h, 0, 0, 0, 0, 0, 0, g, 0});
    check_series(series["NIC 0 of machine 2, receiving"], {g, g, g, g, g, g, g, g, 0, 0, 0, 0, g, 0});
    check_series(series["NIC 0 of machine 2, sending"], std::vector<double>(14));
  }
}

TEST_CASE("only what crosses a link within the window is recorded") {
  const TopologyMachine machine{.region = "a", .nic = BytesPerSecond{1e9}, .interconnect = {}};
  const Topology topology{{machine, machine}, Star{}, {{"a", "a", 1.0_ms, {}, ""}}};
  const Json series = test::in_child([&] {
    SimgridBackend backend{topology};
    Recorder recorder;
    recorder.keeps_activity = true;
    recorder.scope.window = {0.1_s, 0.25_s};
    recorder.scope.machines = {true, false};
    recorder.watch(backend.network(), false);
    backend.clock().schedule(0.0_s,
                             [&] { backend.network().start_flow(backend.network().path({0}, {1}), 1000_MB, [] {}); });
    backend.run();
    return sampled(recorder, 0.1, 4);
  });
  CHECK(series.size() == 2);  // of machine 0 alone
  check_series(series["NIC 0 of machine 0, sending"], {0, 1e9, 5e8, 0});
}

TEST_CASE("the rates of a timed collective are those of its messages, latencies between rounds included") {
  // Four machines, 1 GB/s, 10 us: six rounds of 10 ms each with 10 MB.
  Json scenario = test::timed_scenario(4, {{"40000000B"}}, {{"kind", "all_reduce"}});
  scenario["cluster"]["network"]["links"][0]["latency"] = "3ms";
  scenario["training"]["steps"] = 3;
  const Json timed = test::in_child([&] { return rates_of(scenario, false); });
  const Json exact = test::in_child([&] { return rates_of(scenario, true); });
  REQUIRE_MESSAGE(!timed.contains("error"), timed.dump());
  double largest = 0;
  int idle = 0;
  for (std::size_t m = 0; m < 4; ++m) {
    const Json &a = timed["machines"][m]["receive"], &b = exact["machines"][m]["receive"];
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      CHECK(a[i].get<double>() == doctest::Approx(b[i].get<double>()).epsilon(1e-4).scale(1e9));  // SimGrid: 1 ns
      largest = std::max(largest, a[i].get<double>());
      idle += a[i].get<double>() == 0 ? 1 : 0;
    }
  }
  CHECK(largest == doctest::Approx(1e9));
  CHECK(idle > 4 * 3 * 6);  // between any two rounds
}

TEST_CASE("no sample of a random scenario is above its link, and all that was sent is in the samples") {
  const std::uint64_t count = 60;
  const auto results = run_isolated(2 * count, 2, [](std::size_t job) {
    return rates_of(test::ScenarioGenerator{1 + job / 2}.generate(), job % 2 == 1).dump();
  });
  int compared = 0;
  for (std::size_t job = 0; job < results.size(); ++job) {
    CAPTURE(job);
    REQUIRE_MESSAGE(results[job].has_succeeded, results[job].text);
    const Json rates = Json::parse(results[job].text);
    if (rates["is_one"]) continue;
    for (const Json& machine : rates["machines"]) {
      const double limit = machine["limit"];
      for (const Json& sample : machine["receive"]) CHECK(sample.get<double>() <= limit * (1 + 1e-9));
      // SimGrid ends flows up to a nanosecond early.
      const double epsilon = job % 2 == 1 ? 1e-5 : 1e-9;
      for (const auto& [in_samples, counted] :
           {std::pair{"received", "counted_received"}, std::pair{"transmitted", "counted_sent"}})
        CHECK(machine[in_samples].get<double>() == doctest::Approx(machine[counted].get<double>()).epsilon(epsilon));
      ++compared;
    }
  }
  CHECK(compared > 300);
}

}  // namespace rehearse
