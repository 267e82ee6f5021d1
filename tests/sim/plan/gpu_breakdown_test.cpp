// How a GPU's time divides, in closed form.

#include "sim/plan/gpu_breakdown.hpp"

#include <doctest/doctest.h>

namespace rehearse {

TEST_CASE("a GPU's time is what it computes, exchanges and copies, and what it waits for") {
  // ms: calls at 0, 1, 2 and 30; kernels 1-11 on stream 0, then 11.01-21 behind it; all-reduce 15-25 on stream 1;
  // nothing until 31, whose call came at 30; copy 31-32; kernel launched at 2 that begins at 40 for no known reason.
  RecordedRun run;
  run.names = {"gemm", "ncclDevKernel_AllReduce", "Memcpy DtoH (Device -> Pinned)"};
  std::vector<Span> spans;
  const auto ms = [](double time) { return Seconds{time * 1e-3}; };
  const auto call = [&](double at) {
    run.operations.push_back({.kind = RecordedOperation::Kind::kHost});
    spans.push_back({ms(at), ms(at)});
    return static_cast<std::int32_t>(run.operations.size() - 1);
  };
  const auto work = [&](std::int32_t launch, KernelClass kernel, std::int32_t name, double start, double end) {
    run.operations.push_back({.kind = RecordedOperation::Kind::kGpu, .kernel = kernel, .name = name});
    spans.push_back({ms(start), ms(end)});
    run.dependencies.push_back(
        {launch, static_cast<std::int32_t>(run.operations.size() - 1), Dependency::Reason::kLaunch});
  };
  const std::int32_t early = call(0), late = call(30);
  work(early, KernelClass::kMatrixProduct, 0, 1, 11);
  work(early, KernelClass::kMatrixProduct, 0, 11.01, 21);
  work(early, KernelClass::kCollective, 1, 15, 25);
  work(late, KernelClass::kCopy, 2, 31, 32);
  work(early, KernelClass::kMatrixProduct, 0, 40, 41);
  const GpuBreakdown found = gpu_breakdown(run, spans);
  CHECK(found.window.value() == doctest::Approx(40e-3));
  CHECK(found.busy.value() == doctest::Approx((10 + 9.99 + 4 + 1 + 1) * 1e-3));
  CHECK(found.computation.value() == doctest::Approx((10 + 9.99 + 1) * 1e-3));
  CHECK(found.communication.value() == doctest::Approx(10e-3));
  CHECK(found.overlapped.value() == doctest::Approx(6e-3));
  CHECK(found.exposed.value() == doctest::Approx(4e-3));
  CHECK(found.memory.value() == doctest::Approx(1e-3));
  CHECK(found.host_wait.value() == doctest::Approx(6e-3));
  CHECK(found.kernel_wait.value() == doctest::Approx(0.01e-3));
  CHECK(found.other_wait.value() == doctest::Approx(8e-3));
  CHECK((found.busy + found.idle()).value() == doctest::Approx(found.window.value()));
}

TEST_CASE("a GPU without work has no time to divide") { CHECK(gpu_breakdown(RecordedRun{}, {}).window == Seconds{}); }

}  // namespace rehearse
