// All-reduce training against closed forms, each by default (reductions on) and exact (message by message on SimGrid).

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

using test::check_time;
using test::exactly;
using test::kAlpha;
using test::kBeta;
using test::timed_scenario;

/// One tensor of 24 MB, 1 ms forward, 2 ms backward.
Json one_tensor(int machines, const std::string& algorithm, int gpus = 1) {
  return timed_scenario(machines, {{"24000000B"}}, {{"kind", "all_reduce"}, {"algorithm", algorithm}}, gpus);
}

constexpr double kCompute = 3e-3;
constexpr double kBytes = 24e6;

}  // namespace

TEST_CASE("ring: 2 (p - 1) (a + n / (p b))") {
  for (const int p : {2, 3, 4, 8, 16}) {
    CAPTURE(p);
    check_time(one_tensor(p, "ring"), kCompute + 2 * (p - 1) * (kAlpha + kBytes / (p * kBeta)));
  }
  check_time(one_tensor(1, "ring"), kCompute);
}

TEST_CASE("flat double binary tree: 2 (d a + n / b) for more than two ranks") {
  // depth: 3 ranks 1, 4 to 7 ranks 2, 8 to 15 ranks 3
  for (const auto& [p, depth] : {std::pair{3, 1}, {4, 2}, {6, 2}, {7, 2}, {8, 3}, {15, 3}, {16, 4}}) {
    const int ranks = p;
    CAPTURE(ranks);
    check_time(one_tensor(ranks, "flat_double_binary_tree"), kCompute + 2 * (depth * kAlpha + kBytes / kBeta));
  }
  check_time(one_tensor(2, "flat_double_binary_tree"), kCompute + 2 * (kAlpha + kBytes / 2 / kBeta));
}

TEST_CASE("binary tree: 2 (d a + c n / b) with c children at most") {
  for (const auto& [p, depth, children] : {std::tuple{2, 1, 1}, {3, 1, 2}, {7, 2, 2}, {8, 3, 2}}) {
    const int ranks = p;
    CAPTURE(ranks);
    check_time(one_tensor(ranks, "binary_tree"), kCompute + 2 * (depth * kAlpha + children * kBytes / kBeta));
  }
}

TEST_CASE("star: 2 (a + (p - 1) n / b)") {
  for (const int p : {2, 3, 8}) check_time(one_tensor(p, "star"), kCompute + 2 * (kAlpha + (p - 1) * kBytes / kBeta));
}

TEST_CASE("clique: 2 (a + (p - 1) n / (p b))") {
  for (const int p : {2, 3, 8})
    check_time(one_tensor(p, "clique"), kCompute + 2 * (kAlpha + (p - 1) * kBytes / (p * kBeta)));
}

TEST_CASE("hierarchical: rings inside machines cost next to nothing here, the g rings between them share a NIC") {
  // m = 4 machines of g = 2: 2 (m - 1) (a + n / (m b)); inside 2 (g - 1) n / (g b') with PCIe at 10^18 B/s
  const double inside = 2 * 0.5 * kBytes / 1e18;
  check_time(one_tensor(4, "hierarchical", 2), kCompute + inside + 2 * 3 * (kAlpha + kBytes / (4 * kBeta)));
}

TEST_CASE("binary-tree-star: stars inside machines, a tree between their first GPUs") {
  const double inside = 2 * kBytes / 1e18;
  check_time(one_tensor(3, "binary_tree_star", 2), kCompute + inside + 2 * (kAlpha + 2 * kBytes / kBeta));
}

TEST_CASE("two-level oversubscription is not reached by a ring of neighbours, but by a clique") {
  // covered by topology tests when fabrics are in use; a ring that crosses a NIC twice per machine shares nothing. Of the six
  // edges that a part passes three are between machines.
  check_time(one_tensor(3, "ring", 2), kCompute + 2 * 5 * (kAlpha / 2 + kBytes / (6 * kBeta)));
}

