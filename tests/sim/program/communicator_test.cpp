// Collectives of each kind among otherwise idle machines: closed forms of their times, and the bytes that they send.

#include "sim/program/communicator.hpp"

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "sim/resources/plain_loop.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse::communicator_test {

namespace {

using test::exactly;
using test::kAlpha;
using test::kBeta;

struct Outcome {
  double time_s = 0;
  std::vector<Traffic::Counters> machines;
  Traffic::Counters local, total;
  Bytes lost{};
  std::vector<Bytes> carried;  // [paths]
  std::uint64_t events = 0;
};

/// What happens while a collective is under way.
using Disturbance = std::function<void(PlainLoop&)>;

/// One collective of the workers' GPUs. `until_s`: when it is cut, if it is.
Outcome run(const Json& json, CollectiveKind kind, std::int64_t payload, CollectiveEvents events,
            const Disturbance& disturb = {}, double until_s = 0) {
  const Scenario scenario = test::resolved(json);
  const Site site{scenario};
  Recorder recorder;
  PlainLoop loop{site.topology};
  Cluster cluster{site, loop.clock(), loop.network(), recorder};
  std::vector<Endpoint> gpus;
  for (const std::vector<Endpoint>& worker : site.workers) gpus.insert(gpus.end(), worker.begin(), worker.end());
  OwnedClock clock = OwnedClock{loop.clock()}.for_new_owner();
  auto communicator = std::make_unique<Communicator>(cluster, clock, gpus, events);
  Outcome outcome;
  communicator->start(kind, 0, 0, Bytes{payload}, loop.clock().now(),
                      [&] { outcome.time_s = loop.clock().now().value(); });
  if (disturb) disturb(loop);
  if (until_s > 0)
    loop.clock().schedule(Seconds{until_s}, [&] {
      clock.retire();
      communicator.reset();
    });
  loop.run();
  if (communicator) communicator->settle();
  outcome.lost = cluster.traffic.lost();
  outcome.carried = loop.network().carried();
  outcome.events = loop.clock().events();
  for (std::size_t m = 0; m < site.machines.size(); ++m) outcome.machines.push_back(cluster.traffic.of(m));
  outcome.local = cluster.traffic.local();
  outcome.total = cluster.traffic.total();
  return outcome;
}

Json ring_scenario(int machines, int gpus = 1) {
  return test::timed_scenario(machines, {{"4B"}}, {{"kind", "all_reduce"}, {"algorithm", "ring"}}, gpus);
}

constexpr std::int64_t kPayload = 24'000'000;

/// The same by formula and message by message: time, and what each machine sends and receives.
Outcome both_ways(const Json& scenario, CollectiveKind kind, double expected_s) {
  const Outcome timed = run(scenario, kind, kPayload, CollectiveEvents::kAll),
                exact = run(scenario, kind, kPayload, CollectiveEvents::kMessages);
  CHECK(timed.time_s == exactly(expected_s));
  CHECK(exact.time_s == exactly(expected_s));
  CHECK(timed.total.sent == timed.total.received);
  CHECK(exact.total.sent == exact.total.received);
  CHECK(timed.total.sent == exact.total.sent);
  CHECK(timed.local.sent == exact.local.sent);
  for (std::size_t m = 0; m < timed.machines.size(); ++m) {
    CHECK(timed.machines[m].sent == exact.machines[m].sent);
    CHECK(timed.machines[m].received == exact.machines[m].received);
  }
  return timed;
}

}  // namespace

TEST_CASE("reduce-scatter and all-gather take (p - 1) (a + n / (p b)), and each rank sends all parts but one") {
  for (const int p : {2, 3, 4, 8})
    for (const CollectiveKind kind : {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather}) {
      CAPTURE(p);
      const Outcome found = both_ways(ring_scenario(p), kind, (p - 1) * (kAlpha + kPayload / (p * kBeta)));
      for (const Traffic::Counters& machine : found.machines) {
        CHECK(machine.sent.value() == (p - 1) * (kPayload / p));
        CHECK(machine.received.value() == (p - 1) * (kPayload / p));
      }
    }
}

