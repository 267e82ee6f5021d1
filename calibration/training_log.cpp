#include "calibration/training_log.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "calibration/detail/logged_steps.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

constexpr double kShortestStep = 1e-9, kLongestStep = 1e6;  // seconds
constexpr double kLargestLoss = 1e12;
constexpr double kMostBytes = 1e15;

const std::vector<std::string> kFields{"step",      "loss", "seconds_per_batch", "ms_per_batch", "batches_per_s",
                                       "elapsed_s", "*"};

bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// Whether `text` stands at `at`; moves `at` behind it.
bool skip_text(std::string_view line, std::size_t& at, std::string_view text) {
  std::size_t position = at;
  for (const char c : text) {
    if (is_blank(c)) {
      while (position < line.size() && is_blank(line[position])) ++position;
      continue;
    }
    if (position >= line.size() || line[position] != c) return false;
    ++position;
  }
  at = position;
  return true;
}

}  // namespace

LinePattern::LinePattern(std::string_view pattern, const std::string& place) {
  constexpr std::size_t kLongestPattern = 1000;
  if (pattern.size() > kLongestPattern) throw InputError{place + ": expected at most 1000 characters"};
  std::string text;
  const auto end_text = [&] {
    if (!text.empty()) parts_.push_back({Part::Kind::kText, text});
    text.clear();
  };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '{') {
      if (!(is_blank(pattern[i]) && !text.empty() && is_blank(text.back()))) text += pattern[i];
      continue;
    }
    const std::size_t close = pattern.find('}', i);
    if (close == std::string_view::npos) throw InputError{place + ": expected a } after {"};
    const std::string field{pattern.substr(i + 1, close - i - 1)};
    if (std::find(kFields.begin(), kFields.end(), field) == kFields.end())
      throw InputError{place + ": " + unknown_name_message("field", field, kFields)};
    end_text();
    i = close;
    if (field == "*") {
      parts_.push_back({Part::Kind::kAnything, {}});
      continue;
    }
    if (std::find(fields_.begin(), fields_.end(), field) != fields_.end())
      throw InputError{place + ": expected {" + field + "} once; found it twice"};
    parts_.push_back({Part::Kind::kNumber, {}});
    fields_.push_back(field);
  }
  end_text();
  if (std::all_of(fields_.begin(), fields_.end(), [](const std::string& field) { return field == "step"; }))
    throw InputError{place + ": expected a field with a time or {loss}; found none"};
}

/// Matches parts `first` to before `last`, none of them {*}; returns where they end.
std::optional<std::size_t> LinePattern::match_from(std::string_view line, std::size_t at, std::size_t first,
                                                   std::size_t last, std::vector<double>& numbers) const {
  for (std::size_t p = first; p < last; ++p) {
    if (parts_[p].kind == Part::Kind::kText) {
      if (!skip_text(line, at, parts_[p].text)) return {};
      continue;
    }
    double number = 0;
    const auto [end, error] = std::from_chars(line.data() + at, line.data() + line.size(), number);
    if (error != std::errc{} || !std::isfinite(number)) return {};
    at = static_cast<std::size_t>(end - line.data());
    numbers.push_back(number);
  }
  return at;
}

std::optional<std::vector<double>> LinePattern::match(std::string_view line) const {
  std::vector<double> numbers;
  std::size_t at = 0;
  for (std::size_t first = 0; first < parts_.size();) {
    if (parts_[first].kind == Part::Kind::kAnything) {
      ++first;
      continue;
    }
    const auto last =
        static_cast<std::size_t>(std::find_if(parts_.begin() + static_cast<std::ptrdiff_t>(first), parts_.end(),
                                              [](const Part& part) { return part.kind == Part::Kind::kAnything; }) -
                                 parts_.begin());
    // The earliest place where the parts up to the next {*} match leaves the most to those after it.
    const std::size_t before = numbers.size();
    std::optional<std::size_t> end;
    for (; at <= line.size() && !end; ++at) {
      numbers.resize(before);
      // A number begins where no digit stands before it, lest 12 be read as 2.
      const bool is_inside = at > 0 && parts_[first].kind == Part::Kind::kNumber &&
                             std::string_view{"0123456789.+-eE"}.find(line[at - 1]) != std::string_view::npos;
      if (!is_inside) end = match_from(line, at, first, last, numbers);
    }
    if (!end) return {};
    at = *end;
    first = last;
  }
  return numbers;
}

