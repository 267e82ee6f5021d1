// Data-parallel workers that keep parts of the optimizer's slots, gradients and variables, against closed forms.

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sim/scenario/work.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::check_time;
using test::exactly;
using test::kAlpha;
using test::kBeta;
using test::timed_scenario;
using test::TimedTensor;

/// Of one gathering, or one reduction, of `bytes` among p workers.
double half_ring(int p, double bytes) { return (p - 1) * (kAlpha + bytes / (p * kBeta)); }

Json sharded(int machines, const std::vector<TimedTensor>& tensors, const std::string& what, int prefetched = -1) {
  Json strategy{{"kind", "all_reduce"}, {"sharding", what}};
  if (prefetched >= 0) strategy["prefetched_units"] = prefetched;
  return timed_scenario(machines, tensors, strategy);
}

double sent_by_each(const Json& scenario, int machines) {
  const Json summary = test::simulated(scenario);
  REQUIRE_FALSE(summary.contains("error"));
  return summary["sent_B"].get<double>() / machines;
}

const std::vector<TimedTensor> kThree{
    {"24000000B", "1ms", "100ms"}, {"48000000B", "100ms", "100ms"}, {"12000000B", "100ms", "100ms"}};
constexpr double kS = 84e6, kLastUnit = 12e6;

}  // namespace

TEST_CASE("one tensor: computed, reduced to parts and gathered, whatever is sharded") {
  for (const int p : {1, 2, 3, 8})
    for (const char* what : {"optimizer", "gradients", "parameters"}) {
      CAPTURE(p);
      CAPTURE(what);
      check_time(sharded(p, {{"24000000B"}}, what), 3e-3 + 2 * half_ring(p, 24e6));
    }
}

TEST_CASE("NCCL's aggregated trees gather with the logarithm of the latencies, and as many bytes") {
  for (const int p : {2, 3, 5, 8, 12})
    for (const char* what : {"optimizer", "gradients", "parameters"}) {
      CAPTURE(p);
      CAPTURE(what);
      Json scenario = sharded(p, {{"24000000B"}}, what);
      const double sent = sent_by_each(scenario, p);
      scenario["training"]["strategy"]["gather_algorithm"] = "pat";
      const double rounds = std::ceil(std::log2(p));
      check_time(scenario, 3e-3 + 2 * (rounds * kAlpha + (p - 1) * 24e6 / (p * kBeta)));
      CHECK(sent_by_each(scenario, p) == exactly(sent));
    }
  // Between machines whose GPUs hold layers together, folded or not.
  for (const char* what : {"optimizer", "parameters"})
    for (const Json& network : {Json{{"topology", "star"}}, Json{{"topology", "rail"}},
                                Json{{"topology", "fat_tree"}, {"machines_per_leaf", 2}, {"oversubscription", 2}}}) {
      CAPTURE(network.dump());
      Json json =
          test::small_training(8, 2, {{"tensor", {{"degree", 2}}}, {"sharding", what}, {"gather_algorithm", "pat"}});
      json["cluster"]["network"].update(network);
      const test::Times times = test::times_of(json);
      CHECK(times.by_default == doctest::Approx(times.exact).epsilon(1e-6));
      json["training"]["strategy"].erase("gather_algorithm");
      CHECK(times.exact < test::times_of(json).exact);
    }
}

TEST_CASE("a step sends (n - 1) / n S twice; with sharded variables three times but for the last unit") {
  for (const int p : {2, 4, 8}) {
    const double once = (p - 1) * kS / p, last = (p - 1) * kLastUnit / p;
    CHECK(sent_by_each(sharded(p, kThree, "optimizer"), p) == exactly(2 * once));
    CHECK(sent_by_each(sharded(p, kThree, "gradients"), p) == exactly(2 * once));
    CHECK(sent_by_each(sharded(p, kThree, "parameters"), p) == exactly(3 * once - last));
  }
}

