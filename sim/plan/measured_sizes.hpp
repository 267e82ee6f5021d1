#pragma once
// What was measured on several numbers of GPUs, against the simulation: computation on one of them, and scaling.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/json.hpp"
#include "sim/plan/diagnosis.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

/// Samples per second of all workers together on so many GPUs.
struct MeasuredSize {
  int gpus = 0;
  double samples_per_s = 0;
  std::optional<double> batch{};       // samples of a step, as a log says: those of the scenario on so many GPUs
  std::vector<std::string> remarks{};  // of the log
};

/// A scenario, with the name of its file, and what was measured of it, by size.
struct SizesCase {
  Json scenario;
  std::string file_name;
  std::vector<MeasuredSize> sizes;
};

/// One size, measured and simulated. Efficiencies are speeds over those of as many times a reference:
///   (X(n) / n) / (X(r) / r),   r as SizesDiagnosis::reference()
struct SizeRow {
  MeasuredSize measured;
  std::optional<double> simulated;    // samples/s; none: `error`
  std::optional<double> by_own_step;  // simulated with the step that one GPU was measured to take
  std::string error;

  double measured_efficiency = 1;
  std::optional<double> simulated_efficiency;  // by_own_step, if it is known, else simulated
};

struct SizesDiagnosis {
  std::vector<SizeRow> rows;      // by size
  std::optional<double> compute;  // measured over simulated speed of one GPU; none if that was not measured
  std::optional<std::pair<double, double>>
      compute_interval;                          // of the simulation, 90 %; none if the profile states none
  std::string compute_verdict, scaling_verdict;  // a sentence each
  bool can_run_on_one_gpu = false;
  /// The largest size with the step of one GPU as it was measured, if it was: what else limits it is the exchange.
  std::optional<Diagnosis> largest;

  /// The smallest size that was simulated, as a model may not fit on those below; the smallest if none was.
  const SizeRow& reference() const;
};

/// `options` of --measured: "8=6679"; "8=train.log", the log of a training on so many GPUs (calibration/job_log.hpp), whose
/// first `skip_steps` steps are left out; or the name of a CSV file with the columns gpus and samples_per_s. Sorted by size.
/// Throws InputError.
std::vector<MeasuredSize> read_measured_sizes(const std::vector<std::string>& options, std::int64_t skip_steps = 10);

/// Simulates the scenario on each of the sizes, as stated and with the step of one GPU as it was measured. The scenario
/// has one group of workers, whose count follows from the size; one GPU has nobody to exchange with. None if
/// `is_stopped` ended it. Throws InputError; NoResultError if the largest size gives no result.
std::optional<SizesDiagnosis> diagnose_sizes(
    const SizesCase& sizes_case, const Catalog& catalog, const Pool& pool,
    const std::function<void(std::size_t done, std::size_t total)>& on_done = {},
    const std::function<bool()>& is_stopped = {});

/// "sizes", "compute_efficiency", ... of diagnosis.json, whose other keys are those of the largest size, if any.
Json to_json(const SizesDiagnosis& diagnosis);

}  // namespace rehearse