TEST_CASE("overlap: gradients are exchanged while the backward pass goes on; without it, after") {
  // Backward: layer 1 ready at 2 + 2 = 4 ms, layer 0 at 6 ms. Ring of 2: 24 MB takes 2 (10 us + 12 ms) = 24.02 ms.
  const double collective = 2 * (kAlpha + 12e-3);
  Json scenario = timed_scenario(2, {{"24000000B"}, {"24000000B"}}, {{"kind", "all_reduce"}});
  check_time(scenario, 4e-3 + 2 * collective);
  scenario["training"]["strategy"]["overlap"] = "none";
  check_time(scenario, 6e-3 + 2 * collective);
}

TEST_CASE("buckets: fused in the order in which gradients become ready") {
  // Ready at 5, 7, 9 ms (layers 2, 1, 0). First bucket of at least 1 MB: layer 2; then layers 1 and 0 together.
  Json scenario = timed_scenario(2, {{"24000000B"}, {"24000000B"}, {"24000000B"}},
                                 {{"kind", "all_reduce"}, {"bucket_size", "40MB"}, {"first_bucket_size", "1MB"}});
  check_time(scenario, 5e-3 + 2 * (kAlpha + 12e-3) + 2 * (kAlpha + 24e-3));
  // All in one: from 9 ms on.
  scenario["training"]["strategy"].erase("first_bucket_size");
  scenario["training"]["strategy"]["bucket_size"] = "60MB";
  check_time(scenario, 9e-3 + 2 * (kAlpha + 36e-3));
}

TEST_CASE("cycle time: what is ready by the end of a cycle is fused") {
  // Layer 1 is ready at 4 ms, layer 0 at 6 ms; at the end of the first cycle, 10 ms, both go as one.
  check_time(timed_scenario(2, {{"24000000B"}, {"24000000B"}}, {{"kind", "all_reduce"}, {"cycle_time", "10ms"}}),
             10e-3 + 2 * (kAlpha + 24e-3));
  // A cycle of 5 ms: layer 1 at 5 ms; it ends at 29.02 ms, layer 0 leaves at 30 ms.
  check_time(timed_scenario(2, {{"24000000B"}, {"24000000B"}}, {{"kind", "all_reduce"}, {"cycle_time", "5ms"}}),
             30e-3 + 2 * (kAlpha + 12e-3));
}

TEST_CASE("half-precision gradients move half of the bytes") {
  Json scenario = one_tensor(2, "ring");
  scenario["training"]["strategy"]["gradient_precision"] = "fp16";
  check_time(scenario, kCompute + 2 * (kAlpha + 6e-3));
}

TEST_CASE(
    "the profile says what a connection of limited rate delivers, and what both directions of two machines share") {
  const auto scenario_with = [](int machines, double efficiency, double duplex) {
    Json scenario = one_tensor(machines, "ring");
    scenario["cluster"]["network"]["links"][0]["per_flow_rate"] = "500MBps";
    Json profile = load_json_file(source_folder() + "/calibration/profiles/ideal.json");
    profile["network"]["flow_efficiency"] = efficiency;
    profile["network"]["duplex"] = duplex;
    scenario["calibration"] = profile;
    return scenario;
  };
  // Two machines: each sends 12 MB in each of two rounds, at 0.5 GB/s; three: 8 MB in each of four.
  check_time(scenario_with(2, 1, 2), kCompute + 2 * (kAlpha + 12e6 / 0.5e9));
  check_time(scenario_with(2, 0.8, 2), kCompute + 2 * (kAlpha + 12e6 / 0.4e9));
  // Both directions together 0.6 GB/s: 0.3 GB/s each. Between three machines each pair has one direction alone.
  check_time(scenario_with(2, 1, 1.2), kCompute + 2 * (kAlpha + 12e6 / 0.3e9));
  check_time(scenario_with(3, 1, 1.2), kCompute + 4 * (kAlpha + 8e6 / 0.5e9));
  CHECK_THROWS_WITH_AS((void)test::resolved(scenario_with(2, 1, 2.5)),
                       doctest::Contains("/network/duplex: expected a number above 0, at most 2; found 2.5"),
                       InputError);
  CHECK_THROWS_WITH_AS((void)test::resolved(scenario_with(2, 1.5, 2)), doctest::Contains("/network/flow_efficiency: "),
                       InputError);
}

