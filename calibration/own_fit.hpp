#pragma once
// A profile from a few runs of one's own: what one GPU takes for a step and what the exchange costs are fitted together. Each
// value has what the profile said before as its prior, so that what the runs do not tell stays as it was.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibration/fit.hpp"
#include "calibration/study.hpp"
#include "platforms/catalog.hpp"
#include "sim/base/budget.hpp"
#include "sim/base/json.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

/// A run that was measured.
struct OwnRun {
  int gpus = 0;
  std::optional<double> batch{};          // samples of a step of all GPUs; none: as the scenario has
  std::optional<double> batch_per_gpu{};  // the same of one GPU
  std::vector<std::pair<std::string, std::string>> settings;  // places of the scenario, and what they hold
  double value = 0;                                           // of the metric
  std::string place;                                          // "runs.csv:3"
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

/// A value of the profile that was fitted.
struct OwnValue {
  std::string what;            // "step of one V100 with 32 samples", or the pointer into the profile
  std::string before, fitted;  // with their units
  std::string low, high;       // of 95 %
  bool is_told = true;         // the runs say more of it than the profile did
};

struct OwnFit {
  Study study;                 // a row for each run
  std::vector<double> before;  // [rows] by the profile as it was
  Fit fit;
  std::vector<OwnValue> values;
  double variation = 0;  // of steps, as training.step_time_variation
  std::string profile;   // JSON text of its file; unlike Fit's its spread has what rows and priors tell together
};

struct OwnFitOptions {
  std::string name = "own";  // of the profile
  int most_steps = 20;       // of the fit
  Pool pool = 2;
  std::string command;  // provenance
  std::function<void(const std::string& stage, std::size_t done, std::size_t total)> on_simulated = {};
  Budget budget = {};
};

/// Fits the profile of the scenario, JSON as its file has it, to runs of it. Free are the time that one GPU takes for each batch,
/// where the model is on one GPU, how much steps vary from worker to worker, and of what the scenario uses of the profile those
/// values on which the runs depend most. With three sizes or more each is predicted by the others. Throws InputError, NoResultError.
OwnFit fit_own_runs(const Json& scenario, const std::string& file_name, const OwnRuns& runs, const Catalog& catalog,
                    const OwnFitOptions& options);

/// The scenario, on so many GPUs if they are stated, with what was fitted: JSON as a file has it. Throws InputError.
Json own_scenario(const Json& scenario, const std::string& file_name, std::optional<int> gpus, const OwnFit& fit,
                  const Catalog& catalog);

}  // namespace rehearse
