// The executor: dates of operations on its resources, each against its formula.

#include "sim/program/executor.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/resources/plain_loop.hpp"
#include "sim/scenario/site.hpp"
#include "sim/training/compile.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse {

namespace {

/// Workers on two machines of one GPU each, 1 GB/s and 10 us apart, that run one step each.
class Bench final : public Executor::Client {
 public:
  Bench()
      : scenario_{test::resolved(test::timed_scenario(2, {{"4B"}}, {{"kind", "all_reduce"}}))},
        site_{scenario_},
        loop_{site_.topology},
        cluster_{site_, loop_.clock(), loop_.network(), recorder},
        executor_{cluster_, clock(), *this} {}

  RunningWorker& add_worker(MachineIndex machine, const std::shared_ptr<Counters>& team = nullptr) {
    RunningWorker::Place place{.host = {machine, Endpoint::kHost}, .gpu = {machine, 0}};
    place.connections = {network().path(place.host, {1 - machine, Endpoint::kHost})};
    ends.emplace_back();
    return executor_.add_worker(place, clock(), team);
  }
  void begin(RunningWorker& worker, const Program& program) { executor_.begin_step(worker, program, {}, 0); }
  void run() { loop_.run(); }
  void watch(Executor::Watcher& watcher) { executor_.watch(watcher); }
  OwnedClock clock() { return OwnedClock{loop_.clock(), 0}; }
  Network& network() { return loop_.network(); }

  double begin_kernels(RunningWorker&, Seconds) override { return slowdown; }
  void know_end(RunningWorker& worker, Seconds end) override { ends[static_cast<std::size_t>(worker.index())] = end; }
  void update() override {}

  Recorder recorder;
  double slowdown = 1;
  std::vector<Seconds> ends;  // [workers]

 private:
  Scenario scenario_;
  Site site_;
  PlainLoop loop_;
  Cluster cluster_;
  Executor executor_;
};

/// n kernels of duration t, dispatched in d each.
ComputePlan make_plan(std::size_t kernels, Seconds dispatch, Seconds duration) {
  ComputePlan plan;
  for (std::size_t k = 0; k < kernels; ++k)
    plan.kernels.push_back({static_cast<int>(k), {duration, {}}, dispatch, {}, {}});
  return plan;
}

Program compute_only(const ComputePlan& plan) {
  ProgramBuilder builder;
  const OperationIndex begin = builder.add(BeginKernels{});
  const CompiledKernels kernels = compile_kernels(builder, plan, 1, 0);
  const OperationIndex fence = builder.add(Fence{});
  builder.order(begin, kernels.first.front());
  builder.order(kernels.last.back(), fence);
  return builder.finish();
}

}  // namespace

TEST_CASE("kernels that wait for something are dispatched behind it, or ahead of it") {
  // Three kernels, of which the second waits for a delay of 20 ms behind the first. Host 1 ms each, GPU 3 ms: ahead of the delay's
  // end all are dispatched. Host 30 ms: the third kernel is dispatched at 90 ms, whatever the delay; or, behind it, at
  // 30 + 3 + 20 + 2 x 30 ms.
  const auto ends = [](Seconds host, bool is_ahead, bool is_fused) {
    ProgramBuilder builder;
    const OperationIndex begin = builder.add(BeginKernels{});
    const auto kernel = [&](bool waits) {
      return builder.add(Compute{.is_dispatched_ahead = waits && is_ahead, .host = host, .time = 3.0_ms});
    };
    const OperationIndex first = kernel(false);
    builder.order(begin, first);
    builder.add_stretch(0, first);
    const OperationIndex delay = builder.add(Delay{.time = 20.0_ms});
    builder.order(first, delay);
    const OperationIndex second = kernel(true);
    builder.order(delay, second);
    const OperationIndex last = kernel(false);
    builder.add_stretch(0, second);
    builder.order(last, builder.add(Fence{}));
    const Program program = builder.finish();
    Bench bench;
    RunningWorker& worker = bench.add_worker(0);
    const Program fused = fuse_chains(program);
    bench.begin(worker, is_fused ? fused : program);
    bench.run();
    return bench.ends.front().value();
  };
  for (const bool is_fused : {false, true}) {
    CHECK(ends(1.0_ms, true, is_fused) == test::exactly(1e-3 + 3e-3 + 20e-3 + 2 * 3e-3));
    CHECK(ends(1.0_ms, false, is_fused) == test::exactly(1e-3 + 3e-3 + 20e-3 + 1e-3 + 2 * 3e-3));
    CHECK(ends(30.0_ms, true, is_fused) == test::exactly(3 * 30e-3 + 3e-3));
    CHECK(ends(30.0_ms, false, is_fused) == test::exactly(30e-3 + 3e-3 + 20e-3 + 2 * 30e-3 + 3e-3));
  }
}

