#pragma once
// What NVIDIA's monitors recorded of GPUs during a training, as a table: nvidia-smi dmon, nvidia-smi --query-gpu=...
// --format=csv, dcgmi dmon. gpu_log.cpp has the table of their columns.

#include <filesystem>
#include <string>
#include <string_view>

#include "calibration/measurements.hpp"

namespace rehearse {

/// A row for each GPU, in the order in which they come. Columns:
///   tool, gpu                     "nvidia-smi dmon", ...; index, or the name or bus address by which the file tells GPUs apart
///   name                          of the GPU, if the file says it
///   samples, idle_samples         that count, and before and after the training, that are left out: those until the first and
///                                 after the last in which the GPU was busy
///   gpu_utilization               mean share of time in which a kernel ran: `gpu_utilization` of summary.json
///   memory_utilization            mean share of time in which device memory was read or written
///   memory_used_B                 largest: beside `gpu_memory_needed_B` of summary.json
///   power_W, sm_clock_Hz          means; no metric of a study
///   sm_active, dram_active        DCGM's profiling: mean shares of multiprocessors, and of the memory's cycles; no metric
/// Fields are empty that the file does not have. Throws InputError if it is of none of the tools, or has no sample.
Measurements parse_gpu_log(std::string_view text, const std::string& file_name);

/// The tool whose output begins so; empty if it is of none.
std::string gpu_log_kind(std::string_view start);

}  // namespace rehearse
