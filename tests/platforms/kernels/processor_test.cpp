#include "platforms/kernels/processor.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "platforms/kernels/kernels.hpp"

namespace rehearse::kernels {

namespace {

/// One thread at 1 GHz that multiplies and adds 32 numbers in a cycle (64 GFLOP/s) by vectors of 16, memory of 10 GB/s.
Gpu thread_of_ten() {
  return {.name = "P",
          .architecture = kProcessorArchitecture,
          .multiprocessors = 1,
          .cores = 32,
          .clock = 1e9,
          .bandwidth = 10e9,
          .l2 = 1e6,
          .vector_peak = 64e9,
          .peaks = {64e9, 64e9, 64e9, 64e9, 64e9}};
}

}  // namespace

TEST_CASE("a product on a processor takes its call, its blocks of registers and its operands") {
  const ProcessorProductValues values{.launch = 1000, .batched = 500, .arithmetic = 2, .memory = 0.5};
  // m = 6 is computed as 8, n = 20 as 32: 2 * 8 * 32 * 100 FLOPs at half of 64 GFLOP/s are 1.6 us; 4 B * (600 + 2000 +
  // 120) at twice 10 GB/s are 0.544 us; the call 1 us.
  const Product product{.m = 6, .n = 20, .k = 100};
  CHECK(processor_time(product, thread_of_ten(), values).value() == doctest::Approx(3.144e-6).epsilon(1e-9));
  // Ten of them in a batch: work ten times, one call, and 0.5 us for each.
  const Product batch{.batch = 10, .m = 6, .n = 20, .k = 100};
  CHECK(processor_time(batch, thread_of_ten(), values).value() == doctest::Approx(27.44e-6).epsilon(1e-9));
}

TEST_CASE("a convolution on a processor computes whole vectors of channels, and changes layouts") {
  const ProcessorConvolutionValues values{
      .launch = 10'000, .arithmetic = 1, .depthwise_weights = 8, .images = 1, .weights = 2};
  Convolution c{.batch = 2, .in_channels = 20, .out_channels = 20, .height = 8, .width = 8, .kernel_height = 3};
  c.kernel_width = 3;
  c.padding_height = c.padding_width = 1;
  // 32 of 20 channels each: 2 * 2 * 64 * 32 * 32 * 9 FLOPs = 36.864 us; images 2 * 10240 B = 2.048 us; weights 14400 B
  // twice = 2.88 us; the call 10 us.
  CHECK(processor_time(c, thread_of_ten(), values).value() == doctest::Approx(51.792e-6).epsilon(1e-9));
  for (const auto& [name, pass] : kPasses) {
    c.pass = pass;
    CHECK(processor_time(c, thread_of_ten(), values).value() == doctest::Approx(51.792e-6).epsilon(1e-9));
  }
  // Depthwise: 2 * 2 * 64 * 32 * 9 FLOPs = 1.152 us, of the weights' gradient eight times; weights 720 B.
  c.groups = 20;
  c.pass = Pass::kForward;
  CHECK(processor_time(c, thread_of_ten(), values).value() == doctest::Approx(13.344e-6).epsilon(1e-9));
  c.pass = Pass::kWeights;
  CHECK(processor_time(c, thread_of_ten(), values).value() == doctest::Approx(21.408e-6).epsilon(1e-9));
}

TEST_CASE("streaming kernels on a processor have cycles of their own for numbers, rows and channels") {
  ProcessorStreamingValues values;
  values.launch = 0;
  values.memory = 1e-3;
  for (const auto& value : ProcessorStreamingValues::table()) {
    const auto kind = std::ranges::find(kStreamingKinds, std::string_view{value.name}, &StreamingRow::name);
    if (kind == kStreamingKinds.end()) continue;  // a value of all kinds
    CAPTURE(value.name);
    const Streaming kernel{.kind = kind->value, .rows = 1, .columns = 1'000'000};
    const Seconds before = processor_time(kernel, thread_of_ten(), values);
    values.*value.member += 7;  // of 10^6 numbers at 1 GHz: 7 ms
    CHECK((processor_time(kernel, thread_of_ten(), values) - before).value() == doctest::Approx(7e-3).epsilon(1e-9));
  }
  values.channel = 1000;  // cycles: 1 us
  values.channel_backward = 3000;
  values.row = 10;
  const auto of = [&](StreamingKind kind, std::int64_t rows) {
    return processor_time(Streaming{.kind = kind, .rows = rows, .columns = 1000 / rows}, thread_of_ten(), values);
  };
  CHECK((of(StreamingKind::kBatchNorm, 101) - of(StreamingKind::kBatchNorm, 1)).value() > 95e-6);
  CHECK((of(StreamingKind::kBatchNormBackward, 100) - of(StreamingKind::kBatchNormBackward, 1)).value() ==
        doctest::Approx(297e-6).epsilon(1e-9));
  CHECK((of(StreamingKind::kLayerNorm, 100) - of(StreamingKind::kLayerNorm, 1)).value() ==
        doctest::Approx(0.99e-6).epsilon(1e-9));
  CHECK(of(StreamingKind::kUnary, 100).value() == doctest::Approx(of(StreamingKind::kUnary, 1).value()));
}

TEST_CASE("a kernel has the values of its class on its device: a processor's or a GPU's") {
  const Gpu processor = thread_of_ten();
  Gpu gpu = processor;
  gpu.architecture = "Ampere";
  for (const auto& [kernel, on_processor, on_gpu] :
       {std::tuple{Kernel{Product{}}, Class::kProcessorProduct, Class::kVectorProduct},
        std::tuple{Kernel{Convolution{}}, Class::kProcessorConvolution, Class::kConvolution},
        std::tuple{Kernel{Streaming{}}, Class::kProcessorStreaming, Class::kElementwise}}) {
    CHECK(class_of(kernel, processor) == on_processor);
    CHECK(class_of(kernel, gpu) == on_gpu);
    Values values;
    const Seconds before = time(kernel, processor, values), of_gpu = time(kernel, gpu, values);
    std::vector<double> changed = values_of(values, on_processor);
    changed.front() *= 2;  // the launch
    set_values(values, on_processor, changed);
    CHECK(time(kernel, processor, values) > before);
    CHECK(time(kernel, gpu, values) == of_gpu);
  }
}

}  // namespace rehearse::kernels
