#include "platforms/kernels/product.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/random.hpp"
#include "tests/platforms/kernels/gpus.hpp"

namespace rehearse::kernels {

namespace {

using test::board_of_hundred;
using test::gpu_of_hundred;

/// Software that costs nothing.
ProductValues ideal_values() {
  ProductValues values;
  values.launch = values.operands = values.wave = values.step = values.split = 0;
  values.arithmetic = values.memory = 1;
  return values;
}

Product random_product(Rng& rng) {
  const auto size = [&](int most) { return 1 + static_cast<std::int64_t>(rng.uniform() * most); };
  return {.batch = size(8), .m = size(5000), .n = size(5000), .k = size(5000), .precision = Precision::kBf16};
}

double seconds(const Product& product, const Gpu& gpu, const ProductValues& values = {}) {
  return plan_product(product, gpu, values).time.value();
}

}  // namespace

TEST_CASE("a product takes no less than its FLOPs at the peak, and its bytes at the memory's rate") {
  Rng rng{1, "products"};
  for (int i = 0; i < 200; ++i) {
    Product product = random_product(rng);
    for (const auto& [name, precision] : kPrecisions) {
      product.precision = precision;
      for (const ProductValues& values : {ProductValues{}, ideal_values()})
        CHECK(seconds(product, gpu_of_hundred(), values) >= roofline(product, gpu_of_hundred()).value());
    }
  }
  // 2 * 1000^3 FLOPs at 100 Tflops: 20 us; 3 * 1000^2 * 2 B at 1 TB/s: 6 us.
  const Product cube{.m = 1000, .n = 1000, .k = 1000, .precision = Precision::kBf16};
  CHECK(roofline(cube, gpu_of_hundred()).value() == doctest::Approx(20e-6).epsilon(1e-12));
  // A vector by a matrix: 2 B of each of 10^8 numbers, and little more.
  const Product vector{.m = 1, .n = 10'000, .k = 10'000, .precision = Precision::kBf16};
  CHECK(roofline(vector, gpu_of_hundred()).value() == doctest::Approx(200.04e-6).epsilon(1e-12));
}

TEST_CASE("tiles that fill the multiprocessors to the last are computed at the peak") {
  // 100 tiles of 256 x 128, 6400 terms: 2 * 256 * 128 * 6400 / 1000 = 419430.4 cycles of 1 ns.
  const Product full{.m = 2560, .n = 1280, .k = 6400, .precision = Precision::kBf16};
  ProductValues values = ideal_values();
  values.sharpness = 10;
  const ProductPlan plan = plan_product(full, gpu_of_hundred(), values);
  CHECK(plan.tiles.waves == 1);
  CHECK(plan.tiles.splits == 1);
  CHECK(plan.time.value() == doctest::Approx(419.4304e-6).epsilon(0.01));  // bytes beside it, by the sharpness
}

TEST_CASE("one tile more than a multiple of the multiprocessors costs a wave") {
  const Gpu gpu = gpu_of_hundred();
  ProductValues values;
  values.operands = 1;  // small tiles are slow, so the large ones are taken
  const auto time = [&](std::int64_t m) {
    return seconds({.m = m, .n = 128, .k = 4096, .precision = Precision::kBf16}, gpu, values);
  };
  const double full = time(25'600), more = time(25'601), last = time(25'601 + 100);
  CHECK(more > 1.2 * full);
  CHECK(last == doctest::Approx(more).epsilon(0.01));
}

TEST_CASE("more rows, columns or products take no less time; more terms neither, where sums are not split") {
  Rng rng{2, "growing products"};
  for (int i = 0; i < 100; ++i) {
    Product product = random_product(rng);
    for (const auto size : {&Product::n, &Product::k}) product.*size = (product.*size + 7) / 8 * 8;  // aligned
    const double time = seconds(product, gpu_of_hundred());
    const auto more = [&](std::int64_t Product::*size) {
      Product larger = product;
      larger.*size += 8 * (1 + static_cast<std::int64_t>(rng.uniform() * 60));
      return seconds(larger, gpu_of_hundred());
    };
    CHECK(more(&Product::m) >= time);
    CHECK(more(&Product::n) >= time);
    CHECK(more(&Product::batch) >= time);
    if (product.m > 2000 && product.n > 2000) CHECK(more(&Product::k) >= time);
  }
}

TEST_CASE("rows that are not aligned to 16 B are loaded by fewer numbers, which takes longer") {
  const auto with = [](std::int64_t n, Precision precision) {
    return Product{.m = 8192, .n = n, .k = 768, .precision = precision};
  };
  for (const auto& [n, numbers] : {std::pair{50304, 8.0}, {50264, 8.0}, {50260, 4.0}, {50258, 2.0}, {50257, 1.0}})
    CHECK(numbers_per_load(with(n, Precision::kBf16)) == numbers);
  CHECK(numbers_per_load(with(50260, Precision::kTf32)) == 4);
  CHECK(is_aligned(with(50260, Precision::kTf32)));
  const auto time = [&](std::int64_t n, Precision precision) {
    return seconds(with(n, precision), gpu_of_hundred(), ideal_values());
  };
  // Tiles of 256 x 128 and 64 terms: 4194 cycles of arithmetic, and 2 * 384 * 64 * 7 / 8 / 32 = 1344 of single loads.
  CHECK(time(50257, Precision::kBf16) / time(50264, Precision::kBf16) ==
        doctest::Approx(1 + 1344 / 4194.0).epsilon(0.02));
  CHECK(time(50257, Precision::kBf16) > time(50258, Precision::kBf16));
  CHECK(time(50258, Precision::kBf16) > time(50260, Precision::kBf16));
  CHECK(time(50257, Precision::kFp32) <= time(50264, Precision::kFp32));
}

TEST_CASE("a GPU of twice the clock, peaks and bandwidth takes half as long") {
  Rng rng{3, "scaled GPUs"};
  Gpu twice = gpu_of_hundred();
  twice.clock *= 2;
  twice.bandwidth *= 2;
  for (double& peak : twice.peaks) peak *= 2;
  for (int i = 0; i < 50; ++i) {
    const Product product = random_product(rng);
    CHECK(2 * seconds(product, twice) == doctest::Approx(seconds(product, gpu_of_hundred())).epsilon(1e-12));
  }
}

TEST_CASE("long sums of few tiles are split over the multiprocessors that would have nothing to do") {
  const Product few{.m = 64, .n = 64, .k = 32'768, .precision = Precision::kBf16};
  const ProductPlan plan = plan_product(few, gpu_of_hundred(), {});
  CHECK(plan.tiles.splits > 1);
  const Product many{.m = 8192, .n = 8192, .k = 32'768, .precision = Precision::kBf16};
  CHECK(plan_product(many, gpu_of_hundred(), {}).tiles.splits == 1);
}

TEST_CASE("a board that cannot feed its peak lowers its clock until it draws its limit") {
  const ProductValues values = ideal_values();
  const Product product{1, 12'800, 12'800, 4096, Precision::kBf16};
  const double free = seconds(product, gpu_of_hundred(), values);
  Gpu gpu = gpu_of_hundred();
  gpu.flop_energies.fill(700 * free / product.flops());  // 700 W at the full clock
  const auto slower = [&](double watts) {
    gpu.board = board_of_hundred(watts);
    return seconds(product, gpu, values) / free;
  };
  CHECK(slower(1000) == doctest::Approx(1).epsilon(1e-12));
  // 40 + (100 + 700) x^3, from half of the clock on 40 + 800 x / 4; bytes: 0.3 W.
  CHECK(slower(140) == doctest::Approx(2).epsilon(0.01));
  CHECK(slower(90) == doctest::Approx(4).epsilon(0.01));
  Rng rng{5, "limited products"};
  for (int i = 0; i < 50; ++i) {
    const Product some = random_product(rng);
    const double unlimited = seconds(some, gpu_of_hundred(), values);
    gpu.board = board_of_hundred(100 + 600 * rng.uniform());
    CHECK(seconds(some, gpu, values) >= unlimited);
    CHECK(seconds(some, gpu, values) >= roofline(some, gpu).value());
  }
}

TEST_CASE("waves wait for each other, and computing for memory, unless tiles overlap") {
  Gpu overlapping = gpu_of_hundred();
  overlapping.overlaps_tiles = true;
  Rng rng{6, "overlapped products"};
  for (int i = 0; i < 50; ++i) {
    const Product product = random_product(rng);
    CHECK(seconds(product, overlapping) <= seconds(product, gpu_of_hundred()));
    CHECK(seconds(product, overlapping) >= roofline(product, overlapping).value());
  }
  // 50 waves: 49 times 500 cycles and 256 * 128 * 2 / 64 more that are not hidden.
  ProductValues values = ideal_values();
  values.wave = 500;
  values.operands = 1;  // no small tiles
  const TiledWork work{1, 12'800, 12'800, 4096, Precision::kBf16};
  const double hidden = plan_tiles(work, gpu_of_hundred(), values).time - plan_tiles(work, overlapping, values).time;
  CHECK(hidden == doctest::Approx(49 * 1524e-9).epsilon(1e-9));
  CHECK(beside_memory(3, 4, 2, overlapping) == doctest::Approx(5));
  CHECK(beside_memory(1, 1, 3, gpu_of_hundred()) == doctest::Approx(std::sqrt(2)));  // 1 + (3 - 1) / 2 = 2
}

TEST_CASE("batched products are cut into no smaller tiles than the library's") {
  ProductValues values;
  const Product small{.batch = 1000, .m = 20, .n = 20, .k = 500, .precision = Precision::kFp32};
  const double fitting = seconds(small, gpu_of_hundred(), values);
  values.batched_cells = 16'384;
  CHECK(plan_product(small, gpu_of_hundred(), values).tiles.rows == 128);
  CHECK(plan_product(small, gpu_of_hundred(), values).tiles.waves == 10);
  CHECK(seconds(small, gpu_of_hundred(), values) > 4 * fitting);
}

TEST_CASE("terms that do not fill the last step of a sum are computed all the same") {
  const auto time = [](std::int64_t k) {
    return seconds({.m = 2560, .n = 1280, .k = k, .precision = Precision::kBf16}, gpu_of_hundred(), ideal_values());
  };
  CHECK(time(4097) > 1.005 * time(4096));  // as 4160 terms
  CHECK(time(4160) == doctest::Approx(time(4097)).epsilon(5e-3));
}

}  // namespace rehearse::kernels
