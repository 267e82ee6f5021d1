#pragma once
// What a target asks of a reader. What breaks a law is a std::logic_error, which no reader throws.

#include <stdexcept>
#include <string_view>

#include "sim/base/base.hpp"

namespace rehearse::fuzz {

inline void require(bool condition, const char* law) {
  if (!condition) throw std::logic_error{law};
}

inline void require_one_line(std::string_view message) {
  require(!find_invalid_utf8(message) && message.find_first_of(std::string_view{"\n\0", 2}) == std::string_view::npos,
          "an error message is one line of UTF-8");
  require(message.size() < 2000, "an error message stays short");
}

}  // namespace rehearse::fuzz
