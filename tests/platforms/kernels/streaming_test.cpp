#include "platforms/kernels/streaming.hpp"

#include <doctest/doctest.h>

#include "tests/platforms/kernels/gpus.hpp"

namespace rehearse::kernels {

TEST_CASE("kernels bound by memory take their passes over it") {
  const Gpu gpu = test::gpu_of_hundred();
  const StreamingValues ideal{.launch = 0, .memory = 1, .reread = 0, .row = 0};
  for (const StreamingRow& kind : kStreamingKinds) {
    const Streaming kernel{.kind = kind.value, .rows = 1000, .columns = 250'000};  // 1 GB: 1 ms for each pass
    CAPTURE(kind.name);
    CHECK(streaming_time(kernel, gpu, ideal).value() == doctest::Approx(kind.passes * 1e-3).epsilon(1e-12));
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
  const StreamingValues rows{.launch = 0, .memory = 1, .reread = 0, .row = 1000};
  // 10^6 rows of 1000 cycles on 100 multiprocessors of 1 GHz: 10 ms; the same for none of element-wise kernels.
  const Streaming softmax{.kind = StreamingKind::kSoftmax, .rows = 1'000'000, .columns = 1};
  CHECK(streaming_time(softmax, gpu, rows).value() == doctest::Approx(10e-3).epsilon(1e-3));
  const Streaming unary{.kind = StreamingKind::kUnary, .rows = 1'000'000, .columns = 1};
  CHECK(streaming_time(unary, gpu, rows).value() == doctest::Approx(8e-6).epsilon(1e-9));
}

}  // namespace rehearse::kernels
