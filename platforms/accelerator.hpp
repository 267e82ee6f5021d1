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
  std::string source;
};

/// Reads one entry of a catalog's "accelerators". Throws InputError.
Accelerator read_accelerator(std::string name, JsonReader json);

}  // namespace rehearse
