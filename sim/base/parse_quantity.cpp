#include "sim/base/parse_quantity.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <span>

#include "sim/base/names.hpp"
#include "sim/base/quantity_hint.hpp"

namespace rehearse {
namespace {

/// What follows the number: the value in base units is  number * 10^decimal * 2^binary * factor.
struct Unit {
  std::string_view name;
  int decimal = 0;
  int binary = 0;
  int factor = 1;
};

constexpr std::array kDecimalPrefixes{Unit{"", 0},   Unit{"k", 3},  Unit{"M", 6},  Unit{"G", 9},
                                      Unit{"T", 12}, Unit{"P", 15}, Unit{"E", 18}, Unit{"Z", 21}};
constexpr std::array kBinaryPrefixes{Unit{"Ki", 0, 10}, Unit{"Mi", 0, 20}, Unit{"Gi", 0, 30},
                                     Unit{"Ti", 0, 40}, Unit{"Pi", 0, 50}, Unit{"Ei", 0, 60}};
constexpr std::size_t kSecond = 3;
constexpr std::array kTimeUnits{Unit{"ns", -9},        Unit{"us", -6},        Unit{"ms", -3},        Unit{"s"},
                                Unit{"min", 0, 0, 60}, Unit{"h", 0, 0, 3600}, Unit{"d", 0, 0, 86400}};
constexpr int kBit = -3;  // a bit is 2^-3 bytes

/// A decimal number as text: digits [. digits] [e digits], without sign.
struct Decimal {
  std::string_view digits;  // with the point
  int exponent = 0;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view take_digits(std::string_view& text) {
  const auto size = static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
  const std::string_view digits = text.substr(0, size);
  text.remove_prefix(size);
  return digits;
}

/// Takes a number from the front of `text`; none if it does not start with one.
std::optional<Decimal> take_decimal(std::string_view& text) {
  const std::string_view start = text;
  if (take_digits(text).empty()) return std::nullopt;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (take_digits(text).empty()) return std::nullopt;
  }
  Decimal number{.digits = start.substr(0, start.size() - text.size())};
  if (!text.starts_with('e') && !text.starts_with('E')) return number;
  std::string_view rest = text.substr(1);  // "1e3B" has an exponent, "1EB" has none
  const bool is_negative = rest.starts_with('-');
  if (is_negative || rest.starts_with('+')) rest.remove_prefix(1);
  const std::string_view digits = take_digits(rest);
  if (digits.empty()) return number;
  constexpr int kLargestExponent = 100'000'000;
  int exponent = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (error != std::errc{}) exponent = kLargestExponent;
  exponent = std::min(exponent, kLargestExponent);
  number.exponent = is_negative ? -exponent : exponent;
  text = rest;
  return number;
}

struct NumberAndUnit {
  Decimal number;
  Unit unit;
};

/// Splits `prefix + base` such as "GiB": `base` is one of the names of `bases`, and their factors are combined.
std::optional<Unit> find_prefixed(std::string_view text, std::span<const Unit> bases, bool allows_binary) {
  for (const Unit& base : bases) {
    if (!text.ends_with(base.name)) continue;
    const std::string_view prefix = text.substr(0, text.size() - base.name.size());
    for (const Unit& candidate : kDecimalPrefixes) {
      if (prefix == candidate.name) return Unit{text, candidate.decimal, base.binary};
    }
    for (const Unit& candidate : kBinaryPrefixes) {
      if (allows_binary && prefix == candidate.name) return Unit{text, 0, base.binary + candidate.binary};
    }
  }
  return std::nullopt;
}

std::optional<Unit> find_time_unit(std::string_view text) {
  const auto* unit = std::ranges::find(kTimeUnits, text, &Unit::name);
  return unit == kTimeUnits.end() ? std::nullopt : std::optional{*unit};
}

template <class Q>
std::optional<Unit> find_unit(std::string_view text);
template <>
std::optional<Unit> find_unit<Seconds>(std::string_view text) {
  return find_time_unit(text);
}
template <>
std::optional<Unit> find_unit<Bytes>(std::string_view text) {
  return find_prefixed(text, std::array{Unit{"B"}, Unit{"b", 0, kBit}}, true);
}
template <>
std::optional<Unit> find_unit<BytesPerSecond>(std::string_view text) {
  return find_prefixed(text, std::array{Unit{"Bps"}, Unit{"bps", 0, kBit}}, true);
}
template <>
std::optional<Unit> find_unit<Flops>(std::string_view text) {
  return find_prefixed(text, std::array{Unit{"flop"}}, false);
}
template <>
std::optional<Unit> find_unit<FlopsPerSecond>(std::string_view text) {
  return find_prefixed(text, std::array{Unit{"flops"}}, false);
}

[[noreturn]] void refuse(std::string_view expectation, std::string_view text) {
  throw QuantityError{"expected " + std::string{expectation} + "; found " + in_quotes(text)};
}

template <class Q>
NumberAndUnit split(std::string_view text) {
  std::string_view rest = text;
  const auto number = take_decimal(rest);
  if (!number) refuse(expected_quantity<Q>(text), text);
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  const auto unit = find_unit<Q>(rest);
  if (!unit) refuse(expected_quantity<Q>(text), text);
  return {*number, *unit};
}

template <class Q>
Q parse_real(std::string_view text) {
  const auto [number, unit] = split<Q>(text);
  // The decimal prefix goes into the exponent before conversion, so that only one rounding happens.
  const std::string decimal = std::string{number.digits} + "e" + std::to_string(number.exponent + unit.decimal);
  double value = 0;
  const auto [end, error] = std::from_chars(decimal.data(), decimal.data() + decimal.size(), value);
  value = std::ldexp(value, unit.binary) * unit.factor;
  if (error != std::errc{} || !std::isfinite(value)) {
    refuse(expected_quantity<Q>({}) + " and within the range of a double", text);
  }
  return Q{value};
}

__extension__ using Wide = unsigned __int128;

/// round(digits * 10^exponent * 2^binary) and whether that was exact; none beyond 2^63 - 1.
struct WholeNumber {
  std::int64_t value = 0;
  bool is_exact = true;
};
std::optional<WholeNumber> to_whole_number(Decimal number, int decimal, int binary) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  constexpr int kMostDigits = 19;  // 10^19 * 2^60 < 2^128, and 2^63 has 19 digits
  Wide value = 0;
  int digits = 0;
  int exponent = number.exponent + decimal;
  bool is_exact = true;
  bool is_behind_point = false;
  for (const char c : number.digits) {
    if (c == '.') {
      is_behind_point = true;
      continue;
    }
    const bool is_kept = digits < kMostDigits;
    if (is_kept) {
      value = value * 10 + static_cast<unsigned>(c - '0');
      if (value > 0) ++digits;
    } else if (c != '0') {
      is_exact = false;
    }
    if (is_kept && is_behind_point) --exponent;
    if (!is_kept && !is_behind_point) ++exponent;
  }
  if (value == 0) return WholeNumber{0, true};
  constexpr Wide kTooLarge = Wide{1} << 123U;  // above 8 * 10 * 2^63, where no division below brings it back
  Wide divisor = 1;
  if (binary >= 0)
    value <<= static_cast<unsigned>(binary);
  else
    divisor = Wide{1} << static_cast<unsigned>(-binary);
  for (; exponent > 0; --exponent) {
    if (value > static_cast<Wide>(kLargest) * divisor) return std::nullopt;
    value *= 10;
  }
  for (; exponent < 0; ++exponent) {
    if (divisor > kTooLarge / 10) return WholeNumber{0, false};  // smaller than any byte
    divisor *= 10;
  }
  const Wide remainder = value % divisor;
  Wide rounded = value / divisor;
  if (remainder != 0) is_exact = false;
  if (remainder >= divisor - remainder) ++rounded;
  if (rounded > static_cast<Wide>(kLargest)) return std::nullopt;
  return WholeNumber{static_cast<std::int64_t>(rounded), is_exact};
}

/// Shortest digits of a positive finite `value`:  0.d1 d2 d3 ... * 10^exponent.
struct ShortestDigits {
  std::string digits;
  int exponent = 0;
};
ShortestDigits shortest_digits(double value) {
  std::array<char, 64> buffer{};
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view text{buffer.data(), static_cast<std::size_t>(end - buffer.data())};
  const std::size_t e = text.find('e');
  ShortestDigits result{.digits = std::string{text.substr(0, e)}, .exponent = std::atoi(text.data() + e + 1) + 1};
  std::erase(result.digits, '.');
  return result;
}

/// `digits` with the point after the first `point` of them, which may lie outside.
std::string with_point(std::string digits, int point) {
  if (point <= 0) return "0." + std::string(static_cast<std::size_t>(-point), '0') + digits;
  const auto whole = static_cast<std::size_t>(point);
  if (whole >= digits.size()) return digits + std::string(whole - digits.size(), '0');
  return digits.insert(whole, ".");
}

/// `units` in ascending order with the base unit at `base`; each name ends with `suffix`.
std::string with_unit(double value, std::span<const Unit> units, std::size_t base, std::string_view suffix) {
  constexpr int kMostWholeDigits = 15, kMostLeadingZeros = 3;
  if (value < 0) return "-" + with_unit(-value, units, base, suffix);
  const auto in_unit = [&](const std::string& number, const Unit& unit) {
    return number + std::string{unit.name} + std::string{suffix};
  };
  if (value == 0 || !std::isfinite(value)) return in_unit(to_text(value), units[base]);
  const auto [digits, exponent] = shortest_digits(value);
  const Unit* best = &units[0];
  for (const Unit& unit : units) {
    if (unit.decimal < exponent) best = &unit;  // at least one digit before the point
  }
  const int point = exponent - best->decimal;
  if (point > kMostWholeDigits || point < -kMostLeadingZeros) return in_unit(to_text(value), units[base]);
  return in_unit(with_point(digits, point), *best);
}

}  // namespace

