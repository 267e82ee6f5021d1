#pragma once
// What every reader of Chakra's traces asks of a node.

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "workloads/traces/kineto.hpp"

namespace rehearse {

inline constexpr std::int64_t kLatestMicroseconds = 2'200'000'000'000'000;  // from 1970: in 2039
inline constexpr std::int64_t kLongestMicroseconds = 100'000'000'000;       // 28 h

/// `node 17 "aten::add"`
inline std::string node_text(std::uint64_t id, std::string_view name) {
  return "node " + std::to_string(id) + (name.empty() ? "" : ' ' + in_quotes(name, 80));
}

/// Whose values are read.
struct NodePlace {
  std::string_view file;
  std::uint64_t id;
  std::string_view name;

  void require(bool condition, std::string_view key, std::string_view expected, std::string_view found) const {
    if (!condition) refuse(key, expected, found);
  }
  [[noreturn]] void refuse(std::string_view key, std::string_view expected, std::string_view found) const {
    throw InputError{std::string{file} + ": " + node_text(id, name) + ": " + std::string{key} + ": expected " +
                     std::string{expected} + "; found " + shortened(found, 80)};
  }
  /// `value` in microseconds. Negative ones come as 2^64 less so many.
  Nanoseconds microseconds(std::string_view key, std::uint64_t value, std::int64_t most) const {
    require(value <= static_cast<std::uint64_t>(most), key, "microseconds from 0 to " + std::to_string(most),
            value >> 63U != 0 ? std::to_string(static_cast<std::int64_t>(value)) : std::to_string(value));
    return static_cast<Nanoseconds>(value) * 1000;
  }
  /// `value` in nanoseconds, limits in microseconds.
  Nanoseconds nanoseconds(std::string_view key, std::int64_t value, std::int64_t least, std::int64_t most) const {
    require(value >= least * 1000 && value <= most * 1000, key,
            "nanoseconds from " + std::to_string(least * 1000) + " to " + std::to_string(most * 1000),
            std::to_string(value));
    return value;
  }
};

}  // namespace rehearse
