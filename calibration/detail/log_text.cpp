// Lines of consoles, by the table of log_names.cpp.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include "calibration/detail/logged_steps.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kLongestLine = std::size_t{64} * 1024;
constexpr std::size_t kMostLoggedSteps = 1'000'000;
constexpr std::size_t kMostValuesOfFact = 4;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// What follows a number of a log, as a factor: 8.79K.
double suffix_factor(char c) {
  switch (c) {
    case 'K':
    case 'k':
      return 1e3;
    case 'M':
      return 1e6;
    case 'B':
    case 'G':
      return 1e9;
    case 'T':
      return 1e12;
    default:
      return 0;
  }
}

/// Without the sequences that colour a terminal.
std::string without_colours(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      plain += line[i];
      continue;
    }
    if (i + 1 < line.size() && line[i + 1] == '[')
      for (i += 2; i < line.size() && std::isalpha(static_cast<unsigned char>(line[i])) == 0;) ++i;
  }
  return plain;
}

/// The number behind `name`, which is a word by itself, on a line.
LoggedValue value_of(std::string_view line, std::string_view name) {
  for (std::size_t at = line.find(name); at != std::string_view::npos; at = line.find(name, at + 1)) {
    if (at > 0 && (is_of_word(line[at - 1]) || line[at - 1] == '/' || line[at - 1] == '-')) continue;
    const std::size_t end = at + name.size();
    if (end >= line.size() || (is_of_word(line[end]) && is_of_word(name.back()))) continue;
    if (const LoggedValue value = read_logged_number(line.substr(end)); value.is_known()) return value;
  }
  return {};
}

/// The whole number whose last digit stands right before `end`.
std::optional<double> number_before(std::string_view line, std::size_t end) {
  std::size_t begin = end;
  while (begin > 0 && is_digit(line[begin - 1]) && end - begin < 16) --begin;
  double number = 0;
  const auto [rest, error] = std::from_chars(line.data() + begin, line.data() + end, number);
  return begin < end && error == std::errc{} ? std::optional{number} : std::nullopt;
}

std::optional<std::int64_t> step_of(double number) {
  if (!(number >= 0 && number <= kMostStepNumber && number == std::floor(number))) return {};
  return static_cast<std::int64_t>(number);
}

/// Reads a console line by line; a log may have lines of several forms.
class LogText {
 public:
  LogText(std::string_view text, const std::string& file_name)
      : text_{text}, of_form_(log_forms().size(), LoggedSteps{file_name}), facts_{file_name} {}

  LoggedSteps read() {
    std::size_t next_line = 1;
    for (std::size_t begin = 0; begin < text_.size();) {
      const std::size_t end = std::min(text_.find_first_of("\r\n", begin), text_.size());
      line_number_ = next_line;
      read_line(text_.substr(begin, end - begin));
      if (end < text_.size() && text_[end] == '\n') ++next_line;
      begin = end + 1;
    }
    return chosen();
  }

 private:
  void read_line(std::string_view line) {
    if (line.empty() || line.size() > kLongestLine) return;
    std::string plain;
    if (line.find('\x1b') != std::string_view::npos) line = plain = without_colours(line);
    if (line.starts_with("wandb:")) return;  // a summary of the run, whose last values are no step's
    const std::span<const LogForm> forms = log_forms();
    bool is_step = false;
    for (std::size_t f = 0; f < forms.size() && !is_step; ++f) {
      const std::size_t marker = line.find(forms[f].marker);
      if (marker == std::string_view::npos || line.find(forms[f].also) == std::string_view::npos) continue;
      is_step = read_step(f, line, marker);
    }
    if (is_step) return;
    if (block_ != nullptr && line.find("Eval ") == std::string_view::npos) add_values(*block_form_, line, *block_);
    for (const LogForm& form : log_facts()) read_facts(form, line);
  }

  /// Whether the line is one of the form.
  bool read_step(std::size_t f, std::string_view line, std::size_t marker) {
    const LogForm& form = log_forms()[f];
    if (form.span == LogSpan::kAllSoFar && !form.has_step_before) return read_whole(f, line);
    if (form.names.front().meaning == LogMeaning::kPause) return read_pause(f, line);
    std::optional<double> number;
    if (form.is_block)
      number = read_logged_number(line.substr(marker + form.marker.size())).value;
    else if (form.has_step_before)
      number = number_before(line, marker);
    JobLogEntry found{.span = form.span};
    bool has_time = add_values(form, line, found);
    for (const LogName& name : form.names)
      if (name.meaning == LogMeaning::kStep && !number)
        if (const LoggedValue value = value_of(line, name.name); value.is_known()) number = value.value;
    if (!has_time && !form.is_block) return false;
    LoggedSteps& steps = of_form_[f];
    block_ = nullptr;
    const std::int64_t counted = steps.steps.empty() ? 1 : steps.steps.back().step + 1;
    const auto step = number ? step_of(*number) : std::optional{counted};
    if (!step) return false;
    JobLogEntry* added = steps.add(line_number_, *step, form.span);
    if (added == nullptr) return true;
    added->values = found.values;
    if (form.is_block) {
      block_ = added;
      block_form_ = &form;
    }
    return true;
  }