TEST_CASE("an all-to-all takes a + (p - 1) n / (p b), and each rank keeps one part of what it sends") {
  for (const int p : {2, 3, 4, 8}) {
    CAPTURE(p);
    const Outcome found =
        both_ways(ring_scenario(p), CollectiveKind::kAllToAll, kAlpha + (p - 1) * (kPayload / (p * kBeta)));
    for (const Traffic::Counters& machine : found.machines) {
      CHECK(machine.sent.value() == (p - 1) * (kPayload / p));
      CHECK(machine.received.value() == (p - 1) * (kPayload / p));
    }
  }
}

TEST_CASE("of an all-to-all among m machines of g GPUs the NIC carries g g (m - 1) parts, whatever is inside") {
  for (const int m : {2, 3})
    for (const int g : {2, 4}) {
      CAPTURE(m);
      CAPTURE(g);
      Json scenario = ring_scenario(m, g);
      scenario["cluster"]["groups"][0]["instance"]["interconnect"] = {{"pcie", "1TBps"}, {"nvswitch", "1TBps"}};
      const std::int64_t part = kPayload / (m * g), between = g * g * (m - 1) * part;
      const Outcome found =
          both_ways(scenario, CollectiveKind::kAllToAll, kAlpha + static_cast<double>(between) / kBeta);
      for (const Traffic::Counters& machine : found.machines) CHECK(machine.sent.value() == between);
      CHECK(found.local.sent.value() == m * g * (g - 1) * part);
    }
}

TEST_CASE(
    "a broadcast takes (p - 1) a + n / b: all ranks but the first receive the payload, all but the last send it") {
  for (const int p : {2, 3, 8}) {
    CAPTURE(p);
    const Outcome found = both_ways(ring_scenario(p), CollectiveKind::kBroadcast, (p - 1) * kAlpha + kPayload / kBeta);
    CHECK(found.total.sent.value() == (p - 1) * kPayload);
    CHECK(found.machines.front().received.value() == 0);
    CHECK(found.machines.back().sent.value() == 0);
    for (std::size_t m = 1; m < found.machines.size(); ++m) CHECK(found.machines[m].received.value() == kPayload);
  }
}

TEST_CASE("a collective among one rank takes no time") {
  for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                    CollectiveKind::kAllGather, CollectiveKind::kAllToAll, CollectiveKind::kBroadcast})
    CHECK(both_ways(ring_scenario(1), kind, 0).total.sent.value() == 0);
}

TEST_CASE("collectives other than all-reduces have one schedule each, whatever algorithm the scenario names") {
  for (const char* algorithm : {"ring", "tree", "star", "fastest"}) {
    CAPTURE(algorithm);
    Json scenario = ring_scenario(4);
    scenario["training"]["strategy"]["algorithm"] = algorithm;
    (void)both_ways(scenario, CollectiveKind::kAllGather, 3 * (kAlpha + kPayload / (4 * kBeta)));
    (void)both_ways(scenario, CollectiveKind::kAllToAll, kAlpha + 3 * (kPayload / (4 * kBeta)));
  }
}

TEST_CASE("an all-to-all pays launch, log2 p steps, and the efficiency of the library's protocol") {
  Json scenario = ring_scenario(4);
  Json profile = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
  profile["collectives"]["protocols"] = {
      {"ring", {{"algorithm", "ring"}, {"launch", "20us"}, {"network_step", "14us"}, {"efficiency", 0.8}}},
      {"tree", {{"algorithm", "tree"}, {"launch", "1us"}}}};
  scenario["calibration"] = profile;
  (void)both_ways(scenario, CollectiveKind::kAllToAll, 20e-6 + 2 * 14e-6 + kAlpha + 3 * (kPayload / (0.8 * 4 * kBeta)));
}

