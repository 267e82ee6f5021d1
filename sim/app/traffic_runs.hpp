#pragma once
// Traffic of several runs, and the regression of their data per step on what the jobs are.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/app/output/document.hpp"
#include "sim/base/json.hpp"
#include "sim/traffic/regression.hpp"
#include "sim/traffic/traffic_statistics.hpp"

namespace rehearse {

/// A run as a row of the tables. What is not known of it is empty.
struct TrafficOfRun {
  std::string name;
  bool is_simulated = false;
  std::string framework, model, optimizer, topology;  // of a simulated run: its strategy in words is the framework
  int batch_named = 0, batch_per_worker = 0;
  double loss_percent = 0;
  std::optional<double> catalogue_bytes, trained_bytes;  // of the model
  std::int64_t packets = 0, wire_bytes = 0, retransmitted_bytes = 0;
  std::size_t flows = 0, pairs = 0;
  double duration_s = 0, training_s = 0, step_time_s = 0;
  std::optional<double> period_s, data_per_step, mean_gbps;
  std::string not_in_regression;  // why; empty: it is
};

/// Measured runs are told by the name of their folder (run_name.hpp), simulated ones by their scenario. Throws
/// InputError.
TrafficOfRun traffic_of_run(const std::filesystem::path& input, const RunTraffic& run,
                            const TrafficStatistics& statistics);

struct TrafficRegression {
  std::string size;  // which size of the models is meant: "as listed in the catalogue", "as trained"
  Regression fit;
};
struct TrafficRegressions {
  std::vector<TrafficRegression> fits;
  std::vector<std::string> problems;  // why there is no such fit
};

/// Data per step in MB over model size, framework, batch and topology: of runs without packet loss, with Adam, whose
/// data per step and model size are known.
TrafficRegressions regress_traffic(std::vector<TrafficOfRun>& runs);

std::string runs_csv(const std::vector<TrafficOfRun>& runs);
std::string regression_csv(const TrafficRegressions& regressions);
std::string runs_text(const std::vector<TrafficOfRun>& runs, const TrafficRegressions& regressions);
Document runs_document(const std::vector<TrafficOfRun>& runs, const TrafficRegressions& regressions);
Json to_json(const std::vector<TrafficOfRun>& runs, const TrafficRegressions& regressions);

}  // namespace rehearse
