#include "workloads/traces/period.hpp"

#include <algorithm>
#include <vector>

namespace rehearse {

namespace {

constexpr std::size_t kLongestAnchor = 16;
constexpr double kEqual = 0.98;
constexpr std::size_t kMostTried = 200;  // periods

}  // namespace

std::optional<Period> find_period(std::span<const std::int32_t> sequence) {
  const std::size_t size = sequence.size();
  if (size < 4) return {};
  // Periods that are tried are distances from some elements near the end to where the same stand before.
  const std::size_t anchor = std::min(kLongestAnchor, size / 4);
  const auto last = sequence.last(anchor);
  std::size_t tried = 0;
  for (std::size_t length = 1; 2 * length <= size && tried < kMostTried; ++length) {
    if (!std::ranges::equal(last, sequence.subspan(size - length - std::min(anchor, size - length), anchor))) continue;
    ++tried;
    std::size_t first = size - length, different = 0;  // element i is that of i + length
    while (first > 0) {
      const bool is_equal = sequence[first - 1] == sequence[first - 1 + length];
      const std::size_t compared = size - length - first + 1;
      if (!is_equal && static_cast<double>(different + 1) > (1 - kEqual) * static_cast<double>(compared)) break;
      different += is_equal ? 0 : 1;
      --first;
    }
    while (first < size - length && sequence[first] != sequence[first + length]) ++first;
    const std::size_t count = (size - first) / length;
    if (count >= 2) return Period{.first = first, .length = length, .count = count};
  }
  return {};
}

}  // namespace rehearse
