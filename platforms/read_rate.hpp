#pragma once
// Rates and shares in the files of platforms.

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

/// The share at `key`, above 0. Throws InputError.
inline double read_share(const JsonReader& json, std::string_view key) {
  const auto share = json.required<double>(key);
  json.expect(share > 0 && share <= 1, key, "a share above 0, at most 1");
  return share;
}

}  // namespace rehearse
