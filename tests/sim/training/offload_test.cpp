// States that hosts keep: what goes down and comes back, by closed forms; what GPUs keep; runs with all reductions against exact ones.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "sim/base/errors.hpp"
#include "sim/scenario/gpu_memory.hpp"
#include "sim/scenario/idle_keys.hpp"
#include "sim/training/compile.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

constexpr double kParameters = 1e6;              // of a layer
constexpr double kCopy = kParameters * 4 / 1e9;  // s, of its gradients or values over PCIe

/// Layers that take 1 ms forward and 2 ms backward, in fp32 with Adam, on GPUs behind 1 GB/s each.
Json offloaded(int layers, int machines, int gpus, const Json& offload, Json strategy = Json::object()) {
  strategy["kind"] = "all_reduce";
  if (!offload.is_null()) strategy["offload"] = offload;
  Json json = test::timed_scenario(machines, std::vector<test::TimedTensor>(static_cast<std::size_t>(layers), {"4MB"}),
                                   strategy, gpus);
  json["workload"]["optimizer"] = "adam";
  json["cluster"]["groups"][0]["instance"]["accelerator"]["host_link"] = "1GBps";
  return json;
}

/// s that the host takes to update a layer, at so many bytes a second.
double update_of(double rate) { return kParameters * 28 / rate; }

Json whole(const char* rate) { return {{"optimizer", 1}, {"host_memory_bandwidth", rate}}; }

int count(const std::string& text, const std::string& words) {
  int found = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++found;
  return found;
}

GpuMemory memory_of(const Json& json) {
  const Scenario scenario = test::resolved(json);
  return gpu_memory(scenario, scenario.groups.front());
}

}  // namespace

TEST_CASE("gradients go down, the host updates unit by unit, and values come back meanwhile") {
  for (const auto& [rate, bytes] : {std::pair{"28GBps", 28e9}, {"2GBps", 2e9}}) {  // an update of 1 ms, and of 14 ms
    const double update = update_of(bytes);
    test::check_time(offloaded(1, 1, 1, whole(rate), {{"overlap", "none"}}), 3e-3 + kCopy + update + kCopy);
    test::check_time(offloaded(2, 1, 1, whole(rate), {{"overlap", "none"}}),
                     6e-3 + 2 * kCopy + update + std::max(update, kCopy) + kCopy);
  }
  // The second layer's gradients go down while the first one's are computed.
  test::check_time(offloaded(2, 1, 1, whole("28GBps")), 4e-3 + 2 * kCopy + 1e-3 + kCopy + kCopy);
}

TEST_CASE("the GPUs of a machine share its memory, and a share of the states is copied and updated") {
  const auto time = [](int gpus, double share, const char* sharding) {
    const test::Times times = test::times_of(
        offloaded(1, 1, gpus, {{"optimizer", share}, {"host_memory_bandwidth", "2GBps"}}, {{"sharding", sharding}}));
    CHECK(times.by_default == test::exactly(times.exact));
    return times.exact;
  };
  const double one = time(1, 1, "none");
  CHECK(one == test::exactly(3e-3 + 2 * kCopy + update_of(2e9)));
  CHECK(time(1, 0.5, "none") == test::exactly(3e-3 + kCopy + update_of(2e9) / 2));
  // Two GPUs update half each, at half the rate.
  CHECK(time(2, 1, "optimizer") > 3e-3 + kCopy + update_of(2e9));
  // By default 1.5 GB/s for each of four vCPUs.
  CHECK(test::times_of(offloaded(1, 1, 1, {{"optimizer", 1}})).exact ==
        test::exactly(3e-3 + 2 * kCopy + update_of(6e9)));
}

TEST_CASE("gradients that are added up in every pass come back for the next sum, unless they are kept whole") {
  const auto copies = [](const Json& more) {
    Json strategy{{"sharding", "gradients"}, {"accumulation_steps", 3}};
    strategy.update(more);
    const std::string text = program_text(test::resolved(offloaded(1, 2, 1, whole("28GBps"), strategy)));
    return std::to_string(count(text, " from GPU")) + " and " + std::to_string(count(text, " to GPU"));
  };
  CHECK(copies(Json::object()) == "3 and 4");  // the samples, two sums, values
  CHECK(copies({{"no_sync", true}}) == "1 and 2");
}

