#include "sim/traffic/packet.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace rehearse {

namespace {
constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::size_t kLongestAddress = 45;  // INET6_ADDRSTRLEN without its zero
}  // namespace

Address Address::v4(std::uint32_t value) {
  Address address;
  std::ranges::copy(kMapped, address.bytes.begin());
  for (std::size_t i = 0; i < 4; ++i) address.bytes[12 + i] = static_cast<std::uint8_t>(value >> (24U - 8U * i));
  return address;
}

bool Address::is_v4() const { return std::equal(kMapped.begin(), kMapped.end(), bytes.begin()); }

std::string to_text(const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.is_v4())
    inet_ntop(AF_INET, &address.bytes[12], text.data(), text.size());
  else
    inet_ntop(AF_INET6, address.bytes.data(), text.data(), text.size());
  return text.data();
}

bool read_address(std::string_view text, Address& address) {
  if (text.size() > kLongestAddress) return false;
  std::array<char, kLongestAddress + 1> copy{};
  std::ranges::copy(text, copy.begin());
  std::array<std::uint8_t, 4> v4{};
  if (inet_pton(AF_INET, copy.data(), v4.data()) == 1) {
    address = Address::v4(static_cast<std::uint32_t>(v4[0]) << 24U | static_cast<std::uint32_t>(v4[1]) << 16U |
                          static_cast<std::uint32_t>(v4[2]) << 8U | v4[3]);
    return true;
  }
  return inet_pton(AF_INET6, copy.data(), address.bytes.data()) == 1;
}

}  // namespace rehearse
