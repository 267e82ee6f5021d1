#pragma once
// Traffic: who sent how much to whom, when, over which flows. Start here; packet.hpp says what is counted of a packet.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/pinned.hpp"
#include "sim/traffic/packet.hpp"

namespace rehearse {

/// Sums over packets. Bytes are those of whole frames, from the Ethernet header on; payload that of TCP.
struct TrafficCounts {
  std::int64_t packets = 0;
  std::int64_t wire_bytes = 0;
  std::int64_t payload_bytes = 0;
  std::int64_t retransmitted_bytes = 0;    // payload below the highest sequence seen of the flow: sent again, or late
  std::int64_t retransmitted_packets = 0;  // that have some

  TrafficCounts& operator+=(const TrafficCounts& other);
  friend bool operator==(const TrafficCounts&, const TrafficCounts&) = default;
};

/// Bytes in bins of one width, from the bin `first` on: bin i covers [i, i + 1) widths after the origin.
struct BinnedBytes {
  std::int64_t first = 0;
  std::vector<std::int64_t> bytes;

  /// Bytes of bin `index`, also of one that is not stored.
  std::int64_t at(std::int64_t index) const {
    const std::int64_t place = index - first;
    return place < 0 || place >= static_cast<std::int64_t>(bytes.size()) ? 0 : bytes[static_cast<std::size_t>(place)];
  }
  std::int64_t end() const { return first + static_cast<std::int64_t>(bytes.size()); }
  friend bool operator==(const BinnedBytes&, const BinnedBytes&) = default;
};

struct TrafficHost {
  Address address;
  std::string name;  // of the machine or its capture, if known
  TrafficCounts sent, received;
  friend bool operator==(const TrafficHost&, const TrafficHost&) = default;
};

/// From one host to another.
struct TrafficPair {
  int from = 0, to = 0;  // indices into hosts
  TrafficCounts counts;
  BinnedBytes bins;
  friend bool operator==(const TrafficPair&, const TrafficPair&) = default;
};

/// A directed flow: addresses, ports and protocol. A TCP connection is two, since its acknowledgements are one.
struct TrafficFlow {
  int from = 0, to = 0;
  std::uint16_t from_port = 0, to_port = 0;
  std::uint8_t protocol = 0;
  TrafficCounts counts;
  std::int64_t arrival_ns = 0, departure_ns = 0;  // its first and last packet, after the origin
  BinnedBytes load;                               // in bins of ObservedTraffic::load_bin_ns
  friend bool operator==(const TrafficFlow&, const TrafficFlow&) = default;
};

struct ObservedTraffic {
  std::int64_t origin_ns = 0;  // the first packet, since 1970: bins and dates count from it
  std::int64_t end_ns = 0;     // the last packet, after the origin
  std::int64_t bin_ns = 0;     // of the pairs and the total; a multiple of what was asked for, by a power of two
  std::int64_t load_bin_ns = 0;
  TrafficCounts total;                // all frames
  TrafficCounts other;                // of them, those without IP
  bool has_sequences = false;         // payload and retransmissions are known
  std::vector<TrafficHost> hosts;     // by address
  std::vector<TrafficPair> pairs;     // by hosts; only those with packets
  std::vector<TrafficFlow> flows;     // by hosts, ports, protocol
  BinnedBytes bins;                   // of all frames
  std::vector<std::string> warnings;  // what was wrong with the inputs, although they count
};

/// Indices of the pairs with the most bytes, `most` of them or all, in the order of pairs; of equal ones the first.
std::vector<std::size_t> largest_pairs(const ObservedTraffic& traffic, std::size_t most);

/// Adds up packets, which may come in any order, without keeping them.
class TrafficCounter : private Pinned {
 public:
  /// Bins of `bin_ns`, or of a power of two as much: at most 8 million cells are kept, and a million flows. Dates count
  /// from `origin_ns`.
  TrafficCounter(std::int64_t origin_ns, std::int64_t bin_ns);
  ~TrafficCounter();
  /// Throws NoResultError if there are too many flows.
  void add(const Packet& packet);
  ObservedTraffic finish();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace rehearse