TEST_CASE("GPUs keep weights, and gradients unless they are sharded; hosts the rest") {
  const auto memory = [](const char* sharding, double share) {
    return memory_of(offloaded(1, 2, 2, {{"optimizer", share}}, {{"sharding", sharding}}));
  };
  constexpr auto p = static_cast<std::int64_t>(kParameters);
  const GpuMemory first = memory("optimizer", 1), second = memory("gradients", 1), half = memory("gradients", 0.5),
                  third = memory("parameters", 1);
  CHECK(first.optimizer == Bytes{});
  CHECK(first.gradients == Bytes{4 * p});
  CHECK(first.on_host == Bytes{8 * p / 4});
  CHECK(second.gradients == Bytes{});
  CHECK(second.weights == Bytes{4 * p});
  CHECK(second.on_host == Bytes{12 * p / 4});
  CHECK(half.on_host == Bytes{6 * p / 4});
  CHECK(half.optimizer + half.gradients == Bytes{6 * p / 4});
  CHECK(third.weights == Bytes{p});
  CHECK(third.on_host == Bytes{12 * p / 4});
  Scenario scenario = test::resolved(offloaded(1, 2, 2, {{"optimizer", 1}}, {{"sharding", "parameters"}}));
  scenario.groups.front().instance.memory = Bytes{12 * p / 2};
  CHECK(exceeded_host_memory(scenario).empty());
  scenario.groups.front().instance.memory = Bytes{12 * p / 2 - 1};
  REQUIRE(exceeded_host_memory(scenario).size() == 1);
  CHECK(exceeded_host_memory(scenario).front().find("holds states that its GPUs do not keep, 0.01 GiB") !=
        std::string::npos);
}

TEST_CASE("states on hosts in pipelines, with split layers and groups: by default as exact, and no step is shorter") {
  for (const Json& strategy :
       {Json{{"sharding", "optimizer"}}, Json{{"sharding", "gradients"}, {"accumulation_steps", 2}},
        Json{{"sharding", "parameters"}, {"clip_norm", true}},
        Json{{"sharding", "optimizer"}, {"tensor", {{"degree", 2}}}},
        Json{{"sharding", "parameters"}, {"shard_group", 2}},
        Json{{"sharding", "gradients"}, {"pipeline", {{"stages", 2}, {"microbatches", 4}}}}}) {
    CAPTURE(strategy.dump());
    Json json = test::small_training(4, 2, strategy);
    json["workload"]["optimizer"] = "adam";
    json["cluster"]["groups"][0]["instance"]["accelerator"]["host_link"] = "1GBps";
    const double without = test::times_of(json).exact;
    json["training"]["strategy"]["offload"] = {{"optimizer", 1}};
    const test::Times with = test::times_of(json);
    CHECK(with.by_default == doctest::Approx(with.exact).epsilon(1e-6));
    CHECK(with.exact > without);
  }
}

TEST_CASE("activations of all layers but the last wait on the host: copies of each pass, and as long as they take") {
  const auto training = [](double share, const char* pcie, int passes) {
    Json json = test::small_training(1, 1, {{"accumulation_steps", passes}});
    json["workload"]["copies_input"] = false;
    json["cluster"]["groups"][0]["instance"]["accelerator"]["host_link"] = pcie;
    if (share > 0) json["training"]["strategy"]["offload"] = {{"activations", share}};
    return json;
  };
  const std::string text = program_text(test::resolved(training(1, "1GBps", 2)));
  CHECK(count(text, "from GPU") == 2 * 3);
  CHECK(count(text, "to GPU") == 2 * 3 + 1);  // the samples
  CHECK(count(program_text(test::resolved(training(0.3, "1GBps", 1))), "from GPU") == 2);
  const GpuMemory all = memory_of(training(0, "1GBps", 1)), with = memory_of(training(1, "1GBps", 1)),
                  half = memory_of(training(0.5, "1GBps", 1));
  const double of_layer = as_double(with.on_host) / 3;
  CHECK(as_double(half.on_host) == 2 * of_layer);
  // As the loss begins, which is the fullest moment, the GPU has what is not offloaded.
  CHECK(as_double(all.total() - with.total()) == doctest::Approx(3 * of_layer));
  CHECK(as_double(all.total() - half.total()) == doctest::Approx(2 * of_layer));
  const auto time = [&](double share, const char* pcie, int passes = 1) {
    const test::Times times = test::times_of(training(share, pcie, passes));
    CHECK(times.by_default == test::exactly(times.exact));
    return times.exact;
  };
  // Layers that take less than their copies: these follow one another, there and back.
  for (const int passes : {1, 3})
    CHECK(time(1, "1MBps", passes) - time(1, "2MBps", passes) ==
          doctest::Approx(passes * 6 * of_layer * (1 / 1e6 - 1 / 2e6)).epsilon(1e-6));
  CHECK(time(1, "1000000TBps") == doctest::Approx(time(0, "1000000TBps")).epsilon(1e-9));
  CHECK(time(1, "1GBps") >= time(0.5, "1GBps"));
  Json slow = training(1, "1MBps", 1);
  slow["training"]["steps"] = 20;
  const Json summary = test::summary_with_result(slow);
  CHECK(summary["step_parts"][0]["part"] == "pcie");
  CHECK(summary["step_parts"][0]["share"].get<double>() > 0.9);
}

