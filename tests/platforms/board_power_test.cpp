#include "platforms/board_power.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "platforms/node_power.hpp"
#include "platforms/profile.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

namespace {

Accelerator tested_board() {
  return {.name = "tested",
          .peak_fp32 = 10.0_Tflops,
          .memory_bandwidth = 500_GBps,
          .process_nm = 16,
          .power_w = 200,
          .memory_kind = "GDDR6"};
}

/// Round numbers: at rest 40 W, 60 W more while a kernel runs.
BoardPowerValues tested_values() {
  BoardPowerValues values;
  values.rest_soldered = 0.08;
  values.active = 6;
  values.vector_flop = 8;
  values.matrix_flop = 2;
  values.byte_soldered = 100;
  values.voltage_floor = 0.5;
  values.voltage_slope = 1;
  return values;
}

BoardPower board_of(double limit, double measured = 200) { return {tested_board(), tested_values(), limit, measured}; }

}  // namespace

TEST_CASE("below its limit a board draws the sum of its parts") {
  // 1 s, of which 0.1 s are launch: 60 W for 0.9 s, 5 TFLOP at 8 pJ = 40 J, 200 GB at 100 pJ = 20 J.
  const double flops = 5e12 * flop_energy(tested_board(), tested_values(), 32, false);
  CHECK(flops == doctest::Approx(40));
  const BoardPower board = board_of(200);
  CHECK(board.rest_w() == doctest::Approx(40));
  const Draw draw =
      board.of({.time = 1, .memory = 0.2, .launch = 0.1, .flops = flops, .bytes = 200e9 * board.byte_energy()});
  CHECK(draw.time == 1);
  CHECK(draw.energy == doctest::Approx(0.9 * 60 + 40 + 20));
}

TEST_CASE("energies of FLOPs are in proportion to bits, those of fp32 units to the process, too") {
  Accelerator gpu = tested_board();
  CHECK(flop_energy(gpu, tested_values(), 16, true) == doctest::Approx(2e-12));
  CHECK(flop_energy(gpu, tested_values(), 8, true) == doctest::Approx(1e-12));
  gpu.process_nm = 4;
  CHECK(flop_energy(gpu, tested_values(), 16, true) == doctest::Approx(2e-12));
  CHECK(flop_energy(gpu, tested_values(), 32, false) == doctest::Approx(2e-12));
}

TEST_CASE("a limit lowers the clock until what is drawn is the limit, and only what the clock drives takes longer") {
  const DrawingKernel kernel{.time = 1, .memory = 0.25, .launch = 0, .flops = 60, .bytes = 20};  // 40 + 60 + 80 = 180 W
  CHECK(board_of(180).of(kernel).time == doctest::Approx(1));
  double before = 1;
  for (const double limit : {160.0, 140.0, 120.0, 100.0}) {
    const Draw draw = board_of(limit).of(kernel);
    CHECK(draw.time > before);
    CHECK(40 + draw.energy / draw.time == doctest::Approx(limit).epsilon(1e-6));
    // x of the clock by the time: 1 = 0.25 + 0.75 / x; v = max(0.5, x)
    const double x = 0.75 / (draw.time - 0.25), v = std::max(0.5, x);
    CHECK(draw.energy == doctest::Approx(draw.time * 60 * x * v * v + 60 * v * v + 20).epsilon(1e-6));
    before = draw.time;
  }
  const DrawingKernel memory_bound{.time = 1, .memory = 1, .flops = 0, .bytes = 80};
  CHECK(board_of(120).of(memory_bound).time == doctest::Approx(1));
}

TEST_CASE("the lowest clock may draw more than the limit") {
  const DrawingKernel kernel{.time = 1, .memory = 1, .flops = 0, .bytes = 80};
  const Draw draw = board_of(60).of(kernel);
  CHECK(draw.time == doctest::Approx(1));
  CHECK(40 + draw.energy > 60);
}

TEST_CASE("what was measured under a limit drew no more, and takes less under a higher one") {
  const DrawingKernel kernel{.time = 1, .memory = 0, .flops = 200, .bytes = 0};
  CHECK(board_of(100, 100).of(kernel).energy == doctest::Approx(60));
  CHECK(board_of(100, 100).of(kernel).time == 1);
  CHECK(board_of(150, 100).of(kernel).time < 1);
  // To and fro: the time under the lower limit, measured, gives back that under the higher one.
  const Draw slow = board_of(100, 150).of(kernel);
  DrawingKernel measured = kernel;
  measured.time = slow.time;
  CHECK(board_of(150, 100).of(measured).time == doctest::Approx(1).epsilon(1e-6));
}

