#pragma once
// What is fuzzed. Each target takes any bytes and may throw InputError or QuantityError; anything else is a bug.

#include <span>
#include <string_view>

namespace rehearse::fuzz {

struct Target {
  std::string_view name;  // also the folder of its corpus
  void (*run)(std::string_view input);
};

std::span<const Target> all_targets();

}  // namespace rehearse::fuzz
