#include "sim/traffic/frame.hpp"

#include <algorithm>
#include <optional>

namespace rehearse {

namespace {

constexpr std::uint16_t kTypeIpv4 = 0x0800, kTypeIpv6 = 0x86dd;
constexpr std::size_t kTcpWithoutOptions = 20;

/// What is left of a frame from some header on.
class Rest {
 public:
  explicit Rest(std::span<const std::uint8_t> bytes) : bytes_{bytes} {}
  bool has(std::size_t size) const { return bytes_.size() >= size; }
  std::uint8_t byte(std::size_t at) const { return bytes_[at]; }
  std::uint16_t word(std::size_t at) const {
    return static_cast<std::uint16_t>(static_cast<unsigned>(bytes_[at]) << 8U | bytes_[at + 1]);
  }
  std::uint32_t long_word(std::size_t at) const { return static_cast<std::uint32_t>(word(at)) << 16U | word(at + 2); }
  std::span<const std::uint8_t> part(std::size_t at, std::size_t size) const { return bytes_.subspan(at, size); }
  void skip(std::size_t size) {
    bytes_ = bytes_.subspan(std::min(size, bytes_.size()));
    skipped_ += size;
  }
  std::size_t skipped() const { return skipped_; }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t skipped_ = 0;
};

bool is_vlan(std::uint16_t type) { return type == 0x8100 || type == 0x88a8 || type == 0x9100; }

/// The protocol that BSD's loopback header names by its family of addresses, in the order of bytes of the machine that
/// captured: 2 of IPv4; 10, 24, 28 or 30 of IPv6, as systems differ. Source: LINKTYPE_NULL, LINKTYPE_LOOP of tcpdump.org.
std::optional<std::uint16_t> skip_loopback_header(Rest& rest) {
  if (!rest.has(4)) return {};
  const std::uint32_t stated = rest.long_word(0);
  const std::uint32_t family = stated >= 1U << 24U ? stated >> 24U : stated;
  rest.skip(4);
  if (family == 2) return kTypeIpv4;
  if (family == 10 || family == 24 || family == 28 || family == 30) return kTypeIpv6;
  return {};
}

/// Skips the link's header and returns the protocol behind it.
std::optional<std::uint16_t> skip_link_header(LinkHeader header, Rest& rest) {
  std::size_t size = 14, type_at = 12;
  if (header == LinkHeader::kNone) {
    if (!rest.has(1)) return {};
    return rest.byte(0) >> 4U == 6 ? kTypeIpv6 : kTypeIpv4;
  }
  if (header == LinkHeader::kLoopback) return skip_loopback_header(rest);
  if (header == LinkHeader::kInfiniband) size = 44, type_at = 40;  // addresses, then RFC 4391, 6
  if (header == LinkHeader::kCooked) size = 16, type_at = 14;
  if (header == LinkHeader::kCooked2) size = 20, type_at = 0;
  if (!rest.has(size)) return {};
  std::uint16_t type = rest.word(type_at);
  rest.skip(size);
  while (is_vlan(type)) {
    if (!rest.has(4)) return {};
    type = rest.word(2);
    rest.skip(4);
  }
  return type;
}

/// Skips IPv6's extension headers and returns the protocol behind them; none of a later fragment or a cut header.
std::optional<std::uint8_t> skip_extensions(std::uint8_t next, Rest& rest) {
  constexpr std::uint8_t kHopByHop = 0, kRouting = 43, kFragment = 44, kOptions = 60;
  while (next == kHopByHop || next == kRouting || next == kFragment || next == kOptions) {
    if (!rest.has(8)) return {};
    if (next == kFragment && (rest.word(2) & 0xfff8U) != 0) return {};
    const std::size_t size = next == kFragment ? 8 : 8 * (std::size_t{rest.byte(1)} + 1);
    next = rest.byte(0);
    rest.skip(size);
  }
  return next;
}

/// Ports, sequence and payload, of which `bytes` follow the IP header with those of the transport's own.
void read_transport(Rest rest, std::int64_t bytes, Packet& packet) {
  if (packet.protocol != kTcp && packet.protocol != kUdp) return;
  if (!rest.has(4)) return;
  packet.from_port = rest.word(0);
  packet.to_port = rest.word(2);
  if (packet.protocol != kTcp || !rest.has(kTcpWithoutOptions)) return;
  packet.sequence = rest.long_word(4);
  packet.has_sequence = packet.has_payload = true;
  packet.payload_bytes = std::max<std::int64_t>(0, bytes - std::int64_t{4} * (rest.byte(12) >> 4U));
}

void read_ipv4(Rest rest, Packet& packet) {
  if (!rest.has(20) || rest.byte(0) >> 4U != 4) return;
  const std::size_t header = 4 * std::size_t{rest.byte(0) & 0xfU};
  if (header < 20) return;
  const std::int64_t length = rest.word(2);
  const std::int64_t left = packet.wire_bytes - static_cast<std::int64_t>(rest.skipped());
  packet.from = Address::v4(rest.long_word(12));
  packet.to = Address::v4(rest.long_word(16));
  packet.protocol = rest.byte(9);
  packet.is_ip = true;
  const bool is_first = (rest.word(6) & 0x1fffU) == 0;
  rest.skip(header);
  if (is_first) read_transport(rest, (length == 0 ? left : length) - static_cast<std::int64_t>(header), packet);
}

void read_ipv6(Rest rest, Packet& packet) {
  constexpr std::size_t kHeader = 40;
  if (!rest.has(kHeader) || rest.byte(0) >> 4U != 6) return;
  const std::int64_t length = rest.word(4);
  const std::int64_t left = packet.wire_bytes - static_cast<std::int64_t>(rest.skipped() + kHeader);
  std::ranges::copy(rest.part(8, 16), packet.from.bytes.begin());
  std::ranges::copy(rest.part(24, 16), packet.to.bytes.begin());
  packet.is_ip = true;
  packet.protocol = rest.byte(6);
  rest.skip(kHeader);
  const std::size_t before = rest.skipped();
  const auto protocol = skip_extensions(packet.protocol, rest);
  if (!protocol) return;
  packet.protocol = *protocol;
  read_transport(rest, (length == 0 ? left : length) - static_cast<std::int64_t>(rest.skipped() - before), packet);
}

}  // namespace

void read_frame(LinkHeader header, std::span<const std::uint8_t> captured, Packet& packet) {
  Rest rest{captured};
  const auto type = skip_link_header(header, rest);
  if (type == kTypeIpv4) read_ipv4(rest, packet);
  if (type == kTypeIpv6) read_ipv6(rest, packet);
}

}  // namespace rehearse
