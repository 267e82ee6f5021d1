#pragma once
// What is counted of a packet, and where packets come from.

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace rehearse {

/// An address of IPv6; one of IPv4 is mapped as ::ffff:a.b.c.d (RFC 4291, 2.5.5.2).
struct Address {
  std::array<std::uint8_t, 16> bytes{};

  static Address v4(std::uint32_t value);
  bool is_v4() const;
  friend auto operator<=>(const Address&, const Address&) = default;
};

/// "192.168.17.50", "fe80::1".
std::string to_text(const Address& address);
/// The address that `text` is; false if it is none.
bool read_address(std::string_view text, Address& address);

inline constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
inline constexpr std::int64_t kLatestSecond = 9'000'000'000;  // since 1970, in the year 2255: 2^63 ns are a little more

inline constexpr std::uint8_t kTcp = 6, kUdp = 17;  // of the IP header

/// A frame of Ethernet, or what a table says of one.
struct Packet {
  std::int64_t time_ns = 0;        // since 1970-01-01T00:00:00Z: a double has no nanoseconds there
  std::int64_t wire_bytes = 0;     // the whole frame, whatever part of it was captured
  std::int64_t payload_bytes = 0;  // of TCP
  Address from, to;
  std::uint16_t from_port = 0, to_port = 0;  // of TCP and UDP, otherwise 0
  std::uint8_t protocol = 0;                 // of the IP header
  bool is_ip = false;                        // otherwise there are no addresses
  bool has_payload = false;                  // payload_bytes and sequence are known
  bool has_sequence = false;
  std::uint32_t sequence = 0;  // TCP's, of the first payload byte
};

/// Packets one after the other, of which none is kept.
class PacketSource {
 public:
  PacketSource() = default;
  PacketSource(const PacketSource&) = delete;
  PacketSource& operator=(const PacketSource&) = delete;
  PacketSource(PacketSource&&) = delete;
  PacketSource& operator=(PacketSource&&) = delete;
  virtual ~PacketSource() = default;
  /// The next one; false at the end. Throws InputError.
  virtual bool next(Packet& packet) = 0;
  /// What was wrong with the end of the input, although what came before it counts; empty: nothing.
  virtual std::string warning() const { return {}; }
};

}  // namespace rehearse
