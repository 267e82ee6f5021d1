#include "platforms/kernels/streaming.hpp"

#include <algorithm>

namespace rehearse::kernels {

namespace {

constexpr double kL2OfResults = 0.5;

const StreamingRow& row_of(StreamingKind kind) {
  return *std::find_if(kStreamingKinds.begin(), kStreamingKinds.end(),
                       [kind](const StreamingRow& row) { return row.value == kind; });
}

/// Of what is read again, not in L2.
double missed_share(const StreamingRow& kind, const Streaming& kernel, const Gpu& gpu) {
  const double held = gpu.multiprocessors * kind.rows_held * number(kernel.columns) * bytes_of(kernel.precision);
  return std::clamp(held / gpu.l2 - kL2OfResults, 0.0, 1.0);
}

}  // namespace

double Streaming::bytes() const { return row_of(kind).passes * number(rows) * number(columns) * bytes_of(precision); }

Seconds roofline(const Streaming& kernel, const Gpu& gpu) { return Seconds{kernel.bytes() / gpu.bandwidth}; }

Seconds streaming_time(const Streaming& kernel, const Gpu& gpu, const StreamingValues& values) {
  const StreamingRow& kind = row_of(kernel.kind);
  const double rows = number(kernel.rows), columns = number(kernel.columns);
  double passes = kind.passes, cycles = kind.is_by_rows ? values.row * rows : 0;
  if (kind.rereads > 0 && columns > kind.in_registers) {
    passes += kind.rereads * missed_share(kind, kernel, gpu);
    cycles += values.number * rows * columns / gpu.cores;
  }
  const Seconds time{values.launch / gpu.clock +
                     values.memory * kernel.bytes() * passes / kind.passes / (gpu.bandwidth * gpu.delivered) +
                     cycles / (gpu.multiprocessors * gpu.clock)};
  return std::max(time, roofline(kernel, gpu));
}

Seconds memory_time(double bytes, const Gpu& gpu, const StreamingValues& values) {
  const double time = values.launch / gpu.clock + values.memory * bytes / (gpu.bandwidth * gpu.delivered);
  return std::max(Seconds{time}, Seconds{bytes / gpu.bandwidth});
}

Seconds channel_time(double bytes, double channels, bool is_backward, Precision precision, const Gpu& gpu,
                     const StreamingValues& values) {
  const double rate = channels * (is_backward ? kChannelRateBackward : kChannelRate) * bytes_of(precision);
  return std::max(memory_time(bytes, gpu, values), Seconds{values.launch / gpu.clock + bytes / rate});
}

}  // namespace rehearse::kernels
