#include "sim/scenario/server_range.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

bool has_warning(const Scenario& scenario, const std::string& text) {
  return std::any_of(scenario.warnings.begin(), scenario.warnings.end(),
                     [&](const std::string& warning) { return warning.find(text) != std::string::npos; });
}

/// The shipped scenario with `nic` at all machines.
Json with_nic(const std::string& nic) {
  const std::string end = R"("memory": "52GiB", "nic": ")" + nic + R"(", "source": "test"})";
  return test::shipped_scenario({{"/cluster/groups/0/instance", R"({"vcpus": 4, )" + end},
                                 {"/cluster/groups/1/instance", R"({"vcpus": 4, "accelerator": "K80", )" + end}});
}

double spread_of(const Json& json) { return test::resolved(json).profile.uncertainty.residual; }

}  // namespace

TEST_CASE("a NIC that is faster than all that the servers were fitted on widens the interval, and a warning says so") {
  const double fitted = spread_of(with_nic("8Gbps"));
  CHECK(spread_of(with_nic("16Gbps")) == fitted);
  // Another NIC is another kind of prediction, whose errors are measured; that a slower one is the limit is known.
  const double other = spread_of(with_nic("1Gbps"));
  CHECK(other > fitted);
  // 40 / 16: ln 2.5 / 1.645 = 0.557.
  CHECK(spread_of(with_nic("40Gbps")) == doctest::Approx(std::hypot(other, 0.557)).epsilon(1e-3));
  CHECK(spread_of(with_nic("100Gbps")) > spread_of(with_nic("40Gbps")));
  const Scenario scenario = test::resolved(with_nic("40Gbps"));
  CHECK(has_warning(scenario,
                    "the servers of profile \"cm-dare\" were fitted on NICs of 8 Gbit/s to 16 Gbit/s; here 40 Gbit/s"));
  const auto [low, high] = scenario.profile.uncertainty.interval(0);
  CHECK(high / low > 2.5 * 2.5);
  CHECK_FALSE(has_warning(test::resolved(with_nic("16Gbps")), "were fitted on NICs"));
}

TEST_CASE("several NICs of a machine count together") {
  Json json = with_nic("8Gbps");
  json["cluster"]["groups"][1]["instance"]["nics"] = 5;
  CHECK(has_warning(test::resolved(json), "here 40 Gbit/s"));
}

TEST_CASE("more workers, servers or bytes through a server than were fitted widen by 10 % a doubling") {
  Json json = test::shipped_scenario();
  const double fitted = spread_of(json);
  json["cluster"]["groups"][1]["count"] = 64;  // of at most 8: three doublings, 32 are two
  const double of_64 = spread_of(json);
  json["cluster"]["groups"][1]["count"] = 32;
  const double of_32 = spread_of(json);
  CHECK(of_64 * of_64 - of_32 * of_32 == doctest::Approx(0.3 * 0.3 - 0.2 * 0.2).epsilon(1e-6));
  CHECK(of_32 > fitted);
  CHECK(has_warning(test::resolved(json), "up to 8 workers; here 32; predictions may be off by 22 %"));
  json["cluster"]["groups"][1]["count"] = 4;
  json["cluster"]["groups"][0]["count"] = 4;  // of at most 2
  CHECK(spread_of(json) == doctest::Approx(std::hypot(fitted, 0.1)).epsilon(1e-6));
  json["cluster"]["groups"][0]["count"] = 1;
  json["workload"]["model"] = "vgg16";  // 0.553 GB
  json["workload"]["batch_per_worker"] = 16;
  const Scenario large = test::resolved(json);
  CHECK(server_traffic(large) == large.workload.variable_bytes() * 4);
  CHECK(has_warning(large, "that a server sends in a step of all workers; here 2.21 GB"));
}

TEST_CASE("servers' costs that are taken from another profile bring what it has seen") {
  Json json = with_nic("40Gbps");
  json["calibration"] = Json{{"format", 1}, {"name", "empty"}, {"source", "test"}};
  const Scenario scenario = test::resolved(json);
  CHECK(has_warning(scenario,
                    "the servers of profile \"cm-dare\" were fitted on NICs of 8 Gbit/s to 16 Gbit/s; here 40 Gbit/s"));
  const Scenario again = test::resolved(*scenario.effective);
  CHECK(again.profile.uncertainty.residual == scenario.profile.uncertainty.residual);
}

TEST_CASE("all-reduce has no servers to be beyond") {
  Json json = with_nic("40Gbps");
  json["cluster"]["groups"].erase(0);
  json["training"]["strategy"] = {{"kind", "all_reduce"}};
  CHECK(beyond_fitted_servers(test::resolved(json)).empty());
}

}  // namespace rehearse
