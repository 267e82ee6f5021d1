#pragma once
// The headers of a captured frame.

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/traffic/packet.hpp"

namespace rehearse {

/// What a captured frame begins with.
enum class LinkHeader { kEthernet, kCooked, kCooked2, kInfiniband, kLoopback, kNone };

/// Reads addresses, ports, payload and sequence of a frame into `packet`, whose wire_bytes are known: Ethernet with any
/// VLAN tags, Linux's cooked headers (SLL, SLL2), IP over InfiniBand, BSD's loopback, or none; IPv4 or IPv6; TCP or UDP. What the capture has cut off, or
/// what is no such header, stays as it is. The payload is that of the IP header's length, not of what was captured; a
/// length of 0 (segments that the NIC splits) stands for the rest of the frame.
void read_frame(LinkHeader header, std::span<const std::uint8_t> captured, Packet& packet);

}  // namespace rehearse
