#pragma once
// A machine type that can be rented.

#include <optional>
#include <string>

#include "sim/base/units.hpp"

namespace rehearse {

class JsonReader;

struct Instance {
  std::string name;
  int vcpus = 0;
  Bytes memory{};
  std::string accelerator;  // name in the catalog; empty for a machine without GPU
  int accelerators = 0;
  BytesPerSecond nic{};  // of one NIC, each direction, as the provider states it
  int nics = 1;
  std::optional<double> usd_per_hour_on_demand;
  std::optional<double> usd_per_hour_spot;
  std::string source;
};

/// Reads one entry of a catalog's "instances". Throws InputError. The accelerator may be a name or an inline object.
Instance read_instance(std::string name, JsonReader json);

}  // namespace rehearse
