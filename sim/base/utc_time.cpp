#include "sim/base/utc_time.hpp"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "sim/base/names.hpp"

namespace rehearse {

namespace {

/// Takes `digits` digits off the front of `text`; -1 if they are not there.
int take_number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return -1;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value);
  if (error != std::errc{} || end != text.data() + digits || text.front() == '-') return -1;
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) return false;
  text.remove_prefix(1);
  return true;
}

/// Seconds after midnight; negative if `text` is no time of day.
double take_time_of_day(std::string_view& text) {
  const int hour = take_number(text, 2);
  const int minute = take(text, ':') ? take_number(text, 2) : -1;
  const int second = take(text, ':') ? take_number(text, 2) : -1;
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) return -1;
  double fraction = 0;
  if (take(text, '.')) {
    std::size_t digits = 0;
    double unit = 1;
    for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1), ++digits)
      fraction += (text.front() - '0') * (unit /= 10);
    if (digits == 0) return -1;
  }
  take(text, 'Z');
  return hour * 3600 + minute * 60 + second + fraction;
}

}  // namespace

double parse_utc(std::string_view text) {
  std::string_view rest = text;
  const int year = take_number(rest, 4);
  const int month = take(rest, '-') ? take_number(rest, 2) : -1;
  const int day = take(rest, '-') ? take_number(rest, 2) : -1;
  if (year >= 1970 && month >= 1 && day >= 1) {
    const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                           std::chrono::day{static_cast<unsigned>(day)}};
    const double time = rest.empty() ? 0 : take(rest, 'T') || take(rest, ' ') ? take_time_of_day(rest) : -1;
    if (date.ok() && time >= 0 && rest.empty())
      return static_cast<double>(std::chrono::sys_days{date}.time_since_epoch().count()) * 86400 + time;
  }
  throw std::invalid_argument{"expected a time in UTC, such as \"2020-03-15T10:09:42Z\"; found " + in_quotes(text)};
}

std::string utc_text(double utc_s) {
  const auto seconds = static_cast<long long>(std::floor(utc_s));
  const std::chrono::sys_days day{std::chrono::days{seconds / 86400}};
  const std::chrono::year_month_day date{day};
  const long long rest = seconds % 86400;
  char text[48];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02lld:%02lld:%02lldZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), rest / 3600, rest / 60 % 60,
                rest % 60);
  return text;
}

}  // namespace rehearse
