#include "predictor/measured_series.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "predictor/run_labels.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/record/resource_profile.hpp"

namespace rehearse {
namespace {

constexpr double kJitter = 0.1;      // of a period
constexpr double kMostBytes = 1e15;  // per second

Seconds period_of(const CsvTable& table) {
  const std::size_t rows = table.row_count();
  if (rows < 3) throw InputError{table.file_name() + ": expected at least three rows of a time series"};
  const double first = table.row(0).number("time_s"), last = table.row(rows - 1).number("time_s");
  const double period = (last - first) / static_cast<double>(rows - 1);
  if (!(period > 0) || !std::isfinite(period)) table.row(rows - 1).fail("time_s", "expected times that rise");
  for (std::size_t i = 0; i < rows; ++i) {
    const double expected = first + period * static_cast<double>(i);
    if (!(std::abs(table.row(i).number("time_s") - expected) < kJitter * period))
      table.row(i).fail("time_s", "expected rows at a fixed period, which is " + to_text(Seconds{period}) +
                                      " on average; found " + std::string{table.row(i).text("time_s")});
  }
  return Seconds{period};
}

std::vector<double> column_of(const CsvTable& table, const char* name, double most, const char* expected) {
  std::vector<double> values;
  if (!table.has_column(name)) return values;
  for (const CsvRow& row : table.rows()) {
    values.push_back(row.number(name));
    if (!(values.back() >= 0 && values.back() <= most))
      row.fail(name, std::string{"expected "} + expected + "; found " + std::string{row.text(name)});
  }
  return values;
}

double mean_of(const std::vector<double>& series) {
  return series.empty() ? kUnknown
                        : std::accumulate(series.begin(), series.end(), 0.0) / static_cast<double>(series.size());
}

}  // namespace

void require_columns_among(const CsvTable& table, const std::vector<std::string>& known) {
  for (const std::string& column : table.columns())
    if (std::find(known.begin(), known.end(), column) == known.end())
      throw InputError{table.file_name() + ": " + unknown_name_message("column", column, known)};
}

MeasuredSeries read_measured_series(const CsvTable& table) {
  require_columns_among(table, {"time_s", "gpu_utilization", "memory_utilization", "receive_Bps", "transmit_Bps"});
  const char* share = "a share of 0 to 1";
  const char* rate = "bytes per second, from 0 to 1e15";
  MeasuredSeries series{.period = period_of(table),
                        .gpu = column_of(table, "gpu_utilization", 1, share),
                        .memory = column_of(table, "memory_utilization", 1, share),
                        .receive = column_of(table, "receive_Bps", kMostBytes, rate),
                        .transmit = column_of(table, "transmit_Bps", kMostBytes, rate)};
  if (series.gpu.empty() && series.memory.empty() && series.receive.empty() && series.transmit.empty())
    throw InputError{table.file_name() +
                     ": expected a column gpu_utilization, memory_utilization, receive_Bps or transmit_Bps"};
  return series;
}

MeasuredSeries load_measured_series(const std::filesystem::path& file) {
  return read_measured_series(load_csv_file(file));
}

std::vector<double> labels_of(const MeasuredSeries& series, std::optional<Seconds> step_time) {
  const auto bursts_of = [&](const std::vector<double>& values, auto find) {
    if (values.empty()) return BurstLabels{};
    const Bursts bursts = find(values, series.period, BurstThresholds{});
    return BurstLabels{bursts.idle.value(), bursts.active.value(), bursts.peak};
  };
  RunLabels labels{.memory = bursts_of(series.memory, find_bursts_of_utilization),
                   .gpu = bursts_of(series.gpu, find_bursts_of_utilization),
                   .receive = bursts_of(series.receive, find_bursts_of_rate),
                   .transmit = bursts_of(series.transmit, find_bursts_of_rate),
                   .receive_mean_bytes_per_s = mean_of(series.receive),
                   .transmit_mean_bytes_per_s = mean_of(series.transmit)};
  if (step_time) labels.step_time_s = step_time->value();
  return values_of(labels);
}

}  // namespace rehearse
