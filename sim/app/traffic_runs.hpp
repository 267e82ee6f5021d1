#pragma once
// Traffic of several runs, and the regression of their data per step on what the jobs are.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/app/output/document.hpp"
#include "sim/base/json.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/traffic/regression.hpp"
#include "sim/traffic/traffic_statistics.hpp"

namespace rehearse {

/// What the study of CNSM 2021 draws of a run. Empty where data per step are not known.
struct TrafficFigures {
  std::vector<std::string> hosts;
  std::vector<std::vector<double>> matrix;  // [from][to] bytes a step
  std::string pair;                         // the first one, "workers-0 to workers-1": its rate is drawn
  double bin_s = 0;
  std::vector<double> gbps;  // [bins] of the pair, in the middle of the run: 250 ms, or three steps if they are longer
  std::vector<double> flow_sizes;  // bytes a step, of each directed flow
};

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
  std::string warning;            // of what is counted otherwise than its machines send it; or empty
  TrafficFigures figures;

  /// Framework, batch and topology: what runs of several models and losses have in common.
  std::string setting() const;
};

/// Measured runs are told by the name of their folder (run_name.hpp), simulated ones by their scenario. Throws
/// InputError.
TrafficOfRun traffic_of_run(const std::filesystem::path& input, const RunTraffic& run,
                            const TrafficStatistics& statistics);

/// Of the scenario.json of a run's folder. Throws InputError.
Scenario scenario_of_run(const std::filesystem::path& folder);

/// That packets are counted as TCP's where the scenario's machines exchange by RDMA; empty where they do not.
std::string rdma_warning(const Scenario& scenario);

/// What the scenario says of its run: its name, if that is one of a setting of the study, framework and topology.
void describe_by_scenario(TrafficOfRun& row, const Scenario& scenario);
/// What the traffic says of it.
void describe_by_traffic(TrafficOfRun& row, const RunTraffic& run, const TrafficStatistics& statistics);

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
