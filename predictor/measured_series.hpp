#pragma once
// What a monitoring tool recorded of a training job, as labels.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/csv.hpp"
#include "sim/base/units.hpp"
#include "workloads/traces/counters.hpp"

namespace rehearse {

/// Samples of the chief's machine at a fixed period. A series that was not recorded is empty.
struct MeasuredSeries {
  Seconds period{};
  std::vector<double> gpu, memory;        // utilization, a share of 0 to 1
  std::vector<double> receive, transmit;  // bytes per second
};

/// Throws InputError, with the nearest name, for a column that is not among `known`.
void require_columns_among(const CsvTable& table, const std::vector<std::string>& known);

/// A table with the column time_s and at least one of gpu_utilization, memory_utilization, receive_Bps, transmit_Bps,
/// and no other one. InputError, "file:line: ...", for fewer than three rows, a time that is a tenth of a
/// period or more away from where it would be if all gaps were the same, shares outside of 0 to 1, or negative rates.
MeasuredSeries read_measured_series(const CsvTable& table);

/// The same of counters of a trace that have these names, or one of those that `simulate` writes: "GPU utilization, %",
/// "GPU memory utilization, %", "NIC receive, MB/s", "NIC transmit, MB/s"; as the name of the counter, or of its number.
/// Others are passed over. They are those of the first process that has a utilization of a GPU, or else any of these, and
/// have all values at the same dates.
MeasuredSeries read_measured_series(const std::vector<TraceCounter>& counters, const std::string& file_name);

/// A CSV, or a trace in Chrome's format, plain or gzip: its content tells.
MeasuredSeries load_measured_series(const std::filesystem::path& file);

/// Labels of a series, in the order of label_names(): bursts are counted as in resource_profile(), rates are means over
/// it. What was not recorded is NaN.
std::vector<double> labels_of(const MeasuredSeries& series, std::optional<Seconds> step_time);

}  // namespace rehearse