TEST_CASE(
    "what is gathered after the update goes in buckets of its own, in the order in which gradients become ready") {
  // All are reduced at once, from 9 ms on.
  constexpr int p = 4;
  const std::vector<TimedTensor> tensors{{"24000000B"}, {"12000000B"}, {"24000000B"}};
  for (const char* what : {"optimizer", "gradients"}) {
    CAPTURE(what);
    Json scenario = sharded(p, tensors, what);
    Json& strategy = scenario["training"]["strategy"];
    strategy["bucket_size"] = "1GB";
    const double reduced = 9e-3 + half_ring(p, 60e6);
    check_time(scenario, reduced + half_ring(p, 60e6));
    strategy["gather_bucket_size"] = "30MB";
    check_time(scenario, reduced + half_ring(p, 36e6) + half_ring(p, 24e6));
    CHECK(sent_by_each(scenario, p) == exactly(2 * (p - 1) * 60e6 / p));
    strategy["gather_bucket_size"] = "0B";
    check_time(scenario, reduced + 2 * half_ring(p, 24e6) + half_ring(p, 12e6));
    CHECK(sent_by_each(scenario, p) == exactly(2 * (p - 1) * 60e6 / p));
    strategy["gather_bucket_size"] = "1000B";
    CHECK(test::error_of([&] {
            (void)test::resolved(scenario);
          }).find("gather_bucket_size: expected 0B or at least 1KiB") != std::string::npos);
  }
}

TEST_CASE("a sharded optimizer may add up all gradients at all workers, which then gather what each has updated") {
  for (const int p : {2, 4, 8}) {
    Json scenario = sharded(p, {{"24000000B"}}, "optimizer");
    scenario["training"]["strategy"]["reduce_scatter"] = false;
    check_time(scenario, 3e-3 + 3 * half_ring(p, 24e6));
    CHECK(sent_by_each(scenario, p) == exactly(3 * (p - 1) * 24e6 / p));
    scenario["training"]["strategy"]["reduce_scatter"] = true;
    check_time(scenario, 3e-3 + 2 * half_ring(p, 24e6));
  }
}

TEST_CASE("accumulated batches exchange what is sharded in every pass") {
  constexpr int p = 4;
  const double once = (p - 1) * kS / p, last = (p - 1) * kLastUnit / p;
  const auto sent = [&](const char* what) {
    Json scenario = sharded(p, kThree, what);
    scenario["training"]["strategy"]["accumulation_steps"] = 5;
    return sent_by_each(scenario, p);
  };
  CHECK(sent("optimizer") == exactly(2 * once));
  CHECK(sent("gradients") == exactly(6 * once));
  CHECK(sent("parameters") == exactly(5 * (3 * once - last)));
}

TEST_CASE("units that are gathered ahead are hidden by kernels that take longer") {
  constexpr int p = 4;
  const double first = half_ring(p, 24e6), second = half_ring(p, 48e6), third = half_ring(p, 12e6);
  // Ahead: the second waits behind the first, which takes longer to gather than the kernel of 1 ms takes to run.
  check_time(sharded(p, kThree, "parameters", 1), first + std::max(second, 1e-3) + 0.5 + first);
  // Without: each forward kernel waits for its unit, as do those of the first two backward.
  check_time(sharded(p, kThree, "parameters", 0),
             first + 1e-3 + second + 0.1 + third + 0.2 + second + 0.1 + first + 0.1 + first);
}

TEST_CASE("without overlap everything is one after the other, in every pass") {
  constexpr int p = 4, passes = 3;
  const double all = half_ring(p, 24e6) + half_ring(p, 48e6) + half_ring(p, 12e6), computed = 0.201 + 0.3;
  const auto check = [&](const char* what, double exchanged) {
    Json scenario = sharded(p, kThree, what);
    scenario["training"]["strategy"].update({{"overlap", "none"}, {"accumulation_steps", passes}});
    check_time(scenario, passes * computed + exchanged);
  };
  check("optimizer", 2 * all);
  check("gradients", (passes + 1) * all);
  check("parameters", passes * (3 * all - half_ring(p, 12e6)));  // the last unit is kept
}

