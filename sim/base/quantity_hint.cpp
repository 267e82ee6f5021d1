#include "sim/base/quantity_hint.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

/// What users write for a unit, and the unit: compared without case and spaces.
struct Spelling {
  std::string_view written, unit;
};

constexpr std::array kTimes{Spelling{"ns", "ns"},         Spelling{"nsec", "ns"},        Spelling{"nsecs", "ns"},
                            Spelling{"nanosecond", "ns"}, Spelling{"nanoseconds", "ns"}, Spelling{"us", "us"},
                            Spelling{"usec", "us"},       Spelling{"usecs", "us"},       Spelling{"\u00b5s", "us"},
                            Spelling{"\u03bcs", "us"},    Spelling{"microsecond", "us"}, Spelling{"microseconds", "us"},
                            Spelling{"ms", "ms"},         Spelling{"msec", "ms"},        Spelling{"msecs", "ms"},
                            Spelling{"millis", "ms"},     Spelling{"millisecond", "ms"}, Spelling{"milliseconds", "ms"},
                            Spelling{"s", "s"},           Spelling{"sec", "s"},          Spelling{"secs", "s"},
                            Spelling{"second", "s"},      Spelling{"seconds", "s"},      Spelling{"min", "min"},
                            Spelling{"mins", "min"},      Spelling{"minute", "min"},     Spelling{"minutes", "min"},
                            Spelling{"h", "h"},           Spelling{"hr", "h"},           Spelling{"hrs", "h"},
                            Spelling{"hour", "h"},        Spelling{"hours", "h"},        Spelling{"d", "d"},
                            Spelling{"day", "d"},         Spelling{"days", "d"}};

constexpr std::array kPrefixes{
    Spelling{"", ""},       Spelling{"k", "k"},   Spelling{"kilo", "k"},  Spelling{"m", "M"},
    Spelling{"mega", "M"},  Spelling{"g", "G"},   Spelling{"giga", "G"},  Spelling{"t", "T"},
    Spelling{"tera", "T"},  Spelling{"p", "P"},   Spelling{"peta", "P"},  Spelling{"e", "E"},
    Spelling{"exa", "E"},   Spelling{"ki", "Ki"}, Spelling{"kibi", "Ki"}, Spelling{"mi", "Mi"},
    Spelling{"mebi", "Mi"}, Spelling{"gi", "Gi"}, Spelling{"gibi", "Gi"}, Spelling{"ti", "Ti"},
    Spelling{"tebi", "Ti"}, Spelling{"pi", "Pi"}, Spelling{"pebi", "Pi"}};

template <std::size_t N>
std::optional<std::string> unit_of(const std::array<Spelling, N>& spellings, const std::string& written) {
  const auto* found = std::ranges::find(spellings, written, &Spelling::written);
  return found == spellings.end() ? std::nullopt : std::optional{std::string{found->unit}};
}

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string in_capitals(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// Takes the first of the endings off `text`; whether it has one.
bool take_ending(std::string& text, std::initializer_list<std::string_view> endings) {
  const std::string lower = in_lower_case(text);
  for (const std::string_view ending : endings) {
    if (!lower.ends_with(ending)) continue;
    text.resize(text.size() - ending.size());
    return true;
  }
  return false;
}

/// Of a number as the user wrote it, and what may follow it, with what tells these apart.
class Hints {
 public:
  explicit Hints(std::string number) : number_{std::move(number)} {}

  void add(const std::string& unit, const char* what = "") { units_.emplace_back(unit, what); }
  std::string text() const {
    std::string text;
    for (const auto& [unit, what] : units_) {
      text += (text.empty() ? "\"" : " or \"") + number_ + unit + '"';
      if (units_.size() > 1 && *what != '\0') text += std::string{" ("} + what + ")";
    }
    return text;
  }

 private:
  std::string number_;
  std::vector<std::pair<std::string, const char*>> units_;
};

/// Times that people write and that have no word here: of each the word for a smaller one, and how many of them it is.
constexpr std::string_view kWeeks[] = {"w", "wk", "wks", "week", "weeks"};
constexpr double kDaysPerWeek = 7;

/// Seconds of a unit that parse_seconds() knows.
double seconds_of(std::string_view unit) { return parse_seconds("1" + std::string{unit}).value(); }

/// The number, if it has few enough digits to be written as it is.
std::optional<std::string> short_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.12g", value);
  const std::string written{text.data()};
  return written.find('e') == std::string::npos ? std::optional{written} : std::nullopt;
}

