#include "predictor/measured_series.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "predictor/dataset.hpp"
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
  std::vector<double> labels;
  const auto add = [&](const std::vector<double>& values, auto find) {
    const Bursts bursts = find(values, series.period, BurstThresholds{});
    if (values.empty())
      labels.insert(labels.end(), 3, kUnknown);
    else
      labels.insert(labels.end(), {bursts.idle.value(), bursts.active.value(), bursts.peak});
  };
  for (const auto* utilization : {&series.memory, &series.gpu}) add(*utilization, find_bursts_of_utilization);
  for (const auto* rate : {&series.receive, &series.transmit}) add(*rate, find_bursts_of_rate);
  labels.push_back(step_time ? step_time->value() : kUnknown);
  for (const auto* rate : {&series.receive, &series.transmit}) labels.push_back(mean_of(*rate));
  return labels;
}

}  // namespace rehearse
