#pragma once
// What lies between machines: one-way latency and the rate that one flow can reach.

#include <optional>
#include <string>

#include "sim/base/units.hpp"

namespace rehearse {

class JsonReader;

/// Between two regions, or inside one when `from == to`. Symmetric.
struct RegionLink {
  std::string from;
  std::string to;
  Seconds latency{};  // one way
  std::optional<BytesPerSecond>
      per_flow_rate;  // window- or policy-limited rate of a single connection; none: only the NICs limit
  std::string source;
  std::string place = {};  // "scenario.json: /cluster/network/links/0", for messages
  /// Of all connections between two machines, both directions together; not part of the file:
  /// NetworkParameters::duplex.
  std::optional<BytesPerSecond> per_pair_rate = {};
};

/// Reads one entry of a catalog's "region_links". Throws InputError.
RegionLink read_region_link(JsonReader json);

}  // namespace rehearse
