// Asynchronous parameter servers: laws that hold exactly, conservation, and the direction in which each mechanism moves
// the result.

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/simulated.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

Changes operator+(Changes a, const Changes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Changes kShort{{"/training/steps", "160"}};
const Changes kP100{{"/cluster/groups/1/instance", "gce-custom-8-p100"}};
const Changes kResnet15{{"/workload/model", "cm-dare/resnet15"}};
const Changes kShakeBig{{"/workload/model", "cm-dare/shake_big"}};

Changes workers(int count) { return {{"/cluster/groups/1/count", std::to_string(count)}}; }
Changes servers(int count) { return {{"/cluster/groups/0/count", std::to_string(count)}}; }

/// One dense layer without bias on a tiny image: a single variable of 4 * 12 * 10 bytes, next to no compute.
const char* const kTinyModel = R"({"format": 1, "source": "test", "input": [2, 2, 3],
  "structure": {"family": "layers", "layers": [{"layer": "dense", "features": 10, "bias": false}]}})";

const char* const kTwoVariables = R"({"format": 1, "source": "test", "input": [2, 2, 3],
  "structure": {"family": "layers", "layers": [{"layer": "dense", "features": 10, "bias": false},
                                               {"layer": "dense", "features": 12, "bias": false}]}})";

/// A scenario in which only the server costs time: `cores` cores, 10 ms for each variable that passes.
Json server_bound(int worker_count, int cores) {
  Json json = test::shipped_scenario({{"/workload/model", kTinyModel}, {"/training/steps", "200"}});
  set_json_pointer(json, "/cluster/groups/1/count", std::to_string(worker_count));
  set_json_pointer(json, "/cluster/groups/0/instance",
                   R"({"vcpus": )" + std::to_string(cores) + R"(, "memory": "1GB", "nic": "8Gbps", "source": "test"})");
  Json profile = load_json_file(source_folder() + "/calibration/profiles/cm-dare.json");
  profile.erase("fit");
  profile["host"] = Json{{"dispatch", "0s"}, {"step_overhead", "0s"}};
  profile["servers"] = Json{{"time_per_variable", "10ms"},
                            {"time_per_byte", "0s"},
                            {"time_per_split_update", "0s"},
                            {"split_update_threshold", "1GB"}};
  json["calibration"] = profile;
  return json;
}

}  // namespace

TEST_CASE("a saturated server applies 1 / S updates per second, S its work per step") {
  // One variable is read and updated in each step: S = 2 * 10 ms on one core, half of it on two.
  CHECK(test::simulated(server_bound(8, 1))["steps_per_s"].get<double>() == doctest::Approx(50.0).epsilon(1e-9));
  CHECK(test::simulated(server_bound(8, 2))["steps_per_s"].get<double>() == doctest::Approx(100.0).epsilon(1e-9));
}

TEST_CASE("a saturated server's CPU is reported as the bottleneck") {
  const Json summary = test::simulated(server_bound(8, 1));
  CHECK(summary["bottleneck_resource"] == "server_cpu");
  CHECK(summary["bottleneck_share"].get<double>() == doctest::Approx(1.0).epsilon(0.02));
}

TEST_CASE("of a server's cores only so many serve messages as its process has threads") {
  // S = 2 * 10 ms; one thread serves 50 updates a second however many cores there are, three on two cores 100.
  const auto rate = [](int cores, int threads) {
    Json json = server_bound(8, cores);
    json["calibration"]["servers"]["threads"] = threads;
    const Json summary = test::simulated(json);
    CHECK(summary["bottleneck_share"].get<double>() == doctest::Approx(1.0).epsilon(0.02));  // of the threads
    return summary["steps_per_s"].get<double>();
  };
  CHECK(rate(16, 1) == doctest::Approx(50.0).epsilon(1e-9));
  CHECK(rate(16, 2) == doctest::Approx(100.0).epsilon(1e-9));
  CHECK(rate(2, 3) == doctest::Approx(100.0).epsilon(1e-9));
}

TEST_CASE("two server processes on a machine have their threads each") {
  Json json = server_bound(8, 16);
  json["calibration"]["servers"]["threads"] = 1;
  json["workload"]["model"] = Json::parse(kTwoVariables);
  json["training"]["strategy"]["placement"] = "round_robin";
  json["cluster"]["groups"][0]["count"] = 2;
  const double apart = test::simulated(json)["steps_per_s"].get<double>();
  json["cluster"]["groups"][0] = {
      {"name", "ps"}, {"role", "parameter_server"}, {"count", 2}, {"colocated_with", "workers"}};
  json["cluster"]["groups"][1]["count"] = 1;
  json["cluster"]["groups"][1]["instance"] = {{"vcpus", 16},          {"memory", "100GB"}, {"nic", "8Gbps"},
                                              {"accelerator", "K80"}, {"accelerators", 8}, {"source", "test"}};
  const double together = test::simulated(json)["steps_per_s"].get<double>();
  CHECK(apart == doctest::Approx(50.0).epsilon(1e-6));
  CHECK(together == doctest::Approx(50.0).epsilon(1e-6));
}

