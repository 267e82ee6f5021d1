// Connections that take turns at a NIC, in whole runs.

#include <doctest/doctest.h>

#include "sim/record/resource_profile.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

/// Workers that push 8 MB to a server and pull it back, on NICs of 1 GB/s, 10 us apart.
Json turned_servers(int workers, const std::string& turn, const std::string& synchronization = "synchronous",
                    int steps = 1) {
  Json json =
      test::with_servers(test::timed_scenario(workers, {{"8000000B", "1us", "1us"}},
                                              {{"kind", "parameter_server"}, {"synchronization", synchronization}}),
                         1);
  json["cluster"]["network"]["tcp"] = {{"turn", turn}, {"segment", "1000B"}};
  json["training"]["steps"] = steps * (synchronization == "synchronous" ? 1 : workers);
  return json;
}

double end_of(const Json& json) { return test::times_of(json).by_default; }

/// Mean length of a worker's receiving bursts, in samples of 1 ms.
double burst_of(const Json& json) {
  const Scenario scenario = test::resolved(json);
  const RunRecord record = simulate(scenario, {.keeps_activity = true});
  return resource_profile(record, 1.0_ms).bursts.front().receive.active.value();
}

}  // namespace

TEST_CASE("turns change nothing where a NIC has one connection, and are the same on SimGrid's clock") {
  const double even = end_of(turned_servers(1, "0B"));
  CHECK(end_of(turned_servers(1, "128KiB")) == doctest::Approx(even).epsilon(1e-9));
  Json ring = test::timed_scenario(4, {{"8000000B", "1us", "1us"}}, {{"kind", "all_reduce"}, {"algorithm", "ring"}});
  const double of_ring = end_of(ring);
  ring["cluster"]["network"]["tcp"] = {{"turn", "128KiB"}};
  CHECK(end_of(ring) == doctest::Approx(of_ring).epsilon(1e-9));
  for (const char* synchronization : {"synchronous", "asynchronous"}) {
    const test::Times times = test::times_of(turned_servers(3, "2000000B", synchronization, 4));
    CHECK(times.by_default == test::exactly(times.exact));
  }
}

TEST_CASE("a worker that has had its turns goes on while others still wait for theirs") {
  // Three workers, 8 MB in turns of 2 MB: 24 ms of pushes; pulls end after 20, 22 and 24 ms; so the next pushes begin
  // 4 ms earlier than with even sharing, when nobody else sends yet, and end 24 ms after that.
  const double even =
      end_of(turned_servers(3, "0B", "synchronous", 2)) - end_of(turned_servers(3, "0B", "synchronous", 1));
  const double turns =
      end_of(turned_servers(3, "2000000B", "synchronous", 2)) - end_of(turned_servers(3, "2000000B", "synchronous", 1));
  CHECK(turns == doctest::Approx(even - 4e-3).epsilon(1e-3));
}

TEST_CASE("a NIC sees many short bursts of a server that has other connections") {
  CHECK(burst_of(turned_servers(4, "4000000B", "synchronous", 4)) <
        0.3 * burst_of(turned_servers(4, "0B", "synchronous", 4)));
}

}  // namespace rehearse
