// Convolutions by Fourier transforms: where libraries take them, and how long that takes.

#include "platforms/kernels/fft_convolution.hpp"

#include <doctest/doctest.h>

#include "tests/platforms/kernels/gpus.hpp"

namespace rehearse::kernels {

using test::kEnergy;

namespace {

/// 96 to 256 channels on 27 x 27 pixels: AlexNet's second layer.
Convolution layer(std::int64_t kernel, std::int64_t batch = 128) {
  return {.batch = batch,
          .in_channels = 96,
          .out_channels = 256,
          .height = 27,
          .width = 27,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .padding_height = kernel / 2,
          .padding_width = kernel / 2};
}

}  // namespace

TEST_CASE("transforms are for large kernels in fp32, without strides and groups") {
  const Gpu gpu = test::gpu_of_hundred();
  CHECK(fft_time(layer(5), gpu, {}, kEnergy));
  CHECK_FALSE(fft_time(layer(3), gpu, {}, kEnergy));
  CHECK_FALSE(fft_time(layer(33), gpu, {}, kEnergy));
  Convolution other = layer(5);
  other.stride_height = other.stride_width = 2;
  CHECK_FALSE(fft_time(other, gpu, {}, kEnergy));
  other = layer(5);
  other.groups = 2;
  CHECK_FALSE(fft_time(other, gpu, {}, kEnergy));
  other = layer(5);
  other.precision = Precision::kTf32;
  CHECK_FALSE(fft_time(other, gpu, {}, kEnergy));
}

TEST_CASE("an image within one tile takes the same time whatever the kernel, and two tiles a side four times that") {
  const Gpu gpu = test::gpu_of_hundred();
  ConvolutionValues free;
  free.launch = free.operands = free.wave = free.step = 0;
  const auto time = [&](const Convolution& c) { return fft_time(c, gpu, free, kEnergy)->value(); };
  // 27 <= 33 - 5 = 28 pixels, but only 26 for a kernel of 7: four tiles.
  CHECK(plan_convolution(layer(7), gpu, free, kEnergy).time >
        1.8 * plan_convolution(layer(5), gpu, free, kEnergy).time);
  CHECK(time(layer(7)) > 3 * time(layer(5)));
  CHECK(time(layer(7)) < 4 * time(layer(5)));  // but for the kernel's own frequencies
}

TEST_CASE("AlexNet's second layer has 544 * 4 multiplications for a pixel block's 27 * 27 * 25") {
  const Gpu gpu = test::gpu_of_hundred();
  for (const Pass pass : {Pass::kForward, Pass::kData, Pass::kWeights}) {
    Convolution c = layer(5);
    c.pass = pass;
    const double share = fft_time(c, gpu, {}, kEnergy)->value() / plan_convolution(c, gpu, {}, kEnergy).time.value();
    CAPTURE(share);
    CHECK(share > 544.0 * 4 / (27 * 27 * 25));
    CHECK(share < 0.7);
  }
}

}  // namespace rehearse::kernels