TEST_CASE("a board whose entry leaves out what its power depends on is not known") {
  Accelerator gpu = tested_board();
  CHECK(has_board_power(gpu));
  CHECK(least_power_limit(gpu) == 50);
  gpu.power_min_w = 100;
  CHECK(least_power_limit(gpu) == 100);
  gpu.memory_kind.clear();
  CHECK_FALSE(has_board_power(gpu));
}

TEST_CASE("a profile may state values of boards") {
  const Json json{{"active", 0.3}, {"source", "a test"}};
  CHECK(read_board_power(JsonReader{json, "profile.json"}).active == 0.3);
  CHECK(read_board_power(JsonReader{json, "profile.json"}).vector_flop == BoardPowerValues{}.vector_flop);
  const Json negative{{"active", -1}};
  CHECK_THROWS_WITH_AS(read_board_power(JsonReader{negative, "profile.json"}),
                       "profile.json: /active: expected above 0 to 1000 pJ; found -1", InputError);
  const Json unknown{{"activ", 0.3}};
  CHECK_THROWS_AS(read_board_power(JsonReader{unknown, "profile.json"}), InputError);
}

TEST_CASE("multiprocessors and memory draw more in a training, by the narrowest name that a profile has") {
  Profile profile;
  profile.power = tested_values();
  Accelerator gpu = tested_board();
  gpu.architecture = "Ampere";
  CHECK(profile.power_of(gpu) == tested_values());
  profile.sustained_draw["Ampere HBM"] = 2;
  CHECK(profile.power_of(gpu) == tested_values());
  profile.sustained_draw["Ampere"] = 1.25;
  CHECK(profile.power_of(gpu).active == doctest::Approx(1.25 * 6));
  profile.sustained_draw["Ampere GDDR"] = 1.5;
  CHECK(profile.power_of(gpu).active == doctest::Approx(1.5 * 6));
  profile.sustained_draw["tested"] = 3;

  // At rest it draws the same: 40 W; besides three times as much, unless that is above its limit.
  const BoardPower board{gpu, profile.power_of(gpu), 500, 500}, cool = board_of(500, 500);
  CHECK(board.rest_w() == cool.rest_w());
  const DrawingKernel kernel{.time = 1, .memory = 0.2, .launch = 0.1, .flops = 40, .bytes = 20};
  DrawingKernel hot = kernel;
  hot.flops *= 3;
  hot.bytes *= 3;
  CHECK(flop_energy(gpu, profile.power_of(gpu), 32, false) ==
        doctest::Approx(3 * flop_energy(gpu, tested_values(), 32, false)));
  CHECK(flop_energy(gpu, profile.power_of(gpu), 16, true) ==
        doctest::Approx(3 * flop_energy(gpu, tested_values(), 16, true)));
  CHECK(board.byte_energy() == doctest::Approx(3 * cool.byte_energy()));
  CHECK(board.of(hot).energy == doctest::Approx(3 * cool.of(kernel).energy));
}

TEST_CASE("a machine draws its parts, fans by their sum, and what power supplies lose") {
  Instance instance;
  instance.vcpus = 10;
  instance.memory = Bytes{std::int64_t{100} << 30};
  instance.nic = 25_GBps;  // 200 Gbit/s
  instance.accelerators = 2;
  Interconnect inside;
  // 300 of GPUs, 10 (1 + 0.5) of threads, 4 (3.1 - 1) of busy ones, 10 of memory, 12 of the NIC
  const double parts = 300 + 15 + 8.4 + 10 + 12;
  CHECK(node_power(instance, inside, 300, 4) == doctest::Approx(parts * 1.12 / 0.95));
  CHECK(node_power(instance, inside, 300, 40) ==
        doctest::Approx((parts + 6 * 2.1) * 1.12 / 0.95));  // no more threads than there are
  inside.nvswitch = 100_GBps;
  CHECK(node_power(instance, inside, 300, 4) == doctest::Approx((parts + 22) * 1.12 / 0.95));
}

}  // namespace rehearse
