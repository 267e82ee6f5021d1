#include "platforms/kernels/attention.hpp"

#include <doctest/doctest.h>

#include "tests/platforms/kernels/gpus.hpp"

namespace rehearse::kernels {

TEST_CASE("attention takes no less than its FLOPs and bytes, and fused less than in separate kernels") {
  const Gpu gpu = test::gpu_of_hundred();
  Attention attention{.batch = 8, .heads = 16, .key_heads = 16, .queries = 2048, .keys = 2048, .head_size = 64};
  // 4 * 8 * 16 * 2048^2 * 64 FLOPs
  CHECK(attention.flops() == doctest::Approx(137'438'953'472.0));
  for (const bool is_backward : {false, true}) {
    attention.is_backward = is_backward;
    attention.is_fused = true;
    const Seconds fused = attention_time(attention, gpu, {});
    CHECK(fused > roofline(attention, gpu));
    attention.is_fused = false;
    CHECK(attention_time(attention, gpu, {}) > fused);
  }
}

TEST_CASE("fused attention gains less than products from asynchronous copies, and keeps to the board's power") {
  Gpu gpu = test::gpu_of_hundred();
  const Attention attention{.batch = 8, .heads = 32, .key_heads = 32, .queries = 4096, .keys = 4096, .head_size = 128};
  const Values values;
  const double before = attention_time(attention, gpu, values).value();
  gpu.overlaps_tiles = true;
  const double after = attention_time(attention, gpu, values).value();
  CHECK(after / before == doctest::Approx(0.75 / 0.35).epsilon(0.02));
  // 40 W at rest, 100 while it computes, and 700 for its FLOPs: x^3 = 1 / 8.
  gpu.flop_energies.fill(700 * after / attention.flops());
  gpu.board = test::board_of_hundred(140);
  CHECK(attention_time(attention, gpu, values).value() / after == doctest::Approx(2).epsilon(0.02));
}

TEST_CASE("kernels made for the architecture reach what cuDNN's benchmark has measured") {
  // NVIDIA, cudnn-frontend, benchmark/sdpa_benchmark_training: TFLOP/s of one sequence, causal.
  struct Measured {
    const char* architecture;
    double multiprocessors, peak;
    std::int64_t heads, tokens;
    double forward, backward;
  };
  for (const Measured& row : {Measured{"Hopper", 132, 989, 64, 32768, 688, 581},  // H200
                              Measured{"Hopper", 132, 989, 64, 16384, 673, 579},
                              Measured{"Blackwell", 148, 2250, 128, 32768, 1419, 1109},  // B200
                              Measured{"Blackwell", 148, 2250, 128, 131072, 1355, 1048}}) {
    Gpu gpu = test::gpu_of_hundred();
    gpu.architecture = row.architecture;
    gpu.overlaps_tiles = true;
    gpu.multiprocessors = row.multiprocessors;
    gpu.peaks.fill(row.peak * 1e12);
    for (const bool is_backward : {false, true}) {
      const Attention attention{.heads = row.heads,
                                .key_heads = 8,
                                .queries = row.tokens,
                                .keys = row.tokens,
                                .head_size = 128,
                                .is_causal = true,
                                .is_backward = is_backward};
      const double rate = attention.flops() / least_attention_time(attention, gpu).value() / 1e12;
      CHECK(rate == doctest::Approx(is_backward ? row.backward : row.forward).epsilon(0.05));
    }
  }
  CHECK(least_attention_time({}, test::gpu_of_hundred()) == Seconds{});  // FlashAttention-2 is made for it
}

TEST_CASE("causal attention computes half, and grouped queries read less") {
  const Gpu gpu = test::gpu_of_hundred();
  Attention attention{.batch = 8, .heads = 32, .key_heads = 32, .queries = 4096, .keys = 4096, .head_size = 128};
  const double all = attention_time(attention, gpu, {}).value();
  attention.is_causal = true;
  CHECK(attention_time(attention, gpu, {}).value() == doctest::Approx(all / 2).epsilon(0.05));
  const double bytes = attention.bytes();
  attention.key_heads = 4;
  CHECK(attention.bytes() == doctest::Approx(bytes * (32 + 4) / 64));
}

TEST_CASE("values may be narrower than queries and keys; as wide, nothing changes") {
  const Gpu gpu = test::gpu_of_hundred();
  Attention attention{.batch = 2, .heads = 128, .key_heads = 128, .queries = 4096, .keys = 4096, .head_size = 192};
  for (const bool is_fused : {true, false})
    for (const bool is_backward : {false, true}) {
      attention.is_fused = is_fused;
      attention.is_backward = is_backward;
      attention.value_size = 0;
      const double flops = attention.flops(), bytes = attention.bytes();
      const Seconds time = attention_time(attention, gpu, {});
      attention.value_size = 192;
      CHECK(attention.flops() == flops);
      CHECK(attention.bytes() == bytes);
      CHECK(attention_time(attention, gpu, {}) == time);
      attention.value_size = 128;  // DeepSeek's
      const double products = is_backward ? is_fused ? 3 * 192 + 2 * 128 : 2 * (192 + 128) : 192 + 128;
      CHECK(attention.flops() == doctest::Approx(2.0 * 2 * 128 * 4096 * 4096 * products).epsilon(1e-12));
      CHECK(attention.bytes() == doctest::Approx(bytes * (192 + 128) / (2 * 192)).epsilon(1e-12));
      CHECK(attention_time(attention, gpu, {}) < time);
    }
}

}  // namespace rehearse::kernels
