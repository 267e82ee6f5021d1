#include "workloads/traces/detail/kernel_name.hpp"

#include <algorithm>

namespace rehearse {

namespace {

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string without(std::string_view text, std::string_view part) {
  std::string rest;
  while (true) {
    const std::size_t at = std::min(text.find(part), text.size());
    rest += text.substr(0, at);
    if (at == text.size()) return rest;
    text.remove_prefix(at + part.size());
  }
}

/// The identifiers of a mangled name, each behind its length: those before the first template argument, or before the end
/// of a nested name, are the function's. Names are not demangled, since what substitutions stand for can grow without bound.
KernelName read_mangled(std::string_view text) {
  KernelName name;
  const bool is_nested = text.starts_with('N');
  bool is_argument = false;
  std::string_view last;
  const auto add_argument = [&](std::string_view argument) {
    name.arguments.add(argument);
    name.each.emplace_back().add(argument);
  };
  for (std::size_t at = 0; at < text.size();) {
    if (!is_digit(text[at])) {
      is_argument = is_argument || ((text[at] == 'I' || text[at] == 'E') && !last.empty());
      if (is_argument && text.substr(at).starts_with("DF16b")) add_argument("bfloat16");
      if (is_argument && (text.substr(at).starts_with("DF16_") || text.substr(at).starts_with("Dh")))
        add_argument("half");
      at += text.substr(at).starts_with("DF16") ? 5 : 1;
      continue;
    }
    std::size_t length = 0;
    while (at < text.size() && is_digit(text[at]) && length < text.size())
      length = 10 * length + static_cast<std::size_t>(text[at++] - '0');
    const std::string_view identifier = text.substr(std::min(at, text.size()), length);
    at += identifier.size();
    if (identifier.empty() || identifier.starts_with("_GLOBAL__N")) continue;
    if (is_argument) {
      add_argument(identifier);
      continue;
    }
    name.path.add(identifier);
    last = identifier;
    is_argument = !is_nested;
  }
  name.own.add(last);
  return name;
}

/// The place after the bracket that closes the one at `at`; npos if none does. A > within () is a comparison.
std::size_t after_brackets(std::string_view text, std::size_t at) {
  std::string open;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '<' || c == '(') open += c;
    if (c == ')') {
      while (open.ends_with('<')) open.pop_back();
      if (!open.empty()) open.pop_back();
    }
    if (c == '>' && open.ends_with('<') && text[at - 1] != '-') open.pop_back();
    if (open.empty()) return at + 1;
  }
  return std::string_view::npos;
}

/// Whether types of parameters end the name, rather than being part of it as in "enable_if<T>(int)0&&is<T>::value" or
/// "(anonymous namespace)::f".
bool ends_name(std::string_view rest) {
  if (rest.starts_with("::")) return false;
  return rest.empty() ||
         !(is_digit(rest.front()) || is_lower(rest.front()) || is_upper(rest.front()) || rest.front() == '&');
}

void add_each(std::vector<NameWords>& each, std::string_view arguments) {
  std::size_t begin = 0;
  const auto is_part = [](char c) { return is_upper(c) || is_lower(c) || is_digit(c) || c == '_'; };
  for (std::size_t at = 0; at <= arguments.size(); ++at) {
    if (at < arguments.size() && is_part(arguments[at])) continue;
    if (at > begin && !is_digit(arguments[begin])) each.emplace_back().add(arguments.substr(begin, at - begin));
    begin = at + 1;
  }
}

/// Of a demangled name: a return type may come first, the arguments of a template stand in <>, types of parameters in ().
KernelName read_demangled(std::string_view text) {
  KernelName name;
  std::string path;
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c != '<' && c != '(') {
      path += c;
      ++at;
      continue;
    }
    const std::size_t after = std::min(after_brackets(text, at), text.size());
    if (c == '(' && !path.ends_with("operator") && ends_name(text.substr(after))) break;
    const std::string_view within = text.substr(at, after - at);
    if (c == '<') {
      name.arguments.add(within);
      add_each(name.each, within);
    } else if (!text.substr(after).starts_with("::")) {
      path += within;
    }
    at = after;
  }
  while (path.ends_with(' ')) path.pop_back();
  name.path.add(path);
  // A space ends a return type or a namespace, but is within "Memcpy HtoD".
  const bool has_type = path.starts_with("void ") || path.find("::") != std::string::npos;
  const std::size_t last = has_type ? path.find_last_of(": ") : std::string::npos;
  name.own.add(last == std::string::npos ? std::string_view{path} : std::string_view{path}.substr(last + 1));
  name.parameters.add(text.substr(at));
  return name;
}

}  // namespace

void NameWords::add(std::string_view text) {
  const auto is_part = [](char c) { return is_upper(c) || is_lower(c) || is_digit(c); };
  bool is_new = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!is_part(c)) {
      is_new = true;
      continue;
    }
    if (!is_new) {
      const char before = text[i - 1];
      const bool ends_capitals = is_upper(before) && is_upper(c) && i + 1 < text.size() && is_lower(text[i + 1]);
      is_new = is_digit(before) != is_digit(c) || (is_lower(before) && is_upper(c)) || ends_capitals;
    }
    text_ += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    begins_.push_back(is_new);
    is_new = false;
  }
}

std::size_t NameWords::find(std::string_view word) const {
  if (word.starts_with('=')) return text_ == word.substr(1) ? 0 : std::string::npos;
  const bool begins_within = word.starts_with('*');
  if (begins_within) word.remove_prefix(1);
  const bool ends_within = word.ends_with('*');
  if (ends_within) word.remove_suffix(1);
  // The rest of a word before a star is of one word: "gather_kernel" has no "herk".
  const auto is_of_one_word = [&](std::size_t at) {
    const auto inside = begins_.begin() + static_cast<std::ptrdiff_t>(at);
    return std::none_of(inside + 1, inside + static_cast<std::ptrdiff_t>(word.size()),
                        [](bool begins) { return begins; });
  };
  for (std::size_t at = text_.find(word); at != std::string::npos; at = text_.find(word, at + 1))
    if ((begins_at(at) || (begins_within && is_of_one_word(at))) && (ends_within || begins_at(at + word.size())))
      return at;
  return std::string::npos;
}

bool NameWords::consists_of(std::span<const std::string_view> words) const {
  for (std::size_t at = 0; at < text_.size();) {
    std::size_t end = at + 1;
    while (!begins_at(end)) ++end;
    const std::string_view word = std::string_view{text_}.substr(at, end - at);
    if (word.size() > 1 && !is_digit(word.front()) && std::ranges::find(words, word) == words.end()) return false;
    at = end;
  }
  return true;
}

KernelName kernel_name(std::string_view name) {
  std::string text{name.substr(0, name.find(" [clone"))};
  if (text.ends_with(".kd")) text.resize(text.size() - 3);
  if (text.starts_with("_ZL")) return read_mangled(std::string_view{text}.substr(3));
  if (text.starts_with("_Z")) return read_mangled(std::string_view{text}.substr(2));
  for (const std::string_view part : {"<unnamed>::", "{anonymous}::"}) text = without(text, part);
  // CuTe's names go on with the types of the arguments, whose words say nothing: "div", "align".
  if (text.starts_with("kernel_cutlass_")) text.resize(std::min(text.find("_tensorptr"), text.size()));
  return read_demangled(text);
}

}  // namespace rehearse
