// Flows against closed forms, to 1e-9, by both solvers.

#include "sim/resources/simgrid_backend.hpp"

#include <doctest/doctest.h>

#include <csignal>

#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

struct FlowRequest {
  MachineIndex from, to;
  Bytes size;
  Seconds start;
};

Topology machines_in_regions(const std::vector<std::pair<double, std::string>>& machines) {
  std::vector<TopologyMachine> nodes;
  for (const auto& [rate, region] : machines)
    nodes.push_back({.region = region, .nic = BytesPerSecond{rate * 1e6}, .interconnect = {}});
  return Topology{
      nodes,
      Star{},
      {{"a", "a", 1.0_ms, {}, ""}, {"b", "b", 1.0_ms, {}, ""}, {"a", "b", 20.0_ms, BytesPerSecond{10e6}, ""}}};
}

/// When each flow has left its sender, on machines with the given NIC rates (MB/s) in regions "a" or "b". Both solvers
/// must agree.
std::vector<double> send_dates(const std::vector<std::pair<double, std::string>>& machines,
                               const std::vector<FlowRequest>& flows,
                               const std::function<void(SimgridBackend&)>& also = {}) {
  std::vector<std::vector<double>> results;
  for (const FlowSolver solver : {FlowSolver::kMaxMinFlows, FlowSolver::kSimgrid}) {
    const Json dates = test::in_child([&] {
      const Topology topology = machines_in_regions(machines);
      SimgridBackend backend{topology, solver};
      Json result = Json::array();
      for (std::size_t i = 0; i < flows.size(); ++i) result.push_back(-1.0);
      for (std::size_t i = 0; i < flows.size(); ++i)
        backend.clock().schedule(flows[i].start, [&, i] {
          Network& network = backend.network();
          network.start_flow(network.path({flows[i].from}, {flows[i].to}), flows[i].size,
                             [&, i] { result[i] = backend.clock().now().value(); });
        });
      if (also) also(backend);
      backend.run();
      return result;
    });
    results.push_back(dates.get<std::vector<double>>());
  }
  REQUIRE(results[0].size() == results[1].size());
  for (std::size_t i = 0; i < results[0].size(); ++i)
    CHECK(results[0][i] == doctest::Approx(results[1][i]).epsilon(1e-9));
  return results[0];
}

doctest::Approx exactly(double value) { return doctest::Approx(value).epsilon(1e-9); }

const std::vector<std::pair<double, std::string>> kThree{{100, "a"}, {100, "a"}, {100, "a"}};

}  // namespace

TEST_CASE("a single flow takes n / beta; latency is reported for the sender to pay") {
  CHECK(send_dates(kThree, {{0, 1, 50_MB, 0.0_s}})[0] == exactly(0.5));
  CHECK(send_dates(kThree, {{0, 1, 1_B, 0.25_s}})[0] == exactly(0.25 + 1e-8));
  const Json latencies = test::in_child([] {
    const Topology topology = machines_in_regions({{1000, "a"}, {1000, "b"}});
    SimgridBackend backend{topology};
    Network& network = backend.network();
    return Json{network.latency(network.path({0}, {1})).value(), network.latency(network.path({1}, {0})).value(),
                network.latency(network.path({1}, {1})).value()};
  });
  CHECK(latencies[0].get<double>() == 0.02);
  CHECK(latencies[1].get<double>() == 0.02);
  CHECK(latencies[2].get<double>() == 0);
}

TEST_CASE("incast: n flows into one NIC share it, and all finish at n times the time of one") {
  const auto dates = send_dates(kThree, {{0, 2, 50_MB, 0.0_s}, {1, 2, 50_MB, 0.0_s}});
  CHECK(dates[0] == exactly(1.0));
  CHECK(dates[1] == exactly(1.0));
}

TEST_CASE("full duplex: opposite directions do not disturb each other") {
  const auto dates = send_dates(kThree, {{0, 1, 50_MB, 0.0_s}, {1, 0, 50_MB, 0.0_s}});
  CHECK(dates[0] == exactly(0.5));
  CHECK(dates[1] == exactly(0.5));
}

TEST_CASE("max-min: a flow limited elsewhere leaves the rest to the others") {
  // Machine 0 sends at 100 MB/s to 1, whose NIC has 20, and to 2: shares 20 and 80.
  const auto dates = send_dates({{100, "a"}, {20, "a"}, {100, "a"}}, {{0, 1, 20_MB, 0.0_s}, {0, 2, 80_MB, 0.0_s}});
  CHECK(dates[0] == exactly(1.0));
  CHECK(dates[1] == exactly(1.0));
}

TEST_CASE("a flow that ends gives its share back") {
  // Both at 50 MB/s until the first ends at 0.2 s; the second has 40 MB left, at 100 MB/s.
  const auto dates = send_dates(kThree, {{0, 2, 10_MB, 0.0_s}, {1, 2, 50_MB, 0.0_s}});
  CHECK(dates[0] == exactly(0.2));
  CHECK(dates[1] == exactly(0.6));
}

TEST_CASE("between regions each connection has its own limit") {
  const auto dates = send_dates({{100, "a"}, {100, "b"}, {100, "b"}}, {{0, 1, 10_MB, 0.0_s}, {0, 2, 10_MB, 0.0_s}});
  CHECK(dates[0] == exactly(1.0));
  CHECK(dates[1] == exactly(1.0));
}

TEST_CASE("a cancelled flow never reports, and its share goes to the others") {
  FlowId victim = 0;
  const auto dates = send_dates(kThree, {{1, 2, 50_MB, 0.0_s}}, [&victim](SimgridBackend& backend) {
    backend.clock().schedule(0.0_s, [&] {
      victim = backend.network().start_flow(backend.network().path({0}, {2}), 50_MB,
                                            [] { throw std::logic_error{"cancelled"}; });
    });
    backend.clock().schedule(0.2_s, [&] { backend.network().cancel(victim); });
  });
  CHECK(dates[0] == exactly(0.6));  // 10 MB at 50 MB/s, 40 MB at 100 MB/s
}

TEST_CASE("a child that dies gives a failed result and disturbs no other") {
  const auto results = run_isolated(3, 2, [](std::size_t job) -> std::string {
    if (job == 0) std::raise(SIGKILL);
    if (job == 1) throw std::runtime_error{"reason"};
    return std::string(1'000'000, 'x');
  });
  CHECK_FALSE(results[0].has_succeeded);
  CHECK(results[0].text == "the simulation's process ended early: signal 9");
  CHECK_FALSE(results[1].has_succeeded);
  CHECK(results[1].text == "reason");
  CHECK(results[2].has_succeeded);
  CHECK(results[2].text.size() == 1'000'000);
}

}  // namespace rehearse