TEST_CASE("cycles fuse reductions, and what is gathered after them in a cycle of its own") {
  // Gradients are ready until 501 ms, parts are reduced from 1 s on, and gathered from the end of the cycle after that.
  for (const char* what : {"optimizer", "gradients"}) {
    Json scenario = sharded(4, kThree, what);
    scenario["training"]["strategy"]["cycle_time"] = "1s";
    check_time(scenario, 2 + half_ring(4, kS));
    CHECK(sent_by_each(scenario, 4) == exactly(2 * 3 * kS / 4));
    scenario["training"]["strategy"]["bucket_size"] = "50MB";  // none goes with the one that is ready after it
    check_time(scenario, 6 + half_ring(4, 24e6));
  }
}

TEST_CASE("each worker updates its part") {
  const auto time = [](const char* what, int workers) {
    Json scenario = sharded(workers, {{"24000000B"}}, what);
    scenario["workload"]["model"]["structure"]["optimizer_time"] = "40ms";
    return test::times_of(scenario).by_default;
  };
  CHECK(time("none", 4) == exactly(3e-3 + 2 * half_ring(4, 24e6) + 40e-3));
  for (const char* what : {"optimizer", "gradients", "parameters"})
    CHECK(time(what, 4) == exactly(3e-3 + 2 * half_ring(4, 24e6) + 10e-3));
}

TEST_CASE(
    "groups share what is sharded: their parts are added up with those of the other groups, a z-th of the bytes") {
  for (const auto& [p, z] : {std::pair{4, 2}, {8, 2}, {8, 4}, {6, 3}}) {
    CAPTURE(p);
    CAPTURE(z);
    const int r = p / z;
    const auto grouped = [&, workers = p, group = z](const std::vector<TimedTensor>& tensors, const char* what) {
      Json scenario = sharded(workers, tensors, what);
      scenario["training"]["strategy"]["shard_group"] = group;
      return scenario;
    };
    for (const char* what : {"optimizer", "gradients", "parameters"})
      check_time(grouped({{"24000000B"}}, what), 3e-3 + 2 * half_ring(z, 24e6) + 2 * half_ring(r, 24e6 / z));
    const double inside = (z - 1) * kS / z, last = (z - 1) * kLastUnit / z, among = 2 * (r - 1) * kS / z / r;
    CHECK(sent_by_each(grouped(kThree, "gradients"), p) == exactly(2 * inside + among));
    CHECK(sent_by_each(grouped(kThree, "parameters"), p) == exactly(3 * inside - last + among));
    // Each updates its part of the group's.
    Json updated = grouped({{"24000000B"}}, "optimizer");
    updated["workload"]["model"]["structure"]["optimizer_time"] = "40ms";
    check_time(updated, 3e-3 + 2 * half_ring(z, 24e6) + 2 * half_ring(r, 24e6 / z) + 40e-3 / z);
  }
  Json all = sharded(4, kThree, "parameters");
  const Json alone = test::simulated(all);
  all["training"]["strategy"]["shard_group"] = 4;
  CHECK(test::simulated(all)["time_s"] == alone["time_s"]);
  all["training"]["strategy"]["shard_group"] = 3;
  CHECK(test::error_of([&] { (void)test::resolved(all); }).find("divide the 4 data-parallel ones, such as 4") !=
        std::string::npos);
  all["training"]["strategy"]["pipeline"] = {{"stages", 4}, {"microbatches", 2}};  // one worker of each stage
  CHECK(test::error_of([&] {
          (void)test::resolved(all);
        }).find("shard_group: expected no such key with one data-parallel worker") != std::string::npos);
}

