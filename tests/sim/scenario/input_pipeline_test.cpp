#include "sim/scenario/input_pipeline.hpp"

#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::exactly;
using test::timed_scenario;

/// Machines of 4 vCPUs whose workers compute for 3 ms in a step.
Json loading(const Json& input, int machines = 1, int gpus = 1) {
  Json scenario = timed_scenario(machines, {{"1B"}}, {{"kind", "all_reduce"}}, gpus);
  scenario["workload"]["input"] = input;
  scenario["training"]["steps"] = 10;
  return scenario;
}

/// Of a sample, in ms, in the first group.
double load_ms(const Json& scenario) {
  const Scenario read = test::resolved(scenario);
  return load_time_of_sample(read, read.groups.front()).value() * 1e3;
}

double step_ms(const Json& scenario) {
  Json timed = scenario;
  timed["training"]["warmup_steps"] = 2;
  return test::simulated(timed)["iteration_time_s"].get<double>() * 1e3;
}

double share(const Json& summary, const std::string& part) {
  for (const Json& one : summary["step_parts"])
    if (one["part"] == part) return one["share"].get<double>();
  return 0;
}

}  // namespace

TEST_CASE("a sample takes what is slowest of its loaders, the vCPUs, the machine's storage and that of all") {
  CHECK(load_ms(loading({{"decode_time", "12ms"}})) == exactly(3));  // 4 vCPUs, as many loaders
  CHECK(load_ms(loading({{"decode_time", "12ms"}, {"loaders", 2}})) == exactly(6));
  CHECK(load_ms(loading({{"decode_time", "12ms"}, {"loaders", 16}})) == exactly(3));  // no more vCPUs for that
  CHECK(load_ms(loading({{"decode_time", "12ms"}}, 1, 2)) == exactly(6));             // two workers share them
  CHECK(load_ms(loading({{"decode_time", "12ms"}, {"prefetch", false}})) == exactly(12));
  const Json stored{{"sample_size", "100kB"}, {"read_rate", "100MBps"}};
  CHECK(load_ms(loading(stored)) == exactly(1));
  CHECK(load_ms(loading(stored, 3, 2)) == exactly(2));
  Json both = stored;
  both.update({{"decode_time", "12ms"}, {"loaders", 2}});
  CHECK(load_ms(loading(both)) == exactly(6.5));  // a loader reads, then decodes
  Json shared = stored;
  shared["shared_read_rate"] = "200MBps";
  CHECK(load_ms(loading(shared, 3, 2)) == exactly(3));
  CHECK(load_ms(loading({{"sample_size", "100kB"}, {"shared_read_rate", "50MBps"}}, 4)) == exactly(8));
}

TEST_CASE(
    "a step lasts as long as its kernels or the next batch, whichever is longer, or as both if nothing is loaded "
    "ahead") {
  CHECK(step_ms(loading({{"decode_time", "4ms"}})) == exactly(3));
  CHECK(step_ms(loading({{"decode_time", "20ms"}})) == exactly(5));
  CHECK(step_ms(loading({{"decode_time", "20ms"}, {"loaders", 1}})) == exactly(20));
  CHECK(step_ms(loading({{"decode_time", "20ms"}, {"prefetch", false}})) == exactly(23));
  Json accumulating = loading({{"decode_time", "20ms"}});
  accumulating["training"]["strategy"]["accumulation_steps"] = 3;
  CHECK(step_ms(accumulating) == exactly(15));
}

TEST_CASE("the first step finds its samples, unless nothing is loaded ahead") {
  const auto first = [](const Json& input) {
    Json scenario = loading(input);
    scenario["training"]["steps"] = 1;
    return test::simulated(scenario)["time_s"].get<double>() * 1e3;
  };
  CHECK(first({{"decode_time", "20ms"}}) == exactly(3));
  CHECK(first({{"decode_time", "20ms"}, {"prefetch", false}}) == exactly(23));
}