TEST_CASE("automatic mixed precision: kernels in fp16, gradients in fp32 as they are sent") {
  const auto bytes = [](const char* gradients) {
    Json scenario = one_tensor(2, "ring");
    scenario["workload"]["precision"] = "fp16";
    if (*gradients != '\0') scenario["training"]["strategy"]["gradient_precision"] = gradients;
    return scenario;
  };
  check_time(bytes(""), kCompute + 2 * (kAlpha + 6e-3));
  check_time(bytes("fp16"), kCompute + 2 * (kAlpha + 6e-3));
  check_time(bytes("fp32"), kCompute + 2 * (kAlpha + 12e-3));
}

TEST_CASE("buckets close by bytes before conversion") {
  // Layers 2 and 1 reach 40 MB at 7 ms, layer 0 is ready at 9 ms.
  check_time(timed_scenario(2, {{"24000000B"}, {"24000000B"}, {"24000000B"}},
                            {{"kind", "all_reduce"}, {"bucket_size", "40MB"}, {"gradient_precision", "fp16"}}),
             7e-3 + 2 * (kAlpha + 12e-3) + 2 * (kAlpha + 6e-3));
}

TEST_CASE("accumulation: so many passes, one exchange") {
  Json scenario = one_tensor(2, "ring");
  scenario["training"]["strategy"]["accumulation_steps"] = 4;
  scenario["training"]["steps"] = 3;
  check_time(scenario, 3 * (4 * kCompute + 2 * (kAlpha + 12e-3)));
}

TEST_CASE("priority: of what waits, the layer that the next forward pass needs first goes first") {
  // Ready at 5, 7, 9 ms in the order 2, 1, 0; layer 2 is under way until 29.02 ms; then layer 0 before layer 1. With
  // forward overlap the second step starts layer 0 when its gradients are there.
  const double collective = 2 * (kAlpha + 12e-3);
  Json scenario = timed_scenario(2, {{"24000000B"}, {"24000000B"}, {"24000000B"}},
                                 {{"kind", "all_reduce"}, {"order", "priority"}, {"overlap", "forward"}});
  scenario["training"]["steps"] = 2;
  // Step 2: layer 0 forward from 5 ms + 2 c to + 1 ms, hidden; layer 1 arrives at 5 ms + 3 c, then 1 + 1 ms forward,
  // 2 ms until the first gradient, and three collectives again.
  check_time(scenario, 5e-3 + 3 * collective + 2e-3 + 2e-3 + 3 * collective);
  scenario["training"]["strategy"]["order"] = "fifo";
  // Layer 0 comes last, at 5 ms + 3 c: all of the forward pass follows.
  check_time(scenario, 5e-3 + 3 * collective + 3e-3 + 2e-3 + 3 * collective);
}

TEST_CASE("partition: pieces of a tensor let an urgent one pass") {
  // Layer 1 (ready at 4 ms) in 4 pieces of 6 MB, c' = 2 (a + 3 ms) each; layer 0 becomes ready at 6 ms while the first
  // piece is under way and goes next, in its 4 pieces.
  const double piece = 2 * (kAlpha + 3e-3);
  Json scenario = timed_scenario(
      2, {{"24000000B"}, {"24000000B"}},
      {{"kind", "all_reduce"}, {"order", "priority"}, {"overlap", "forward"}, {"partition_size", "6MB"}});
  scenario["training"]["steps"] = 2;
  // Second step: layer 0 is there after 5 pieces, layer 1 after 8; then 1 ms forward, 2 ms backward, 8 pieces.
  check_time(scenario, 4e-3 + 8 * piece + 1e-3 + 2e-3 + 8 * piece);
}

