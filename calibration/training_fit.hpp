#pragma once
// From training logs to what predicts other clusters: time of a step per machine type, bytes of the parameters,
// bandwidth and contention at the parameter server, and how the loss falls. The formulas are those of
// asynchronous_speed.hpp and workloads/convergence.hpp.
//
//   step        mean of a worker's seconds per batch, first and last entries left out
//   S           mean of exchanged bytes / 2 per step, unless given
//   B_req       of workers that are alone in their cluster: sum of exchanged bytes / sum of exchange times, or given
//   C           of each machine type: mean step alone - 2 S / B_req - 2 g S / B_pcie
//   contention  slope and intercept for which the steps of clusters with n B_req > B_ps come out best
//   loss        model for which the logged losses come out best, by relative differences; with a common offset or with
//               a common initial loss, whichever is better
//
// Source: Shang et al., spotDNN, IWQoS 2023, sections III and IV.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibration/asynchronous_speed.hpp"
#include "calibration/training_log.hpp"
#include "sim/base/json.hpp"
#include "workloads/convergence.hpp"

namespace rehearse {

/// A study file with "kind": "training_logs".
struct TrainingStudy {
  std::string name, file_name;
  std::vector<WorkerLog> logs;
  std::optional<Bytes> parameters;                   // none: from the logs
  std::optional<BytesPerSecond> required_bandwidth;  // the same
  SpotdnnServer server;
  bool uses_spread = false;                                // whether the loss depends on R
  int skip_first = 10, skip_last = 3;                      // entries of each worker
  std::vector<std::pair<std::string, std::string>> files;  // name and hash of what was read
};

/// Reads a study and its logs. Throws InputError.
TrainingStudy load_training_study(const std::filesystem::path& path);

using Limits = std::pair<double, double>;  // low, high

/// A fitted value with its 95 % interval.
struct Estimate {
  double value = 0;
  std::optional<Limits> interval;
};

/// The step of a machine type whose worker is alone with the server.
struct MachineStep {
  std::string instance;
  int gpus = 1;
  int batch = 0;
  Estimate step;     // seconds
  Estimate compute;  // C
  std::size_t entries = 0;
};

/// A cluster of the logs: measured and, by the fitted values, predicted.
struct LoggedCluster {
  std::string name;
  ConvergenceCluster shape;
  double samples_per_s = 0, predicted_samples_per_s = 0;
};

struct TrainingCoefficients {
  std::string name;
  Bytes parameters{};
  Estimate required_bandwidth;  // bytes per second
  SpotdnnServer server;
  std::vector<MachineStep> machines;
  std::vector<LoggedCluster> clusters;
  std::optional<Estimate> contention_slope, contention_intercept;     // none if no two sizes of cluster show contention
  std::optional<Convergence> convergence;                             // none without losses
  std::vector<std::pair<std::string, Limits>> convergence_intervals;  // by key
  std::optional<double> loss_error;                                   // mean of |model / logged - 1|
  std::size_t entries = 0;                                            // used
  std::vector<std::string> warnings;
};

/// Throws InputError if a machine type of a larger cluster was never logged alone, or entries are too few.
TrainingCoefficients fit_training_logs(const TrainingStudy& study);

/// The file that `rehearse calibrate` writes; its "convergence" is what a scenario's workload takes.
Json to_json(const TrainingCoefficients& fit, const TrainingStudy& study, const std::string& command);

/// JSON Schema (draft 2020-12) of a study of training logs.
std::string training_log_study_schema();

}  // namespace rehearse