/// A number at the beginning of `text`, taken off it, with a point for decimals and no separators: "1,5", "1.5", "1 500",
/// "1,500,000" and "1e3". None if there is none, or two could be meant: 1,500 is 1500 or 1.5.
std::optional<std::string> take_number(std::string& text) {
  std::size_t at = 0;
  const auto is_digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  const auto take_digits = [&](std::string& to) {
    const std::size_t first = at;
    for (; is_digit(at); ++at) to += text[at];
    return at - first;
  };
  const auto digits_after = [&](std::size_t i) {
    std::size_t count = 0;
    while (is_digit(i + 1 + count)) ++count;
    return count;
  };
  std::string number;
  if (take_digits(number) == 0) number = "0";
  const bool has_whole = at > 0;
  constexpr std::string_view kSeparators = " _',";
  if (at < text.size() && kSeparators.find(text[at]) != std::string_view::npos && digits_after(at) > 0) {
    const char separator = text[at];
    const std::size_t after = at + 1 + digits_after(at);
    const bool has_more = after < text.size() && (text[after] == ',' || text[after] == '.') && is_digit(after + 1);
    const bool is_group = digits_after(at) == 3 && number.size() <= 3 && number != "0";
    if (is_group && (separator != ',' || has_more)) {
      while (at < text.size() && text[at] == separator && digits_after(at) == 3) {
        ++at;
        take_digits(number);
      }
    } else if (separator == ',' && !is_group && !has_more && has_whole) {
      number += '.';
      ++at;
      take_digits(number);
    } else {
      return {};
    }
  }
  if (at < text.size() && text[at] == '.' && is_digit(at + 1)) {
    if (number.find('.') != std::string::npos) return {};
    number += '.';
    ++at;
    take_digits(number);
  } else if (!has_whole) {
    return {};
  }
  const bool has_sign = at + 1 < text.size() && (text[at + 1] == '-' || text[at + 1] == '+');
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E') && is_digit(at + 1 + (has_sign ? 1 : 0))) {
    number += 'e';
    ++at;
    if (has_sign) number += text[at++];
    take_digits(number);
  }
  text.erase(0, at);
  return number;
}

/// "1:30:00", hours, minutes and seconds, in seconds. Two numbers might be minutes and seconds as well.
std::optional<double> clock_seconds(const std::string& text) {
  int hours = 0, minutes = 0, seconds = 0, size = 0;
  if (std::sscanf(text.c_str(), "%4d:%2d:%2d%n", &hours, &minutes, &seconds, &size) != 3) return {};
  if (static_cast<std::size_t>(size) != text.size() || minutes > 59 || seconds > 59) return {};
  return hours * 3600.0 + minutes * 60 + seconds;
}

/// "3 days 4 h", "1h30m", "2 weeks": the same time in its smallest unit. None if it is not understood, or one number with
/// a unit that has a word here.
std::optional<std::string> sum_of_times(std::string text) {
  double total = 0;
  int parts = 0;
  std::string last;
  while (!text.empty()) {
    const auto number = take_number(text);
    if (!number) return {};
    text.erase(0, text.find_first_not_of(' '));
    const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
    const auto end = std::ranges::find_if_not(text, is_letter);
    const std::string word = in_lower_case({text.begin(), end});
    text.erase(text.begin(), end);
    const bool is_week = std::ranges::find(kWeeks, word) != std::end(kWeeks);
    auto unit = is_week ? std::optional<std::string>{"d"} : unit_of(kTimes, word);
    if (word == "m" && last == "h") unit = "min";
    if (!unit || (!last.empty() && seconds_of(*unit) > seconds_of(last))) return {};
    total += std::strtod(number->c_str(), nullptr) * seconds_of(*unit) * (is_week ? kDaysPerWeek : 1);
    last = *unit;
    parts += is_week ? 2 : 1;
    text.erase(0, text.find_first_not_of(" ,"));
    if (text.starts_with("and ")) text.erase(0, 4);
  }
  const auto sum = parts > 1 ? short_text(total / seconds_of(last)) : std::nullopt;
  return sum ? std::optional{*sum + last} : std::nullopt;
}

void add_times(Hints& hints, const std::string& unit) {
  if (unit == "Ms") return;  // a million seconds, where M is a million
  if (unit.empty()) {
    hints.add("s");
    hints.add("ms");
  } else if (unit == "m" || unit == "M") {
    hints.add("min");
    hints.add("ms");
  } else if (const auto known = unit_of(kTimes, in_lower_case(unit))) {
    hints.add(*known);
  }
}

