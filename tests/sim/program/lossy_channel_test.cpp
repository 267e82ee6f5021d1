// Runs whose packets are lost: what TCP makes of it (tests/sim/resources/tcp_loss_test.cpp), in steps of training.

#include "sim/program/lossy_channel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::timed_scenario;

Json reduction(const std::string& algorithm, int machines, double loss, int steps, const std::string& gradient) {
  Json json = timed_scenario(machines, {{gradient}}, {{"kind", "all_reduce"}, {"algorithm", algorithm}});
  json["cluster"]["network"]["packet_loss"] = loss;
  json["training"]["steps"] = steps;
  return json;
}

RunRecord run(const Json& json) { return simulate(test::resolved(json)); }

std::vector<double> step_lengths(const RunRecord& record, std::size_t workers) {
  std::vector<double> ends{0};
  for (std::size_t i = 0; i < record.recorder.steps.size(); i += workers)
    ends.push_back(record.recorder.steps[i].span.end.value());
  std::vector<double> lengths;
  for (std::size_t i = 1; i < ends.size(); ++i) lengths.push_back(ends[i] - ends[i - 1]);
  return lengths;
}

}  // namespace

TEST_CASE("no loss is the run of before, event by event") {
  for (const char* algorithm : {"ring", "star"}) {
    Json json = reduction(algorithm, 4, 0, 3, "24000000B");
    const RunRecord stated = run(json);
    json["cluster"]["network"].erase("packet_loss");
    json["cluster"]["network"]["tcp"] = {{"segment", "512B"}, {"connections", 4}};
    const RunRecord without = run(json);
    CHECK(stated.fingerprint == without.fingerprint);
    CHECK(stated.end == without.end);
    CHECK(stated.lost == Bytes{});
  }
}

TEST_CASE("with loss SimGrid's own network, SimGrid's clock and the plain loop agree") {
  Json servers = test::with_servers(
      timed_scenario(3, {{"24000000B"}, {"4000B"}}, {{"kind", "parameter_server"}, {"synchronization", "synchronous"}}),
      2);
  servers["cluster"]["network"]["packet_loss"] = 0.01;
  servers["training"]["steps"] = 4;
  for (const Json& json : {reduction("ring", 4, 0.02, 3, "24000000B"), reduction("clique", 3, 0.02, 3, "24000000B"),
                           reduction("star", 3, 0.02, 3, "24000000B"), servers}) {
    const test::Times times = test::times_of(json);
    CHECK(times.by_default == test::exactly(times.exact));
    CHECK(run(json).end.value() == test::exactly(times.exact));
    CHECK(times.exact > test::times_of([&] {
                          Json lossless = json;
                          lossless["cluster"]["network"]["packet_loss"] = 0;
                          return lossless;
                        }())
                            .exact);
  }
}

TEST_CASE("what is sent again crosses the links, and is all that is lost") {
  const double p = 0.02;
  const RunRecord record = run(reduction("ring", 4, p, 50, "24000000B"));
  const double payload = 50 * 6 * 24e6;  // 2 (p - 1) n for all of p = 4 workers
  CHECK(record.received == Bytes{std::int64_t{50} * 6 * 24'000'000});
  CHECK(record.lost == record.losses.retransmitted);
  const double segments = payload / 1448;
  CHECK(std::abs(as_double(record.lost) / payload - p / (1 - p)) < 4 * std::sqrt(p / segments) / (1 - p));
  Bytes carried{};
  for (const auto& [machines, bytes] : record.carried) carried += bytes;
  CHECK(carried == record.sent);
}

TEST_CASE("a step waits for the slowest of its k messages: for a timer with 1 - (1 - q)^k") {
  const int steps = 3000;
  const double p = 0.01;
  for (const int machines : {2, 5}) {
    const RunRecord record = run(reduction("star", machines, p, steps, "40000B"));
    int stalled = 0;
    for (const double length : step_lengths(record, static_cast<std::size_t>(machines)))
      stalled += length > 0.2 ? 1 : 0;
    // q of messages of 28 segments, of which each rank but the first sends one and receives one.
    TcpSender sender{{}, {.loss = p, .round_trip = 20.0_us, .rate = BytesPerSecond{1e9}}, Rng{7, "q"}};
    double q = 0;
    for (int i = 0; i < 100'000; ++i) {
      const TcpTransfer transfer = sender.send(28);
      q += transfer.timeouts + transfer.late_probes > 0 ? 1e-5 : 0;
    }
    const double expected = 1 - std::pow(1 - q, 2 * (machines - 1));
    CHECK(std::abs(stalled / double{steps} - expected) < 4 * std::sqrt(expected / steps));
  }
}