TEST_CASE("activations on hosts with split layers, shared states and what is computed again: by default as exact") {
  for (const auto& [strategy, again] :
       {std::pair{Json{{"sharding", "parameters"}, {"accumulation_steps", 2}}, "none"},
        {Json{{"tensor", {{"degree", 2}, {"sequence_parallel", true}}}, {"sharding", "optimizer"}}, "none"},
        {Json{{"context", {{"degree", 2}}}}, "full"}}) {
    CAPTURE(strategy.dump());
    Json json = test::small_training(2, 2, strategy);
    json["workload"]["recompute"] = again;
    json["cluster"]["groups"][0]["instance"]["accelerator"]["host_link"] = "100MBps";
    const double without = test::times_of(json).exact;
    const GpuMemory all = memory_of(json);
    json["training"]["strategy"]["offload"] = {{"activations", 1}};
    const test::Times with = test::times_of(json);
    CHECK(with.by_default == doctest::Approx(with.exact).epsilon(1e-6));
    CHECK(with.exact >= without);
    CHECK(memory_of(json).activations < all.activations);
    CHECK(memory_of(json).on_host > Bytes{});
  }
}

TEST_CASE("machines of which GPUs share the way to the host, and to others: by default as exact") {
  for (const Json& interconnect : {Json{{"pcie", "1GBps"}, {"pcie_root", "1.5GBps"}},
                                   {{"pcie", "1GBps"}, {"pcie_root", "1.5GBps"}, {"nvswitch", "5GBps"}},
                                   {{"pcie", "1GBps"}, {"pcie_root", "1.5GBps"}, {"reaches_nics_directly", true}},
                                   {{"pcie", "1GBps"}}})
    for (const int machines : {1, 3})
      for (const auto& [sharding, offload] : {std::pair{"none", Json{{"activations", 1}}},
                                              {"gradients", {{"optimizer", 0.5}}},
                                              {"parameters", {{"optimizer", 1}, {"activations", 0.5}}},
                                              {"optimizer", Json{}}}) {
        CAPTURE(interconnect.dump());
        CAPTURE(machines);
        CAPTURE(offload.dump());
        Json json = test::small_training(machines, 2, {{"sharding", sharding}});
        if (!offload.is_null()) json["training"]["strategy"]["offload"] = offload;
        json["workload"]["optimizer"] = "adam";
        json["cluster"]["groups"][0]["instance"]["interconnect"] = interconnect;
        json["cluster"]["groups"][0]["instance"]["nic"] = "10Gbps";
        const test::Times times = test::times_of(json);
        CHECK(times.by_default == doctest::Approx(times.exact).epsilon(1e-6));
      }
}

TEST_CASE("a share above 0 and at most 1, of what is known") {
  for (const auto& [offload, said] :
       {std::pair{Json{{"optimizer", 0}}, "offload/optimizer: expected above 0, and at most 1; found 0"},
        {Json{{"optimizer", 1.5}}, "offload/optimizer: expected above 0, and at most 1; found 1.5"},
        {Json::object(), "offload: expected the key \"optimizer\" or \"activations\"; found none"},
        {Json{{"optimizer", 1}, {"host_memory_bandwidth", "0GBps"}}, "host_memory_bandwidth: expected more than 0"},
        {Json{{"activations", 1}, {"host_memory_bandwidth", "9GBps"}},
         "host_memory_bandwidth: expected \"optimizer\" beside it: it is the rate of updates"},
        {Json{{"optimizer", 1}, {"nvme", true}}, "offload: unknown key \"nvme\""}}) {
    CAPTURE(offload.dump());
    CHECK(test::problem_of(offloaded(1, 1, 1, offload)).find(said) != std::string::npos);
  }
}

TEST_CASE("a step's time says what hosts take, and a model that is too large what they could keep") {
  Json json = offloaded(1, 1, 1, whole("2GBps"));
  json["training"]["steps"] = 20;
  const Json summary = test::summary_with_result(json);
  const auto part =
      std::ranges::find_if(summary["step_parts"], [](const Json& its) { return its["part"] == "host_update"; });
  REQUIRE(part != summary["step_parts"].end());
  CHECK((*part)["time_s"].get<double>() == test::exactly(update_of(2e9)));
  Json large = offloaded(1, 1, 1, nullptr);
  large["cluster"]["groups"][0]["instance"]["accelerator"]["memory"] = "14MB";
  std::string problem;
  try {
    (void)test::resolved(large);
  } catch (const NoResultError& error) { problem = error.what(); }
  CHECK(problem.find("would fit: \"offload\": { \"optimizer\": 1 } in the strategy; ") != std::string::npos);
  large["training"]["strategy"]["offload"] = {{"optimizer", 1}};
  (void)test::resolved(large);  // as it says
}

}  // namespace rehearse
