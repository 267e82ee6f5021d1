#pragma once
// Texts as words of a shell's command line.

#include <string>
#include <string_view>

namespace rehearse {

/// `text` in single quotes: one word of sh, whatever it holds.
inline std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return word + "'";
}

}  // namespace rehearse