TEST_CASE("of groups over several machines one stands for all: as exact runs, with GPUs that share NICs or not") {
  for (const auto& [machines, group] : {std::pair{4, 4}, {8, 4}, {6, 6}, {4, 2}})
    for (const char* what : {"optimizer", "gradients", "parameters"})
      for (const int nics : {1, 2}) {
        CAPTURE(machines);
        CAPTURE(group);
        CAPTURE(what);
        Json scenario = timed_scenario(machines, {{"3MB"}, {"5MB"}}, {{"kind", "all_reduce"}}, 2);
        scenario["training"]["strategy"].update({{"sharding", what}, {"shard_group", group}});
        scenario["cluster"]["groups"][0]["instance"]["nics"] = nics;
        const test::Times times = test::times_of(scenario);
        CHECK(times.by_default == doctest::Approx(times.exact).epsilon(1e-6));
      }
}

TEST_CASE("no_sync: gradients are added up once in a step, and gathered parameters in every pass") {
  constexpr int p = 4;
  const double once = (p - 1) * kS / p, last = (p - 1) * kLastUnit / p;
  const auto with = [&](const char* what) {
    Json scenario = sharded(p, kThree, what);
    scenario["training"]["strategy"].update({{"accumulation_steps", 5}, {"no_sync", true}});
    return scenario;
  };
  CHECK(sent_by_each(with("gradients"), p) == exactly(2 * once));
  CHECK(sent_by_each(with("parameters"), p) == exactly(5 * (2 * once - last) + once));
  Json memory = with("parameters");
  memory["workload"]["optimizer"] = "adam";
  const auto needed = [&] {
    const Scenario scenario = test::resolved(memory);
    return as_double(gpu_memory_needed(scenario, scenario.groups.front()));
  };
  const double whole = needed();
  memory["training"]["strategy"]["no_sync"] = false;
  CHECK(whole == exactly(needed() + 0.75 * kS - 48e6));  // all gradients, and none of a unit besides
}

TEST_CASE("clip_norm: the update waits until those with other parts of the gradients have added up 4 bytes") {
  constexpr int p = 4;
  const auto with = [&](Json scenario) {
    scenario["training"]["strategy"]["clip_norm"] = true;
    return scenario;
  };
  const Json plain = timed_scenario(p, {{"24000000B"}}, {{"kind", "all_reduce"}});
  check_time(with(plain), 3e-3 + 2 * half_ring(p, 24e6));  // all have all gradients
  const double norm = 2 * half_ring(p, 4), gathered = 3e-3 + 2 * half_ring(p, 24e6);
  for (const char* what : {"optimizer", "gradients", "parameters"})
    check_time(with(sharded(p, {{"24000000B"}}, what)), gathered + norm);
}

TEST_CASE("forward overlap of a sharded optimizer: each unit is gathered before the kernels that read it") {
  constexpr int p = 4;
  const double first = half_ring(p, 24e6), second = half_ring(p, 48e6);
  Json scenario = sharded(p, kThree, "optimizer");
  scenario["training"]["strategy"]["overlap"] = "forward";
  const auto time = [&](int steps) {
    scenario["training"]["steps"] = steps;
    const test::Times times = test::times_of(scenario);
    CHECK(times.by_default == exactly(times.exact));
    return times.exact;
  };
  CHECK((time(40) - time(20)) / 20 == exactly(first + first + std::max(second, 1e-3) + 0.5));
  CHECK(sent_by_each(scenario, p) / 20 == exactly(2 * (p - 1) * kS / p));
}

TEST_CASE("memory: what is sharded is held in parts; gathered units come besides") {
  const auto needed = [](const std::string& what, int workers) {
    Json json = sharded(workers, {{"24000000B"}, {"48000000B"}, {"12000000B"}}, what);
    json["workload"]["optimizer"] = "adam";
    const Scenario scenario = test::resolved(json);
    return as_double(gpu_memory_needed(scenario, scenario.groups.front()));
  };
  CHECK(needed("none", 4) == exactly(4 * kS));
  CHECK(needed("optimizer", 4) == exactly(2.5 * kS));
  // The gradients of a unit are whole until they are reduced; two units, at most the model, are gathered at a time.
  CHECK(needed("gradients", 4) == exactly(1.75 * kS + 48e6));
  CHECK(needed("parameters", 4) == exactly(kS + kS + 48e6));
  CHECK(needed("parameters", 1) == exactly(4 * kS));
}

}  // namespace rehearse
