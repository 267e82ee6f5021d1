// Messages that wait for an answer of their receiver, and ranks that go on one by one.

#include "sim/program/collective_run.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/program/communicator.hpp"
#include "sim/resources/plain_loop.hpp"
#include "sim/training/collective_time.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse::collective_run_test {

namespace {

using test::exactly;
using test::kAlpha;
using test::kBeta;

constexpr std::int64_t kHandshake = 104;  // bytes of a request and its answer

/// A ring of `bytes` among `machines`, whose messages above `eager_limit` ask.
Json ring(int machines, const Json& eager_limit, std::int64_t bytes = 24'000'000, const std::string& launch = "0us") {
  Json scenario = test::timed_scenario(machines, {{"4B"}}, {{"kind", "all_reduce"}, {"algorithm", "ring"}});
  scenario["workload"]["model"]["structure"] = {{"family", "collective"}, {"bytes", bytes}};
  Json profile = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
  profile["collectives"]["protocols"] = {{"p", {{"launch", launch}}}};
  if (!eager_limit.is_null()) profile["collectives"]["protocols"]["p"]["eager_limit"] = eager_limit;
  scenario["calibration"] = profile;
  return scenario;
}

double time_of(const Json& json) { return collective_time(test::resolved(json)).value(); }

}  // namespace

TEST_CASE("a message that asks takes 3 a + n / b instead of a + n / b, and so do all rounds of a ring") {
  for (const int p : {2, 3, 4, 8}) {
    CAPTURE(p);
    const double part = 24e6 / p, rounds = 2 * (p - 1);
    CHECK(time_of(ring(p, nullptr)) == exactly(rounds * (kAlpha + part / kBeta)));
    CHECK(time_of(ring(p, "1kB")) == exactly(rounds * (3 * kAlpha + (part + kHandshake) / kBeta)));
  }
}

TEST_CASE("messages up to the limit are sent at once") {
  const double at_once = 2 * (kAlpha + 12e6 / kBeta);
  CHECK(time_of(ring(2, "12000000B")) == exactly(at_once));
  CHECK(time_of(ring(2, "11999999B")) == exactly(at_once + 2 * (2 * kAlpha + kHandshake / kBeta)));
}

TEST_CASE("ranks begin within launch, and all of them wait for the last") {
  // The median of the later of two uniform dates is sqrt(1/2) of launch; 101 draws.
  const double late = time_of(ring(2, "1kB", 2'000'000, "1s")) - time_of(ring(2, "1kB", 2'000'000));
  CHECK(std::abs(late - std::sqrt(0.5)) < 0.12);
}

TEST_CASE("an answer waits behind the data of its machine, where they wait in one queue") {
  // Three ranks that do not begin at once: of six parts that could go in two at a time, some go alone.
  Json json = ring(3, "64KiB", 300'000, "200us");
  const double shared = time_of(json);
  json["cluster"]["network"]["tcp"] = {{"turn", "128KiB"}};
  const double queued = time_of(json), round = 1e5 / kBeta;
  CHECK(shared < 200e-6 + 4 * (round + 3 * kAlpha + 1e-6));
  CHECK(queued > shared + 0.9 * round);
  CHECK(queued < 200e-6 + 12 * (round + 3 * kAlpha + 1e-6));  // one after another
}

TEST_CASE("requests and answers are traffic, of which as much arrives as leaves") {
  const Scenario scenario = test::resolved(ring(3, "1kB", 3'000'000, "10us"));
  const Site site{scenario};
  Recorder recorder;
  PlainLoop loop{site.topology};
  Cluster cluster{site, loop.clock(), loop.network(), recorder};
  Communicator communicator{cluster, OwnedClock{loop.clock()}, {{0, 0}, {1, 0}, {2, 0}}, CollectiveEvents::kMessages};
  bool is_done = false;
  communicator.start(CollectiveKind::kAllReduce, 0, 0, 3_MB, {}, [&] { is_done = true; });
  loop.run();
  CHECK(is_done);
  CHECK(cluster.traffic.total().sent == cluster.traffic.total().received);
  for (std::size_t m = 0; m < 3; ++m) CHECK(cluster.traffic.of(m).sent.value() == 4 * (1'000'000 + kHandshake));
}

TEST_CASE("a collective that is cut counts as lost what has left and not arrived") {
  const Scenario scenario = test::resolved(ring(2, "1kB", 2'000'000));
  const Site site{scenario};
  Recorder recorder;
  PlainLoop loop{site.topology};
  Cluster cluster{site, loop.clock(), loop.network(), recorder};
  const OwnedClock clock = OwnedClock{loop.clock()}.for_new_owner();
  auto communicator = std::make_unique<Communicator>(cluster, clock, std::vector<Endpoint>{{0, 0}, {1, 0}},
                                                     CollectiveEvents::kMessages);
  communicator->start(CollectiveKind::kAllReduce, 0, 0, 2_MB, {}, [] {});
  loop.clock().schedule(Seconds{5e-6}, [&] {  // the requests are under way
    OwnedClock{clock}.retire();
    communicator.reset();
  });
  loop.run();
  CHECK(cluster.traffic.total().sent.value() == 80);
  CHECK(cluster.traffic.total().received.value() == 0);
  CHECK(cluster.traffic.lost().value() == 80);
}

TEST_CASE("runs whose messages ask are the same on SimGrid's clock") {
  const test::Times times = test::times_of(ring(3, "1kB", 3'000'000));
  CHECK(times.by_default == exactly(times.exact));
  CHECK(times.exact == exactly(time_of(ring(3, "1kB", 3'000'000))));
}

TEST_CASE("a limit without a unit is refused") { CHECK_THROWS_AS((void)test::resolved(ring(2, 65536)), InputError); }

}  // namespace rehearse::collective_run_test
