#include "platforms/kernels/convolution.hpp"

#include <doctest/doctest.h>

#include "sim/base/random.hpp"
#include "tests/platforms/kernels/gpus.hpp"

namespace rehearse::kernels {

namespace {

Convolution layer(std::int64_t batch, std::int64_t channels, std::int64_t size, std::int64_t kernel,
                  std::int64_t stride = 1) {
  return {.batch = batch,
          .in_channels = channels,
          .out_channels = channels,
          .height = size,
          .width = size,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride_height = stride,
          .stride_width = stride,
          .padding_height = kernel / 2,
          .padding_width = kernel / 2};
}

}  // namespace

TEST_CASE("FLOPs and outputs of a convolution are those of its sums") {
  // ResNet's first layer, one image of 224 x 224: 112 x 112 x 64 sums of 3 * 7 * 7 products.
  const Convolution first{.in_channels = 3,
                          .out_channels = 64,
                          .height = 224,
                          .width = 224,
                          .kernel_height = 7,
                          .kernel_width = 7,
                          .stride_height = 2,
                          .stride_width = 2,
                          .padding_height = 3,
                          .padding_width = 3};
  CHECK(first.out_height() == 112);
  CHECK(first.flops() == 2.0 * 112 * 112 * 64 * 3 * 7 * 7);
  CHECK(first.bytes() == 4.0 * (3 * 224 * 224 + 64 * 112 * 112 + 64 * 3 * 7 * 7));
}

TEST_CASE("no convolution is faster than its FLOPs, or a quarter of them by Winograd's algorithm, and its bytes") {
  Rng rng{4, "convolutions"};
  const auto size = [&](int most) { return 1 + static_cast<std::int64_t>(rng.uniform() * most); };
  for (int i = 0; i < 200; ++i) {
    Convolution convolution = layer(size(64), size(512), size(100), 1 + 2 * (size(3) - 1), size(2));
    for (const auto& [name, pass] : kPasses) {
      convolution.pass = pass;
      const ConvolutionPlan plan = plan_convolution(convolution, test::gpu_of_hundred(), {});
      CHECK(plan.time >= roofline(convolution, test::gpu_of_hundred()));
      if (convolution.kernel_height != 3 || convolution.stride_height != 1)
        CHECK(plan.time.value() >= convolution.flops() / 20e12);
    }
  }
}

TEST_CASE("large convolutions of 3 x 3 are computed by Winograd's algorithm, others as products") {
  const Gpu gpu = test::gpu_of_hundred();
  const ConvolutionPlan large = plan_convolution(layer(64, 256, 28, 3), gpu, {});
  CHECK(large.algorithm != Algorithm::kImplicitProduct);
  CHECK(large.time.value() < 0.9 * layer(64, 256, 28, 3).flops() / 20e12);
  CHECK(plan_convolution(layer(64, 256, 28, 5), gpu, {}).algorithm == Algorithm::kImplicitProduct);
  CHECK(plan_convolution(layer(64, 256, 28, 3, 2), gpu, {}).algorithm == Algorithm::kImplicitProduct);
  Convolution half = layer(64, 256, 28, 3);
  half.precision = Precision::kFp16;
  CHECK(plan_convolution(half, gpu, {}).algorithm == Algorithm::kImplicitProduct);
}

TEST_CASE("a depthwise convolution is not computed as products of one column") {
  Convolution depthwise = layer(64, 256, 56, 3);
  depthwise.groups = 256;
  const Gpu gpu = test::gpu_of_hundred();
  const ConvolutionPlan plan = plan_convolution(depthwise, gpu, {});
  CHECK(plan.algorithm == Algorithm::kDirect);
  CHECK(plan.time.value() < 3 * roofline(depthwise, gpu).value());
}

TEST_CASE("more images take no less time") {
  Rng rng{5, "more images"};
  const auto size = [&](int most) { return 1 + static_cast<std::int64_t>(rng.uniform() * most); };
  for (int i = 0; i < 50; ++i) {
    Convolution convolution = layer(size(64), size(300), 4 + size(60), 3);
    const Seconds time = plan_convolution(convolution, test::gpu_of_hundred(), {}).time;
    ++convolution.batch;
    CHECK(plan_convolution(convolution, test::gpu_of_hundred(), {}).time >= time);
  }
}

TEST_CASE("Kepler has no fused transforms, and sums without transforms reach 0.445 of its peak instead of 2 / 3") {
  Gpu later = test::gpu_of_hundred(), kepler = later;
  later.architecture = "Maxwell";
  kepler.architecture = "Kepler";
  ConvolutionValues values;
  values.launch = 0;
  // 1 x 1, bound by its FLOPs: (2 / 3) / (0.576 * 0.773) = 1.497 times as long.
  const Convolution plain = layer(64, 1024, 56, 1);
  CHECK(plan_convolution(plain, kepler, values).time / plan_convolution(plain, later, values).time ==
        doctest::Approx(2.0 / 3 / (0.576 * 0.773)).epsilon(0.01));
  // 3 x 3 of one image: unfused transforms write and read more than they save, so that later architectures fuse them.
  values.winograd_fused = 0.5;
  values.winograd_unfused = 4;
  const Convolution small = layer(1, 64, 56, 3);
  CHECK(plan_convolution(small, later, values).algorithm == Algorithm::kWinogradFused);
  CHECK(plan_convolution(small, kepler, values).algorithm != Algorithm::kWinogradFused);
}

}  // namespace rehearse::kernels