std::vector<WorkerLog> parse_log_table(std::string text, const std::string& file_name) {
  const CsvTable table = parse_csv(std::move(text), file_name);
  const auto optional = [&](const CsvRow& row, const char* column, double most) -> std::optional<double> {
    if (!table.has_column(column) || row.text(column).empty()) return {};
    const double value = row.number(column);
    if (!(value >= 0 && value <= most)) row.fail(column, "expected a number from 0 to " + std::to_string(most));
    return value;
  };
  const auto whole = [](const CsvRow& row, const char* column, std::int64_t least, std::int64_t most) {
    const std::int64_t value = row.integer(column);
    if (value < least || value > most)
      row.fail(column, "expected " + std::to_string(least) + " to " + std::to_string(most));
    return value;
  };
  std::vector<WorkerLog> logs;
  std::map<std::pair<std::string, std::string>, std::size_t> known;  // cluster and worker
  for (const CsvRow row : table.rows()) {
    WorkerLog log{.cluster = std::string{row.text("cluster")},
                  .worker = std::string{row.text("worker")},
                  .instance = std::string{row.text("instance")},
                  .gpus = static_cast<int>(whole(row, "gpus", 1, 64)),
                  .batch = static_cast<int>(whole(row, "batch", 1, 1'000'000)),
                  .entries = {}};
    const auto [entry, is_new] = known.try_emplace({log.cluster, log.worker}, logs.size());
    if (is_new) logs.push_back(log);
    WorkerLog& worker = logs[entry->second];
    if (worker.instance != log.instance || worker.gpus != log.gpus || worker.batch != log.batch)
      row.fail("instance", "this worker had another instance, gpus or batch before");
    const auto seconds = optional(row, "seconds_per_batch", kLongestStep);
    if (seconds && *seconds < kShortestStep) row.fail("seconds_per_batch", "expected at least 1e-9 s");
    worker.entries.push_back({.step = whole(row, "step", 0, static_cast<std::int64_t>(kMostStepNumber)),
                              .seconds_per_batch = seconds,
                              .loss = optional(row, "loss", kLargestLoss),
                              .exchanged_bytes = optional(row, "exchanged_B", kMostBytes),
                              .exchange_seconds = optional(row, "exchange_s", kLongestStep)});
  }
  return logs;
}

void parse_log_text(std::string_view text, const std::string& file_name, const LinePattern& pattern,
                    int steps_per_entry, WorkerLog& worker) {
  std::size_t next_line = 1;
  const std::size_t before = worker.entries.size();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t line_number = next_line;
    if (end < text.size() && text[end] == '\n') ++next_line;
    constexpr std::size_t kLongestLine = 4000;
    if (line.size() > kLongestLine) continue;
    const auto numbers = pattern.match(line);
    if (!numbers) continue;
    const std::int64_t previous = worker.entries.empty() ? 0 : worker.entries.back().step;
    LogEntry entry{.step = previous + steps_per_entry};
    std::optional<double> elapsed;
    for (std::size_t i = 0; i < numbers->size(); ++i) {
      const std::string& field = pattern.fields()[i];
      const double number = (*numbers)[i];
      const auto expect = [&](bool condition) {
        if (!condition)
          throw InputError{file_name + ":" + std::to_string(line_number) + ": " + field + " is out of range"};
      };
      if (field == "step") {
        expect(number >= 0 && number <= kMostStepNumber && number == std::floor(number));
        entry.step = static_cast<std::int64_t>(number);
      } else if (field == "loss") {
        expect(number >= 0 && number <= kLargestLoss);
        entry.loss = number;
      } else {
        std::optional<double>& seconds = field == "elapsed_s" ? elapsed : entry.seconds_per_batch;
        seconds = field == "ms_per_batch" ? number / 1000 : field == "batches_per_s" ? 1 / number : number;
        expect(*seconds >= kShortestStep && *seconds <= kLongestStep * 1000);
      }
    }
    if (elapsed && !worker.entries.empty() && entry.step > previous)
      entry.seconds_per_batch = *elapsed / static_cast<double>(entry.step - previous);
    worker.entries.push_back(entry);
  }
  if (worker.entries.size() == before) throw InputError{file_name + ": no line matches the pattern"};
}

}  // namespace rehearse
