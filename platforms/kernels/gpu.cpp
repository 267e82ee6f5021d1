#include "platforms/kernels/gpu.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/errors.hpp"

namespace rehearse::kernels {

double bytes_of(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kTf32:
      return 4;
    case Precision::kFp16:
    case Precision::kBf16:
      return 2;
    case Precision::kFp8:
      return 1;
    case Precision::kFp4:
      return 0.5;
  }
  return 4;
}

bool is_reduced(Precision precision) { return precision != Precision::kFp32; }

double combined(double a, double b, double q) {
  const double high = std::max(a, b), low = std::min(a, b);
  return high <= 0 ? 0 : high * std::pow(1 + std::pow(low / high, q), 1 / q);
}

double fed_share(const std::string& architecture) {
  constexpr double kOfKepler = 2.0 / 3, kOfCdna = 0.8;
  return architecture == "Kepler" ? kOfKepler : architecture == "CDNA" || architecture == "CDNA 2" ? kOfCdna : 1;
}

double implicit_share(const std::string& architecture) {
  constexpr double kBound = 0.576, kReached = 0.773;  // of the peak; of the bound
  return architecture == "Kepler" ? kBound * kReached : fed_share(architecture);
}

bool has_fused_winograd(const std::string& architecture) { return architecture != "Kepler"; }

double delivered_share(const Accelerator& accelerator) {
  constexpr double kBefore = 0.76, kFromVolta = 0.95, kBesideEcc = 5.0 / 6;
  for (const char* early : {"Kepler", "Maxwell", "Pascal"})
    if (accelerator.architecture == early) return kBefore;
  return accelerator.has_ecc && accelerator.memory_kind.starts_with("GDDR") ? kFromVolta * kBesideEcc : kFromVolta;
}

double flop_energy(const Accelerator& accelerator, const BoardPowerValues& values, Precision precision) {
  // Without matrix units fp16 is at most twice as fast as fp32.
  constexpr double kVectorRatio = 2.5;
  const auto by_matrix_units = [&] {
    switch (precision) {
      case Precision::kFp32:
        return accelerator.peak_fp32_matrix > FlopsPerSecond{};
      case Precision::kTf32:
        return accelerator.peak_tf32 > FlopsPerSecond{};
      case Precision::kFp16:
        return accelerator.peak_fp16 > accelerator.peak_fp32 * kVectorRatio;
      case Precision::kBf16:
        return accelerator.peak_bf16 > accelerator.peak_fp32 * kVectorRatio;
      case Precision::kFp8:
        return accelerator.peak_fp8 > accelerator.peak_fp32 * kVectorRatio;
      case Precision::kFp4:
        return accelerator.peak_fp4 > accelerator.peak_fp32 * kVectorRatio;
    }
    return false;
  };
  return rehearse::flop_energy(accelerator, values, 8 * bytes_of(precision), by_matrix_units());
}

double beside_memory(double compute, double memory, double sharpness, const Gpu& gpu) {
  return combined(compute, memory, gpu.overlaps_tiles ? sharpness : 1 + (sharpness - 1) / 2);
}

bool overlaps_tiles(const std::string& architecture) { return architecture == "Hopper" || architecture == "Blackwell"; }

bool wants_transposed(const std::string& architecture) { return architecture != "Blackwell"; }

namespace {

/// What gpu_of() needs and the entry does not state; null: nothing.
const char* missing_in(const Accelerator& accelerator) {
  return accelerator.cores_per_multiprocessor == 0 ? "cores_per_multiprocessor"
         : accelerator.l2 == Bytes{}               ? "l2"
                                                   : nullptr;
}

}  // namespace

bool has_data_sheet(const Accelerator& accelerator) { return missing_in(accelerator) == nullptr; }

Gpu gpu_of(const Accelerator& accelerator, const std::string& place, const BoardPowerValues& power) {
  const char* missing = missing_in(accelerator);
  if (missing != nullptr)
    throw InputError{place + ": GPU \"" + accelerator.name + "\" does not state \"" + missing +
                     "\", which the times of its kernels depend on"};
  const double fed = fed_share(accelerator.architecture);
  const auto or_else = [fed](FlopsPerSecond stated, FlopsPerSecond other) {
    return fed * (stated > FlopsPerSecond{} ? stated.value() : other.value());
  };
  const double vector_peak = fed * accelerator.peak_fp32.value();
  Gpu gpu{.name = accelerator.name,
          .architecture = accelerator.architecture,
          .multiprocessors = number(accelerator.multiprocessors),
          .cores = number(accelerator.cores_per_multiprocessor),
          .clock = accelerator.peak_fp32.value() /
                   (2.0 * accelerator.multiprocessors * accelerator.cores_per_multiprocessor),
          .bandwidth = accelerator.memory_bandwidth.value(),
          .delivered = delivered_share(accelerator),
          .overlaps_tiles = overlaps_tiles(accelerator.architecture),
          .l2 = as_double(accelerator.l2),
          .vector_peak = vector_peak,
          .peaks = {or_else(accelerator.peak_fp32_matrix, accelerator.peak_fp32),
                    or_else(accelerator.peak_tf32, accelerator.peak_fp32), fed * accelerator.peak_fp16.value(),
                    or_else(accelerator.peak_bf16, accelerator.peak_fp16),
                    or_else(accelerator.peak_fp8, accelerator.peak_fp16),
                    or_else(accelerator.peak_fp4, accelerator.peak_fp16)}};
  if (accelerator.power_w > 0 && accelerator.process_nm > 0)
    gpu.board = BoardPower{accelerator, power, accelerator.power_w, accelerator.power_w};
  for (const auto& [name, precision] : kPrecisions)
    gpu.flop_energies[static_cast<std::size_t>(precision)] = flop_energy(accelerator, power, precision);
  return gpu;
}

}  // namespace rehearse::kernels
