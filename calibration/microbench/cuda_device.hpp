#pragma once
// Parts of the GPU's measurement: a source each.

#include <functional>
#include <optional>
#include <vector>

#include "calibration/microbench/device.hpp"

namespace rehearse::microbench {

/// Starts a run of a kernel on the default stream, with the buffers of its number; none if no library has it.
using GpuRun = std::function<void(int)>;
std::optional<GpuRun> gpu_product(const Case& of, int buffers);
std::optional<GpuRun> gpu_convolution(const kernels::Convolution& convolution, int buffers);
std::optional<GpuRun> gpu_streaming(const kernels::Streaming& kernel, int buffers);

/// Seconds since some time, when all that was started on the GPU has ended.
double gpu_seconds();

/// Launches, copies to the host, back and to each other GPU, all-reduces over all GPUs, clock, power and temperature.
std::vector<SystemFigure> gpu_system_figures(int device, const Effort& effort);

}  // namespace rehearse::microbench
