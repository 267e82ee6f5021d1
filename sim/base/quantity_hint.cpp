#include "sim/base/quantity_hint.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

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

void add_times(Hints& hints, const std::string& unit) {
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
  enum class Base { kBit, kByte, kEither } base = Base::kEither;
  if (is_rate && take_ending(unit, {"gige", "gbe", "ge"})) {  // Ethernet is named after its bits
    unit += 'G';
    base = Base::kBit;
  } else if (take_ending(unit, {"bits", "bit"})) {
    base = Base::kBit;
  } else if (take_ending(unit, {"bytes", "byte", "octets", "octet"})) {
    base = Base::kByte;
  } else if (unit.ends_with('b') || unit.ends_with('B')) {
    const bool is_small = unit.back() == 'b';
    unit.pop_back();
    const bool is_unclear = is_rate ? !has_small && is_per_second && unit.size() < 2 : is_small && !has_capitals;
    if (!is_unclear) base = is_small ? Base::kBit : Base::kByte;
  }
  const auto prefix = unit_of(kPrefixes, in_lower_case(unit));
  if (!prefix) return;
  const bool has_base = unit.size() < written.size();
  if (base != Base::kBit) hints.add(*prefix + "B" + suffix, "bytes");
  const bool is_power_of_two = !is_rate && prefix->size() == 1 && (!has_base || unit == "K");
  if (is_power_of_two && base != Base::kBit) hints.add(in_capitals(*prefix) + "iB", "powers of 1024");
  if (base == Base::kBit || (base == Base::kEither && (is_rate || has_base))) hints.add(*prefix + "b" + suffix, "bits");
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

}  // namespace

std::string quantity_hint(QuantityKind kind, std::string_view text) {
  constexpr std::size_t kLongest = 40;
  if (text.size() > kLongest) return {};
  std::string trimmed;
  for (const char c : text)
    if (c != ' ') trimmed += c;
  if (trimmed.starts_with('+')) trimmed.erase(0, 1);
  std::size_t end = 0;
  const auto is_digit = [&](std::size_t i) { return i < trimmed.size() && trimmed[i] >= '0' && trimmed[i] <= '9'; };
  while (is_digit(end)) ++end;
  if (end == 0) return {};
  if (end < trimmed.size() && trimmed[end] == '.' && is_digit(end + 1))
    for (++end; is_digit(end);) ++end;
  if (end < trimmed.size() && (trimmed[end] == 'e' || trimmed[end] == 'E')) {
    const std::size_t sign = end + 1 < trimmed.size() && (trimmed[end + 1] == '-' || trimmed[end + 1] == '+') ? 1 : 0;
    if (is_digit(end + 1 + sign))
      for (end += 1 + sign; is_digit(end);) ++end;
  }
  Hints hints{trimmed.substr(0, end)};
  const std::string unit = trimmed.substr(end);
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
