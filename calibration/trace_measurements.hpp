#pragma once
// What traces measured, as a table: traces are measurements of studies like any others.

#include <filesystem>
#include <vector>

#include "sim/base/csv.hpp"
#include "workloads/traces/recorded_job.hpp"

namespace rehearse {

/// Columns: kind, step, rank, ranks, name, count, bytes, time_s. A row of each rank and marked step (or the whole
/// recording) of kind
///   "step"           from one step to the next, waits included
///   "after_first_collective"  from the end of the step's first collective, where all ranks are together, to its end
///   "step_overhead"  host work in it before the first launch
///   "dispatch"       host work from then on, for each of `count` launches; waits and unexplained silences are left out
///   "latency"        median of the `count` times from a launch to its kernel, on idle streams
///   "gap"            median of the `count` times between two kernels of a stream of which the later was launched long before
///   "kernels"        sum over `count` kernels of the class `name`
/// and of kind "collective" one for each, `name` such as "all_reduce", with `bytes` of its payload if they are known: its
/// transfer, the shortest over the ranks if all are there, otherwise the rank's kernel, waits included. Kinds that do not
/// occur have no row.
CsvTable measurements_of(const RecordedJob& job, const std::string& file_name);

/// The file, or those of a folder by name. Throws InputError if it has none.
std::vector<std::filesystem::path> measurement_files(const std::filesystem::path& path);

/// The job of a trace, or of a folder with those of all ranks and nothing else. Throws InputError.
RecordedJob load_recorded_job(const std::filesystem::path& path);

/// Of a trace, or of a folder with those of all ranks and nothing else. Throws InputError.
CsvTable load_trace_measurements(const std::filesystem::path& path);

}  // namespace rehearse