TEST_CASE("a connection carries what the framework does, whatever the NICs") {
  // 40 MB each way at 100 MB/s instead of 1 GB/s, 3 ms of compute, 4 latencies: 0.8 s + 3 ms + 40 us.
  Json json = test::with_servers(
      test::timed_scenario(1, {{"40000000B"}}, {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}), 1);
  json["training"]["steps"] = 10;
  const double fast = test::times_of(json).exact / 10;
  CHECK(fast == doctest::Approx(0.08 + 3e-3 + 4e-5).epsilon(1e-6));
  json["calibration"] = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
  json["calibration"]["servers"]["connection_rate"] = "100MBps";
  CHECK(test::times_of(json).exact / 10 == doctest::Approx(0.8 + 3e-3 + 4e-5).epsilon(1e-6));
}

namespace {

/// Asynchronous workers of one machine each; a step pulls and pushes 8 x 2 MB through servers' NICs of 1 GB/s and computes
/// for 12 ms + 6 ms x `batch`.
double speed(int worker_count, int server_count, int batch, const Json& start_interval, int seed,
             double variation = 0) {
  const test::TimedTensor tensor{"2000000B", std::to_string(500 + 250 * batch) + "us",
                                 std::to_string(1000 + 500 * batch) + "us"};
  Json json =
      test::with_servers(test::timed_scenario(worker_count, std::vector<test::TimedTensor>(8, tensor),
                                              {{"kind", "parameter_server"}, {"synchronization", "asynchronous"}}),
                         server_count);
  json["training"].erase("steps");
  json["training"].update({{"steps_per_worker", 60}, {"warmup_steps", 20}, {"step_time_variation", variation}});
  json["seed"] = seed;
  if (!start_interval.is_null()) json["training"]["start_interval"] = start_interval;
  return test::simulated(json)["steps_per_s"].get<double>();
}

}  // namespace

TEST_CASE("workers that start together stay in phase, by default they start within a step") {
  // All pull 16 MB, compute, then push at the same time: the server's NIC never carries both directions.
  const double together = speed(4, 1, 8, "0s", 1), even = speed(4, 1, 8, "even", 1), random = speed(4, 1, 8, {}, 1);
  CHECK(even > 1.1 * together);
  CHECK(random > 1.1 * together);
  CHECK(speed(4, 1, 8, {}, 1) == random);
  CHECK(speed(4, 1, 8, {}, 2) != random);
  CHECK(speed(4, 1, 8, "random", 1) == random);
}

TEST_CASE("a larger batch makes no more asynchronous steps a second, in the mean over seeds") {
  // With equal shares, /training/share_variation 0, a batch of 12 makes 18 % more steps than one of 8 with 4 workers, and
  // 12 % with 8; what is left is at most 4 %, with 8.
  for (const auto& [workers, servers] : {std::pair{2, 1}, {4, 1}, {8, 2}}) {
    double before = 1e9;
    for (const int batch : {1, 2, 4, 8, 12, 16}) {
      double mean = 0;
      for (int seed = 1; seed <= 10; ++seed) mean += speed(workers, servers, batch, {}, seed) / 10;
      CHECK_MESSAGE(mean <= 1.05 * before, workers << " workers, " << servers << " servers, batch " << batch);
      before = std::min(before, mean);
    }
  }
}

TEST_CASE("workers that wait for one another have no dates within a step") {
  Json json = test::shipped_scenario({{"/training/strategy/synchronization", "synchronous"}});
  CHECK(test::resolved(json).training.starts == Starts::kInInterval);
  json["training"]["start_interval"] = "random";
  CHECK(test::problem_of(json) ==
        "/training/start_interval: expected a time: workers that wait for one another in each step begin together");
}

TEST_CASE("in lock-step among w workers the staleness of each update is w - 1") {
  const Json summary = test::simulated(server_bound(5, 1));
  CHECK(summary["staleness_mean"].get<double>() == 4.0);
  CHECK(test::simulated(server_bound(1, 1))["staleness_max"] == 0);
}

TEST_CASE("bytes sent = bytes received = steps times what a step pulls and pushes") {
  const Json summary = test::simulated(test::shipped_scenario(kShort));
  // ResNet-32: 7430888 B of parameters each way; moving averages, pushed only, are as many scalars as gamma and beta
  // together.
  const Workload workload = test::resolved(test::shipped_scenario()).workload;
  const std::int64_t per_step = workload.parameter_bytes().value() + workload.variable_bytes().value();
  CHECK(summary["sent_B"].get<std::int64_t>() == 160 * per_step);
  CHECK(summary["received_B"] == summary["sent_B"]);
}

