#pragma once
// Steps of a training that nobody has marked: what repeats.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rehearse {

struct Period {
  std::size_t first = 0, length = 0, count = 0;  // elements first to first + count * length - 1
};

/// The shortest sequence that is repeated, at least twice in a row, until at most one period before the end: of 100
/// elements 98 are those of one period later. Nothing if there is none.
std::optional<Period> find_period(std::span<const std::int32_t> sequence);

}  // namespace rehearse
