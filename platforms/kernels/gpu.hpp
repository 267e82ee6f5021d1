#pragma once
// What the formulas of kernels know of a GPU: numbers of its data sheet, in cycles, bytes and FLOPs.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "platforms/accelerator.hpp"
#include "platforms/board_power.hpp"
#include "sim/base/named.hpp"

namespace rehearse::kernels {

/// In which a kernel multiplies. Sums are fp32.
enum class Precision { kFp32, kTf32, kFp16, kBf16, kFp8, kFp4 };
inline constexpr std::array kPrecisions{Named{"fp32", Precision::kFp32}, Named{"tf32", Precision::kTf32},
                                        Named{"fp16", Precision::kFp16}, Named{"bf16", Precision::kBf16},
                                        Named{"fp8", Precision::kFp8},   Named{"fp4", Precision::kFp4}};

/// Of factors that are cast to so many bits, if they are.
inline Precision precision_of(int factor_bits, Precision otherwise) {
  return factor_bits == 8 ? Precision::kFp8 : factor_bits == 4 ? Precision::kFp4 : otherwise;
}

/// Of one number in memory.
double bytes_of(Precision precision);
/// Whether matrix units compute it, where a GPU has them.
bool is_reduced(Precision precision);
/// A size as a number of the formulas.
inline double number(std::int64_t size) { return static_cast<double>(size); }
/// (a^q + b^q)^(1 / q): two bounds at once, passing smoothly from one to the other.
double combined(double a, double b, double q);

/// The "architecture" of an accelerator that is one thread of a processor: processor.hpp has its formulas.
inline constexpr const char* kProcessorArchitecture = "CPU";

struct Gpu {
  std::string name, architecture;
  double multiprocessors = 0;
  double cores = 0;                                // fp32 units of each
  double clock = 0;                                // cycles per second
  double bandwidth = 0;                            // of device memory, B/s
  double delivered = 1;                            // share of it that a kernel that only copies reaches
  bool overlaps_tiles = false;                     // stores a tile while it computes the next one
  double l2 = 0;                                   // B
  double vector_peak = 0;                          // FLOP/s of the fp32 units
  std::array<double, kPrecisions.size()> peaks{};  // FLOP/s by Precision
  std::optional<BoardPower> board;
  std::array<double, kPrecisions.size()> flop_energies{};  // J by Precision

  bool is_processor() const { return architecture == kProcessorArchitecture; }
  double peak(Precision precision) const { return peaks[static_cast<std::size_t>(precision)]; }
};

/// Share of its fp32 units that a multiprocessor keeps busy: 2 / 3 of Kepler's, whose four schedulers issue to 32 of the
/// 192 units each, and to the others only where a warp's next instruction is independent; 0.8 of the first two CDNA, where rocBLAS keeps
/// about three quarters of the peak in fp32 and bf16 alike, with no limit of power near; all of NVIDIA's later architectures.
/// Sources: NVIDIA, Kepler GK110 white paper, 2012, Quad Warp Scheduler; squares on an MI210, 33.0 of 45.3 and 124 of 181 TFLOP/s,
/// github.com/zzc0721/torch-performance-test-data, issue 195.
double fed_share(const std::string& architecture);

/// Share of its peak that sums of convolutions without transforms reach besides what all architectures lose: 0.445 of
/// Kepler's, whose schedulers issue too little beside multiplications; fed_share() of later architectures. Kepler's
/// products, and those of transforms, keep fed_share(): that of cuBLAS. Source: Lai and Seznec, Performance Upper Bound
/// Analysis and Optimization of SGEMM on Fermi and Kepler GPUs, CGO 2013 (GTX 680: 77.3 % reached of a bound of 57.6 % of
/// the peak); that convolutions are as theirs is an assumption.
double implicit_share(const std::string& architecture);

/// Whether a library has Winograd's transforms and products in one kernel: from Maxwell on. Inferred from issues 9322 and 9339
/// of TensorFlow, 2017: unfused ones gain much for 3 x 3 kernels on Kepler, little on Pascal.
bool has_fused_winograd(const std::string& architecture);

/// Share of the memory's bandwidth that a kernel reaches that copies: 0.76 up to Pascal, 0.95 from Volta on, of which ECC takes a sixth
/// where its bits are in the memory itself (GDDR; HBM has chips' width for them). Sources: Choquette, Volta: Programmability and
/// Performance, Hot Chips 29, 2017 (DRAM utilization of STREAM, P100 and V100); copies by one script in
/// github.com/chsasank/device-benchmarks: T4 0.75 and A10 0.78 of the data sheet with ECC, RTX 3090 and 4090 0.89 and 0.90, V100 0.85.
double delivered_share(const Accelerator& accelerator);

/// J of one FLOP of products and convolutions at the full clock, by the units that multiply in that precision: BoardPowerValues.
double flop_energy(const Accelerator& accelerator, const BoardPowerValues& values, Precision precision);

/// Share of its full clock at which the board keeps to its limit, 1 without one, of a kernel of so many FLOPs and bytes of device
/// memory that takes time(share) s: BoardPower::highest_clock().
template <class Time>
double clock_at_limit(const Gpu& gpu, Precision precision, double flops, double bytes, Time time) {
  return gpu.board ? gpu.board->highest_clock(flops * gpu.flop_energies[static_cast<std::size_t>(precision)],
                                              bytes * gpu.board->byte_energy(), time)
                   : 1;
}

/// Whether products load and store tiles while others are computed: from Hopper on, by its asynchronous copies. Source: NVIDIA,
/// H100 Tensor Core GPU Architecture, 2022, Tensor Memory Accelerator.
bool overlaps_tiles(const std::string& architecture);

/// Whether fp8 products read only factors whose terms of a sum are contiguous, so that casts have transposed copies: all but
/// Blackwell's. Source: Transformer Engine, nvte_is_non_tn_fp8_gemm_supported().
bool wants_transposed(const std::string& architecture);

/// Computing and memory at once, (a^q + b^q)^(1 / q) with q the sharpness; 1 + (sharpness - 1) / 2 where tiles wait for each
/// other, not overlaps_tiles.
double beside_memory(double compute, double memory, double sharpness, const Gpu& gpu);

/// Whether gpu_of() knows enough of it.
bool has_data_sheet(const Accelerator& accelerator);

/// The clock is peak_fp32 / (2 multiprocessors cores). Where a catalog entry does not state the peak of a precision, it is
/// that of the next wider one: bf16 is as fp16, tf32 as fp32, fp8 as fp16; that of fp32 is with matrix units where it
/// states those. Of all peaks fed_share() counts. Throws InputError, which names `place`, if the
/// entry does not state "cores_per_multiprocessor" and "l2".
Gpu gpu_of(const Accelerator& accelerator, const std::string& place, const BoardPowerValues& power = {});

}  // namespace rehearse::kernels
