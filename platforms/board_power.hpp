#pragma once
// What the board of a GPU draws: at rest, while kernels run, by FLOPs and by bytes; and the clock that a limit leaves it.

#include <algorithm>
#include <cmath>

#include "platforms/accelerator.hpp"

namespace rehearse {

class JsonReader;

/// Values of the formulas of BoardPower, one for a kind of memory or of unit, none for a GPU. A profile may state others ("power").
/// By default those of board_power.cpp, which says where each comes from.
struct BoardPowerValues {
  BoardPowerValues();

  /// What a board draws with a context and no kernel, its clock up: leakage, memory, fans, regulators. With HBM a share of its power,
  /// with GDDR, whose many chips run their interfaces at rest, too, W for each GB/s.
  double rest_stacked, rest_soldered;
  /// pJ that multiprocessors draw besides while a kernel runs, whatever it computes, for each FLOP that their fp32 units could compute
  /// meanwhile: clocks, schedulers, register files. In a process of 16 nm at the full clock, in proportion to the process.
  double active;
  /// Share of a board's power that kernels of a library draw besides while they poll for GPUs or links of a collective.
  double polling;
  /// pJ per FLOP at the full clock: of fp32 units in a process of 16 nm, in proportion to the process; of matrix units with operands of
  /// 16 bits in any process. Other widths in proportion to their bits.
  double vector_flop, matrix_flop;
  double byte_stacked, byte_soldered;  // pJ per byte between device memory and multiprocessors
  /// Voltage by that of the full clock, at x of that clock: v(x) = max(floor, 1 - slope (1 - x)).
  double voltage_floor, voltage_slope;

  /// The same of multiprocessors and memory that draw `factor` times as much for what they do.
  BoardPowerValues times(double factor) const;

  friend bool operator==(const BoardPowerValues&, const BoardPowerValues&) = default;
};

/// Reads a profile's "power". Throws InputError.
BoardPowerValues read_board_power(const JsonReader& json);

/// Lowest clock of a board under load, of its boost clock: 210 of 1740 MHz (A40), 300 of 1770 (Quadro RTX 6000), nvidia-smi -q -d
/// SUPPORTED_CLOCKS. With it some boards draw more than their lowest limit.
inline constexpr double kLowestClock = 0.12;

/// Whether stated facts tell what a board draws: its power, process and kind of memory.
bool has_board_power(const Accelerator& accelerator);

/// Whether its memory is stacked (HBM); of what is not stated, from 1.1 TB/s on.
bool has_stacked_memory(const Accelerator& accelerator);

/// The smallest limit that may be asked of the board: what its entry states, else a quarter of its power.
double least_power_limit(const Accelerator& accelerator);

/// Energy of one FLOP in J, at the full clock, of operands of `bits`; with matrix units, or with the fp32 units.
double flop_energy(const Accelerator& accelerator, const BoardPowerValues& values, double bits, bool by_matrix_units);

/// A kernel as far as its power is concerned.
struct DrawingKernel {
  double time = 0;    // s, at the clock that the limit leaves under which it was measured
  double memory = 0;  // part of it that the clock does not change: bytes come and go
  double launch = 0;  // part of it before work begins, at rest
  double flops = 0;   // J of arithmetic at the full clock
  double bytes = 0;   // J of device memory
};

struct Draw {
  double time = 0;    // s, under the limit
  double energy = 0;  // J, besides those at rest
};

/// A board under a limit. At x of its full clock a kernel draws
///   P(x) = rest + active x v(x)^2 + (flops v(x)^2 + bytes) / t(x)
/// and takes t(x) = launch + memory + (t - launch - memory) x0 / x. The clock is the highest, down to kLowestClock, at which P is no
/// more than the limit; x0 is that for t and the limit under which it was measured. Boards set clocks within some ten ms; that
/// each kernel has its own makes little of phases that last shorter.
class BoardPower {
 public:
  /// Both limits: at most the board's own, in W.
  BoardPower(const Accelerator& accelerator, const BoardPowerValues& values, double limit_w, double measured_limit_w);

  double rest_w() const { return rest_; }
  double byte_energy() const { return byte_; }  // J
  double polling_w() const { return polling_; }
  double limit_w() const { return limit_; }
  Draw of(const DrawingKernel& kernel) const;

  /// x of a kernel under the limit, by what it takes of arithmetic and of memory, both in J, and t(x) = time(x) in s, which does not
  /// grow with x.
  template <class Time>
  double highest_clock(double flops, double bytes, Time time) const {
    return highest_clock(flops, bytes, limit_, 1, time);
  }

 private:
  double voltage_squared(double clock) const;
  double power(double flops, double bytes, double time, double clock) const {
    const double v2 = voltage_squared(clock);
    return rest_ + active_ * clock * v2 + (flops * v2 + bytes) / time;
  }
  template <class Time>
  double highest_clock(double flops, double bytes, double limit, double most, Time time) const;

  BoardPowerValues values_;
  double rest_ = 0, active_ = 0, byte_ = 0, polling_ = 0;  // W, W, J, W
  double measured_limit_ = 0, limit_ = 0;
};

inline double BoardPower::voltage_squared(double clock) const {
  const double voltage = std::max(values_.voltage_floor, 1 - values_.voltage_slope * (1 - clock));
  return voltage * voltage;
}

template <class Time>
double BoardPower::highest_clock(double flops, double bytes, double limit, double most, Time time) const {
  const auto excess = [&](double clock) { return power(flops, bytes, time(clock), clock) - limit; };
  double above = excess(most);
  if (!(above > 0)) return most;
  double high = most, low = std::min(kLowestClock, most), below = excess(low);
  if (!(below < 0)) return low;
  // Regula falsi, as Dowell and Jarratt, A modified regula falsi method, BIT 11, 1971 (Illinois).
  constexpr int kMost = 40;
  constexpr double kClose = 1e-10;
  int side = 0;
  for (int i = 0; i < kMost && high - low > kClose; ++i) {
    const double middle = high - above * (high - low) / (above - below);
    const double there = excess(middle);
    if (there > 0) {
      high = middle;
      above = there;
      if (side > 0) below /= 2;
      side = 1;
    } else {
      low = middle;
      below = there;
      if (side < 0) above /= 2;
      side = -1;
    }
    if (std::abs(there) < kClose * limit) return middle;
  }
  return low;
}

}  // namespace rehearse
