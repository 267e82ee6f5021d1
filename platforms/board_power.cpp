#include "platforms/board_power.hpp"

#include <algorithm>

#include "sim/base/json.hpp"

namespace rehearse {

namespace {

bool is_stacked(const Accelerator& accelerator) { return accelerator.memory_kind.starts_with("HBM"); }

/// Its switching is what values are stated for.
constexpr double kReferenceProcess = 16;
constexpr double kPico = 1e-12;

}  // namespace

// Shares at rest, `active`, energies of FLOPs and the voltage were set by hand on Zeus' trace (A40, P100, RTX 6000: calibration/README.md,
// Power), rounded, starting from documents:
//   bytes     O'Connor et al., Fine-Grained DRAM, MICRO 2017: HBM2 3.9, GDDR5 14 pJ per bit without the way through the chip; not
//             fitted: 7 and 12 pJ per bit with it, GDDR6 between the two
//   voltage   Guerreiro et al., GPGPU Power Modeling for Multi-Domain Voltage-Frequency Scaling, HPCA 2018: constant up to a
//             clock, linear above
//   FLOPs     in proportion to the process: fp32 GEMMs of P100 (16 nm) and RTX 6000 (12 nm) agree; matrix units: A40's tf32, and
//             1.75 PFLOP/s of a B200 (4 nm) within 1000 W
//   polling   an assumption: NCCL runs on at most 32 of 108 to 148 multiprocessors
BoardPowerValues::BoardPowerValues()
    : rest_stacked{0.14},
      rest_soldered{0.25},
      active{0.45},
      polling{0.1},
      vector_flop{4.5},
      matrix_flop{1.5},
      byte_stacked{55},
      byte_soldered{100},
      voltage_floor{0.75},
      voltage_slope{0.9} {}

BoardPowerValues read_board_power(const JsonReader& json) {
  BoardPowerValues values;
  const auto read = [&](const char* key, double& value, double most, const char* expected) {
    value = json.optional<double>(key, value);
    json.expect(value > 0 && value <= most, key, expected);
  };
  read("rest_stacked", values.rest_stacked, 1, "a share above 0");
  read("rest_soldered", values.rest_soldered, 1, "a share above 0");
  read("active", values.active, 1, "a share above 0");
  read("polling", values.polling, 1, "a share above 0");
  read("vector_flop", values.vector_flop, 1000, "above 0 to 1000 pJ");
  read("matrix_flop", values.matrix_flop, 1000, "above 0 to 1000 pJ");
  read("byte_stacked", values.byte_stacked, 10000, "above 0 to 10000 pJ");
  read("byte_soldered", values.byte_soldered, 10000, "above 0 to 10000 pJ");
  read("voltage_floor", values.voltage_floor, 1, "a share above 0");
  read("voltage_slope", values.voltage_slope, 10, "above 0 to 10");
  if (json.has("source")) (void)json.required<std::string>("source");
  json.reject_unknown_keys();
  return values;
}

bool has_board_power(const Accelerator& accelerator) {
  return accelerator.power_w > 0 && accelerator.process_nm > 0 && !accelerator.memory_kind.empty();
}

double least_power_limit(const Accelerator& accelerator) {
  return accelerator.power_min_w > 0 ? accelerator.power_min_w : accelerator.power_w / 4;
}

double flop_energy(const Accelerator& accelerator, const BoardPowerValues& values, double bits, bool by_matrix_units) {
  const double each = by_matrix_units ? values.matrix_flop * bits / 16 : values.vector_flop * bits / 32;
  return kPico * each * accelerator.process_nm / kReferenceProcess;
}

BoardPower::BoardPower(const Accelerator& accelerator, const BoardPowerValues& values, double limit_w,
                       double measured_limit_w)
    : values_{values},
      rest_{accelerator.power_w * (is_stacked(accelerator) ? values.rest_stacked : values.rest_soldered)},
      active_{accelerator.power_w * values.active},
      byte_{kPico * (is_stacked(accelerator) ? values.byte_stacked : values.byte_soldered)},
      polling_{accelerator.power_w * values.polling},
      measured_limit_{measured_limit_w},
      limit_{limit_w} {}

double BoardPower::voltage_squared(double clock) const {
  const double voltage = std::max(values_.voltage_floor, 1 - values_.voltage_slope * (1 - clock));
  return voltage * voltage;
}

double BoardPower::power(const DrawingKernel& kernel, double time, double clock) const {
  const double v2 = voltage_squared(clock);
  return rest_ + active_ * clock * v2 + (kernel.flops * v2 + kernel.bytes) / time;
}

template <class Time>
double BoardPower::highest_clock(const DrawingKernel& kernel, double limit, double most, Time time) const {
  if (power(kernel, time(most), most) <= limit) return most;
  double low = std::min(kLowestClock, most), high = most;
  constexpr int kHalvings = 30;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (power(kernel, time(middle), middle) <= limit ? low : high) = middle;
  }
  return low;
}

Draw BoardPower::of(const DrawingKernel& kernel) const {
  const double work = kernel.time - kernel.launch;
  if (!(work > 0)) return {.time = kernel.time, .energy = 0};
  const auto as_measured = [&](double) { return work; };
  const double measured = highest_clock(kernel, measured_limit_, 1, as_measured);
  // What was measured was within its limit, whatever the values say.
  if (limit_ == measured_limit_) {
    const double drawn = std::min(power(kernel, work, measured), limit_);
    return {.time = kernel.time, .energy = std::max(0.0, drawn - rest_) * work};
  }
  const auto time_at = [&](double clock) {
    return kernel.memory + std::max(0.0, work - kernel.memory) * measured / clock;
  };
  const double clock = highest_clock(kernel, limit_, limit_ < measured_limit_ ? measured : 1, time_at);
  const double time = clock == measured ? work : time_at(clock);
  return {.time = kernel.launch + time, .energy = (power(kernel, time, clock) - rest_) * time};
}

}  // namespace rehearse
