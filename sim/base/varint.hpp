#pragma once
// Numbers as protobuf writes them.

#include <cstdint>
#include <optional>
#include <string_view>

namespace rehearse {

/// The number at the front of `bytes`, which it takes away: seven bits a byte, the lowest first, the top bit of all but
/// the last set. None if there is no end to it. Source: Protocol Buffers, Encoding, "Base 128 Varints".
inline std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    number |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80U) return number;
  }
  return std::nullopt;
}

}  // namespace rehearse
