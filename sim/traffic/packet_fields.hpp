#pragma once
// A packet from what tshark calls its fields, whatever stands between them.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sim/base/names.hpp"
#include "sim/traffic/packet.hpp"

namespace rehearse {

inline constexpr std::size_t kReadAtOnce = std::size_t{256} << 10U;  // bytes of a file of such fields

enum PacketField : std::uint8_t {
  kEpochField,  // seconds since 1970
  kTimeField,
  kFromField,
  kToField,
  kFrom6Field,
  kTo6Field,
  kFromPortField,
  kToPortField,
  kFromUdpField,
  kToUdpField,
  kLengthField,
  kPayloadField,
  kRawSequenceField,
  kSequenceField,
  kPacketFields
};
inline constexpr std::array<std::string_view, kPacketFields> kPacketFieldNames{
    "frame.time_epoch", "frame.time",  "ip.src",      "ip.dst",    "ipv6.src", "ipv6.dst",    "tcp.srcport",
    "tcp.dstport",      "udp.srcport", "udp.dstport", "frame.len", "tcp.len",  "tcp.seq_raw", "tcp.seq"};

/// Nanoseconds since 1970 in UTC of "Apr 21, 2021 14:03:05.123456789 CEST", "2021-04-21T14:03:05.5+0200" or, as seconds
/// since then, "1619006585.123456789". The zone is a part of it: CET, CEST, UTC, GMT, Z or an offset. Throws
/// std::invalid_argument: `expected a time such as ...`.
std::int64_t parse_frame_time(std::string_view text);

/// Texts of a packet's fields, empty where it has none, and how an error of one of them is thrown: fail(field, message).
template <class Fail>
class PacketFields {
 public:
  PacketFields(const std::array<std::string_view, kPacketFields>& texts, Fail fail) : texts_{texts}, fail_{fail} {}

  Packet packet() const {
    Packet packet;
    const PacketField time = texts_[kEpochField].empty() ? kTimeField : kEpochField;
    try {
      packet.time_ns = parse_frame_time(texts_[time]);
    } catch (const std::invalid_argument& error) { fail_(time, error.what()); }
    packet.wire_bytes = number(kLengthField, 1, kLargestFrame);
    if (has(kFromField, kToField))
      set_addresses(packet, kFromField, kToField);
    else if (has(kFrom6Field, kTo6Field))
      set_addresses(packet, kFrom6Field, kTo6Field);
    else
      return packet;
    if (has(kFromPortField, kToPortField)) {
      set_ports(packet, kFromPortField, kToPortField, kTcp);
      set_payload(packet);
    } else if (has(kFromUdpField, kToUdpField)) {
      set_ports(packet, kFromUdpField, kToUdpField, kUdp);
    }
    return packet;
  }

 private:
  static constexpr std::int64_t kLargestFrame = 1'000'000'000;  // frame, in bytes

  bool has(PacketField one, PacketField other) const { return !texts_[one].empty() && !texts_[other].empty(); }
  void set_addresses(Packet& packet, PacketField from, PacketField to) const {
    packet.is_ip = true;
    packet.from = address(from);
    packet.to = address(to);
  }
  void set_ports(Packet& packet, PacketField from, PacketField to, std::uint8_t protocol) const {
    packet.protocol = protocol;
    packet.from_port = static_cast<std::uint16_t>(number(from, 0, 65535));
    packet.to_port = static_cast<std::uint16_t>(number(to, 0, 65535));
  }
  void set_payload(Packet& packet) const {
    const PacketField sequence = texts_[kRawSequenceField].empty() ? kSequenceField : kRawSequenceField;
    if (!has(sequence, kPayloadField)) return;
    packet.sequence = static_cast<std::uint32_t>(number(sequence, 0, std::numeric_limits<std::uint32_t>::max()));
    packet.payload_bytes =
        number(kPayloadField, 0, kLargestFrame);  // beyond the frame's if IP fragments were put together
    packet.has_sequence = packet.has_payload = true;
  }
  /// Of a packet within another's tunnel the outer one's value comes first: "80,443".
  std::string_view outer(PacketField field) const { return texts_[field].substr(0, texts_[field].find(',')); }
  std::int64_t number(PacketField field, std::int64_t least, std::int64_t most) const {
    const std::string_view text = outer(field);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
      fail_(field, "expected a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
                       "; found " + in_quotes(text));
    return value;
  }
  Address address(PacketField field) const {
    Address address;
    if (!read_address(outer(field), address))
      fail_(field, "expected an address such as 192.168.17.50; found " + in_quotes(texts_[field]));
    return address;
  }

  const std::array<std::string_view, kPacketFields>& texts_;
  Fail fail_;
};

}  // namespace rehearse