namespace {

/// What a kind of quantity is called, and examples of it.
struct QuantityWords {
  QuantityKind kind;
  const char *name, *examples;
};
template <class Q>
constexpr QuantityWords words_of() {
  if constexpr (std::is_same_v<Q, Seconds>)
    return {QuantityKind::kTime, "a time", R"("1.5us" or "24h")"};
  else if constexpr (std::is_same_v<Q, Bytes>)
    return {QuantityKind::kSize, "a size", R"("80GiB")"};
  else if constexpr (std::is_same_v<Q, BytesPerSecond>)
    return {QuantityKind::kRate, "a rate", R"("25GBps" (bytes) or "200Gbps" (bits))"};
  else if constexpr (std::is_same_v<Q, Flops>)
    return {QuantityKind::kWork, "an amount of work", R"("3.9Gflop")"};
  else
    return {QuantityKind::kSpeed, "a speed", R"("312Tflops")"};
}

}  // namespace

template <class Q>
std::string expected_quantity(std::string_view found) {
  const auto [kind, name, examples] = words_of<Q>();
  const std::string hint = quantity_hint(kind, found);
  return std::string{name} + " with a unit, such as " + (hint.empty() ? examples : hint);
}
template std::string expected_quantity<Seconds>(std::string_view);
template std::string expected_quantity<Bytes>(std::string_view);
template std::string expected_quantity<BytesPerSecond>(std::string_view);
template std::string expected_quantity<Flops>(std::string_view);
template std::string expected_quantity<FlopsPerSecond>(std::string_view);

