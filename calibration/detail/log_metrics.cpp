// Metrics that a job keeps by name: a column each of a CSV, a key each of trainer_state.json.

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "calibration/detail/logged_steps.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

std::string_view first_line(std::string_view start) { return start.substr(0, start.find_first_of("\r\n")); }

/// Fields of a header without commas in quotes.
std::vector<std::string_view> header_fields(std::string_view start) {
  std::vector<std::string_view> fields;
  const std::string_view line = first_line(start.starts_with("\xef\xbb\xbf") ? start.substr(3) : start);
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    std::string_view field = line.substr(begin, end - begin);
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
    fields.push_back(field);
    begin = end + 1;
  }
  return fields;
}

bool is_step_column(std::string_view name) {
  const LogName* metric = find_metric(name);
  return metric != nullptr && metric->meaning == LogMeaning::kStep;
}

/// A column of the table that has a meaning.
struct MetricColumn {
  std::size_t column;
  const LogName* metric;
};

/// What rows of one step say together: each metric may have a row of its own.
using StepValues = std::array<LoggedValue, static_cast<std::size_t>(LogMeaning::kOfStep)>;

std::vector<MetricColumn> metric_columns(const CsvTable& table) {
  std::vector<MetricColumn> columns;
  for (std::size_t c = 0; c < table.columns().size(); ++c) {
    const LogName* metric = is_of_evaluation(table.columns()[c]) ? nullptr : find_metric(table.columns()[c]);
    if (metric != nullptr && metric->meaning < LogMeaning::kOfStep) columns.push_back({c, metric});
  }
  return columns;
}

}  // namespace

bool is_log_csv(std::string_view start) {
  const auto fields = header_fields(start);
  return fields.size() >= 2 && std::ranges::any_of(fields, is_step_column);
}

LoggedSteps read_log_csv(std::string text, const std::string& file_name) {
  const CsvTable table = parse_csv(std::move(text), file_name);
  LoggedSteps log{file_name};
  log.framework = kMetricsByColumn;
  const auto& names = table.columns();
  const auto step_column = static_cast<std::size_t>(std::ranges::find_if(names, is_step_column) - names.begin());
  const std::vector<MetricColumn> columns = metric_columns(table);
  if (std::ranges::none_of(columns, [](const MetricColumn& column) {
        return column.metric->meaning < LogMeaning::kBatch || column.metric->meaning == LogMeaning::kElapsed;
      }))
    throw InputError{file_name +
                     ": expected a column that tells a time, such as \"train|device|batches_per_sec\" of Lightning's "
                     "ThroughputMonitor, \"throughput/batches_per_sec\" of Composer, \"_timestamp\", \"wall_time\" or "
                     "\"step_time_s\"; "
                     "CSVLogger writes none by itself; found " +
                     shortened(joined(names), 200)};
  std::map<std::int64_t, std::pair<std::size_t, StepValues>> steps;  // line and values
  for (const CsvRow& row : table.rows()) {
    if (row.text_at(step_column).empty()) continue;
    const LoggedValue number = read_logged_number(row.text_at(step_column));
    if (!number.is_known() || number.value > kMostStepNumber || number.value != std::floor(number.value))
      row.fail(names[step_column], "expected the number of a step; found " + in_quotes(row.text_at(step_column)));
    StepValues* values = nullptr;
    for (const MetricColumn& column : columns) {
      const LoggedValue value = read_logged_number(row.text_at(column.column));
      if (!value.is_known()) continue;
      if (values == nullptr) {
        const auto entry = steps.try_emplace(steps.end(), static_cast<std::int64_t>(number.value));
        if (entry->second.first == 0) entry->second.first = row.line();
        values = &entry->second.second;
      }
      LoggedValue& known = (*values)[static_cast<std::size_t>(column.metric->meaning)];
      if (!known.is_known()) known = value.times(column.metric->unit);
    }
  }
  for (const auto& [step, entry] : steps)
    if (JobLogEntry* added = log.add(entry.first, step, LogSpan::kSinceLast)) added->values = entry.second;
  return log;
}

bool is_trainer_state(std::string_view start) {
  const std::size_t at = start.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && start[at] == '{' && start.find("\"log_history\"") != std::string_view::npos;
}

LoggedSteps read_trainer_state(std::string_view text, const std::string& file_name) {
  const Json file = parse_json(text, file_name);
  const JsonReader json{file, file_name};
  LoggedSteps log{file_name};
  log.framework = "Hugging Face Trainer";
  double pauses = 0;
  for (const JsonReader& entry : json.children("log_history")) {
    const auto value = [&](const char* key) {
      const auto number = entry.required<double>(key);
      entry.expect(number >= 0, key, "a number of at least 0");
      return read_logged_number(Json(number).dump());
    };
    if (entry.has("eval_runtime")) pauses += value("eval_runtime").value;
    if (!entry.has("train_runtime")) continue;
    const auto step = entry.required<std::int64_t>("step");
    entry.expect(step >= 1 && static_cast<double>(step) <= kMostStepNumber, "step", "1 to 1e15 steps");
    JobLogEntry* added = log.add(1, step, LogSpan::kAllSoFar);
    if (added == nullptr) continue;
    log.run_time = value("train_runtime").value;
    log.pauses = pauses;
    (*added)[LogMeaning::kStepTime] = value("train_runtime").times(1 / static_cast<double>(step));
    if (entry.has("train_samples_per_second"))
      (*added)[LogMeaning::kSamplesPerSecond] = value("train_samples_per_second");
    if (entry.has("train_steps_per_second")) (*added)[LogMeaning::kStepsPerSecond] = value("train_steps_per_second");
  }
  if (log.steps.empty())
    json.fail("log_history",
              "expected an entry with \"train_runtime\", which the Trainer writes when the training has ended "
              "(trainer.save_state()); the others have no time");
  return log;
}

}  // namespace rehearse
