// What waits for what: each rule on a trace of a few events.

#include "workloads/traces/recorded_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

/// Traces of one thread, or several, and streams. Dates are in microseconds.
class Trace {
 public:
  Trace() {
    trace_.file_name = "t.json";
    trace_.streams = {"0/7", "0/20"};
  }
  Trace& operation(int thread, const std::string& name, int start, int duration) {
    return add(KinetoEvent::Kind::kOperator, thread, name, start, duration, -1);
  }
  Trace& annotation(const std::string& name, int start, int duration) {
    return add(KinetoEvent::Kind::kAnnotation, 0, name, start, duration, -1);
  }
  Trace& call(int thread, const std::string& name, int start, int duration, int correlation = -1) {
    return add(KinetoEvent::Kind::kCall, thread, name, start, duration, correlation);
  }
  Trace& kernel(int stream, const std::string& name, int start, int duration, int correlation, float warps = -1) {
    add(KinetoEvent::Kind::kKernel, stream, name, start, duration, correlation);
    trace_.events.back().warps = warps;
    return *this;
  }
  Trace& copy(const std::string& name, int start, int duration, int correlation, std::int64_t bytes) {
    add(KinetoEvent::Kind::kCopy, 0, name, start, duration, correlation);
    trace_.events.back().bytes = bytes;
    return *this;
  }
  RecordedRun run() {
    std::ranges::stable_sort(trace_.events, {}, &KinetoEvent::start);
    return recorded_run(trace_);
  }

 private:
  Trace& add(KinetoEvent::Kind kind, int lane, const std::string& name, int start, int duration, int correlation) {
    const auto known = std::ranges::find(trace_.names, name);
    const auto index = static_cast<std::int32_t>(known - trace_.names.begin());
    if (known == trace_.names.end()) trace_.names.push_back(name);
    const bool is_on_thread = kind != KinetoEvent::Kind::kKernel && kind != KinetoEvent::Kind::kCopy;
    while (is_on_thread && trace_.threads.size() <= static_cast<std::size_t>(lane))
      trace_.threads.push_back("1/" + std::to_string(trace_.threads.size()));
    trace_.events.push_back({.start = Nanoseconds{start} * 1000,
                             .duration = Nanoseconds{duration} * 1000,
                             .correlation = correlation,
                             .name = index,
                             .lane = lane,
                             .kind = kind});
    return *this;
  }

  KinetoTrace trace_;
};

const RecordedOperation& kernel_named(const RecordedRun& run, const std::string& name) {
  const auto found = std::ranges::find_if(run.operations, [&](const RecordedOperation& operation) {
    return operation.kind == RecordedOperation::Kind::kGpu &&
           run.names[static_cast<std::size_t>(operation.name)] == name;
  });
  REQUIRE(found != run.operations.end());
  return *found;
}

/// "launch, stream k1": why the operation waits, and for which kernels, in the order of Dependency::Reason.
std::string reasons(const RecordedRun& run, const RecordedOperation& operation) {
  std::vector<std::pair<Dependency::Reason, std::string>> found;
  for (const Dependency& dependency : run.dependencies) {
    if (&run.operations[static_cast<std::size_t>(dependency.later)] != &operation) continue;
    const RecordedOperation& earlier = run.operations[static_cast<std::size_t>(dependency.earlier)];
    const bool is_kernel = earlier.kind == RecordedOperation::Kind::kGpu;
    found.emplace_back(dependency.reason, is_kernel ? " " + run.names[static_cast<std::size_t>(earlier.name)] : "");
  }
  std::ranges::sort(found);
  std::string text;
  for (const auto& [reason, kernel] : found)
    text += (text.empty() ? "" : ", ") + std::string{kReasonNames[static_cast<std::size_t>(reason)]} + kernel;
  return text;
}

/// The longest host operation that ends then, in us.
const RecordedOperation& host_until(const RecordedRun& run, int end) {
  const RecordedOperation* found = nullptr;
  for (const RecordedOperation& operation : run.operations)
    if (operation.kind == RecordedOperation::Kind::kHost && operation.recorded_end == Nanoseconds{end} * 1000 &&
        (found == nullptr || operation.recorded_start < found->recorded_start))
      found = &operation;
  REQUIRE(found != nullptr);
  return *found;
}

}  // namespace

