#include "sim/app/output/trace_events.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "sim/base/json.hpp"

namespace rehearse {

namespace {

std::string quoted(std::string_view text) {
  const bool is_plain = std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (is_plain) return '"' + std::string{text} + '"';
  return Json(std::string{text}).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string number(double value) {
  std::array<char, 64> text{};
  constexpr double kExactlyWhole = 9e15;
  const bool is_whole = value == std::floor(value) && std::abs(value) < kExactlyWhole;
  std::snprintf(text.data(), text.size(), is_whole ? "%.0f" : "%.6g", value);
  return text.data();
}

}  // namespace

std::int64_t whole_nanoseconds(Seconds time) { return std::llround(time.value() * 1e9); }

TraceArguments& TraceArguments::add_text(std::string_view key, std::string_view value) {
  if (!members_.empty()) members_ += ',';
  members_ += quoted(key);
  members_ += ':';
  members_ += value;
  return *this;
}

TraceArguments& TraceArguments::add(std::string_view key, double value) { return add_text(key, number(value)); }

TraceArguments& TraceArguments::add(std::string_view key, std::string_view value) {
  return add_text(key, quoted(value));
}

void TraceEvents::begin(std::string_view phase, std::string_view name, std::string_view category, Place place) {
  constexpr std::size_t kPart = 1 << 20;
  if (write_ && text_.size() >= kPart) {
    write_(text_);
    text_.clear();
  }
  text_ += std::exchange(is_first_, false) ? "\n" : ",\n";
  text_ += "{\"ph\":\"";
  text_ += phase;
  text_ += "\",\"name\":" + quoted(name);
  if (!category.empty()) text_ += ",\"cat\":" + quoted(category);
  text_ += ",\"pid\":" + std::to_string(place.process) + ",\"tid\":" + std::to_string(place.thread);
}

/// Microseconds with three decimals.
void TraceEvents::date(std::string_view key, std::int64_t nanoseconds) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%lld.%03d", static_cast<long long>(nanoseconds / 1000),
                static_cast<int>(nanoseconds % 1000));
  text_ += ",\"" + std::string{key} + "\":" + text.data();
}

void TraceEvents::slice(std::string_view name, std::string_view category, Place place, std::int64_t start,
                        std::int64_t end, const TraceArguments& arguments) {
  begin("X", name, category, place);
  date("ts", start);
  date("dur", end - start);
  text_ += (arguments.is_empty() ? "" : ",\"args\":" + arguments.text()) + '}';
}

void TraceEvents::metadata(std::string_view what, Place place, const TraceArguments& arguments) {
  begin("M", what, "", place);
  text_ += ",\"args\":" + arguments.text() + '}';
}

void TraceEvents::arrow(std::string_view category, Place place, std::int64_t when, int id, bool begins) {
  begin(begins ? "s" : "f", "message", category, place);
  if (!begins) text_ += ",\"bp\":\"e\"";
  text_ += ",\"id\":" + std::to_string(id);
  date("ts", when);
  text_ += '}';
}

void TraceEvents::moment(std::string_view name, std::string_view category, Place place, std::int64_t when,
                         bool is_of_all) {
  begin("i", name, category, place);
  date("ts", when);
  text_ += std::string{",\"s\":\""} + (is_of_all ? "g" : "p") + "\"}";
}

void TraceEvents::counter(std::string_view name, Place place, std::int64_t when, double value) {
  begin("C", name, "", place);
  date("ts", when);
  text_ += ",\"args\":" + TraceArguments{}.add("value", value).text() + '}';
}

}  // namespace rehearse
