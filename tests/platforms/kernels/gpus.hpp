#pragma once
// GPUs with round numbers, for tests of kernels.

#include "platforms/kernels/gpu.hpp"

namespace rehearse::test {

/// pJ of a FLOP: no more than the board below can feed at its peak.
inline constexpr double kEnergy = 4;

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
          .power = 400,
          .process = 16,
          .vector_peak = 20e12,
          .peaks = {20e12, 50e12, 100e12, 100e12, 200e12}};
}

}  // namespace rehearse::test
