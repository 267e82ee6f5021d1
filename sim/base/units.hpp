#pragma once
// Quantities with their unit in the type: mixing seconds and bytes does not compile.
// Text carries its unit ("25GBps", "200Gbps", "80GiB", "1.5us", "312Tflops"); see parse_quantity.hpp.

#include <compare>
#include <cstdint>
#include <limits>

namespace rehearse {

/// A number with a unit known at compile time. `Rep` is double, or int64_t where sums must be exact (Bytes).
template <class Unit, class Rep>
class Quantity {
 public:
  using rep = Rep;
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_{value} {}
  constexpr Rep value() const { return value_; }

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity{a.value_ + b.value_}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity{a.value_ - b.value_}; }
  friend constexpr Quantity operator*(Quantity a, Rep factor) { return Quantity{a.value_ * factor}; }
  friend constexpr Quantity operator*(Rep factor, Quantity a) { return Quantity{a.value_ * factor}; }
  friend constexpr Quantity operator/(Quantity a, Rep divisor) { return Quantity{a.value_ / divisor}; }
  /// The ratio of two like quantities has no unit.
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value_) / static_cast<double>(b.value_);
  }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  Rep value_{};
};

using Seconds = Quantity<struct SecondsUnit, double>;
using Bytes = Quantity<struct BytesUnit, std::int64_t>;  // integer: conservation is checked exactly
using BytesPerSecond = Quantity<struct BytesPerSecondUnit, double>;
using Flops = Quantity<struct FlopsUnit, double>;  // double: one iteration can exceed 2^63
using FlopsPerSecond = Quantity<struct FlopsPerSecondUnit, double>;

/// Later than any date.
inline constexpr Seconds kNever{std::numeric_limits<double>::infinity()};
/// As far as times of files and runs go: beyond 1e9 s (32 years) sums of microseconds lose their digits.
inline constexpr Seconds kLongest{1e9};
inline constexpr Seconds kHour{3600};

constexpr double as_double(Bytes bytes) { return static_cast<double>(bytes.value()); }
constexpr Seconds operator/(Bytes bytes, BytesPerSecond rate) { return Seconds{as_double(bytes) / rate.value()}; }
constexpr Seconds operator/(Flops work, FlopsPerSecond rate) { return Seconds{work.value() / rate.value()}; }

inline namespace literals {
constexpr Seconds operator""_s(long double v) { return Seconds{static_cast<double>(v)}; }
constexpr Seconds operator""_ms(long double v) { return Seconds{static_cast<double>(v * 1e-3L)}; }
constexpr Seconds operator""_us(long double v) { return Seconds{static_cast<double>(v * 1e-6L)}; }
constexpr Bytes operator""_B(unsigned long long v) { return Bytes{static_cast<std::int64_t>(v)}; }
constexpr Bytes operator""_kB(unsigned long long v) { return Bytes{static_cast<std::int64_t>(v) * 1000}; }
constexpr Bytes operator""_MB(unsigned long long v) { return Bytes{static_cast<std::int64_t>(v) * 1'000'000}; }
constexpr Bytes operator""_GB(unsigned long long v) { return Bytes{static_cast<std::int64_t>(v) * 1'000'000'000}; }
constexpr BytesPerSecond operator""_MBps(unsigned long long v) { return BytesPerSecond{static_cast<double>(v) * 1e6}; }
constexpr BytesPerSecond operator""_GBps(unsigned long long v) { return BytesPerSecond{static_cast<double>(v) * 1e9}; }
constexpr FlopsPerSecond operator""_Tflops(long double v) { return FlopsPerSecond{static_cast<double>(v * 1e12L)}; }
}  // namespace literals

}  // namespace rehearse
