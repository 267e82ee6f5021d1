#pragma once
// Runs of one's own, as fit reads them: tables, and logs of trainings.

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/csv.hpp"

namespace rehearse {

/// A run that was measured.
struct OwnRun {
  int gpus = 0;
  std::optional<double> batch{};          // samples of a step of all GPUs; none: as the scenario has
  std::optional<double> batch_per_gpu{};  // the same of one GPU
  std::vector<std::pair<std::string, std::string>> settings;  // places of the scenario, and what they hold
  double value = 0;                                           // of the metric
  std::string place;                                          // "runs.csv:3"

  /// What tells runs apart that do not repeat each other.
  using Configuration =
      std::tuple<int, std::optional<double>, std::optional<double>, std::vector<std::pair<std::string, std::string>>>;
  Configuration configuration() const { return {gpus, batch, batch_per_gpu, settings}; }
};

struct OwnRuns {
  std::string metric;  // "samples_per_s", "steps_per_s" or "iteration_time_s"
  std::vector<OwnRun> runs;
  std::string file;                  // the first that was read
  std::vector<std::string> remarks;  // a line each
};

/// Reads tables with a row for each run, and logs of trainings, "8=train.log" on 8 GPUs (calibration/job_log.hpp), whose first
/// `skip_steps` steps are left out. Columns of a table:
///   gpus                                                            of the whole job
///   samples_per_s, steps_per_s, step_time_s, step_time_ms           one of them; all files state the same quantity
///   global_batch or batch_per_gpu                                   samples of a step; without them the scenario's
///   /json/pointer                                                   a place of the scenario
/// Other columns are named in the remarks. Throws InputError.
OwnRuns read_own_runs(const std::vector<std::string>& files, std::int64_t skip_steps);
/// Those of one table.
OwnRuns own_runs_of(const CsvTable& table);

}  // namespace rehearse