  /// Of a speed of the whole training, which is logged once.
  bool read_whole(std::size_t f, std::string_view line) {
    JobLogEntry found{.span = LogSpan::kAllSoFar};
    (void)add_values(log_forms()[f], line, found);
    const LoggedValue run_time = value_of(line, "train_runtime");
    const LoggedValue rate = found[LogMeaning::kStepsPerSecond];
    if (rate.is_known()) return add_whole(f, found, run_time);
    // The same, a line each: train_runtime = 0:12:03.27, train_samples_per_second = 33.52
    return run_time.is_known();
  }

  bool add_whole(std::size_t f, const JobLogEntry& found, const LoggedValue& run_time) {
    LoggedSteps& steps = of_form_[f];
    const double rate = found[LogMeaning::kStepsPerSecond].value;
    const auto step = step_of(std::floor(run_time.is_known() ? run_time.value * rate + 0.5 : 1));
    if (!step || !(rate > 0)) return false;
    if (!steps.steps.empty()) {
      ++steps.repeated;
      return true;
    }
    if (JobLogEntry* added = steps.add(line_number_, *step, LogSpan::kAllSoFar)) added->values = found.values;
    if (run_time.is_known()) steps.run_time = run_time.value;
    steps.pauses = pauses_;
    return true;
  }

  bool read_pause(std::size_t f, std::string_view line) {
    const LoggedValue pause = value_of(line, log_forms()[f].names.front().name);
    if (pause.is_known()) pauses_ += pause.value;
    return pause.is_known();
  }

  /// Whether one of the values tells a time.
  static bool add_values(const LogForm& form, std::string_view line, JobLogEntry& step) {
    bool has_time = false;
    for (const LogName& name : form.names) {
      if (name.meaning >= LogMeaning::kOfStep || step[name.meaning].is_known()) continue;
      const LoggedValue value = value_of(line, name.name);
      if (!value.is_known()) continue;
      step[name.meaning] = value.times(name.unit);
      has_time = has_time || name.meaning < LogMeaning::kBatch;
    }
    return has_time;
  }

  void read_facts(const LogForm& form, std::string_view line) {
    if (line.find(form.marker) == std::string_view::npos) return;
    double factors = 0;
    for (const LogName& name : form.names) {
      const LoggedValue value = value_of(line, name.name);
      if (!value.is_known()) continue;
      if (name.meaning == LogMeaning::kGpusFactor)
        factors = (factors == 0 ? 1 : factors) * value.value;
      else
        facts_.add_fact(name.meaning, name.name, value.value);
    }
    if (factors > 0) facts_.add_fact(LogMeaning::kGpus, form.marker, factors);
  }

  /// Of the form that comes first among those that tell a time.
  LoggedSteps chosen() {
    for (std::size_t f = 0; f < of_form_.size(); ++f) {
      LoggedSteps& steps = of_form_[f];
      const bool has_time = std::ranges::any_of(steps.steps, [](const JobLogEntry& step) {
        return std::any_of(step.values.begin(), step.values.begin() + static_cast<std::size_t>(LogMeaning::kBatch),
                           [](const LoggedValue& value) { return value.is_known(); });
      });
      if (!has_time) {
        if (!steps.steps.empty() && facts_.framework.empty()) facts_.framework = log_forms()[f].framework;
        continue;
      }
      facts_.framework = log_forms()[f].framework;
      facts_.steps = std::move(steps.steps);
      facts_.repeated = steps.repeated;
      facts_.run_time = steps.run_time;
      facts_.pauses = steps.pauses;
      break;
    }
    return std::move(facts_);
  }

  std::string_view text_;
  std::size_t line_number_ = 1;
  std::vector<LoggedSteps> of_form_;  // [log_forms()]
  LoggedSteps facts_;                 // what lines that are no steps say
  JobLogEntry* block_ = nullptr;      // whose lines are being read
  const LogForm* block_form_ = nullptr;
  double pauses_ = 0;
};

}  // namespace