TEST_CASE("a step contains two round trips: each millisecond of one-way latency lengthens it by four") {
  const auto step_time = [](const std::string& latency) {
    const std::string links =
        R"([{"from": "us-west1", "to": "us-west1", "latency": ")" + latency + R"(", "source": "test"}])";
    return 1 / test::steps_per_s(kShort + workers(1) + Changes{{"/cluster/network/links", links}},
                                 [](Scenario& scenario) { scenario.profile.network.connection_window.reset(); });
  };
  const double near = step_time("1ms");
  CHECK(step_time("2ms") - near == doctest::Approx(0.004).epsilon(1e-9));
  CHECK(step_time("101ms") - near == doctest::Approx(0.4).epsilon(1e-9));
}

TEST_CASE("the same scenario and seed give the same bytes; recording changes nothing") {
  const Json json = test::shipped_scenario(kShort + Changes{{"/training/step_time_variation", "0.1"}});
  const Json once = test::simulated(json);
  CHECK(once == test::simulated(json));
  CHECK(once == test::simulated(json, {}, true));
  Json other_seed = json;
  other_seed["seed"] = 2;
  CHECK(once["fingerprint"] != test::simulated(other_seed)["fingerprint"]);
}

TEST_CASE("the effective scenario, which names no catalog entry, repeats the run") {
  const Json json = test::shipped_scenario(kShort);
  const Json effective = *test::resolved(json).effective;
  CHECK(effective["workload"]["model"].is_object());
  CHECK(test::simulated(effective)["fingerprint"] == test::simulated(json)["fingerprint"]);
}

TEST_CASE("K80 clusters grow almost linearly, P100 clusters saturate") {
  const double k80 =
      test::steps_per_s(kShort + kResnet15 + workers(8)) / test::steps_per_s(kShort + kResnet15 + workers(1));
  CHECK(k80 > 7);
  const double p100 = test::steps_per_s(kShort + kP100 + kResnet15 + workers(8)) /
                      test::steps_per_s(kShort + kP100 + kResnet15 + workers(1));
  CHECK(p100 < 6);
}

TEST_CASE("doubling the server's threads lifts the P100 plateau and not the K80 line, more cores alone nothing") {
  const auto more_cores = [](Scenario& scenario) { scenario.groups[0].instance.vcpus *= 2; };
  const auto doubled = [](Scenario& scenario) { *scenario.profile.servers.threads *= 2; };
  const Changes p100 = kShort + kP100 + kResnet15 + workers(8), k80 = kShort + kResnet15 + workers(4);
  CHECK(test::steps_per_s(p100, doubled) > 1.2 * test::steps_per_s(p100));
  CHECK(test::steps_per_s(p100, more_cores) == test::steps_per_s(p100));
  CHECK(test::steps_per_s(k80, doubled) < 1.03 * test::steps_per_s(k80));
}

TEST_CASE(
    "a server's NIC of twice the rate lifts the P100 plateau of a large model only where its process can use it") {
  const auto doubled_nic = [](Scenario& scenario) {
    scenario.groups[0].instance.nic = scenario.groups[0].instance.nic * 2.0;
  };
  const Changes p100 = kShort + kP100 + kShakeBig + workers(8), k80 = kShort + kResnet15 + workers(4);
  const auto many_threads = [](Scenario& scenario) { scenario.profile.servers.threads = 4; };
  const auto both = [&](Scenario& scenario) {
    doubled_nic(scenario);
    many_threads(scenario);
  };
  CHECK(test::steps_per_s(p100, doubled_nic) < 1.05 * test::steps_per_s(p100));
  CHECK(test::steps_per_s(p100, both) > 1.1 * test::steps_per_s(p100, many_threads));
  CHECK(test::steps_per_s(k80, doubled_nic) < 1.03 * test::steps_per_s(k80));
}

TEST_CASE("a larger batch moves saturation to more workers") {
  const auto efficiency = [](const char* batch) {
    const Changes base = kShort + kP100 + kResnet15 + Changes{{"/workload/batch_per_worker", batch}};
    return test::steps_per_s(base + workers(8)) / (8 * test::steps_per_s(base + workers(1)));
  };
  CHECK(efficiency("256") > 1.2 * efficiency("128"));
}

