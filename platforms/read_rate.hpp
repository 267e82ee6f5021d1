#pragma once
// Rates in the files of platforms.

#include <string_view>

#include "sim/base/json.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

/// The rate at `key`, above 0. Throws InputError.
inline BytesPerSecond read_rate(const JsonReader& json, std::string_view key) {
  const auto rate = json.required<BytesPerSecond>(key);
  json.expect(rate > BytesPerSecond{0}, key, "a rate above 0Bps");
  return rate;
}

}  // namespace rehearse
