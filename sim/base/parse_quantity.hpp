#pragma once
// Quantities as text: a number and its unit, "25GBps", "1.5us", "80 GiB". A number without unit is an error.
//
//   prefixes: k M G T P E Z = powers of 1000; Ki Mi Gi Ti Pi Ei = powers of 1024 (bytes and bits only)
//   Seconds         ns us ms s min h d
//   Bytes           B, or b for bits; "1.3GiB" is rounded to the nearest byte, but "0.5B" is refused
//   BytesPerSecond  Bps, or bps for bits
//   Flops           flop        work:  "3.9Gflop"
//   FlopsPerSecond  flops       speed: "312Tflops"
//
// Decimal text is converted with one rounding: "1.5us" is exactly the double 1.5e-6.

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "sim/base/units.hpp"

namespace rehearse {

/// what(): `expected a rate with a unit, such as "1Gbps"; found "1Gb/s"`: what was meant, if that can be told
/// (quantity_hint.hpp). Whoever knows the place turns it into an
/// InputError.
class QuantityError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// These throw QuantityError: no unit or another one, a sign, NaN, infinity, hexadecimal, or out of range.
Seconds parse_seconds(std::string_view text);
Bytes parse_bytes(std::string_view text);
BytesPerSecond parse_bytes_per_second(std::string_view text);
Flops parse_flops(std::string_view text);
FlopsPerSecond parse_flops_per_second(std::string_view text);

/// The same, chosen by type: parse_quantity<Seconds>("30s").
template <class Q>
Q parse_quantity(std::string_view text) {
  if constexpr (std::is_same_v<Q, Seconds>) return parse_seconds(text);
  if constexpr (std::is_same_v<Q, Bytes>) return parse_bytes(text);
  if constexpr (std::is_same_v<Q, BytesPerSecond>) return parse_bytes_per_second(text);
  if constexpr (std::is_same_v<Q, Flops>) return parse_flops(text);
  if constexpr (std::is_same_v<Q, FlopsPerSecond>) return parse_flops_per_second(text);
}

/// What an error says was expected where `found` stands: `a rate with a unit, such as "1Gbps"` of 1Gb/s; of what is not
/// understood `a rate with a unit, such as "25GBps" or "200Gbps"`.
template <class Q>
std::string expected_quantity(std::string_view found);

/// The shortest text that parses back to exactly the same value, with the prefix that suits its size: "1.5us", "80GiB".
std::string to_text(Seconds value);
std::string to_text(Bytes value);
std::string to_text(BytesPerSecond value);
std::string to_text(Flops value);
std::string to_text(FlopsPerSecond value);

/// The shortest decimal text that reads back as the same double: "0.1", "1e+300".
std::string to_text(double value);

}  // namespace rehearse
