#pragma once
// What a GPU can do at best. How much of it a kernel gets is a matter of the calibration profile
// (platforms/profile.hpp).

#include <string>

#include "sim/base/units.hpp"

namespace rehearse {

class JsonReader;

struct Accelerator {
  std::string name;
  FlopsPerSecond peak_fp32{};  // dense, boost clock
  FlopsPerSecond peak_fp16{};  // matrix units where the chip has them
  BytesPerSecond memory_bandwidth{};
  Bytes memory{};
  Bytes memory_reserved{};  // taken by the driver's context before the framework allocates
  int multiprocessors = 0;
  BytesPerSecond host_link{};  // PCIe or equivalent to the host, each direction
  // For the formulas of platforms/kernels; where an entry does not state them they are zero or empty.
  std::string architecture;          // "Ampere": values are fitted for each; "CPU": a thread of a processor
  int cores_per_multiprocessor = 0;  // fp32 units: 2 FLOPs per cycle each
  Bytes l2{};                        // second-level cache
  int process_nm = 0;                // of the chip
  int dies = 1;                      // that act as one GPU
  double power_w = 0;                // limit of the board, for one GPU
  double power_min_w = 0;            // the lowest that may be set instead; 0: not stated
  std::string memory_kind;           // "HBM2e", "GDDR6"; empty: not stated
  bool has_ecc = false;              // switched on by default
  /// Dense, with matrix units; fp32_matrix: of those that multiply in fp32 (AMD).
  FlopsPerSecond peak_fp32_matrix{}, peak_tf32{}, peak_bf16{}, peak_fp8{}, peak_fp4{};
  double boost_clock_hz = 0;  // of the multiprocessors; that of matrix units may be lower
  std::string source;

  /// Cycles per second: what is stated, otherwise peak_fp32 / (2 multiprocessors cores_per_multiprocessor), otherwise 1.5e9.
  double clock() const;
  friend bool operator==(const Accelerator&, const Accelerator&) = default;
};

/// Reads one entry of a catalog's "accelerators". Its rates must be dense ones at boost clock, as far as it states what
/// shows that: peak_fp32 = 2 multiprocessors cores_per_multiprocessor boost_clock within 3 %, peak_bf16 = peak_bf16_sparse / 2
/// within 2 %. Throws InputError.
Accelerator read_accelerator(std::string name, JsonReader json);

/// "300W". Throws InputError.
double read_watts(const JsonReader& json, const char* key);

}  // namespace rehearse
