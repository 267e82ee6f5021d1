#include "platforms/kernels/power.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "platforms/kernels/product.hpp"
#include "sim/base/random.hpp"
#include "tests/platforms/kernels/gpus.hpp"

namespace rehearse::kernels {

namespace {

constexpr double kFloorOfTest = 0.75;

/// W at share `clock` of the highest clock.
double drawn(const Load& load, const Gpu& gpu, double joules, double clock) {
  const double voltage = std::max(clock, kFloorOfTest);
  return gpu.idle_power +
         clock / load.time * (gpu.traffic_energy * load.bytes + voltage * voltage * joules * load.flops);
}

}  // namespace

TEST_CASE("a board lowers its clock until it draws what its limit allows") {
  Rng rng{7, "loads"};
  for (int i = 0; i < 200; ++i) {
    Gpu gpu = test::gpu_of_hundred();
    gpu.idle_power = rng.uniform(0, 100);
    gpu.traffic_energy = rng.uniform(0, 1e-10);
    const Load load{rng.uniform(1e12, 1e14), rng.uniform(0, 1e12), 1};
    const double joules = rng.uniform(1e-12, 3e-11);
    const double clock = clock_at_limit(load, gpu, joules);
    if (clock >= 1)
      CHECK(drawn(load, gpu, joules, 1) <= gpu.power * (1 + 1e-12));
    else
      CHECK(drawn(load, gpu, joules, clock) == doctest::Approx(gpu.power).epsilon(1e-6));
    Gpu stronger = gpu;
    stronger.power *= 1.5;
    CHECK(clock_at_limit(load, stronger, joules) >= clock);
    gpu.idle_power += 50;
    CHECK(clock_at_limit(load, gpu, joules) <= clock);
  }
}

TEST_CASE("above the floor of its voltage a clock goes with the cube root of the power, below with the power") {
  Gpu gpu = test::gpu_of_hundred();  // 400 W
  const auto clock = [&](double watts) { return clock_at_limit({1e14, 0, 1}, gpu, watts / 1e14); };
  CHECK(clock(400) == 1);
  CHECK(clock(500) == doctest::Approx(std::cbrt(0.8)).epsilon(1e-9));
  CHECK(clock(2000) == doctest::Approx(0.2 / (kFloorOfTest * kFloorOfTest)).epsilon(1e-9));
  CHECK(clock(2000) / clock(1500) == doctest::Approx(0.75).epsilon(1e-9));
  CHECK(clock(1e6) == 0.12);  // no board goes lower, whatever it draws
  gpu.idle_power = 200;
  CHECK(clock(1000) == doctest::Approx(0.2 / (kFloorOfTest * kFloorOfTest)).epsilon(1e-9));
  gpu.power = 0;  // not known
  CHECK(clock(1e6) == 1);
}

TEST_CASE("a FLOP of fp32 units takes energy by the process, one of matrix units by its root") {
  Gpu gpu = test::gpu_of_hundred();
  CHECK(energy_per_flop(gpu, Precision::kFp32, 20) == doctest::Approx(20e-12));
  CHECK(energy_per_flop(gpu, Precision::kBf16, 4) == doctest::Approx(4e-12));
  CHECK(energy_per_flop(gpu, Precision::kTf32, 4) == doctest::Approx(8e-12));  // operands of 4 bytes
  gpu.process = 4;
  CHECK(energy_per_flop(gpu, Precision::kFp32, 20) == doctest::Approx(5e-12));
  CHECK(energy_per_flop(gpu, Precision::kBf16, 4) == doctest::Approx(2e-12));
}

TEST_CASE("memory delivers and draws by its kind: ECC costs bandwidth where its bits are in the memory itself") {
  Accelerator board;
  board.architecture = "Ada";
  board.memory_bandwidth = BytesPerSecond{300e9};
  CHECK(memory_kind(board) == MemoryKind::kGddr6);  // not stated
  CHECK(delivered_share(board) == doctest::Approx(0.95));
  board.has_ecc = true;
  CHECK(delivered_share(board) == doctest::Approx(0.95 * 5 / 6));
  CHECK(idle_power(board) == doctest::Approx(30));
  CHECK(traffic_energy(board) == doctest::Approx(60e-12));
  board.memory_kind = MemoryKind::kHbm2;
  CHECK(delivered_share(board) == doctest::Approx(0.95));
  CHECK(idle_power(board) == doctest::Approx(13.5));
  board.architecture = "Pascal";
  CHECK(delivered_share(board) == doctest::Approx(0.76));
  board.memory_kind = {};
  board.memory_bandwidth = BytesPerSecond{2e12};
  CHECK(memory_kind(board) == MemoryKind::kHbm2e);
}

TEST_CASE("a product that waits for memory keeps its clock, one that computes does not") {
  ProductValues values;
  values.energy = 20;
  Gpu gpu = test::gpu_of_hundred(), strong = gpu;
  strong.power = 1e9;
  const auto slower = [&](const Product& product) {
    return plan_product(product, gpu, values).time / plan_product(product, strong, values).time;
  };
  CHECK(slower({.m = 8192, .n = 8192, .k = 8192, .precision = Precision::kBf16}) > 2.5);
  CHECK(slower({.m = 65'536, .n = 64, .k = 64, .precision = Precision::kBf16}) < 1.05);
}

}  // namespace rehearse::kernels
