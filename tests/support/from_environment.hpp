#pragma once
// Tests of random cases run a few; the environment asks for more, or for others.

#include <cstdint>
#include <cstdlib>

namespace rehearse::test {

/// Such as REHEARSE_FIRST_SEED.
inline std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace rehearse::test
