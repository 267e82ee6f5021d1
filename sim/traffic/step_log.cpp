#include "sim/traffic/step_log.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/csv.hpp"
#include "sim/base/names.hpp"
#include "sim/traffic/packet.hpp"

namespace rehearse {

namespace {

constexpr double kNsPerSecond = kNanosecondsPerSecond;

/// A double has 0.24 us of today's seconds.
std::int64_t time_of(const CsvRow& row, const char* column, double offset_s) {
  const double seconds = row.number(column);
  const bool is_date = std::max(std::abs(seconds), std::abs(offset_s)) <= kLatestSecond && seconds + offset_s >= 0 &&
                       seconds + offset_s <= kLatestSecond;
  if (!is_date) row.fail(column, "expected seconds since 1970; found " + in_quotes(row.text(column)));
  const double whole = std::floor(seconds);
  return static_cast<std::int64_t>(whole) * kNanosecondsPerSecond + std::llround((seconds - whole) * kNsPerSecond) +
         std::llround(offset_s * kNsPerSecond);
}

void sort_by_time(StepLog& log) { std::ranges::stable_sort(log.steps, {}, &LoggedStep::time_ns); }

StepLog steps_in(const CsvTable& table, double offset_s) {
  StepLog log;
  for (const CsvRow& row : table.rows()) {
    const std::string_view type = row.text("Type");
    if (type != "Batch" && type != "Epoch") row.fail("Type", "expected Batch or Epoch; found " + in_quotes(type));
    if (type == "Epoch") continue;
    log.steps.push_back({.time_ns = time_of(row, "Timestamp", offset_s),
                         .loss = row.number("Loss"),
                         .accuracy = row.number("Accuracy"),
                         .has_metrics = true});
  }
  sort_by_time(log);
  return log;
}

}  // namespace

double StepLog::duration_s() const {
  return steps.size() < 2 ? 0 : static_cast<double>(steps.back().time_ns - steps.front().time_ns) / kNsPerSecond;
}

double StepLog::step_time_s() const {
  return steps.size() < 2 ? 0 : duration_s() / static_cast<double>(steps.size() - 1);
}

StepLog load_step_log(const std::filesystem::path& file, double offset_s) {
  return steps_in(load_csv_file(file), offset_s);
}

StepLog parse_step_log(std::string text, const std::string& file_name, double offset_s) {
  return steps_in(parse_csv(std::move(text), file_name), offset_s);
}

StepLog load_run_steps(const std::filesystem::path& file) {
  const CsvTable table = load_csv_file(file);
  const std::string machine{table.row(0).text("machine")}, gpu{table.row(0).text("gpu")};
  StepLog log;
  for (const CsvRow& row : table.rows()) {
    if (row.text("machine") != machine || row.text("gpu") != gpu) continue;
    if (row.integer("repeats") > 1) break;  // it stands for others, whose messages were not recorded
    log.steps.push_back({.time_ns = time_of(row, "end_s", 0)});
  }
  sort_by_time(log);
  return log;
}

}  // namespace rehearse
