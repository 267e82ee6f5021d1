// Messages that wait in queues, first in, first out, by hand.

#include "sim/resources/queue_network.hpp"

#include <doctest/doctest.h>

#include <map>
#include <stdexcept>

namespace rehearse {

namespace {

constexpr double kRate = 100e6;  // B/s of a NIC
constexpr double kSegment = 1000;

/// There is nothing within machines here.
class NothingElse : public Network {
 public:
  using Network::Network;
  void cancel(FlowId) override {}
  Seconds now() const override { return {}; }
  void watch(const std::vector<int>&, OnRate) override {}

 private:
  FlowId start(PathIndex, Bytes, std::optional<BytesPerSecond>, double, std::function<void()>) override {
    throw std::logic_error{"not a message between machines"};
  }
};

Topology machines(int count, std::optional<BytesPerSecond> per_flow_rate) {
  std::vector<TopologyMachine> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back({.region = "a", .nic = BytesPerSecond{kRate}, .interconnect = {}});
  return Topology{nodes, Star{}, {{"a", "a", 1.0_ms, per_flow_rate, ""}}};
}

/// Machines on a switch; messages by hand.
struct Switch {
  explicit Switch(int count, double turn, std::optional<BytesPerSecond> per_flow_rate = {})
      : topology{machines(count, per_flow_rate)}, others{topology}, network{topology, clock, others, tcp(turn)} {
    std::vector<int> links;
    for (int m = 0; m < count; ++m)
      for (const int link : topology.nic_links(m)) links.push_back(link);
    network.watch(links, [this](int link, Seconds now, double rate) {
      CHECK(rate <= kRate * (1 + 1e-12));
      auto& [since, last] = rates[link];
      carried[link] += last * (now.value() - since);
      since = now.value();
      last = rate;
    });
  }
  static TcpParameters tcp(double turn) {
    TcpParameters tcp;
    tcp.segment = Bytes{static_cast<std::int64_t>(kSegment)};
    tcp.turn = Bytes{static_cast<std::int64_t>(turn)};
    return tcp;
  }
  /// The date at which it has been sent is that of its number.
  FlowId send(MachineIndex from, MachineIndex to, double bytes) {
    const std::size_t number = sent.size();
    sent.push_back(-1);
    return network.start_flow(network.path({from}, {to}), Bytes{static_cast<std::int64_t>(bytes)},
                              [this, number] { sent[number] = clock.now().value(); });
  }
  void run() {
    while (!clock.is_empty()) clock.advance_to(clock.next_date());
  }
  double carried_by(MachineIndex machine, bool sends) {
    const Topology::Ports ports = topology.nic_ports(machine);
    return carried[(sends ? ports.out : ports.in).front()];
  }

  Clock clock;
  Topology topology;
  NothingElse others;
  QueueNetwork network;
  std::vector<double> sent;
  std::map<int, double> carried;                   // by link, bytes
  std::map<int, std::pair<double, double>> rates;  // by link: since when, how much
};

doctest::Approx seconds(double value) { return doctest::Approx(value).epsilon(1e-9); }

}  // namespace

TEST_CASE("a message alone takes n / beta, in whatever turns; those of a connection follow one another") {
  for (const double turn : {2e3, 131072.0, 2e6, 1e9}) {
    Switch lan{2, turn};
    lan.send(0, 1, 8e6);
    lan.send(0, 1, 1);
    lan.run();
    CHECK(lan.sent[0] == seconds(0.08));
    CHECK(lan.sent[1] == seconds(0.08 + 1e-8));
    CHECK(lan.carried_by(0, true) == seconds(8e6 + 1));
    CHECK(lan.carried_by(1, false) == seconds(8e6 + 1));
  }
}

TEST_CASE("connections of a NIC take turns") {
  Switch lan{4, 2e6};
  for (const MachineIndex to : {1, 2, 3}) lan.send(0, to, 8e6);
  lan.run();
  // 1 1 2 2 3 3 in parts of 1 MB, four times: even sharing would end all of them after 0.24 s.
  CHECK(lan.sent[0] == seconds(0.20));
  CHECK(lan.sent[1] == seconds(0.22));
  CHECK(lan.sent[2] == seconds(0.24));
  for (const MachineIndex to : {1, 2, 3}) CHECK(lan.carried_by(to, false) == seconds(8e6));
}

TEST_CASE("the longer the turns the sooner is the first message through, and the last one no later") {
  double first = 1;
  for (const double turn : {2e4, 2e5, 2e6, 2e7}) {
    Switch lan{3, turn};
    lan.send(0, 1, 8e6);
    lan.send(0, 2, 8e6);
    lan.run();
    CHECK(lan.sent[0] < first);
    CHECK(lan.sent[1] == seconds(0.16));
    first = lan.sent[0];
  }
}

TEST_CASE("of a message shorter than a turn a window lets 0.7 enter, and the rest when less than twice as much waits") {
  Switch lan{3, 1e9};
  lan.send(0, 1, 1000 * kSegment);
  lan.send(0, 2, 1000 * kSegment);
  lan.run();
  CHECK(lan.sent[0] == seconds((707 + 707 + 293) * kSegment / kRate));
  CHECK(lan.sent[1] == seconds(2000 * kSegment / kRate));
  // No less than half of the initial window of 10.
  Switch small{3, 1e9};
  small.send(0, 1, 5 * kSegment);
  small.send(0, 2, 5 * kSegment);
  small.run();
  CHECK(small.sent[0] == seconds(5 * kSegment / kRate));
}

TEST_CASE("a NIC sends at its rate whatever the receiver can take; what is too much waits before the receiver's link") {
  Switch lan{4, 2e6};
  lan.send(0, 2, 8e6);
  lan.send(1, 2, 8e6);
  lan.clock.schedule(Seconds{0.08}, [&] { lan.send(0, 3, 8e6); });
  lan.run();
  CHECK(lan.sent[0] == seconds(0.16));  // both arrive until 0.08 s, byte by byte in turns
  CHECK(lan.sent[1] == seconds(0.16));
  CHECK(lan.sent[2] == seconds(0.16));  // does not wait for machine 2
  CHECK(lan.carried_by(2, false) == seconds(16e6));
}

TEST_CASE("what is cancelled leaves its place to others") {
  Switch lan{3, 2e6};
  const FlowId first = lan.send(0, 1, 8e6);
  lan.send(0, 2, 8e6);
  lan.clock.schedule(Seconds{0.005}, [&] { lan.network.cancel(first); });  // within its first part
  lan.clock.schedule(Seconds{0.03}, [&] { lan.network.cancel(first); });   // it is gone
  lan.run();
  CHECK(lan.sent[0] == -1);
  CHECK(lan.sent[1] == seconds(0.085));
  CHECK(lan.carried_by(1, false) == seconds(5e5));
}

TEST_CASE("connections with a limit of their own") {
  Switch limited{3, 2e4, BytesPerSecond{kRate / 10}};
  limited.send(0, 1, 1e6);
  limited.send(0, 2, 1e6);
  limited.run();
  CHECK(limited.sent[0] == seconds(0.1));
  CHECK(limited.sent[1] == seconds(0.1));
}

}  // namespace rehearse