Seconds parse_seconds(std::string_view text) { return parse_real<Seconds>(text); }
BytesPerSecond parse_bytes_per_second(std::string_view text) { return parse_real<BytesPerSecond>(text); }
Flops parse_flops(std::string_view text) { return parse_real<Flops>(text); }
FlopsPerSecond parse_flops_per_second(std::string_view text) { return parse_real<FlopsPerSecond>(text); }

Bytes parse_bytes(std::string_view text) {
  const auto [number, unit] = split<Bytes>(text);
  const auto bytes = to_whole_number(number, unit.decimal, unit.binary);
  if (!bytes) refuse("a size below 8EiB", text);
  const bool has_prefix = unit.name.size() > 1;
  const bool vanishes = bytes->value == 0 && !bytes->is_exact;
  if (!bytes->is_exact && (!has_prefix || vanishes)) refuse("a whole number of bytes", text);
  return Bytes{bytes->value};
}

std::string to_text(double value) {
  std::array<char, 64> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end};
}

std::string to_text(Seconds value) {
  return with_unit(value.value(), std::span{kTimeUnits}.first<kSecond + 1>(), kSecond, "");
}
std::string to_text(BytesPerSecond value) { return with_unit(value.value(), kDecimalPrefixes, 0, "Bps"); }
std::string to_text(Flops value) { return with_unit(value.value(), kDecimalPrefixes, 0, "flop"); }
std::string to_text(FlopsPerSecond value) { return with_unit(value.value(), kDecimalPrefixes, 0, "flops"); }

std::string to_text(Bytes value) {
  const std::int64_t bytes = value.value();
  if (bytes == 0) return "0B";
  const std::string sign = bytes < 0 ? "-" : "";
  const std::uint64_t size = bytes < 0 ? 0 - static_cast<std::uint64_t>(bytes) : static_cast<std::uint64_t>(bytes);
  std::string digits = std::to_string(size);
  const auto exponent = static_cast<int>(digits.size());
  digits.erase(digits.find_last_not_of('0') + 1);
  const Unit* prefix = &kDecimalPrefixes[static_cast<std::size_t>(exponent - 1) / 3];
  std::string text = with_point(digits, exponent - prefix->decimal) + std::string{prefix->name};
  for (const Unit& binary : kBinaryPrefixes) {
    const std::uint64_t unit = std::uint64_t{1} << static_cast<unsigned>(binary.binary);
    const std::string candidate = std::to_string(size / unit) + std::string{binary.name};
    if (size % unit == 0 && candidate.size() < text.size()) text = candidate;
  }
  return sign + text + "B";
}

}  // namespace rehearse
