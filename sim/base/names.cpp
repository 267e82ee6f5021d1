#include "sim/base/names.hpp"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

namespace rehearse {
namespace {

constexpr std::size_t kLongestComparedName = 200;  // edit distance is quadratic, and no name of ours is longer
constexpr std::size_t kMostListedNames = 20;

std::string lower_case(std::string_view text) {
  std::string result{text};
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

std::string digits_of(std::string_view text) {
  std::string digits;
  for (const char c : text)
    if (c >= '0' && c <= '9') digits += c;
  return digits;
}

/// `; known: "a", "b"`.
std::string known_names(std::span<const std::string> candidates) {
  if (candidates.empty()) return "; none is known here";
  std::string text = "; known: ";
  const std::size_t listed = std::min(candidates.size(), kMostListedNames);
  for (std::size_t i = 0; i < listed; ++i) text += (i == 0 ? "" : ", ") + in_quotes(candidates[i]);
  if (listed < candidates.size()) text += " and " + std::to_string(candidates.size() - listed) + " more";
  return text;
}

/// Length in bytes of the UTF-8 character that `text` starts with; 0 if it is not valid. (RFC 3629, section 4)
std::size_t utf8_character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xC2 && first <= 0xDF   ? 2
                           : (first & 0xF0U) == 0xE0        ? 3
                           : first >= 0xF0 && first <= 0xF4 ? 4
                                                            : 0;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool surrogate = first == 0xED && byte(1) >= 0xA0;
  const bool beyond_unicode = first == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || beyond_unicode ? 0 : size;
}

/// The code point of a valid UTF-8 character.
char32_t code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  char32_t code = character.size() == 1 ? first : first & (0x7FU >> character.size());
  for (const char c : character.substr(1)) code = (code << 6U) | (static_cast<unsigned char>(c) & 0x3FU);
  return code;
}

/// Control characters, those that reverse or join what stands beside them, and those that nobody sees: text with them
/// would look like another one.
bool is_deceptive(char32_t code) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x00, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},     {0x34F, 0x34F},     {0x61C, 0x61C},    {0x115F, 0x1160},
      {0x17B4, 0x17B5}, {0x180B, 0x180F}, {0x200B, 0x200F}, {0x2028, 0x202E},   {0x2060, 0x206F},  {0x3164, 0x3164},
      {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0}, {0xFFF0, 0xFFFB}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};
  return std::ranges::any_of(kRanges, [&](const auto& range) { return range.first <= code && code <= range.second; });
}

/// U+202E as \u202e, U+E0001 as \u{e0001}.
std::string escaped(char32_t code) {
  std::string digits;
  for (; code > 0; code >>= 4U) digits.insert(digits.begin(), "0123456789abcdef"[code & 0xFU]);
  if (digits.size() > 4) return "\\u{" + digits + "}";
  return "\\u" + std::string(4 - digits.size(), '0') + digits;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_previous(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) current[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_previous = previous;
    previous = current;
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substitution});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) current[j] = std::min(current[j], before_previous[j - 2] + 1);
    }
  }
  return current[b.size()];
}

std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates) {
  if (name.size() > kLongestComparedName) return std::nullopt;
  const std::string wanted = lower_case(name), digits = digits_of(name);
  std::size_t least = std::max<std::size_t>(1, name.size() / 3) + 1;
  const std::string* nearest = nullptr;
  for (const std::string& candidate : candidates) {
    if (candidate.size() >= name.size() + least || name.size() >= candidate.size() + least) continue;
    if (digits_of(candidate) != digits) continue;
    const std::size_t distance = edit_distance(wanted, lower_case(candidate));
    if (distance < least && distance < std::max(name.size(), candidate.size())) {
      least = distance;
      nearest = &candidate;
    }
  }
  return nearest ? std::optional{*nearest} : std::nullopt;
}

std::string unknown_name_message(std::string_view kind, std::string_view name,
                                 std::span<const std::string> candidates) {
  const std::string message = "unknown " + std::string{kind} + " " + in_quotes(name);
  if (const auto nearest = nearest_name(name, candidates))
    return message + "; did you mean " + in_quotes(*nearest) + "?";
  return message + known_names(candidates);
}

std::string unknown_network_message(std::string_view kind, std::string_view name,
                                    std::span<const std::string> candidates) {
  constexpr std::size_t kMostLetters = 2;
  const auto nearest = nearest_name(name, candidates);
  if (nearest && nearest->size() >= name.size() &&
      edit_distance(lower_case(name), lower_case(*nearest)) <= kMostLetters)
    return unknown_name_message(kind, name, candidates);
  return "unknown " + std::string{kind} + " " + in_quotes(name) + known_names(candidates);
}

std::string shortened(std::string_view text, std::size_t max_size) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  std::string result;
  while (!text.empty()) {
    if (result.size() >= max_size) return result + "...";
    const auto first = static_cast<unsigned char>(text[0]);
    const std::size_t size = first < 0x20 || first == 0x7F ? 0 : utf8_character_size(text);
    if (size == 0) {
      result += {'\\', 'x', kHexDigits[first >> 4U], kHexDigits[first & 0xFU]};
    } else if (const char32_t code = code_point(text.substr(0, size)); is_deceptive(code)) {
      result += escaped(code);
    } else {
      result += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

std::string list_in_quotes(std::span<const std::string> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + in_quotes(names[i]);
  return text;
}

std::string in_quotes(std::string_view text, std::size_t max_size) { return '"' + shortened(text, max_size) + '"'; }

std::string with_article(std::string_view name) {
  const bool is_spelled = name.size() > 1 && std::islower(static_cast<unsigned char>(name[1])) == 0;
  const std::string_view vowels = is_spelled ? "AEFHILMNORSX" : "AEIOUaeiou";
  return (!name.empty() && vowels.find(name[0]) != std::string_view::npos ? "an " : "a ") + std::string{name};
}

std::string printable(std::string_view text) { return shortened(text, std::string_view::npos); }

std::optional<std::size_t> find_deceptive_character(std::string_view text) {
  constexpr char32_t kNonJoiner = 0x200C, kJoiner = 0x200D;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] >= ' ' && text[i] < 0x7F) {  // most of what is read
      ++i;
      continue;
    }
    const std::size_t size = std::max<std::size_t>(utf8_character_size(text.substr(i)), 1);
    const char32_t code = code_point(text.substr(i, size));
    const bool is_allowed = code == '\t' || code == '\n' || (i > 0 && (code == kNonJoiner || code == kJoiner));
    if (!is_allowed && is_deceptive(code)) return i;
    i += size;
  }
  return std::nullopt;
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = text[i] > 0 ? 1 : utf8_character_size(text.substr(i));
    if (size == 0) return i;
    i += size;
  }
  return std::nullopt;
}

}  // namespace rehearse