TEST_CASE("a library that launches ahead has launched what was ready while another collective was under way") {
  // The second tensor is ready `backward` after the first one; each takes launch + 8 ms and 20 us.
  const auto times = [](bool ahead, const std::string& backward) {
    Json scenario = test::timed_scenario(2, {{"8000000B", "1ms", backward}, {"8000000B"}},
                                         {{"kind", "all_reduce"}, {"algorithm", "ring"}});
    Json profile = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
    profile["collectives"]["protocols"] = {{"p", {{"launch", "2ms"}, {"launches_ahead", ahead}}}};
    scenario["calibration"] = profile;
    return test::times_of(scenario);
  };
  const auto check_gain = [&](const std::string& backward, double gain) {
    const test::Times without = times(false, backward), with = times(true, backward);
    CHECK(without.by_default - with.by_default == doctest::Approx(gain));
    CHECK(without.exact - with.exact == doctest::Approx(gain));
  };
  check_gain("1ms", 2e-3);
  check_gain("9.02ms", 1e-3);  // 1 ms is left of the first one
  check_gain("12ms", 0);       // it comes when that has ended
}

namespace {

/// The same by rounds as by messages.
void check_same(const Outcome& rounds, const Outcome& messages) {
  CHECK(rounds.time_s == doctest::Approx(messages.time_s).epsilon(1e-9));
  CHECK(rounds.lost == messages.lost);
  CHECK(rounds.carried == messages.carried);
  CHECK(rounds.local.sent == messages.local.sent);
  CHECK(rounds.total.sent == rounds.total.received + rounds.lost);
  for (std::size_t m = 0; m < rounds.machines.size(); ++m) {
    CHECK(rounds.machines[m].sent == messages.machines[m].sent);
    CHECK(rounds.machines[m].received == messages.machines[m].received);
  }
}

/// Three machines of so many GPUs, whose rings go within them and between them: of more than two some GPUs are in no message
/// between machines, and go ahead of others.
Json machines_of(int gpus, const std::string& algorithm = "ring") {
  Json scenario = ring_scenario(3, gpus);
  scenario["cluster"]["groups"][0]["instance"]["interconnect"] = {{"pcie", "1GBps"}, {"nvswitch", "5GBps"}};
  scenario["training"]["strategy"]["algorithm"] = algorithm;
  return scenario;
}

const std::vector<Json>& held_scenarios() {
  static const std::vector<Json> scenarios{machines_of(2), machines_of(5), machines_of(2, "clique"),
                                           machines_of(4, "hierarchical")};
  return scenarios;
}

}  // namespace

TEST_CASE("a ring takes what its slowest edge does, round after round, though other ranks go ahead") {
  // Seven of eight GPUs send over links five times as fast.
  const double slowest = kAlpha / 8 + kPayload / (24 * kBeta);
  for (const auto events : {CollectiveEvents::kAll, CollectiveEvents::kRounds, CollectiveEvents::kMessages})
    CHECK(run(machines_of(8), CollectiveKind::kAllGather, kPayload, events).time_s == exactly(23 * slowest));
}

TEST_CASE("two ranks that are held up in different rounds delay a collective once, as the others go on meanwhile") {
  // A flow as long as a message halves the rate of the message beside it.
  const double part = kPayload / (8 * kBeta), round = kAlpha + part;
  const auto time_with = [&](const std::vector<std::pair<int, double>>& held_up) {
    const Disturbance flows = [&](PlainLoop& loop) {
      for (const auto& [rank, when] : held_up)
        loop.clock().schedule(Seconds{when}, [&loop, part, rank = rank] {
          (void)loop.network().start_flow(loop.network().path({rank, 0}, {rank + 1, 0}),
                                          Bytes{static_cast<std::int64_t>(part * kBeta)}, [] {});
        });
    };
    return run(ring_scenario(8), CollectiveKind::kAllGather, kPayload, CollectiveEvents::kMessages, flows).time_s;
  };
  CHECK(time_with({}) == exactly(7 * round));
  CHECK(time_with({{0, 0}}) == exactly(7 * round + part));
  CHECK(time_with({{0, 0}, {4, 2 * round}}) == exactly(7 * round + part));
  CHECK(time_with({{0, 0}, {0, 3 * round + part}}) == exactly(7 * round + 2 * part));
}

