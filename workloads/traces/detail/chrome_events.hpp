#pragma once
// Events in Chrome's trace format. Their dates are microseconds, which are kept as whole nanoseconds.

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "workloads/traces/kineto.hpp"

namespace rehearse {

inline constexpr std::size_t kLongestName = 4096;  // what is longer is cut
inline constexpr double kLatestDate = 2.2e15;      // microseconds from 1970, as traces count: in 2039

/// Microseconds with up to three decimals are exact; those of "1.7e15" are those of the double.
inline Nanoseconds decimal_nanoseconds(const std::string& text, double value) {
  constexpr double kNanosecondsPerMicrosecond = 1000;
  const std::size_t point = text.find('.');
  if (point == std::string::npos || text.find_first_of("eE") != std::string::npos)
    return std::llround(value * kNanosecondsPerMicrosecond);
  std::int64_t whole = 0;
  std::from_chars(text.data(), text.data() + point, whole);
  std::int64_t part = 0;
  for (std::size_t digit = 1; digit <= 3; ++digit)
    part = 10 * part + (point + digit < text.size() ? text[point + digit] - '0' : 0);
  return whole * 1000 + (text.front() == '-' ? -part : part);
}

}  // namespace rehearse
