// Programs: what is compiled, and that fusing chains of kernels changes no date.

#include "sim/program/program.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/training/compile.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

/// When the operations for which others wait end, on a stream that is free from `host` and `gpu` on.
std::vector<double> dates_of(const Program& program, Seconds host, Seconds gpu) {
  std::vector<double> dates;
  for (const Stretch& stretch : program.streams.front())
    for (std::int64_t i = 0; i < stretch.repeat; ++i)
      for (OperationIndex index = stretch.begin; index < stretch.end; ++index) {
        const Node& node = program.nodes[at(index)];
        const Chain chain = chain_of(node.operation);
        gpu = std::max(gpu + chain.time, host + chain.critical);
        host += chain.host;
        if (node.first_after < node.last_after) dates.push_back(gpu.value());
      }
  dates.push_back(host.value());
  dates.push_back(gpu.value());
  return dates;
}

ComputePlan random_plan(Rng& random, int kernels, int variables) {
  ComputePlan plan;
  for (int k = 0; k < kernels; ++k) {
    const double dispatch = random.uniform(), time = random.uniform();
    plan.kernels.push_back({.vertex = k,
                            .time = {.total = Seconds{time}, .memory = Seconds{time / 2}},
                            .dispatch = Seconds{dispatch},
                            .waits_for = {},
                            .completes = {}});
  }
  for (int v = 0; v < variables; ++v)
    plan.kernels[random.below(static_cast<std::uint64_t>(kernels))].completes.push_back(v);
  return plan;
}

GradientUnits one_unit_each(int variables) {
  GradientUnits units;
  for (int v = 0; v < variables; ++v) {
    units.units.push_back({.name = "u" + std::to_string(v), .variables = {v}, .gradient_bytes = Bytes{1000}});
    units.of_variable.push_back({v});
  }
  return units;
}

Program all_reduce(const ComputePlan& plan, int passes, const GradientUnits& units,
                   Overlap overlap = Overlap::kBackward) {
  static const Json keys = Json::object();
  Scenario scenario;
  Json effective;
  const auto ring = strategy_entry("all_reduce").read(JsonReader{keys, "ring"}, scenario, effective);
  return compile_all_reduce(plan, passes, units, {.kind = ring, .exchange = {.overlap = overlap}});
}

std::size_t kernels_of(const Program& program) {
  return static_cast<std::size_t>(std::ranges::count_if(program.nodes, is_kernels, &Node::operation));
}

}  // namespace

