// Time of a kernel, against its formula.

#include <doctest/doctest.h>

#include "sim/scenario/kernel_time.hpp"

namespace rehearse {

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

}  // namespace rehearse
