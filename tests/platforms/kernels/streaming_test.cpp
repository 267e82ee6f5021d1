#include "platforms/kernels/streaming.hpp"

#include <doctest/doctest.h>

#include "tests/platforms/kernels/gpus.hpp"

namespace rehearse::kernels {

TEST_CASE("kernels bound by memory take their passes over it") {
  const Gpu gpu = test::gpu_of_hundred();
  const StreamingValues ideal{.launch = 0, .memory = 1, .number = 0, .row = 0};
  for (const StreamingRow& kind : kStreamingKinds) {
    const Streaming kernel{.kind = kind.value, .rows = 1000, .columns = 250'000};  // 1 GB: 1 ms for each pass
    CAPTURE(kind.name);
    const double passes = kind.passes + kind.rereads;  // of rows of 1 MB, L2 has none
    CHECK(streaming_time(kernel, gpu, ideal).value() == doctest::Approx(passes * 1e-3).epsilon(1e-12));
    CHECK(streaming_time(kernel, gpu, {}) > roofline(kernel, gpu));
    Streaming larger = kernel;
    ++larger.rows;
    CHECK(streaming_time(larger, gpu, {}) > streaming_time(kernel, gpu, {}));
    Streaming half = kernel;
    half.precision = Precision::kBf16;
    CHECK(2 * streaming_time(half, gpu, ideal).value() ==
          doctest::Approx(streaming_time(kernel, gpu, ideal).value()).epsilon(1e-12));
  }
}

TEST_CASE("rows cost something of their own where they are kernels by rows") {
  const Gpu gpu = test::gpu_of_hundred();
  const StreamingValues rows{.launch = 0, .memory = 1, .number = 0, .row = 1000};
  // 10^6 rows of 1000 cycles on 100 multiprocessors of 1 GHz: 10 ms; the same for none of element-wise kernels.
  const Streaming softmax{.kind = StreamingKind::kSoftmax, .rows = 1'000'000, .columns = 1};
  CHECK(streaming_time(softmax, gpu, rows).value() == doctest::Approx(10e-3).epsilon(1e-3));
  const Streaming unary{.kind = StreamingKind::kUnary, .rows = 1'000'000, .columns = 1};
  CHECK(streaming_time(unary, gpu, rows).value() == doctest::Approx(8e-6).epsilon(1e-9));
}

TEST_CASE("rows that do not fit in registers are read again, from memory if L2 does not hold them any more") {
  const Gpu gpu = test::gpu_of_hundred();  // L2 of 40 MB
  const StreamingValues ideal{.launch = 0, .memory = 1, .number = 0, .row = 0};
  const auto passes = [&](StreamingKind kind, std::int64_t columns) {
    const Streaming kernel{.kind = kind, .rows = 1000, .columns = columns};
    return streaming_time(kernel, gpu, ideal).value() * 1e12 / (4000.0 * static_cast<double>(columns));
  };
  // 100 multiprocessors hold 4 rows each of a softmax: 40 MB / 2 are 12500 numbers of 4 B, 40 MB 25000.
  CHECK(passes(StreamingKind::kSoftmax, 12'500) == doctest::Approx(2));
  CHECK(passes(StreamingKind::kSoftmax, 25'000) == doctest::Approx(3));
  CHECK(passes(StreamingKind::kSoftmax, 50'000) == doctest::Approx(4));
  CHECK(passes(StreamingKind::kLayerNorm, 3125) == doctest::Approx(2));  // 16 rows each
  CHECK(passes(StreamingKind::kLayerNorm, 12'500) == doctest::Approx(3));
  CHECK(passes(StreamingKind::kReduction, 50'000) == doctest::Approx(1));
  // 50 cycles of 100 cores in each of 100 multiprocessors of 1 GHz: 5 ps for a number, of longer rows alone.
  const StreamingValues computing{.launch = 0, .memory = 1, .number = 50, .row = 0};
  const auto more = [&](std::int64_t columns) {
    const Streaming kernel{.kind = StreamingKind::kSoftmax, .rows = 1000, .columns = columns};
    return (streaming_time(kernel, gpu, computing) - streaming_time(kernel, gpu, ideal)).value();
  };
  CHECK(more(1024) < 1e-12);
  CHECK(more(1025) / (1025e3 * 5e-12) == doctest::Approx(1).epsilon(1e-6));
}

TEST_CASE("a batch norm by channels waits for the loads of few channels, whatever the memory delivers") {
  Gpu gpu = test::gpu_of_hundred();
  const StreamingValues ideal{.launch = 1000, .memory = 1, .number = 0, .row = 0};
  const auto time = [&](double channels, bool is_backward, Precision precision) {
    return channel_time(1e9, channels, is_backward, precision, gpu, ideal).value() - 1e-6;
  };
  // 250 million numbers of 4 B, of which the memory delivers all in 1 ms: 32 channels read 7.8 million each.
  CHECK(time(32, false, Precision::kFp32) == doctest::Approx(250e6 / 32 / kChannelRate).epsilon(1e-9));
  CHECK(time(32, true, Precision::kFp32) == doctest::Approx(250e6 / 32 / kChannelRateBackward).epsilon(1e-9));
  CHECK(time(32, false, Precision::kFp16) == doctest::Approx(500e6 / 32 / kChannelRate).epsilon(1e-9));
  CHECK(time(1024, true, Precision::kFp32) == doctest::Approx(1e-3).epsilon(1e-9));
  const double once = time(32, true, Precision::kFp32);
  gpu.bandwidth *= 4;
  CHECK(time(32, true, Precision::kFp32) == once);
  gpu.bandwidth /= 40;
  CHECK(channel_time(1e9, 32, false, Precision::kFp32, gpu, ideal) == memory_time(1e9, gpu, ideal));
}

}  // namespace rehearse::kernels