TEST_CASE("fused chains give the dates of their kernels, for any number of passes and whenever the stream is free") {
  Rng random{11, "programs"};
  for (const int passes : {1, 2, 3, 10}) {
    for (int i = 0; i < 50; ++i) {
      const int variables = 1 + static_cast<int>(random.below(5));
      const ComputePlan plan = random_plan(random, 1 + static_cast<int>(random.below(30)), variables);
      const Program program = all_reduce(plan, passes, one_unit_each(variables));
      const Program fused = fuse_chains(program);
      CHECK(kernels_of(fused) <= static_cast<std::size_t>(2 * variables + 1));
      CHECK(fused.kernel_time.value() == doctest::Approx(program.kernel_time.value()).epsilon(1e-12));
      for (const double lead : {0.0, 3.0, 100.0}) {
        const auto a = dates_of(program, {}, Seconds{lead}), b = dates_of(fused, {}, Seconds{lead});
        REQUIRE(a.size() == b.size());
        for (std::size_t d = 0; d < a.size(); ++d) CHECK(a[d] == doctest::Approx(b[d]).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("a chain ends before a kernel that waits, and after one that others wait for") {
  ComputePlan plan;
  for (int k = 0; k < 6; ++k)
    plan.kernels.push_back(
        {.vertex = k, .time = {.total = 1.0_ms, .memory = {}}, .dispatch = 1.0_us, .waits_for = {}, .completes = {}});
  plan.kernels[2].waits_for = {0};
  plan.kernels[3].completes = {0};
  const GradientUnits units = one_unit_each(1);
  CHECK(kernels_of(fuse_chains(all_reduce(plan, 1, units))) == 2);  // 0 to 3, 4 and 5
  CHECK(kernels_of(fuse_chains(all_reduce(plan, 1, units, Overlap::kForward))) == 3);
}

TEST_CASE("a data-parallel step as text") {
  ComputePlan plan{.kernels = {}, .step_overhead = 1.0_ms, .input = Bytes{4096}, .update = 3.0_ms};
  plan.kernels.push_back(
      {.vertex = 0, .time = {.total = 2.0_ms, .memory = {}}, .dispatch = 5.0_us, .waits_for = {0}, .completes = {}});
  plan.kernels.push_back(
      {.vertex = 1, .time = {.total = 4.0_ms, .memory = {}}, .dispatch = 5.0_us, .waits_for = {}, .completes = {0}});
  const GradientUnits units = one_unit_each(1);
  CHECK(to_text(all_reduce(plan, 4, units), {"forward", "backward"}) ==
        "0 delay: 1ms\n"
        "1 copy samples to GPU: 4KiB after 0\n"
        "2 begin after 1\n"
        "3 compute forward on stream 0: 5us host, 2ms after 2\n"
        "4 compute backward on stream 0: 5us host, 4ms\n"
        "5 compute forward on stream 0: 5us host, 2ms\n"
        "6 compute backward on stream 0: 5us host, 4ms\n"
        "7 compute forward on stream 0: 5us host, 2ms\n"
        "8 compute backward on stream 0: 5us host, 4ms\n"
        "9 all-reduce u0 in group 0: 1kB after 8\n"
        "10 update after 8, 9\n"
        "11 delay: 3ms after 10\n"
        "12 fence after 11\n"
        "stream 0 repeats 5 to 6 2 times\n");
  CHECK(to_text(all_reduce(plan, 1, units, Overlap::kForward), {"forward", "backward"}) ==
        "0 delay: 1ms\n"
        "1 copy samples to GPU: 4KiB after 0\n"
        "2 begin after 1\n"
        "3 compute forward on stream 0: 5us host, 2ms after 2, 5\n"
        "4 compute backward on stream 0: 5us host, 4ms\n"
        "5 gate of counter 0 at step - 1 after 2\n"
        "6 all-reduce u0 in group 0: 1kB, advances counter 0 after 4\n"
        "7 update after 4, 6\n"
        "8 fence after 4\n");
}

TEST_CASE("a step with a parameter server as text") {
  const Scenario scenario = test::resolved(test::with_servers(
      test::timed_scenario(2, {{"1MB"}}, {{"kind", "parameter_server"}, {"synchronization", "synchronous"}}), 1));
  CHECK(program_text(scenario) ==
        "0 delay: 0s\n"
        "1 copy samples to GPU: 0B after 0\n"
        "2 begin after 1\n"
        "3 notify over connection 0 after 0\n"
        "4 read layer0 at server 0: 0s after 3\n"
        "5 send layer0 over connection 1: 1MB after 4\n"
        "6 copy layer0 to GPU: 1MB after 5\n"
        "7 delay: 0s after 2, 6\n"
        "8 compute layer0/forward on stream 0: 0s host, 1ms after 2, 6\n"
        "9 compute layer0/backward on stream 0: 0s host, 2ms\n"
        "10 copy layer0 from GPU: 1MB after 9\n"
        "11 send layer0 over connection 0: 1MB after 10\n"
        "12 apply layer0 at server 0: 0s, the last of all advances everybody's counter 0 after 11\n"
        "13 notify over connection 1 after 12\n"
        "14 fence after 13\n"
        "15 gate of ended steps at step after 14\n"
        "16 next step after 15\n");
}

TEST_CASE("a step that averages models as text") {
  const Scenario scenario = test::resolved(test::timed_scenario(2, {{"1MB"}}, {{"kind", "pairwise_averaging"}}));
  CHECK(program_text(scenario) ==
        "0 delay: 0s\n"
        "1 fetch model from a random worker: 1MB after 0\n"
        "2 copy samples to GPU: 0B after 0\n"
        "3 begin after 2\n"
        "4 delay: 0s after 1, 8\n"
        "5 fence after 4\n"
        "6 next step after 5\n"
        "7 compute layer0/forward on stream 0: 0s host, 1ms after 3\n"
        "8 compute layer0/backward on stream 0: 0s host, 2ms\n");
}

}  // namespace rehearse