TEST_CASE("rounds of a collective that has its links for itself are one event") {
  for (const int gpus : {2, 5})
    for (const auto kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kBroadcast}) {
      CAPTURE(gpus);
      const Outcome rounds = run(machines_of(gpus), kind, kPayload, CollectiveEvents::kRounds);
      check_same(rounds, run(machines_of(gpus), kind, kPayload, CollectiveEvents::kMessages));
      CHECK(rounds.events <= 2);
    }
}

TEST_CASE("where another flow comes upon the links of held rounds, all goes on as if there had been messages only") {
  for (const Json& scenario : held_scenarios()) {
    CAPTURE(scenario["training"]["strategy"].dump());
    const double alone = run(scenario, CollectiveKind::kAllReduce, kPayload, CollectiveEvents::kMessages).time_s;
    for (int i = 0; i <= 60; ++i) {
      CAPTURE(i);
      // Some of the dates are those at which rounds begin.
      const Disturbance flow = [&](PlainLoop& loop) {
        loop.clock().schedule(Seconds{alone * i / 60}, [&] {
          (void)loop.network().start_flow(loop.network().path({0, 1}, {1, 0}), Bytes{2'000'000}, [] {});
        });
      };
      const Outcome rounds = run(scenario, CollectiveKind::kAllReduce, kPayload, CollectiveEvents::kRounds, flow);
      check_same(rounds, run(scenario, CollectiveKind::kAllReduce, kPayload, CollectiveEvents::kMessages, flow));
      CHECK(rounds.time_s >= alone * (1 - 1e-9));
    }
  }
}

TEST_CASE("of held rounds that are cut what has been sent counts as it does of messages") {
  for (const Json& scenario : held_scenarios()) {
    CAPTURE(scenario["training"]["strategy"].dump());
    const double alone = run(scenario, CollectiveKind::kAllReduce, kPayload, CollectiveEvents::kMessages).time_s;
    for (int i = 1; i <= 40; ++i) {
      CAPTURE(i);
      const double until = alone * (i - 0.37) / 41;
      check_same(run(scenario, CollectiveKind::kAllReduce, kPayload, CollectiveEvents::kRounds, {}, until),
                 run(scenario, CollectiveKind::kAllReduce, kPayload, CollectiveEvents::kMessages, {}, until));
    }
  }
}

TEST_CASE("a collective that finds its links in use goes message by message, and the other one, too") {
  const auto both = [](CollectiveEvents events) {
    const Scenario scenario = test::resolved(machines_of(2));
    const Site site{scenario};
    Recorder recorder;
    PlainLoop loop{site.topology};
    Cluster cluster{site, loop.clock(), loop.network(), recorder};
    const auto gpus = [&](int gpu) { return std::vector<Endpoint>{{0, gpu}, {1, gpu}, {2, gpu}}; };
    Communicator first{cluster, OwnedClock{loop.clock()}, gpus(0), events},
        second{cluster, OwnedClock{loop.clock()}, gpus(1), events};
    std::array<double, 2> ends{};
    first.start(CollectiveKind::kAllReduce, 0, 0, Bytes{kPayload}, {}, [&] { ends[0] = loop.clock().now().value(); });
    loop.clock().schedule(Seconds{0.01}, [&] {
      second.start(CollectiveKind::kAllGather, 1, 0, Bytes{kPayload}, {},
                   [&] { ends[1] = loop.clock().now().value(); });
    });
    loop.run();
    return ends;
  };
  const auto rounds = both(CollectiveEvents::kRounds), messages = both(CollectiveEvents::kMessages);
  CHECK(rounds[0] == doctest::Approx(messages[0]).epsilon(1e-9));
  CHECK(rounds[1] == doctest::Approx(messages[1]).epsilon(1e-9));
}

}  // namespace rehearse::communicator_test