LoggedValue read_logged_number(std::string_view text, std::size_t* end) {
  constexpr std::size_t kMostDigits = 40;
  std::size_t at = 0;
  while (at < text.size() && std::string_view{" \t:='\""}.find(text[at]) != std::string_view::npos) ++at;
  if (at < text.size() && text[at] == '.') {  // dots up to a blank: a table of arguments
    std::size_t dots = text.find_first_not_of('.', at);
    if (dots == std::string_view::npos || text[dots] != ' ') return {};
    at = text.find_first_not_of(' ', dots);
    if (at == std::string_view::npos) return {};
  }
  std::string digits;
  std::size_t decimals = 0;
  bool has_point = false;
  for (; at < text.size() && digits.size() < kMostDigits; ++at) {
    const char c = text[at];
    const bool is_thousands = c == ',' && !has_point && !digits.empty() && at + 3 < text.size() &&
                              is_digit(text[at + 1]) && is_digit(text[at + 2]) && is_digit(text[at + 3]) &&
                              (at + 4 >= text.size() || !is_digit(text[at + 4]));
    if (is_thousands) continue;
    if (c == '.' && !has_point && at + 1 < text.size() && is_digit(text[at + 1]))
      has_point = true;
    else if (!is_digit(c))
      break;
    else if (has_point)
      ++decimals;
    digits += c;
  }
  if (digits.empty()) return {};
  double unit = std::pow(10.0, -static_cast<double>(decimals));
  if (at + 1 < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    const std::size_t exponent = at + (text[at + 1] == '+' || text[at + 1] == '-' ? 2 : 1);
    const std::size_t rest = std::min(text.find_first_not_of("0123456789", exponent), text.size());
    if (rest > exponent && rest < exponent + 4) {
      digits += 'e';
      digits += text.substr(at + 1 + (text[at + 1] == '+' ? 1 : 0), rest - at - 1 - (text[at + 1] == '+' ? 1 : 0));
      unit *= std::pow(10.0, std::strtod(std::string{text.substr(at + 1, rest - at - 1)}.c_str(), nullptr));
      at = rest;
    }
  }
  double value = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || rest != digits.data() + digits.size()) return {};
  const auto ends_word = [&](std::size_t place) {
    return place >= text.size() ||
           (!is_of_word(text[place]) && !(text[place] == '.' && place + 1 < text.size() && is_digit(text[place + 1])));
  };
  if (!ends_word(at)) {
    const double factor = suffix_factor(text[at]);
    const bool is_unit = text.substr(at).starts_with("ms") || text[at] == 's';
    const std::size_t after = at + (text.substr(at).starts_with("ms") ? 2 : 1);
    if (!ends_word(after) || (factor == 0 && !is_unit)) return {};
    if (factor > 0) {
      value *= factor;
      unit *= factor;
    }
    at = after;
  }
  constexpr double kMost = 1e18;
  if (!std::isfinite(value) || value > kMost) return {};
  if (end != nullptr) *end = at;
  return {value, value > 0 ? unit / 2 / value : 0};
}

JobLogEntry* LoggedSteps::add(std::size_t line, std::int64_t step, LogSpan span) {
  if (!steps.empty() && step <= steps.back().step) {
    ++repeated;
    return nullptr;
  }
  if (steps.size() == kMostLoggedSteps) throw InputError{file_name_ + ": expected at most 1000000 logged steps"};
  steps.push_back({.line = line, .step = step, .span = span});
  return &steps.back();
}

void LoggedSteps::add_fact(LogMeaning meaning, std::string_view, double value) {
  constexpr double kMost = 1e9;
  if (!(value >= 1 && value <= kMost && value == std::floor(value))) return;
  std::set<double>& known = facts_[static_cast<std::size_t>(meaning)];
  if (known.size() < kMostValuesOfFact) known.insert(value);
}

std::optional<double> LoggedSteps::fact(LogMeaning meaning) const {
  const std::set<double>& known = facts_[static_cast<std::size_t>(meaning)];
  if (known.size() == 1) return *known.begin();
  if (meaning != LogMeaning::kGpus || !known.empty()) return {};
  const auto nodes = fact(LogMeaning::kNodes), each = fact(LogMeaning::kGpusPerNode);
  return nodes && each ? std::optional{*nodes * *each} : std::nullopt;
}

LoggedSteps read_log_text(std::string_view text, const std::string& file_name) {
  return LogText{text, file_name}.read();
}

}  // namespace rehearse
