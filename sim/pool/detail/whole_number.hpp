#pragma once
// Numbers in names of files and in what Slurm prints.

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace rehearse {

/// The number that all of `text` is; none otherwise.
inline std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

}  // namespace rehearse