TEST_CASE("a watcher is told of every operation with its end, and of kernels that are repeated each time") {
  class Log final : public Executor::Watcher {
   public:
    void ended(const RunningWorker& worker, StepOperation operation, Seconds when) override {
      CHECK(worker.ready_at(operation) <= when);
      ends.emplace_back(operation.index, when.value());
    }
    std::vector<std::pair<OperationIndex, double>> ends;
  };
  ProgramBuilder builder;
  const OperationIndex begin = builder.add(BeginKernels{});
  const OperationIndex first = builder.add(Compute{.host = 1.0_ms, .time = 2.0_ms});
  builder.order(begin, first);
  builder.add_stretch(0, first);
  const OperationIndex repeated = builder.add(Compute{.host = 1.0_ms, .time = 3.0_ms});
  builder.add_stretch(0, repeated, 3);
  const OperationIndex last = builder.add(Compute{.host = 1.0_ms, .time = 4.0_ms});
  builder.add_stretch(0, last);
  builder.order(last, builder.add(Fence{}));
  const Program program = builder.finish();
  Log log;
  Bench bench;
  bench.watch(log);
  bench.begin(bench.add_worker(0), program);
  bench.run();
  const std::vector<std::pair<OperationIndex, double>> expected{{begin, 0},       {first, 3e-3},     {repeated, 6e-3},
                                                                {repeated, 9e-3}, {repeated, 12e-3}, {last, 16e-3}};
  REQUIRE(log.ends.size() >= expected.size());
  std::ranges::sort(log.ends, {}, &std::pair<OperationIndex, double>::second);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(log.ends[i].first == expected[i].first);
    CHECK(log.ends[i].second == doctest::Approx(expected[i].second).epsilon(1e-12));
  }
}

TEST_CASE("host and GPU form a pipeline: d + n t if the GPU is slower, n d + t if the host is") {
  const Program gpu_bound = compute_only(make_plan(100, 1.0_ms, 3.0_ms));
  const Program host_bound = compute_only(make_plan(100, 3.0_ms, 1.0_ms));
  for (const bool is_fused : {false, true}) {
    Bench bench;
    const Program slow_gpu = is_fused ? fuse_chains(gpu_bound) : gpu_bound;
    const Program slow_host = is_fused ? fuse_chains(host_bound) : host_bound;
    bench.begin(bench.add_worker(0), slow_gpu);
    bench.begin(bench.add_worker(1), slow_host);
    CHECK(bench.ends[0].value() == doctest::Approx(0.301).epsilon(1e-9));
    CHECK(bench.ends[1].value() == doctest::Approx(0.301).epsilon(1e-9));
  }
  Bench twice_as_slow;  // 1 ms + 100 * 6 ms
  twice_as_slow.slowdown = 2;
  twice_as_slow.begin(twice_as_slow.add_worker(0), gpu_bound);
  CHECK(twice_as_slow.ends[0].value() == doctest::Approx(0.601).epsilon(1e-9));
}

TEST_CASE("a kernel starts when what it waits for has ended, and its stall is how much later that is") {
  ProgramBuilder builder;
  const OperationIndex first = builder.add(Delay{.time = 5.0_ms});
  const OperationIndex second = builder.add(Delay{.time = 10.0_ms});
  const OperationIndex begin = builder.add(BeginKernels{});
  const CompiledKernels kernels = compile_kernels(builder, make_plan(3, 1.0_ms, 2.0_ms), 1, 0);
  const OperationIndex fence = builder.add(Fence{});
  builder.order(begin, kernels.first.front());
  builder.order(first, kernels.first[1]);
  builder.order(second, kernels.first[1]);
  builder.order(kernels.last.back(), fence);
  const Program program = builder.finish();
  Bench bench;
  bench.recorder.keeps_activity = true;
  RunningWorker& worker = bench.add_worker(1);
  bench.begin(worker, program);
  // Dispatched at 11 ms and 12 ms; run from 11 to 13 and 13 to 15. Without the waits: from 3 ms on.
  CHECK(bench.ends[0].value() == doctest::Approx(0.015).epsilon(1e-12));
  CHECK(worker.stalled().value() == doctest::Approx(0.008).epsilon(1e-12));
  REQUIRE(bench.recorder.kernels.size() == 3);
  CHECK(bench.recorder.kernels[1].span.start.value() == doctest::Approx(0.011).epsilon(1e-12));
  CHECK(bench.recorder.kernels[1].machine == 1);
}

