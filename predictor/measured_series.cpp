#include "predictor/measured_series.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <system_error>

#include "predictor/run_labels.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/json.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/record/resource_profile.hpp"
#include "workloads/traces/trace_file.hpp"

namespace rehearse {
namespace {

constexpr double kJitter = 0.1;      // of a period
constexpr double kMostBytes = 1e15;  // per second

/// Of `count` dates, date_of(i) in seconds, which is text_of(i) in the file; fail(i, what is wrong) throws.
template <class DateOf, class TextOf, class Fail>
Seconds period_of(std::size_t count, const std::string& file_name, const DateOf& date_of, const TextOf& text_of,
                  const Fail& fail) {
  if (count < 3) throw InputError{file_name + ": expected at least three rows of a time series"};
  const double first = date_of(0), last = date_of(count - 1);
  const double period = (last - first) / static_cast<double>(count - 1);
  if (!(period > 0) || !std::isfinite(period)) fail(count - 1, "expected times that rise");
  for (std::size_t i = 0; i < count; ++i) {
    const double expected = first + period * static_cast<double>(i);
    if (!(std::abs(date_of(i) - expected) < kJitter * period))
      fail(i, "expected rows at a fixed period, which is " + to_text(Seconds{period}) + " on average; found " +
                  text_of(i));
  }
  return Seconds{period};
}

Seconds period_of(const CsvTable& table) {
  return period_of(
      table.row_count(), table.file_name(), [&](std::size_t i) { return table.row(i).number("time_s"); },
      [&](std::size_t i) { return std::string{table.row(i).text("time_s")}; },
      [&](std::size_t i, const std::string& what) { table.row(i).fail("time_s", what); });
}

/// A series that a file may have, the name of its column, and its values: from 0 to `most`.
struct SeriesKind {
  const char* column;
  std::vector<double> MeasuredSeries::*values;
  double most;
  const char* expected;
};
constexpr const char* kShare = "a share of 0 to 1";
constexpr const char* kRate = "bytes per second, from 0 to 1e15";
constexpr SeriesKind kGpu{"gpu_utilization", &MeasuredSeries::gpu, 1, kShare};
constexpr SeriesKind kMemory{"memory_utilization", &MeasuredSeries::memory, 1, kShare};
constexpr SeriesKind kReceive{"receive_Bps", &MeasuredSeries::receive, kMostBytes, kRate};
constexpr SeriesKind kTransmit{"transmit_Bps", &MeasuredSeries::transmit, kMostBytes, kRate};
constexpr std::array kSeries{&kGpu, &kMemory, &kReceive, &kTransmit};

std::vector<double> column_of(const CsvTable& table, const SeriesKind& kind) {
  std::vector<double> values;
  if (!table.has_column(kind.column)) return values;
  for (const CsvRow& row : table.rows()) {
    values.push_back(row.number(kind.column));
    if (!(values.back() >= 0 && values.back() <= kind.most))
      row.fail(kind.column, std::string{"expected "} + kind.expected + "; found " + std::string{row.text(kind.column)});
  }
  return values;
}

double mean_of(const std::vector<double>& series) {
  return series.empty() ? kUnknown
                        : std::accumulate(series.begin(), series.end(), 0.0) / static_cast<double>(series.size());
}

/// What a counter of a trace is: a series, `per_unit` of whose unit are one of the column's.
struct CounterMeaning {
  std::string_view name;
  const SeriesKind* kind;
  double per_unit;
};
constexpr std::array kCounters{CounterMeaning{kGpu.column, &kGpu, 1},
                               CounterMeaning{kMemory.column, &kMemory, 1},
                               CounterMeaning{kReceive.column, &kReceive, 1},
                               CounterMeaning{kTransmit.column, &kTransmit, 1},
                               CounterMeaning{"GPU utilization, %", &kGpu, 100},
                               CounterMeaning{"GPU memory utilization, %", &kMemory, 100},
                               CounterMeaning{"NIC receive, MB/s", &kReceive, 1e-6},
                               CounterMeaning{"NIC transmit, MB/s", &kTransmit, 1e-6}};

std::vector<std::string> names_of_counters() {
  std::vector<std::string> names;
  for (const CounterMeaning& counter : kCounters) names.emplace_back(counter.name);
  return names;
}

}  // namespace

void require_columns_among(const CsvTable& table, const std::vector<std::string>& known) {
  for (const std::string& column : table.columns())
    if (std::find(known.begin(), known.end(), column) == known.end())
      throw InputError{table.file_name() + ": " + unknown_name_message("column", column, known)};
}

MeasuredSeries read_measured_series(const CsvTable& table) {
  std::vector<std::string> known{"time_s"};
  for (const SeriesKind* kind : kSeries) known.emplace_back(kind->column);
  require_columns_among(table, known);
  MeasuredSeries series{.period = period_of(table), .gpu = {}, .memory = {}, .receive = {}, .transmit = {}};
  for (const SeriesKind* kind : kSeries) series.*kind->values = column_of(table, *kind);
  if (series.gpu.empty() && series.memory.empty() && series.receive.empty() && series.transmit.empty())
    throw InputError{table.file_name() +
                     ": expected a column gpu_utilization, memory_utilization, receive_Bps or transmit_Bps"};
  return series;
}

MeasuredSeries read_measured_series(const std::vector<TraceCounter>& counters, const std::string& file_name) {
  const auto meaning_of = [](const TraceCounter& counter) {
    auto found = std::ranges::find(kCounters, counter.name, &CounterMeaning::name);
    if (found == kCounters.end()) found = std::ranges::find(kCounters, counter.number, &CounterMeaning::name);
    return found == kCounters.end() ? nullptr : &*found;
  };
  const TraceCounter* chosen = nullptr;  // a counter of the process whose series it is
  for (const TraceCounter& counter : counters) {
    const CounterMeaning* meaning = meaning_of(counter);
    if (meaning == nullptr) continue;
    const bool is_of_gpu = meaning->kind == &kGpu;
    if (chosen == nullptr || (is_of_gpu && meaning_of(*chosen)->kind != &kGpu)) chosen = &counter;
  }
  if (chosen == nullptr)
    throw InputError{file_name + ": expected a counter " + list_in_quotes(names_of_counters()) + "; found " +
                     (counters.empty() ? "none" : in_quotes(counters.front().name))};
  MeasuredSeries series;
  const TraceCounter* first = nullptr;
  for (const TraceCounter& counter : counters) {
    const CounterMeaning* meaning = meaning_of(counter);
    if (meaning == nullptr || counter.process != chosen->process) continue;
    const std::string where = file_name + ": counter " + in_quotes(counter.name);
    const auto fail = [&](std::size_t i, const std::string& what) {
      throw InputError{where + ": value " + std::to_string(i + 1) + ": " + what};
    };
    const std::vector<CounterSample>& samples = counter.samples;
    const auto date_of = [&](std::size_t i) {
      return static_cast<double>(samples[i].date - samples.front().date) / 1e9;
    };
    const auto text_of = [&](std::size_t i) { return to_text(Seconds{date_of(i)}) + " after the first one"; };
    const Seconds period = period_of(samples.size(), where, date_of, text_of, fail);
    if (first == nullptr) {
      first = &counter;
      series.period = period;
    }
    if (!std::ranges::equal(samples, first->samples, {}, &CounterSample::date, &CounterSample::date))
      throw InputError{where + ": expected values at the dates of those of " + in_quotes(first->name)};
    std::vector<double>& values = series.*meaning->kind->values;
    if (!values.empty())
      throw InputError{where + ": expected one counter of this kind of process " + shortened(counter.process) +
                       "; found two"};
    for (std::size_t i = 0; i < samples.size(); ++i) {
      values.push_back(samples[i].value / meaning->per_unit);
      if (!(values.back() >= 0 && values.back() <= meaning->kind->most))
        fail(i, std::string{"expected "} + meaning->kind->expected + "; found " + Json(values.back()).dump());
    }
  }
  return series;
}

MeasuredSeries load_measured_series(const std::filesystem::path& file) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(file, unreadable) || !find_trace_format(file))
    return read_measured_series(load_csv_file(file));
  return read_measured_series(read_trace_counters(file), file.string());
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
