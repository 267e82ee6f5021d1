// Clock, cores, compute stream, kernel time and placement, each against its formula.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"
#include "sim/engine/clock.hpp"
#include "sim/engine/compute_stream.hpp"
#include "sim/engine/core_pool.hpp"
#include "sim/engine/kernel_time.hpp"
#include "sim/engine/placement.hpp"

namespace rehearse {

TEST_CASE("events happen in order of time, and in order of scheduling at the same time") {
  Clock clock;
  std::vector<int> order;
  clock.schedule(2.0_s, [&] { order.push_back(3); });
  clock.schedule(1.0_s, [&] { order.push_back(1); });
  clock.schedule(1.0_s, [&] {
    order.push_back(2);
    clock.schedule(1.0_s, [&] { order.push_back(4); });  // at the current date: still in this round
  });
  clock.advance_to(1.0_s);
  CHECK(order == std::vector{1, 2, 4});
  clock.advance_to(2.0_s);
  CHECK(order == std::vector{1, 2, 4, 3});
  CHECK(clock.is_empty());
}

TEST_CASE("whoever schedules them, events happen in order of time, and of scheduling at the same time") {
  struct Event {
    double when;
    int number;
    Clock::Owner owner;
  };
  Rng random{7, "events"};
  Clock clock;
  std::vector<Clock::Owner> owners{0};
  for (int i = 0; i < 5; ++i) owners.push_back(clock.new_owner());
  std::vector<Event> scheduled;
  std::vector<int> happened;
  const auto schedule = [&](double when) {
    const int number = static_cast<int>(scheduled.size());
    const Clock::Owner owner = owners[random.below(owners.size())];
    scheduled.push_back({when, number, owner});
    clock.schedule(
        Seconds{when}, [&happened, number] { happened.push_back(number); }, owner);
  };
  for (int i = 0; i < 3000; ++i) schedule(static_cast<double>(random.below(1000)));  // in no order
  for (int i = 0; i < 3000; ++i) schedule(static_cast<double>(i / 3 + i % 30));      // nearly in order
  for (int now = 0; now < 500; ++now) {
    for (int i = 0; i < 5; ++i) schedule(now + static_cast<double>(random.below(600)));
    clock.advance_to(Seconds{static_cast<double>(now)});
  }
  const std::size_t before = happened.size();
  clock.retire(owners[3]);
  clock.advance_to(2000.0_s);
  CHECK(clock.is_empty());

  std::stable_sort(scheduled.begin(), scheduled.end(), [](const Event& a, const Event& b) { return a.when < b.when; });
  std::vector<int> expected;
  for (const Event& event : scheduled)
    if (event.owner != owners[3] || expected.size() < before) expected.push_back(event.number);
  CHECK(before > 3000);
  CHECK(happened == expected);
}

TEST_CASE("jobs go to the core that is free first: c cores finish n equal jobs after ceil(n / c) durations") {
  CorePool pool{4};
  Seconds end{};
  for (int job = 0; job < 10; ++job) end = std::max(end, pool.run(1.0_s, 2.0_s).end);
  CHECK(end == 7.0_s);  // 1 + ceil(10 / 4) * 2
  CHECK(pool.work() == 20.0_s);
  CHECK(pool.run(100.0_s, 1.0_s).start == 100.0_s);  // an idle core starts at once
}

namespace {

/// n kernels of duration t, dispatched in d each; every kernel waits for variable k if waits[k].
ComputePlan make_plan(std::size_t kernels, Seconds dispatch, Seconds duration) {
  ComputePlan plan;
  for (std::size_t k = 0; k < kernels; ++k)
    plan.kernels.push_back({static_cast<int>(k), {duration, {}}, dispatch, {}, {}});
  return plan;
}

}  // namespace

TEST_CASE("time ends at 1e9 s, and so does what can be recorded") {
  Clock clock;
  clock.schedule(Clock::kLatest, [] {});
  CHECK_THROWS_AS(clock.schedule(Seconds{1.000001e9}, [] {}), NoResultError);
  CHECK_THROWS_AS(clock.schedule(Seconds{std::numeric_limits<double>::infinity()}, [] {}), NoResultError);
  CHECK_THROWS_AS(clock.advance_to(Seconds{1.000001e9}), NoResultError);

  Recorder recorder;
  recorder.keeps_activity = true;
  recorder.most_activity = 2;
  recorder.add(KernelSpan{});
  recorder.add(ServerSpan{});
  CHECK_THROWS_AS(recorder.add(MessageSpan{}), NoResultError);
}

TEST_CASE("host and GPU form a pipeline: d + n t if the GPU is slower, n d + t if the host is") {
  Recorder recorder;
  const ComputePlan gpu_bound = make_plan(100, 1.0_ms, 3.0_ms), host_bound = make_plan(100, 3.0_ms, 1.0_ms);
  ComputeStream slow_gpu{gpu_bound, 0, 1, recorder, {0, 0}, {}}, slow_host{host_bound, 0, 1, recorder, {0, 0}, {}};
  slow_gpu.begin_step(0.0_s, 1);
  slow_host.begin_step(0.0_s, 1);
  CHECK(slow_gpu.end().value() == doctest::Approx(0.301).epsilon(1e-9));
  CHECK(slow_host.end().value() == doctest::Approx(0.301).epsilon(1e-9));
  slow_gpu.begin_step(1.0_s, 2);  // twice as slow: 1 ms + 100 * 6 ms
  CHECK(slow_gpu.end().value() == doctest::Approx(1.601).epsilon(1e-9));
}

TEST_CASE("a kernel starts when its variables have arrived, and gradients are reported when it ends") {
  ComputePlan plan = make_plan(3, 1.0_ms, 2.0_ms);
  plan.kernels[1].waits_for = {0, 1};
  plan.kernels[2].completes = {1};
  Recorder recorder;
  recorder.keeps_activity = true;
  Seconds ready{};
  ComputeStream stream{plan, 2, 1, recorder, {7, 3}, [&](int variable, Seconds when) {
                         CHECK(variable == 1);
                         ready = when;
                       }};
  stream.begin_step(0.0_s, 1);
  CHECK(stream.waits_for() == 0);
  stream.variable_arrived(0, 5.0_ms);
  CHECK(stream.waits_for() == 1);
  CHECK_FALSE(stream.is_done());
  stream.variable_arrived(1, 10.0_ms);
  CHECK(stream.is_done());
  // Dispatched at 11 ms and 12 ms; run from 11 to 13 and 13 to 15.
  CHECK(ready.value() == doctest::Approx(0.015).epsilon(1e-12));
  REQUIRE(recorder.kernels.size() == 3);
  CHECK(recorder.kernels[1].span.start.value() == doctest::Approx(0.011).epsilon(1e-12));
  CHECK(recorder.kernels[1].machine == 7);
  CHECK(recorder.kernels[1].gpu == 3);
}

TEST_CASE("matrix efficiency is fill times waves times K / (K + K_half)") {
  // 256 x 64 outputs: 2 x 2 tiles of 128 x 32 on 4 multiprocessors: one full wave, K = K_half: one half.
  CHECK(matrix_efficiency({256, 64, 100}, 4, 100) == doctest::Approx(0.5).epsilon(1e-12));
  // 5 tiles on 4 multiprocessors take two waves: 5 / 8.
  CHECK(matrix_efficiency({640, 32, 100}, 4, 0) == doctest::Approx(0.625).epsilon(1e-12));
  // 10 of 32 columns are used: 10 / 32; one tile, too short to split: 1 / 4 of the multiprocessors.
  CHECK(matrix_efficiency({128, 10, 100}, 4, 0) == doctest::Approx(10.0 / 32 / 4).epsilon(1e-12));
  // A long reduction is split so that all four work.
  CHECK(matrix_efficiency({128, 32, 4096}, 4, 0) == doctest::Approx(1.0).epsilon(1e-12));
}

TEST_CASE("a kernel takes its overhead and the longer of arithmetic and memory time") {
  const Accelerator gpu{.name = "G", .memory_bandwidth = 100_GBps, .multiprocessors = 1};
  GpuParameters parameters{.kernel_overhead = 10.0_us, .memory_efficiency = 0.5, .default_peak_efficiency = 0.5};
  const Operator relu{.kind = OperatorKind::kActivation, .bytes_read = 50_MB, .bytes_written = 50_MB};
  // 100 MB at 50 GB/s = 2 ms
  CHECK(kernel_time(relu, gpu, 1.0_Tflops, parameters).total.value() == doctest::Approx(2.01e-3).epsilon(1e-12));
  Operator product{.kind = OperatorKind::kConvolution, .flops = Flops{1e9}, .matrix = {128, 32, 1}};
  // 1 GFLOP at half of 1 TFLOPS = 2 ms
  CHECK(kernel_time(product, gpu, 1.0_Tflops, parameters).total.value() == doctest::Approx(2.01e-3).epsilon(1e-12));
  parameters.winograd_gain = 2;
  product.is_3x3_stride_1 = true;
  CHECK(kernel_time(product, gpu, 1.0_Tflops, parameters).total.value() == doctest::Approx(1.01e-3).epsilon(1e-12));
}

TEST_CASE("round robin follows creation order; greedy keeps the largest load smallest so far") {
  const std::vector<Bytes> sizes{Bytes{100}, Bytes{1}, Bytes{1}, Bytes{100}, Bytes{50}};
  CHECK(place_on_servers(sizes, 2, Placement::kRoundRobin) == std::vector{0, 1, 0, 1, 0});
  CHECK(place_on_servers(sizes, 2, Placement::kGreedyByBytes) == std::vector{0, 1, 1, 1, 0});
  CHECK(place_on_servers(sizes, 1, Placement::kGreedyByBytes) == std::vector{0, 0, 0, 0, 0});
}  // namespace rehearse

}  // namespace rehearse