TEST_CASE("messages that their receivers announce wait for the announcements of both halves of a ring") {
  const int steps = 3000;
  const double p = 0.004;
  const auto stalled = [&](bool announces) {
    Json json = reduction("ring", 2, p, steps, "40000B");
    if (announces) {
      json["calibration"] = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
      json["calibration"]["collectives"]["protocols"] = {{"p", {{"receivers_announce", true}}}};
    }
    double sum = 0;
    for (const double length : step_lengths(run(json), 2)) sum += length > 0.2 ? 1.0 / steps : 0;
    return sum;
  };
  // Two machines, twice each.
  const double expected = 1 - std::pow(1 - p, 4);
  CHECK(std::abs(stalled(true) - stalled(false) - expected) < 4 * std::sqrt(3 * expected / steps));
}

TEST_CASE("of two machines that exchange at once each waits for ACKs behind the other's data") {
  // After a loss in one direction its window is the smaller: its rate falls to the ratio of the two.
  const auto slowdown = [](const std::string& algorithm) {
    const auto median_step = [&](double loss) {
      std::vector<double> sorted = step_lengths(run(reduction(algorithm, 2, loss, 300, "4000000B")), 2);
      std::nth_element(sorted.begin(), sorted.begin() + 150, sorted.end());
      return sorted[150];
    };
    return median_step(0.0003) / median_step(1e-12);
  };
  CHECK(slowdown("ring") > 1.05);
  CHECK(slowdown("star") < 1.01);  // there, then back
}

TEST_CASE("parallel connections divide what a window limits") {
  const auto time = [](int connections) {
    Json json = reduction("ring", 2, 0.001, 20, "20000000B");
    json["cluster"]["network"]["links"][0]["latency"] = "20ms";
    json["cluster"]["network"]["tcp"] = {{"connections", connections}, {"congestion", "reno"}};
    return run(json).end.value();
  };
  const double one = time(1), four = time(4);
  // Mathis: 1.22 * 1448 B / (40 ms * sqrt(0.001)) = 1.4 MB/s; two messages of 10 MB in a step.
  CHECK(one == doctest::Approx(20 * 20e6 / (1.22 * 1448 / (0.04 * std::sqrt(0.001)))).epsilon(0.2));
  CHECK(four == doctest::Approx(one / 4).epsilon(0.25));
}

TEST_CASE("loss of a link between regions is besides that of the machines") {
  Json json = reduction("ring", 2, 0.1, 40, "1448000B");
  json["cluster"]["network"]["links"][0]["packet_loss"] = 0.2;
  json["cluster"]["network"]["tcp"]["recovery"] = "duplicate_acks";  // without probes, which are sent besides
  const RunRecord record = run(json);
  // Of 1000 packets in each of 2 * 40 messages of half a gradient: p = 1 - 0.9 * 0.8 = 0.28.
  CHECK(as_double(record.lost) / as_double(record.received) == doctest::Approx(0.28 / 0.72).epsilon(0.03));
}

TEST_CASE("the same seed loses the same packets, another others; revocations cut what is under way") {
  Json json = reduction("ring", 4, 0.02, 20, "24000000B");
  const RunRecord first = run(json);
  CHECK(run(json).fingerprint == first.fingerprint);
  json["seed"] = 2;
  CHECK(run(json).fingerprint != first.fingerprint);
  Json spot = load_json_file(source_folder() + "/scenarios/cm-dare-spot.json");
  spot["cluster"]["network"]["packet_loss"] = 0.02;
  spot["training"]["steps"] = 3000;
  const RunRecord revoked = run(spot);  // its invariants hold: bytes sent = received + lost
  CHECK(revoked.lost >= revoked.losses.retransmitted);
}

}  // namespace rehearse
