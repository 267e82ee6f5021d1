#include "platforms/board_power.hpp"

#include <algorithm>

#include "platforms/profile_fields.hpp"

namespace rehearse {

namespace {

/// Its switching is what values are stated for.
constexpr double kReferenceProcess = 16;
constexpr double kPico = 1e-12;

double shrink(const Accelerator& accelerator) { return accelerator.process_nm / kReferenceProcess; }

}  // namespace

// Zeus' trace (A40, P100, RTX 6000: calibration/README.md, Power) and DeepBench's products on a T4 were in view when these were set by
// hand, rounded, starting from documents:
//   rest      GDDR: 83 W of an A40 (696 GB/s) and 57 of an RTX 6000 (672) whose hosts leave them waiting (Zeus' networks of MovieLens);
//             what nvidia-smi prints in public repositories: T4 26 W (320), L4 28 (300), L40S 83 (864)
//   bytes     O'Connor et al., Fine-Grained DRAM, MICRO 2017: HBM2 3.9, GDDR5 14 pJ per bit without the way through the chip; not
//             fitted: 7 and 12 pJ per bit with it, GDDR6 between the two
//   voltage   Guerreiro et al., GPGPU Power Modeling for Multi-Domain Voltage-Frequency Scaling, HPCA 2018: constant up to a
//             clock, linear above
//   FLOPs     fp32 units in proportion to the process; matrix units 0.65 pJ from Turing's 12 nm (T4) to Hopper's and Blackwell's 4 (bf16
//             products of calibration/README.md): most of it moves operands, which gains little (Horowitz, Computing's energy
//             problem, ISSCC 2014)
//   polling   an assumption: NCCL runs on at most 32 of 108 to 148 multiprocessors
BoardPowerValues::BoardPowerValues()
    : rest_stacked{0.14},
      rest_soldered{0.1},
      active{7},
      polling{0.1},
      vector_flop{9},
      matrix_flop{0.65},
      byte_stacked{55},
      byte_soldered{100},
      voltage_floor{0.78},
      voltage_slope{0.9} {}

BoardPowerValues BoardPowerValues::times(double factor) const {
  BoardPowerValues values = *this;
  for (double BoardPowerValues::*drawn :
       {&BoardPowerValues::active, &BoardPowerValues::vector_flop, &BoardPowerValues::matrix_flop,
        &BoardPowerValues::byte_stacked, &BoardPowerValues::byte_soldered})
    values.*drawn *= factor;
  return values;
}

BoardPowerValues read_board_power(const JsonReader& json) {
  BoardPowerValues values;
  read_fields(json, values);
  if (json.has("source")) (void)json.required<std::string>("source");
  json.reject_unknown_keys();
  return values;
}

bool has_board_power(const Accelerator& accelerator) {
  return accelerator.power_w > 0 && accelerator.process_nm > 0 && !accelerator.memory_kind.empty();
}

bool has_stacked_memory(const Accelerator& accelerator) {
  constexpr BytesPerSecond kLeastOfHbm{1.1e12};
  return accelerator.memory_kind.empty() ? accelerator.memory_bandwidth >= kLeastOfHbm
                                         : accelerator.memory_kind.starts_with("HBM");
}

double least_power_limit(const Accelerator& accelerator) {
  return accelerator.power_min_w > 0 ? accelerator.power_min_w : accelerator.power_w / 4;
}

double flop_energy(const Accelerator& accelerator, const BoardPowerValues& values, double bits, bool by_matrix_units) {
  return kPico *
         (by_matrix_units ? values.matrix_flop * bits / 16 : values.vector_flop * bits / 32 * shrink(accelerator));
}

BoardPower::BoardPower(const Accelerator& accelerator, const BoardPowerValues& values, double limit_w,
                       double measured_limit_w)
    : values_{values},
      rest_{has_stacked_memory(accelerator) ? accelerator.power_w * values.rest_stacked
                                            : accelerator.memory_bandwidth.value() * 1e-9 * values.rest_soldered},
      active_{kPico * values.active * shrink(accelerator) * accelerator.peak_fp32.value()},
      byte_{kPico * (has_stacked_memory(accelerator) ? values.byte_stacked : values.byte_soldered)},
      polling_{accelerator.power_w * values.polling},
      measured_limit_{measured_limit_w},
      limit_{limit_w} {}

Draw BoardPower::of(const DrawingKernel& kernel) const {
  const double work = kernel.time - kernel.launch;
  if (!(work > 0)) return {.time = kernel.time, .energy = 0};
  const auto as_measured = [&](double) { return work; };
  const double measured = highest_clock(kernel.flops, kernel.bytes, measured_limit_, 1, as_measured);
  // What was measured was within its limit, whatever the values say.
  if (limit_ == measured_limit_) {
    const double drawn = std::min(power(kernel.flops, kernel.bytes, work, measured), limit_);
    return {.time = kernel.time, .energy = std::max(0.0, drawn - rest_) * work};
  }
  const auto time_at = [&](double clock) {
    return kernel.memory + std::max(0.0, work - kernel.memory) * measured / clock;
  };
  const double clock =
      highest_clock(kernel.flops, kernel.bytes, limit_, limit_ < measured_limit_ ? measured : 1, time_at);
  const double time = clock == measured ? work : time_at(clock);
  return {.time = kernel.launch + time, .energy = (power(kernel.flops, kernel.bytes, time, clock) - rest_) * time};
}

}  // namespace rehearse