TEST_CASE("placement decides what a second server brings") {
  const Changes base = kShort + kP100 + workers(8);
  const auto gain = [&](const char* model) {
    const Changes changes = base + Changes{{"/workload/model", model}};
    return test::steps_per_s(changes + servers(2)) / test::steps_per_s(changes);
  };
  // Round robin alternates the kernels of a ResNet, and puts all kernels of a Shake-Shake network on one server.
  CHECK(gain("cm-dare/resnet15") > gain("cm-dare/shake_small") + 0.15);
}

TEST_CASE("permuting the tensor list changes two-server results") {
  const Changes changes =
      kShort + kP100 + workers(8) + servers(2) + Changes{{"/workload/model", "cm-dare/shake_small"}};
  const auto swapped_pairs = [](Scenario& scenario) {  // exchanges kernel and bias of every second convolution
    std::vector<int> moved(scenario.workload.variables.size());
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = static_cast<int>(i);
    for (std::size_t i = 0; i + 12 <= moved.size(); i += 12) std::swap(moved[i], moved[i + 1]);
    std::vector<Variable> variables = scenario.workload.variables;
    for (std::size_t i = 0; i < moved.size(); ++i)
      scenario.workload.variables[static_cast<std::size_t>(moved[i])] = variables[i];
    for (std::size_t v = 0; v < scenario.workload.graph.size(); ++v)
      for (auto* list :
           {&scenario.workload.graph.stored(v).reads_variables, &scenario.workload.graph.stored(v).produces_gradients})
        for (int& variable : *list) variable = moved[static_cast<std::size_t>(variable)];
  };
  CHECK(test::steps_per_s(changes, swapped_pairs) > 1.1 * test::steps_per_s(changes));
}

TEST_CASE(
    "a heterogeneous cluster in two regions: speeds add up, and the distant worker is slower than the same GPU "
    "nearby") {
  const Json json = load_json_file(source_folder() + "/scenarios/cm-dare-heterogeneous.json");
  const Json summary = test::simulated(json);
  REQUIRE_FALSE(summary.contains("error"));
  double sum = 0, distant = 0;
  for (const Json& machine : summary["machines"]) {
    if (machine["role"] != "worker") continue;
    sum += machine["steps_per_s"].get<double>();
    if (machine["accelerator"] == "V100") distant = machine["steps_per_s"].get<double>();
  }
  CHECK(summary["steps_per_s"].get<double>() == doctest::Approx(sum).epsilon(1e-12));
  Json nearby = json;
  for (Json& group : nearby["cluster"]["groups"]) group["region"] = "us-west1";
  const Json nearby_summary = test::simulated(nearby);
  for (const Json& machine : nearby_summary["machines"])
    if (machine["role"] == "worker" && machine["accelerator"] == "V100")
      CHECK(machine["steps_per_s"].get<double>() > 1.3 * distant);
}

TEST_CASE("checkpoints pause the chief alone, for fixed time + bytes / rate") {
  const std::string checkpoint = R"({"every_steps": 40, "fixed_time": "2s", "rate": "10MBps"})";
  const Json pauses = test::in_child([&] {
    const Scenario scenario =
        test::resolved(test::shipped_scenario(kShort + Changes{{"/training/checkpoint", checkpoint}}));
    const RunRecord record = simulate(scenario);
    Json result = Json::array();
    for (const EventSpan& event : record.recorder.events)
      if (event.kind == "checkpoint")
        result.push_back(Json{record.machines[static_cast<std::size_t>(event.machine)].name,
                              (event.span.end - event.span.start).value()});
    return result;
  });
  // 4 x (1857722 trainable x 2 with momentum + 2 x 5664 / 2 moving averages) bytes, computed from the variables.
  const Scenario scenario = test::resolved(test::shipped_scenario());
  const double seconds = 2 + as_double(checkpoint_bytes(scenario)) / 10e6;
  REQUIRE(pauses.size() >= 3);
  for (const Json& pause : pauses) {
    CHECK(pause[0] == "workers-0");
    CHECK(pause[1].get<double>() == doctest::Approx(seconds).epsilon(1e-9));
  }
}

TEST_CASE("workers start one after another") {
  const Json starts = test::in_child([] {
    const RunRecord record =
        simulate(test::resolved(test::shipped_scenario(kShort + Changes{{"/training/start_interval", "3s"}})));
    Json dates = Json::array();
    for (const EventSpan& event : record.recorder.events) dates.push_back(event.span.start.value());
    return dates;
  });
  CHECK(starts == Json{0.0, 3.0, 6.0, 9.0});
}

TEST_CASE("more servers than variables, one step, one worker: the corners work") {
  Json json = server_bound(1, 1);
  json["cluster"]["groups"][0]["count"] = 3;
  json["training"]["steps"] = 1;
  const Json summary = test::simulated(json);
  CHECK(summary["steps"] == 1);
  CHECK(summary["steps_per_s"].get<double>() > 0);
}

}  // namespace rehearse
