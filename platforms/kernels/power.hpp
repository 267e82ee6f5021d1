#pragma once
// What a board draws while a kernel runs, and the clock that its limit leaves.

#include "platforms/kernels/gpu.hpp"

namespace rehearse::kernels {

/// A kernel at the highest clock.
struct Load {
  double flops = 0, bytes = 0;  // of the units; of device memory
  double time = 0;              // s
};

/// J that a FLOP takes at the highest clock. `energy` is what it takes in a process of 16 nm, in pJ: of fp32 units it goes down
/// with the process; of matrix units, of whose energy operands' ways are most, with its root, and with the bytes of an operand (fp16
/// and bf16: `energy`). Source: Horowitz, Computing's energy problem, ISSCC 2014 (wires gain less than logic). That fp32 units have the
/// whole process was chosen with DeepBench's products on a T4 in view, and with those of A40, L4 and L40S in
/// github.com/zzc0721/torch-performance-test-data, issues 43, 120 and 185.
double energy_per_flop(const Gpu& gpu, Precision precision, double energy);

/// Share s of its highest clock at which a board keeps to its power, 1 where it need not lower it:
///   idle + s / time (traffic bytes + max(s, floor)^2 joules flops) = power
/// Voltage goes with the clock, and switching with its square, down to floor, 0.75 of the highest clock, below which the voltage stays,
/// and with it what a FLOP takes. What memory and the idle chip draw comes off first. The lowest clock is 0.12 of the highest one.
/// Sources: Burd and Brodersen, Energy Efficient CMOS Microprocessor Design, HICSS 1995; floor by epochs at power limits in Zeus' trace
/// (calibration/power_limits.py: A40 0.84, Quadro RTX 6000 0.69, all 0.72; no limit of the P100 is low enough to tell).
double clock_at_limit(const Load& load, const Gpu& gpu, double joules);

}  // namespace rehearse::kernels
