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

#include "sim/base/units.hpp"

namespace rehearse {

/// what(): `expected a rate with a unit, such as "25GBps"; found "25"`. Whoever knows the place turns it into an
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
Q parse_quantity(std::string_view text);
template <>
inline Seconds parse_quantity<Seconds>(std::string_view text) {
  return parse_seconds(text);
}
template <>
inline Bytes parse_quantity<Bytes>(std::string_view text) {
  return parse_bytes(text);
}
template <>
inline BytesPerSecond parse_quantity<BytesPerSecond>(std::string_view text) {
  return parse_bytes_per_second(text);
}
template <>
inline Flops parse_quantity<Flops>(std::string_view text) {
  return parse_flops(text);
}
template <>
inline FlopsPerSecond parse_quantity<FlopsPerSecond>(std::string_view text) {
  return parse_flops_per_second(text);
}

/// `a rate with a unit, such as "25GBps"`: what an error says was expected.
template <class Q>
std::string_view expected_quantity();
template <>
std::string_view expected_quantity<Seconds>();
template <>
std::string_view expected_quantity<Bytes>();
template <>
std::string_view expected_quantity<BytesPerSecond>();
template <>
std::string_view expected_quantity<Flops>();
template <>
std::string_view expected_quantity<FlopsPerSecond>();

/// The shortest text that parses back to exactly the same value, with the prefix that suits its size: "1.5us", "80GiB".
std::string to_text(Seconds value);
std::string to_text(Bytes value);
std::string to_text(BytesPerSecond value);
std::string to_text(Flops value);
std::string to_text(FlopsPerSecond value);

/// The shortest decimal text that reads back as the same double: "0.1", "1e+300".
std::string to_text(double value);

}  // namespace rehearse
