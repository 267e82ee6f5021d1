// Clock, cores, kernel time and placement, each against its formula.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"
#include "sim/engine/clock.hpp"
#include "sim/engine/core_pool.hpp"
#include "sim/engine/kernel_time.hpp"
#include "sim/engine/placement.hpp"
#include "sim/engine/recorder.hpp"

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