TEST_CASE("a steady state that is skipped ends when running every step would have, and counts every byte") {
  Json scenario = timed_scenario(4, {{"24000000B"}, {"1000000B"}}, {{"kind", "all_reduce"}});
  scenario["training"]["steps"] = 200;
  scenario["training"]["warmup_steps"] = 5;
  std::vector<Json> results;
  for (const bool is_exact : {false, true})
    results.push_back(test::in_child([&] {
      const Scenario resolved = test::resolved(scenario);
      const RunRecord record = simulate(resolved, {.keeps_activity = false, .is_exact = is_exact, .on_update = {}});
      Json summary = to_json(resolved, summarize(resolved, record));
      summary["sent"] = record.sent.value();
      summary["events"] = record.events;
      return summary;
    }));
  for (const char* key : {"time_s", "steps_per_s", "samples_per_s", "iteration_time_s", "gpu_utilization"})
    CHECK(results[0][key].get<double>() == doctest::Approx(results[1][key].get<double>()).epsilon(1e-6));
  CHECK(results[0]["sent"] == results[1]["sent"]);
  CHECK(results[0]["steps"] == 200);
  CHECK(results[0]["machines"][3]["nic_send_utilization"].get<double>() ==
        doctest::Approx(results[1]["machines"][3]["nic_send_utilization"].get<double>()).epsilon(1e-6));
  CHECK(results[0]["events"].get<int>() * 20 < results[1]["events"].get<int>());
}

TEST_CASE("outside of their domain the reductions do not apply, and both ways agree all the same") {
  Json scenario = timed_scenario(3, {{"24000000B"}, {"24000000B"}}, {{"kind", "all_reduce"}});
  scenario["training"]["steps"] = 20;
  const double step = test::times_of(scenario).by_default / 20;
  for (const auto& [key, value] : {std::pair<std::string, Json>{"step_time_variation", 0.1},
                                   {"start_interval", "1ms"},
                                   {"checkpoint", {{"every_steps", 7}, {"fixed_time", "50ms"}, {"rate", "1GBps"}}}}) {
    const std::string& changed_key = key;
    CAPTURE(changed_key);
    Json changed = scenario;
    changed["training"][key] = value;
    const test::Times times = test::times_of(changed);
    CHECK(times.by_default == doctest::Approx(times.exact).epsilon(1e-9));
    CHECK(times.by_default > 20 * step);
  }
}

TEST_CASE(
    "identical workers are folded: the number of workers changes the events of a run by their collectives alone") {
  const auto events = [](const Json& scenario) {
    return test::in_child([&] {
             return Json{{"events", simulate(test::resolved(scenario), {}).events}};
           })["events"]
        .get<int>();
  };
  CHECK(events(one_tensor(64, "ring")) == events(one_tensor(4, "ring")));
  Json noisy = one_tensor(64, "ring");
  noisy["training"]["step_time_variation"] = 0.1;
  CHECK(events(noisy) > 10 * events(one_tensor(64, "ring")));
}

TEST_CASE("pairwise averaging: fetching hides behind compute, or compute behind fetching") {
  // 2 workers fetch from one another: request 10 us, 24 MB at 1 GB/s, 10 us back: 24.02 ms against 3 ms of compute.
  Json scenario = timed_scenario(2, {{"24000000B"}}, {{"kind", "pairwise_averaging"}});
  scenario["training"].update({{"steps", 10}, {"start_interval", "0s"}});  // 5 of each
  check_time(scenario, 5 * (2 * kAlpha + 24e-3));
  scenario = timed_scenario(2, {{"24000000B", "100ms", "100ms"}}, {{"kind", "pairwise_averaging"}});
  scenario["training"].update({{"steps", 10}, {"start_interval", "0s"}});
  check_time(scenario, 5 * 0.2);
}

}  // namespace rehearse