TEST_CASE("kernels wait for their launch and for their stream; latency and gap are those of the trace") {
  const RecordedRun run = Trace{}
                              .call(0, "cudaLaunchKernel", 0, 5, 1)
                              .call(0, "cudaLaunchKernel", 10, 5, 2)
                              .call(0, "cudaLaunchKernel", 20, 5, 3)
                              .kernel(0, "k1", 8, 100, 1)
                              .kernel(0, "k2", 111, 100, 2)
                              .kernel(0, "k3", 214, 100, 3)
                              .run();
  CHECK(run.launch_latency == 8000);
  CHECK(run.kernel_gap == 3000);
  CHECK(reasons(run, kernel_named(run, "k1")) == "launch");
  CHECK(reasons(run, kernel_named(run, "k3")) == "launch, stream k2");
  CHECK(kernel_named(run, "k3").duration == 100'000);
}

TEST_CASE("a synchronization waits for what was launched before, and its own time is what is left") {
  const RecordedRun run = Trace{}
                              .call(0, "cudaLaunchKernel", 0, 5, 1)
                              .call(0, "cudaDeviceSynchronize", 10, 95)
                              .kernel(0, "k1", 8, 92, 1)
                              .run();
  const RecordedOperation& rest = host_until(run, 105);
  CHECK(reasons(run, rest) == "thread, sync k1");
  CHECK(rest.duration == 5000);
}

TEST_CASE("a copy to memory that the GPU cannot reach makes its call wait") {
  const RecordedRun run = Trace{}
                              .call(0, "cudaLaunchKernel", 0, 5, 1)
                              .call(0, "cudaMemcpyAsync", 10, 110, 2)
                              .kernel(0, "k1", 8, 92, 1)
                              .copy("Memcpy DtoH (Device -> Pageable)", 101, 9, 2, 4)
                              .run();
  CHECK(reasons(run, host_until(run, 120)) == "thread, sync Memcpy DtoH (Device -> Pageable)");
  CHECK(host_until(run, 120).duration == 10'000);
}

TEST_CASE("a call that lasts until its copy has ended waits for it, by whichever name") {
  for (const char* name : {"cudaMemcpy", "cuMemcpyDtoH_v2", "hipMemcpy", "hipMemcpyWithStream", "hipMemcpyDtoH",
                           "musaMemcpy", "hipMemcpyAsync", "cudaMemcpyAsync", "zeCommandListAppendMemoryCopy"}) {
    CAPTURE(name);
    const RecordedRun run = Trace{}
                                .call(0, "hipLaunchKernel", 0, 5, 1)
                                .call(0, name, 10, 110, 2)
                                .kernel(0, "k1", 8, 92, 1)
                                .copy("Memcpy DtoH (Device -> Host)", 101, 9, 2, 4)
                                .run();
    CHECK(reasons(run, host_until(run, 120)) == "thread, sync Memcpy DtoH (Device -> Host)");
    CHECK(host_until(run, 120).duration == 10'000);
  }
}

TEST_CASE("a call that only enqueues a copy does not wait for it") {
  const auto waits = [](const char* call, const char* copy, int call_duration, int start, int duration) {
    const RecordedRun run = Trace{}
                                .call(0, "cudaLaunchKernel", 0, 5, 1)
                                .call(0, call, 10, call_duration, 2)
                                .call(0, "cudaLaunchKernel", 300, 5, 3)
                                .kernel(0, "k1", 8, 5, 1)
                                .copy(copy, start, duration, 2, 4)
                                .kernel(0, "k2", 308, 5, 3)
                                .run();
    return std::ranges::any_of(run.dependencies,
                               [](const Dependency& d) { return d.reason == Dependency::Reason::kSync; });
  };
  CHECK(!waits("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pinned)", 60, 20, 50));  // states that it does not
  CHECK(!waits("hipMemcpyAsync", "Memcpy DtoH (Device -> Host)", 8, 16, 50));      // has returned before
  CHECK(!waits("hipMemcpyAsync", "Memcpy DtoH (Device -> Host)", 15, 20, 4));      // by chance
  CHECK(!waits("cudaMemcpyAsync", "Memcpy DtoD (Device -> Device)", 60, 20, 50));
  CHECK(waits("hipMemcpyAsync", "Memcpy DtoH (Device -> Host)", 61, 20, 50));
  CHECK(waits("hipMemcpy", "Memcpy DtoH (Device -> Host)", 15, 20, 4));
  CHECK(waits("cudaMemcpyAsync", "Memcpy DtoH (Device -> Host)", 1000, 20, 957));  // returns 33 us after it
  CHECK(!waits("cudaMemcpyAsync", "Memcpy DtoH (Device -> Host)", 200, 20, 100));  // for another reason
}

TEST_CASE("a program that launches one kernel at a time waits for each") {
  const RecordedRun run = Trace{}.call(0, "cudaLaunchKernel", 0, 105, 1).kernel(0, "k1", 8, 95, 1).run();
  CHECK(reasons(run, host_until(run, 105)) == "thread, sync k1");
  CHECK(host_until(run, 105).duration == 2000);
}

TEST_CASE("synchronizations wait by the names of each vendor, and memory is freed when all work is done") {
  for (const char* name :
       {"hipDeviceSynchronize", "hipStreamSynchronize", "hipEventSynchronize", "cuCtxSynchronize",
        "musaDeviceSynchronize", "zeCommandQueueSynchronize", "urQueueFinish", "urEventWait", "cudaFree", "hipFree"}) {
    CAPTURE(name);
    const RecordedRun run =
        Trace{}.call(0, "hipLaunchKernel", 0, 5, 1).call(0, name, 10, 110).kernel(0, "k1", 8, 92, 1).run();
    CHECK(reasons(run, host_until(run, 120)) == "thread, sync k1");
  }
  const RecordedRun free = Trace{}  // that returns while a kernel runs
                               .call(0, "cudaLaunchKernel", 0, 3, 1)
                               .call(0, "cudaLaunchKernel", 5, 3, 2)
                               .call(0, "cudaFree", 10, 30)
                               .kernel(0, "k1", 8, 15, 1)
                               .kernel(0, "k2", 24, 90, 2)
                               .run();
  CHECK(std::ranges::none_of(free.dependencies,
                             [](const Dependency& d) { return d.reason == Dependency::Reason::kSync; }));
}

TEST_CASE("the launch latency is that of kernels that wait for nothing else") {
  // A kernel of 1 ms on an idle GPU, and two all-reduces that begin after it, though launched before: by events or not.
  const auto latency = [](bool is_launched, bool by_events) {
    Trace trace;
    if (is_launched) trace.call(0, "cudaLaunchKernel", 0, 3, 1);
    trace.kernel(0, "k1", 6, 1000, is_launched ? 1 : -1);
    for (int i = 0; i < 2; ++i) {
      if (by_events) trace.call(0, "cudaStreamWaitEvent", 10 + 10 * i, 1);
      trace.call(0, "cudaLaunchKernel", 12 + 10 * i, 3, 2 + i);
      trace.kernel(1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1010 + 500 * i, 400, 2 + i);
    }
    return trace.run().launch_latency;
  };
  CHECK(latency(true, true) == 6000);
  CHECK(latency(true, false) == 6000);
  CHECK(latency(false, true) == 10'000);  // none is measured
}

TEST_CASE("a step is as long as on the GPU where that falls behind the host") {
  Trace trace;
  for (int i = 0; i < 5; ++i)
    trace.call(0, "cudaLaunchKernel", 40 * i, 20, i).kernel(0, "gemm", 1000 + 15'000 * i, 15'000, i);
  const RecordedRun run = trace.run();
  REQUIRE(run.steps.size() == 4);
  const GpuSteps steps = gpu_steps(run);
  REQUIRE(steps.first.size() == 5);
  CHECK(!steps.ends_with_last);  // the fifth kernel begins then
  for (std::size_t s = 0; s < 5; ++s)
    CHECK(run.operations[static_cast<std::size_t>(steps.first[s])].recorded_start ==
          1'000'000 + 15'000'000 * static_cast<Nanoseconds>(s));

  Trace marked;  // the host waits for the GPU in each
  for (int i = 0; i < 3; ++i)
    marked.annotation("ProfilerStep#" + std::to_string(i), 1000 * i, 1000)
        .call(0, "cudaLaunchKernel", 1000 * i + 10, 20, i)
        .kernel(0, "gemm", 1000 * i + 20, 900, i)
        .call(0, "cudaDeviceSynchronize", 1000 * i + 50, 880);
  CHECK(gpu_steps(marked.run()).first.empty());

  Trace unmarked;  // the host does not wait, and marks its steps
  for (int i = 0; i < 3; ++i)
    unmarked.annotation("ProfilerStep#" + std::to_string(i), 100 * i, 100)
        .call(0, "cudaLaunchKernel", 100 * i + 10, 20, i)
        .kernel(0, "gemm", 20 + 900 * i, 900, i);
  const GpuSteps behind = gpu_steps(unmarked.run());
  REQUIRE(behind.first.size() == 4);
  CHECK(behind.ends_with_last);
}

TEST_CASE("a stream waits for another one: for the latest that had ended of what was launched before") {
  const RecordedRun run = Trace{}
                              .call(0, "cudaLaunchKernel", 0, 5, 1)
                              .call(0, "cudaStreamWaitEvent", 10, 2)
                              .call(0, "cudaLaunchKernel", 20, 5, 2)
                              .call(0, "cudaLaunchKernel", 30, 5, 3)
                              .kernel(0, "compute", 8, 92, 1)
                              .kernel(1, "ncclAllReduce", 101, 50, 2)
                              .kernel(0, "next", 101, 50, 3)
                              .run();
  CHECK(reasons(run, kernel_named(run, "ncclAllReduce")) == "launch, event compute");
  CHECK(reasons(run, kernel_named(run, "next")) == "launch, stream compute");
  REQUIRE(run.collectives.size() == 1);
  CHECK(std::ranges::any_of(run.remarks, [](const std::string& r) { return r.starts_with("1 waits of a stream"); }));
}

TEST_CASE("a thread that was idle goes on when another one has become idle") {
  const RecordedRun run = Trace{}
                              .operation(0, "forward", 0, 100)
                              .operation(1, "backward", 120, 500)
                              .operation(0, "optimizer", 640, 50)
                              .call(0, "cudaLaunchKernel", 650, 5, 1)
                              .kernel(0, "k", 660, 10, 1)
                              .run();
  CHECK(reasons(run, host_until(run, 120)) == "hand-over");
  CHECK(host_until(run, 120).duration == 20'000);
  CHECK(reasons(run, host_until(run, 640)) == "thread, hand-over");
  CHECK(host_until(run, 640).duration == 20'000);  // not the time of the backward pass
  CHECK(unexplained_time(run).total == 0);
}

TEST_CASE("a call waits when the queue of launches is full") {
  constexpr int kKernels = 1200;
  Trace trace;
  int free = 0, called = 0;
  std::vector<int> ends;
  for (int i = 0; i < kKernels; ++i) {  // kernels of 50 us; 1000 may be under way, with that of the call
    const int returns = i < 999 ? called + 5 : std::max(called, ends[static_cast<std::size_t>(i - 999)]) + 5;
    trace.call(0, "cudaLaunchKernel", called, returns - called, i);
    const int start = std::max(free + 1, called + 10);
    trace.kernel(0, "k", start, 50, i);
    ends.push_back(free = start + 50);
    called = returns + 1;
  }
  const RecordedRun run = trace.run();
  CHECK(run.queue_depth == 1000);
  const auto waits = std::ranges::count(run.dependencies, Dependency::Reason::kQueue, &Dependency::reason);
  CHECK(waits == kKernels - 999);
  for (const RecordedOperation& operation : run.operations)
    if (operation.kind == RecordedOperation::Kind::kHost) CHECK(operation.duration <= 6000);
}

TEST_CASE("a kernel that was ready waits for one of another stream that fills the GPU") {
  const auto traced = [](float warps) {
    return Trace{}
        .call(0, "cudaLaunchKernel", -200, 5, 3)
        .kernel(0, "first", -192, 10, 3)
        .call(0, "cudaLaunchKernel", -100, 5, 4)
        .kernel(0, "second", -92, 10, 4)
        .call(0, "cudaLaunchKernel", 0, 5, 1)
        .call(0, "cudaLaunchKernel", 10, 5, 2)
        .kernel(0, "large", 8, 1000, 1, warps)
        .kernel(1, "small", 1000, 20, 2, 1)
        .run();
  };
  const RecordedRun full = traced(200);
  CHECK(reasons(full, kernel_named(full, "small")) == "launch, full GPU large");
  const RecordedRun free = traced(8);
  CHECK(reasons(free, kernel_named(free, "small")) == "launch");
  CHECK(unexplained_time(free).total > 900'000);
}

TEST_CASE("steps are those that are marked, or what repeats") {
  Trace marked;
  Trace unmarked;
  for (int step = 0; step < 5; ++step) {
    marked.annotation("ProfilerStep#" + std::to_string(step), 1000 * step, 999);
    for (Trace* trace : {&marked, &unmarked})
      for (int kernel = 0; kernel < 3; ++kernel)
        trace->call(0, "cudaLaunchKernel", 1000 * step + 100 + 20 * kernel, 5, 10 * step + kernel)
            .kernel(0, "k" + std::to_string(kernel), 1000 * step + 110 + 20 * kernel, 10, 10 * step + kernel);
  }
  const RecordedRun run = marked.run();
  REQUIRE(run.steps.size() == 5);
  CHECK(run.steps[2].name == "ProfilerStep#2");
  CHECK(run.steps[2].recorded_end - run.steps[2].recorded_start == 1'000'000);
  CHECK(run.end_of_steps >= 0);
  const RecordedRun found = unmarked.run();
  REQUIRE(found.steps.size() == 4);  // the last has no end
  for (const RecordedStep& step : found.steps) CHECK(step.recorded_end - step.recorded_start == 1'000'000);
}

TEST_CASE("steps that end when they begin are left out, marked or not") {
  Trace marked;
  marked.call(0, "cudaLaunchKernel", 10, 5, 1).kernel(0, "k", 20, 10, 1);
  marked.annotation("ProfilerStep#0", 0, 100).annotation("ProfilerStep#1", 100, 90);
  marked.annotation("ProfilerStep#2", 100, 0).annotation("ProfilerStep#3", 200, 0);
  const RecordedRun run = marked.run();
  REQUIRE(run.steps.size() == 2);
  CHECK(run.steps[1].name == "ProfilerStep#1");
  CHECK(run.steps[1].recorded_end == 200'000);
  CHECK(std::ranges::find(run.remarks, "2 marked steps end at the date at which they begin: left out") !=
        run.remarks.end());
  Trace at_once;
  for (int i = 0; i < 20; ++i) at_once.call(0, "cudaLaunchKernel", 0, 0, i).kernel(0, "k", 0, 10, i);
  CHECK(at_once.run().steps.empty());
}

TEST_CASE("what one call has started no later call with its correlation starts again") {
  const RecordedRun run = Trace{}
                              .call(0, "cudaLaunchKernel", 0, 5, 1)
                              .call(0, "cudaLaunchKernel", 10, 5, 1)
                              .kernel(0, "k1", 20, 10, 1)
                              .kernel(0, "k2", 30, 10, 1)
                              .run();
  for (const Dependency& wait : run.dependencies)
    if (wait.reason == Dependency::Reason::kLaunch)
      CHECK(run.operations[static_cast<std::size_t>(wait.earlier)].recorded_end == 0);
  CHECK(std::ranges::count(run.dependencies, Dependency::Reason::kLaunch, &Dependency::reason) == 2);
  CHECK(std::ranges::count(run.operations, 10'000, &RecordedOperation::recorded_end) == 0);  // nothing at the second
}

TEST_CASE("a synchronization with the device waits for streams that its thread has not waited for") {
  Trace trace;
  trace.call(0, "cudaLaunchKernel", 0, 5, 1).kernel(0, "k1", 8, 12, 1);
  trace.call(0, "cudaDeviceSynchronize", 10, 15);
  trace.call(0, "cudaLaunchKernel", 30, 5, 2).kernel(1, "k2", 38, 62, 2);
  trace.call(0, "cudaDeviceSynchronize", 40, 65);
  trace.call(1, "cudaDeviceSynchronize", 110, 5);
  const RecordedRun run = trace.run();
  CHECK(reasons(run, host_until(run, 25)) == "thread, sync k1");
  CHECK(reasons(run, host_until(run, 105)) == "thread, sync k2");  // of k1 the first has waited
  CHECK(reasons(run, host_until(run, 115)) == "thread, sync k1, sync k2");
}

TEST_CASE("threads that wait for the device, times its streams, are few, or the trace is refused") {
  const auto with = [](int threads, int streams) {
    Trace trace;
    for (int i = 0; i < streams; ++i) trace.call(0, "cudaLaunchKernel", i, 1, i).kernel(i, "gemm", i + 1, 1, i);
    for (int t = 1; t <= threads; ++t) trace.call(t, "cudaDeviceSynchronize", 2 * streams + 40 * t, 20, streams + t);
    return trace;
  };
  const RecordedRun run = with(20, 1000).run();
  CHECK(std::ranges::count(run.dependencies, Dependency::Reason::kSync, &Dependency::reason) == 20 * 1000);
  CHECK_THROWS_AS((void)with(1000, 1000).run(), NoResultError);
}

TEST_CASE("time without events is unexplained, but while samples are waited for") {
  const auto traced = [](const std::string& second) {
    return Trace{}
        .call(0, "cudaLaunchKernel", 0, 5, 1)
        .kernel(0, "k", 10, 10, 1)
        .call(0, "cudaMemcpyAsync", 50'000, 5, 2)
        .copy(second, 50'010, 10, 2, 100)
        .run();
  };
  const RecordedRun samples = traced("Memcpy HtoD (Pinned -> Device)");
  CHECK(unexplained_time(samples).total == 0);
  const RecordedRun unknown = traced("Memcpy DtoD (Device -> Device)");
  const UnexplainedTime unexplained = unexplained_time(unknown);
  CHECK(unexplained.share() > 0.95);
  REQUIRE(unexplained.gaps.size() == 1);
  CHECK(unexplained.gaps[0].time == 49'995'000);
}

TEST_CASE("nothing waits for what comes later in the list, and a trace without a GPU is refused") {
  const RecordedRun run = Trace{}
                              .call(0, "cudaLaunchKernel", 0, 5, 1)
                              .call(0, "cudaStreamSynchronize", 10, 95)
                              .kernel(0, "k1", 8, 92, 1)
                              .run();
  for (const Dependency& dependency : run.dependencies) CHECK(dependency.earlier < dependency.later);
  CHECK_THROWS_WITH_AS(Trace{}.operation(0, "aten::add", 0, 5).run(), "t.json: has no kernel or copy on a GPU",
                       InputError);
}

TEST_CASE("events that wait for each other are refused with their names") {
  // k0 ran on the stream before k1, but was launched after the thread had waited for k1.
  CHECK_THROWS_WITH_AS(Trace{}
                           .call(0, "cudaDeviceSynchronize", 110, 20)
                           .call(0, "cudaLaunchKernel", 60, 5, 1)
                           .kernel(0, "k1", 100, 5, 1)
                           .kernel(0, "k0", 10, 5, 3)
                           .call(0, "cudaLaunchKernel", 200, 5, 3)
                           .run(),
                       doctest::Contains("events wait for each other in a circle"), InputError);
}

}  // namespace rehearse
