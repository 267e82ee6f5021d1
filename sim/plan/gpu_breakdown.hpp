#pragma once
// How a GPU's time divides: what it computes, what it exchanges meanwhile or without computing, and why it idles.

#include <vector>

#include "sim/job/replay.hpp"

namespace rehearse {

/// Of the time from a GPU's first work to the end of its last, all streams together. Work that overlaps counts once.
/// The terms are those of Holistic Trace Analysis (facebookresearch/HolisticTraceAnalysis: temporal breakdown,
/// communication and computation overlap, idle-time breakdown, which it gives for each stream):
///   window = busy + host_wait + kernel_wait + other_wait,  communication = overlapped + exposed
struct GpuBreakdown {
  Seconds window{}, busy{};
  Seconds computation{};    // kernels but collectives; events that are no work, such as synchronizations, count nowhere
  Seconds communication{};  // collectives and messages
  Seconds overlapped{};     // of it, while something is computed
  Seconds exposed{};        // of it, while nothing is
  Seconds memory{};         // copies and fills by the runtime
  Seconds host_wait{};      // idle until the host had launched what came next
  Seconds kernel_wait{};    // idle between works that were launched before, no longer than a latency (kClearlyApart)
  Seconds other_wait{};     // idle for longer though the next was launched: it waited for something else

  Seconds idle() const { return host_wait + kernel_wait + other_wait; }
  GpuBreakdown& operator+=(const GpuBreakdown& other);
};

/// `spans`: [operations] when each is done.
GpuBreakdown gpu_breakdown(const RecordedRun& run, const std::vector<Span>& spans);

/// The dates of the recording, from its start.
std::vector<Span> recorded_spans(const RecordedRun& run);

}  // namespace rehearse
