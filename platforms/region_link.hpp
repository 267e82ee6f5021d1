#pragma once
// What lies between machines: one-way latency and the rate that one flow can reach.

#include <optional>
#include <string>

#include "sim/base/units.hpp"

namespace rehearse {

class JsonReader;

/// The way between two regions, or inside one where `from == to`; the same in both directions.
struct RegionLink {
  std::string from;
  std::string to;
  Seconds latency{};  // one way
  std::optional<BytesPerSecond>
      per_flow_rate;  // window- or policy-limited rate of a single connection; none: only the NICs limit
  std::string source;
  std::string place = {};  // "scenario.json: /cluster/network/links/0", for messages
  /// Rate of all connections between two machines, both directions together. It is not part of the file, but follows
  /// from NetworkParameters::duplex.
  std::optional<BytesPerSecond> per_pair_rate = {};
  double packet_loss = 0;  // share of packets, each by itself
};

/// Reads "packet_loss", 0 by default. Throws InputError.
double read_packet_loss(const JsonReader& json);

/// Reads one entry of a catalog's "region_links". Throws InputError.
RegionLink read_region_link(JsonReader json);

}  // namespace rehearse