TEST_CASE("a step's parts say how long it waits for its samples") {
  const Json bound = test::simulated(loading({{"decode_time", "20ms"}, {"loaders", 1}}));
  CHECK(bound["bottleneck_resource"] == "input_load");
  Json timed = loading({{"decode_time", "20ms"}, {"loaders", 1}});
  timed["training"]["warmup_steps"] = 2;
  CHECK(share(test::simulated(timed), "input_load") == doctest::Approx(0.85));
  CHECK(share(test::simulated(loading({{"decode_time", "4ms"}})), "input_load") == 0);
}

TEST_CASE("whoever trains with slow loaders waits for them, and others of a synchronous step wait for it") {
  const Json strategies = Json::parse(R"([
      {"kind": "all_reduce"}, {"kind": "all_reduce", "overlap": "forward"}, {"kind": "all_reduce", "sharding": "parameters"},
      {"kind": "pairwise_averaging"}, {"kind": "parameter_server", "synchronization": "asynchronous"},
      {"kind": "parameter_server", "synchronization": "synchronous"},
      {"kind": "parameter_server", "synchronization": "synchronous", "pushes_back_each_variable": true},
      {"kind": "parameter_server", "synchronization": "stale_synchronous", "staleness_bound": 2}])");
  for (const Json& strategy : strategies) {
    CAPTURE(strategy.dump());
    const bool has_servers = strategy["kind"] == "parameter_server";
    const auto scenario = [&](const char* decode_time) {
      Json json = timed_scenario(2, {{"1000B"}, {"1000B"}}, strategy);
      if (has_servers) json = test::with_servers(json, 1);
      json["workload"]["input"] = {{"decode_time", decode_time}, {"loaders", 1}};
      json["training"].update({{"steps", 40}, {"warmup_steps", 10}});
      return json;
    };
    const double fast = step_ms(scenario("1ms")), slow = step_ms(scenario("50ms"));
    CHECK(fast < 10);
    CHECK(slow == doctest::Approx(50).epsilon(0.002));
    Json uneven = scenario("50ms");
    uneven["cluster"]["groups"].push_back(uneven["cluster"]["groups"][0]);
    uneven["cluster"]["groups"].back()["name"] = "quick";
    uneven["cluster"]["groups"].back()["batch_per_worker"] = 1;
    uneven["cluster"]["groups"].back()["instance"]["vcpus"] = 4;
    uneven["workload"]["input"] = {{"decode_time", "50ms"}};
    uneven["cluster"]["groups"][0]["instance"]["vcpus"] = 1;
    const Json summary = test::simulated(uneven);
    REQUIRE_FALSE(summary.contains("error"));
    const bool waits_for_all =
        strategy["kind"] == "all_reduce" || strategy.value("synchronization", "") == "synchronous";
    if (waits_for_all) CHECK(share(summary, "slowest_worker") > 0.3);
    CHECK(share(summary, "input_load") > 0.3);
  }
}

TEST_CASE("an input pipeline is stated whole") {
  const auto problem = [](const Json& input) { return test::problem_of(loading(input)); };
  CHECK(problem({{"decode_time", "1ms"}}).empty());
  CHECK(problem(Json::object()) ==
        "/workload/input/decode_time: expected a time above 0s, or \"sample_size\" and a rate at which samples are "
        "read; found no such key");
  CHECK(problem({{"sample_size", "100kB"}}) ==
        "/workload/input/sample_size: expected \"read_rate\", \"shared_read_rate\" or both beside it");
  CHECK(problem({{"decode_time", "1ms"}, {"read_rate", "1GBps"}}) ==
        "/workload/input/read_rate: expected \"sample_size\" beside it; found \"1GBps\"");
  CHECK(problem({{"decode_time", "1ms"}, {"loaders", 0}}) == "/workload/input/loaders: expected 1 to 4096; found 0");
  CHECK(problem({{"decode_time", "1ms"}, {"num_workers", 4}}).starts_with("/workload/input: "));
}

}  // namespace rehearse
