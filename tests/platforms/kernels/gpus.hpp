#pragma once
// GPUs with round numbers, for tests of kernels.

#include "platforms/kernels/gpu.hpp"

namespace rehearse::test {

/// 100 multiprocessors at 1 GHz, 1000 FLOPs per cycle of each in fp16 and 200 in fp32, memory of 1 TB/s.
inline kernels::Gpu gpu_of_hundred() {
  return {.name = "G",
          .architecture = "A",
          .multiprocessors = 100,
          .cores = 100,
          .clock = 1e9,
          .bandwidth = 1e12,
          .delivered = 1,
          .l2 = 40e6,
          .vector_peak = 20e12,
          .peaks = {20e12, 50e12, 100e12, 100e12, 200e12}};
}

/// Its board, under a limit: 40 W at rest, 100 W more while a kernel runs, 1 pJ a byte; the voltage goes with the clock down to half.
inline BoardPower board_of_hundred(double limit) {
  BoardPowerValues values;
  values.rest_stacked = 0.1;
  values.active = 5;
  values.byte_stacked = 1;
  values.voltage_floor = 0.5;
  values.voltage_slope = 1;
  const Accelerator accelerator{.peak_fp32 = FlopsPerSecond{20e12},
                                .memory_bandwidth = BytesPerSecond{1e12},
                                .process_nm = 16,
                                .power_w = 400,
                                .memory_kind = "HBM2"};
  return {accelerator, values, limit, limit};
}

}  // namespace rehearse::test
