#include "calibration/own_runs.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "calibration/job_log.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/cluster_variants.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostRuns = 10'000;

/// What a column holds.
struct RunColumn {
  const char* column;
  const char* metric;
  double unit;
};

constexpr std::array<RunColumn, 4> kRunColumns{{{"samples_per_s", "samples_per_s", 1},
                                                {"steps_per_s", "steps_per_s", 1},
                                                {"step_time_s", "iteration_time_s", 1},
                                                {"step_time_ms", "iteration_time_s", 1e-3}}};

OwnRun checked(OwnRun run) {
  if (run.gpus < 1 || run.gpus > kMostGpus)
    throw InputError{run.place + ": expected 1 to 1000000 GPUs; found " + std::to_string(run.gpus)};
  if (!(run.value >= 1e-12 && run.value <= 1e12))
    throw InputError{run.place + ": expected a measured value of 1e-12 to 1e12; found " + to_text(run.value)};
  for (const std::optional<double>& batch : {run.batch, run.batch_per_gpu})
    if (batch && !(*batch >= 1 && *batch <= 1e9 && *batch == std::floor(*batch)))
      throw InputError{run.place + ": expected 1 to 1000000000 samples; found " + to_text(*batch)};
  return run;
}

void take_metric(OwnRuns& runs, const std::string& metric, const std::string& file) {
  if (!runs.metric.empty() && runs.metric != metric)
    throw InputError{file + ": expected " + runs.metric + ", as the files before; found " + metric};
  runs.metric = metric;
}

void add_table(const CsvTable& table, OwnRuns& runs) {
  const std::string& file = table.file_name();
  if (runs.runs.size() + table.row_count() > kMostRuns)
    throw InputError{file + ": expected at most " + std::to_string(kMostRuns) + " runs"};
  const RunColumn* measured = nullptr;
  std::vector<std::size_t> settings;
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < table.columns().size(); ++i) {
    const std::string& column = table.columns()[i];
    if (const auto found = std::ranges::find(kRunColumns, column, &RunColumn::column); found != kRunColumns.end()) {
      if (measured != nullptr)
        throw InputError{file + ": expected one of the columns " + measured->column + " and " + column};
      measured = &*found;
    } else if (column == "batch" || column == "batch_size") {
      throw InputError{file + ": column " + in_quotes(column) +
                       ": call it batch_per_gpu (samples of one GPU in a step) or global_batch (of all GPUs)"};
    } else if (column.starts_with('/')) {
      settings.push_back(i);
    } else if (column != "gpus" && column != "global_batch" && column != "batch_per_gpu") {
      unused.push_back(column);
    }
  }
  if (measured == nullptr)
    throw InputError{file + ": expected a column samples_per_s, steps_per_s, step_time_s or step_time_ms"};
  if (table.has_column("global_batch") && table.has_column("batch_per_gpu"))
    throw InputError{file + ": expected one of the columns global_batch and batch_per_gpu"};
  if (!unused.empty())
    runs.remarks.push_back(file + ": columns that say nothing here are left out: " + shortened(joined(unused), 200));
  take_metric(runs, measured->metric, file);
  const bool has_global = table.has_column("global_batch"), has_own = table.has_column("batch_per_gpu");
  const auto maybe = [](bool has, const CsvRow& row, const char* column) {
    return has && !row.text(column).empty() ? std::optional{row.number(column)} : std::nullopt;
  };
  for (const CsvRow& row : table.rows()) {
    OwnRun run{.gpus = static_cast<int>(std::clamp<std::int64_t>(row.integer("gpus"), -1, kMostGpus + 1)),
               .batch = maybe(has_global, row, "global_batch"),
               .batch_per_gpu = maybe(has_own, row, "batch_per_gpu"),
               .settings = {},
               .value = row.number(measured->column) * measured->unit,
               .place = file + ":" + std::to_string(row.line())};
    for (const std::size_t i : settings)
      if (!row.text_at(i).empty()) run.settings.emplace_back(table.columns()[i], row.text_at(i));
    runs.runs.push_back(checked(std::move(run)));
  }
}

void read_log(int gpus, const std::string& file, std::int64_t skip_steps, OwnRuns& runs) {
  const Measurements log =
      load_job_logs(file, {.skip_steps = skip_steps, .batch = {}, .gpus = gpus, .sequence_length = {}});
  take_metric(runs, "samples_per_s", file);
  runs.remarks.insert(runs.remarks.end(), log.remarks.begin(), log.remarks.end());
  for (const CsvRow& row : log.table.rows()) {
    const LoggedSpeed speed = logged_speed(log, row);
    runs.runs.push_back(
        checked({.gpus = gpus, .batch = speed.batch, .settings = {}, .value = speed.samples_per_s, .place = file}));
  }
}

}  // namespace

OwnRuns read_own_runs(const std::vector<std::string>& files, std::int64_t skip_steps) {
  OwnRuns runs;
  for (const std::string& text : files) {
    const std::size_t equals = text.find('=');
    int gpus = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + std::min(equals, text.size()), gpus);
    const bool is_log = equals != std::string::npos && error == std::errc{} && end == text.data() + equals;
    const std::string file = is_log ? text.substr(equals + 1) : text;
    if (runs.file.empty()) runs.file = file;
    if (is_log)
      read_log(gpus, file, skip_steps, runs);
    else
      add_table(load_csv_file(file), runs);
  }
  return runs;
}

OwnRuns own_runs_of(const CsvTable& table) {
  OwnRuns runs{.metric = {}, .runs = {}, .file = table.file_name(), .remarks = {}};
  add_table(table, runs);
  return runs;
}

}  // namespace rehearse
