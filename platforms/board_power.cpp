#include "platforms/board_power.hpp"

#include <algorithm>

#include "sim/base/json.hpp"

namespace rehearse {

namespace {

bool is_stacked(const Accelerator& accelerator) { return accelerator.memory_kind.starts_with("HBM"); }

/// Its switching is what values are stated for.
constexpr double kReferenceProcess = 16;

}  // namespace

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
  constexpr double kPico = 1e-12;
  const double each = by_matrix_units ? values.matrix_flop * bits / 16 : values.vector_flop * bits / 32;
  return kPico * each * accelerator.process_nm / kReferenceProcess;
}

BoardPower::BoardPower(const Accelerator& accelerator, const BoardPowerValues& values, double limit_w, bool under_limit)
    : values_{values},
      rest_{accelerator.power_w * (is_stacked(accelerator) ? values.rest_stacked : values.rest_soldered)},
      active_{accelerator.power_w * values.active},
      byte_{1e-12 * (is_stacked(accelerator) ? values.byte_stacked : values.byte_soldered)},
      polling_{accelerator.power_w * values.polling},
      own_limit_{under_limit && limit_w > 0 ? limit_w : accelerator.power_w},
      limit_{limit_w > 0 ? limit_w : accelerator.power_w} {}

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
  const double clock = highest_clock(kernel, own_limit_, 1, [&](double) { return work; });
  const auto time_at = [&](double x) {
    return kernel.memory + std::max(0.0, work - kernel.memory) * clock / x;
  };
  const double lowered = limit_ < own_limit_ ? highest_clock(kernel, limit_, clock, time_at) : clock;
  const double time = lowered == clock ? work : time_at(lowered);
  double drawn = power(kernel, time, lowered);
  if (lowered == clock) drawn = std::min(drawn, own_limit_);  // given times are kept by the clock, whatever values say
  return {.time = kernel.launch + time, .energy = (drawn - rest_) * time};
}

}  // namespace rehearse
