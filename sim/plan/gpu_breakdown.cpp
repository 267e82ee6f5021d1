#include "sim/plan/gpu_breakdown.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace rehearse {

namespace {

enum class Work : std::size_t { kComputation, kCommunication, kMemory };

Work work_of(const RecordedRun& run, const RecordedOperation& operation) {
  if (operation.kernel == KernelClass::kCollective) return Work::kCommunication;
  if (operation.kernel != KernelClass::kCopy || operation.name < 0) return Work::kComputation;
  const std::string name = lower_case(run.names[static_cast<std::size_t>(operation.name)]);
  constexpr std::array<std::string_view, 6> kRuntime{"memcpy",     "memset",   "rocclr",
                                                     "copydevice", "copyhost", "fillbuffer"};
  const bool is_runtime =
      std::ranges::any_of(kRuntime, [&](std::string_view word) { return name.find(word) != std::string::npos; });
  return is_runtime ? Work::kMemory : Work::kComputation;
}

/// A date at which work begins or ends.
struct Point {
  Seconds when{};
  bool begins = false;
  std::size_t operation = 0;
};

std::vector<Point> points_of(const RecordedRun& run, const std::vector<Span>& spans) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < run.operations.size(); ++i) {
    if (run.operations[i].kind != RecordedOperation::Kind::kGpu) continue;
    points.push_back({spans[i].start, true, i});
    points.push_back({spans[i].end, false, i});
  }
  // What begins comes first: works that follow without a gap leave none.
  std::ranges::stable_sort(points, [](const Point& a, const Point& b) {
    return a.when != b.when ? a.when < b.when : a.begins && !b.begins;
  });
  return points;
}

/// When the host had launched it; nothing is recorded of some.
Seconds launched_at(const RecordedRun& run, const std::vector<Span>& spans, std::size_t operation) {
  Seconds launched{-1};
  for (const Dependency& wait : run.waits_of(static_cast<std::int32_t>(operation)))
    if (wait.reason == Dependency::Reason::kLaunch)
      launched = std::max(launched, spans[static_cast<std::size_t>(wait.earlier)].end);
  return launched;
}

}  // namespace

GpuBreakdown& GpuBreakdown::operator+=(const GpuBreakdown& other) {
  for (Seconds GpuBreakdown::*part :
       {&GpuBreakdown::window, &GpuBreakdown::busy, &GpuBreakdown::computation, &GpuBreakdown::communication,
        &GpuBreakdown::overlapped, &GpuBreakdown::exposed, &GpuBreakdown::memory, &GpuBreakdown::host_wait,
        &GpuBreakdown::kernel_wait, &GpuBreakdown::other_wait})
    this->*part += other.*part;
  return *this;
}

GpuBreakdown gpu_breakdown(const RecordedRun& run, const std::vector<Span>& spans) {
  const std::vector<Point> points = points_of(run, spans);
  GpuBreakdown breakdown;
  if (points.empty()) return breakdown;
  breakdown.window = points.back().when - points.front().when;
  std::array<int, 3> under_way{};
  const auto is_under_way = [&](Work work) { return under_way[static_cast<std::size_t>(work)] > 0; };
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i];
    const Seconds time = i == 0 ? Seconds{} : point.when - points[i - 1].when;
    const bool computes = is_under_way(Work::kComputation), exchanges = is_under_way(Work::kCommunication);
    if (computes) breakdown.computation += time;
    if (exchanges) (computes ? breakdown.overlapped : breakdown.exposed) += time;
    if (is_under_way(Work::kMemory)) breakdown.memory += time;
    if (computes || exchanges || is_under_way(Work::kMemory)) {
      breakdown.busy += time;
    } else if (time > Seconds{}) {
      const Seconds since = points[i - 1].when;
      if (launched_at(run, spans, point.operation) > since)
        breakdown.host_wait += time;
      else
        (time <= seconds(kClearlyApart) ? breakdown.kernel_wait : breakdown.other_wait) += time;
    }
    under_way[static_cast<std::size_t>(work_of(run, run.operations[point.operation]))] += point.begins ? 1 : -1;
  }
  breakdown.communication = breakdown.overlapped + breakdown.exposed;
  return breakdown;
}

std::vector<Span> recorded_spans(const RecordedRun& run) {
  std::vector<Span> spans;
  const Nanoseconds start = run.recorded_start();
  for (const RecordedOperation& operation : run.operations)
    spans.push_back({seconds(operation.recorded_start - start), seconds(operation.recorded_end - start)});
  return spans;
}

}  // namespace rehearse