TEST_CASE("a message takes its connection alone, and its latency; what it signals opens gates of the team") {
  ProgramBuilder sender, receiver;
  const OperationIndex delay = sender.add(Delay{.time = 1.0_ms});
  const OperationIndex fence = sender.add(Fence{});
  for (int i = 0; i < 2; ++i) {
    const OperationIndex sent = sender.add(Send{.bytes = Bytes{1000000}}, Signal{CounterScope::kTeam, 0});
    sender.order(delay, sent);
    sender.order(sent, fence);
  }
  const OperationIndex gate = receiver.add(Gate{.scope = CounterScope::kTeam, .counter = 0, .each = 2});
  const OperationIndex end = receiver.add(Fence{});
  receiver.order(gate, end);
  const Program sends = sender.finish(), receives = receiver.finish();
  Bench bench;
  const auto team = std::make_shared<Counters>();
  RunningWorker& from = bench.add_worker(0, team);
  RunningWorker& to = bench.add_worker(1, team);
  bench.begin(to, receives);
  bench.begin(from, sends);
  bench.run();
  CHECK(bench.ends[0].value() == doctest::Approx(1e-3 + 2e-3 + 10e-6).epsilon(1e-9));
  CHECK(bench.ends[1].value() == doctest::Approx(bench.ends[0].value()).epsilon(1e-12));
  const Waits waits = from.waits_before_end(2.5_ms);
  CHECK(waits.latency.value() == doctest::Approx(10e-6).epsilon(1e-9));
  CHECK(waits.network.value() == doctest::Approx(2e-3).epsilon(1e-9));
  CHECK(waits.other.value() == doctest::Approx(0.49e-3).epsilon(1e-9));
}

TEST_CASE("collected messages go at the end of the program's cycle, as one or in parts of the largest size") {
  // Ready at 1 ms, two messages of 1 MB leave at 10 ms. At 1 GB/s the first alone takes 1 ms and 10 us, both take 2 ms.
  for (const bool are_fused : {false, true}) {
    ProgramBuilder builder;
    const OperationIndex delay = builder.add(Delay{.time = 1.0_ms});
    const OperationIndex fence = builder.add(Fence{});
    for (int i = 0; i < 2; ++i) {
      const OperationIndex sent = builder.add(Send{.label = i, .is_collected = true, .bytes = Bytes{1000000}});
      builder.order(delay, sent);
      if (i == 0) builder.order(sent, fence);
    }
    builder.program().cycle = Cycle{.time = 10.0_ms, .largest = Bytes{are_fused ? 2000000 : 1999999}};
    const Program program = fuse_chains(builder.finish());
    Bench bench;
    bench.begin(bench.add_worker(0), program);
    bench.run();
    CHECK(bench.ends[0].value() == doctest::Approx((are_fused ? 12e-3 : 11e-3) + 10e-6).epsilon(1e-9));
  }
}

TEST_CASE("the gate of steps: a barrier, a bound on staleness, backup workers") {
  StepGate barrier{0, 0, 5}, stale{2, 0, 5}, backup{0, 1, 5}, none{std::nullopt, 0, 5};
  for (StepGate* gate : {&barrier, &stale, &backup, &none})
    for (int worker = 0; worker < 3; ++worker) gate->enter(5);
  for (StepGate* gate : {&barrier, &stale, &backup, &none}) CHECK(gate->may_begin(5));
  CHECK_FALSE(barrier.end(6));
  CHECK_FALSE(barrier.end(6));
  CHECK_FALSE(barrier.may_begin(6));
  CHECK(barrier.end(6));
  CHECK(barrier.may_begin(6));
  for (const std::int64_t steps : {6, 7, 8}) (void)stale.end(steps);  // one worker, alone
  CHECK(stale.may_begin(7));
  CHECK_FALSE(stale.may_begin(8));
  CHECK_FALSE(backup.end(6));
  CHECK(backup.end(6));
  CHECK(backup.may_begin(6));
  CHECK(none.may_begin(100));
  backup.leave(6);  // one of the two that have ended it: the other still has to be waited for by nobody
  CHECK(backup.needed() == 1);
  CHECK(backup.may_begin(6));
}

TEST_CASE("a step that was open once stays open when the workers that opened it leave") {
  StepGate gate{0, 2, 5};
  for (int worker = 0; worker < 3; ++worker) gate.enter(5);
  CHECK(gate.end(6));  // the first of three
  CHECK(gate.end(7));
  for (const std::int64_t ended : {7, 5}) gate.leave(ended);
  CHECK(gate.needed() == 1);
  CHECK(gate.may_begin(7));
  CHECK_FALSE(gate.may_begin(8));
  CHECK_FALSE(gate.end(6));  // the last one is late, and opens nothing
  CHECK(gate.end(8));
}

}  // namespace rehearse
