#include "platforms/kernels/streaming.hpp"

#include <algorithm>

namespace rehearse::kernels {

namespace {

const StreamingRow& row_of(StreamingKind kind) {
  return *std::find_if(kStreamingKinds.begin(), kStreamingKinds.end(),
                       [kind](const StreamingRow& row) { return row.value == kind; });
}

}  // namespace

double Streaming::bytes() const { return row_of(kind).passes * number(rows) * number(columns) * bytes_of(precision); }

Seconds roofline(const Streaming& kernel, const Gpu& gpu) { return Seconds{kernel.bytes() / gpu.bandwidth}; }

Seconds streaming_time(const Streaming& kernel, const Gpu& gpu, const StreamingValues& values) {
  const StreamingRow& kind = row_of(kernel.kind);
  const double passes = kind.passes + (kind.is_by_rows ? values.reread : 0);
  double time = values.launch / gpu.clock +
                values.memory * kernel.bytes() * passes / kind.passes / (gpu.bandwidth * gpu.delivered);
  if (kind.is_by_rows) time += values.row * number(kernel.rows) / (gpu.multiprocessors * gpu.clock);
  return std::max(Seconds{time}, roofline(kernel, gpu));
}

Seconds memory_time(double bytes, const Gpu& gpu, const StreamingValues& values) {
  const double time = values.launch / gpu.clock + values.memory * bytes / (gpu.bandwidth * gpu.delivered);
  return std::max(Seconds{time}, Seconds{bytes / gpu.bandwidth});
}

}  // namespace rehearse::kernels