/// Bits or bytes, in all or per second. A small b is a bit and a capital B a byte, unless nobody can tell: of sizes in
/// small letters, and of rates in capitals.
void add_data(Hints& hints, std::string unit, bool is_rate) {
  const std::string written = unit, suffix = is_rate ? "ps" : "";
  const bool has_small = std::ranges::any_of(unit, [](unsigned char c) { return std::islower(c) != 0; });
  const bool has_capitals = std::ranges::any_of(unit, [](unsigned char c) { return std::isupper(c) != 0; });
  const bool is_per_second = take_ending(unit, {"persecond", "persec", "/second", "/sec", "/s", "psec", "ps"});
  if (is_per_second && !is_rate) return;
  enum class Base { kBits, kBytes, kEither } base = Base::kEither;
  if (is_rate && take_ending(unit, {"gige", "gbe", "ge"})) {  // Ethernet is named after its bits
    unit += 'G';
    base = Base::kBits;
  } else if (take_ending(unit, {"bits", "bit"})) {
    base = Base::kBits;
  } else if (take_ending(unit, {"bytes", "byte", "octets", "octet"})) {
    base = Base::kBytes;
  } else if (unit.ends_with('b') || unit.ends_with('B')) {
    const bool is_small = unit.back() == 'b';
    unit.pop_back();
    const bool is_unclear = is_rate ? !has_small && is_per_second && unit.size() < 2 : is_small && !has_capitals;
    if (!is_unclear) base = is_small ? Base::kBits : Base::kBytes;
  }
  const auto prefix = unit_of(kPrefixes, in_lower_case(unit));
  if (!prefix) return;
  const bool has_base = unit.size() < written.size();
  if (base != Base::kBits) hints.add(*prefix + "B" + suffix, "bytes");
  const bool is_power_of_two = !is_rate && prefix->size() == 1 && (!has_base || unit == "K");
  if (is_power_of_two && base != Base::kBits) hints.add(in_capitals(*prefix) + "iB", "powers of 1024");
  if (base == Base::kBits || (base == Base::kEither && (is_rate || has_base)))
    hints.add(*prefix + "b" + suffix, "bits");
}

/// Floating-point operations, in all or per second.
void add_flops(Hints& hints, std::string unit, bool is_speed) {
  if (unit.empty()) return;
  const bool is_per_second = take_ending(unit, {"persecond", "/second", "/sec", "/s"});
  if (is_per_second && !is_speed) return;
  if (!take_ending(unit, {"flops", "flop"})) return;
  if (const auto prefix = unit_of(kPrefixes, in_lower_case(unit)); prefix && prefix->size() < 2)
    hints.add(*prefix + (is_speed ? "flops" : "flop"));
}

/// Takes the first of the beginnings off `text`; whether it has one.
bool take_beginning(std::string& text, std::initializer_list<std::string_view> beginnings) {
  for (const std::string_view beginning : beginnings) {
    if (!text.starts_with(beginning)) continue;
    text.erase(0, beginning.size());
    return true;
  }
  return false;
}

}  // namespace

std::string price_hint(std::string_view per, std::string_view text) {
  std::string rest;
  for (const char c : in_lower_case(std::string{text.substr(0, 40)}))
    if (c != ' ' || (!rest.empty() && rest.back() >= '0' && rest.back() <= '9')) rest += c;  // of groups of digits
  const std::initializer_list<std::string_view> dollars{"us$", "$", "usd", "dollars", "dollar"};
  const bool is_before = take_beginning(rest, dollars);
  const auto number = take_number(rest);
  if (!number) return {};
  std::erase(rest, ' ');
  if (!is_before) take_beginning(rest, dollars);
  if (take_beginning(rest, {"/", "per"})) {
    const bool is_same = per == "hour" ? take_beginning(rest, {"hours", "hour", "hr", "h"})
                                       : take_beginning(rest, {"gib-month", "gib/month", "gibpermonth", "gibmonth"});
    if (!is_same) return {};
  }
  return rest.empty() ? *number : std::string{};
}

std::string quantity_hint(QuantityKind kind, std::string_view text) {
  constexpr std::size_t kLongestText = 40;
  if (text.size() > kLongestText) return {};
  std::string rest{text};
  rest.erase(0, rest.find_first_not_of(' '));
  if (rest.starts_with('+')) rest.erase(0, 1);
  if (kind == QuantityKind::kTime) {
    if (const auto seconds = clock_seconds(rest)) return '"' + *short_text(*seconds) + "s\"";
    if (const auto sum = sum_of_times(rest)) return '"' + *sum + '"';
  }
  const auto number = take_number(rest);
  if (!number) return {};
  Hints hints{*number};
  std::string unit;
  for (const char c : rest)
    if (c != ' ') unit += c;
  switch (kind) {
    case QuantityKind::kTime:
      add_times(hints, unit);
      break;
    case QuantityKind::kSize:
    case QuantityKind::kRate:
      add_data(hints, unit, kind == QuantityKind::kRate);
      break;
    case QuantityKind::kWork:
    case QuantityKind::kSpeed:
      add_flops(hints, unit, kind == QuantityKind::kSpeed);
      break;
  }
  return hints.text();
}

}  // namespace rehearse
