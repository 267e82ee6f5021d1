#pragma once
// Lists of measured jobs: which graph was trained in which cluster, and what was recorded.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "predictor/dataset.hpp"
#include "sim/base/json.hpp"
#include "sim/base/units.hpp"

namespace rehearse {

/// Where a job ran: a scenario file, changed as the list says.
struct MeasuredScenario {
  std::filesystem::path file;
  std::vector<std::string> overrides;  // "/pointer=value"
  std::vector<std::string> places;     // of the overrides: "measured.json: /profiles/0/set/~1seed"
  std::string name;                    // of the setting; empty: the scenario's
  std::string study;                   // whose rows corrections learn from together; empty: the setting's name
  std::optional<Split> split;          // of the job's model; none: models are dealt out (deal_splits())
};

/// A run of one job with a time series, a step time, or both.
struct MeasuredRun {
  MeasuredScenario where;
  std::optional<std::filesystem::path> graph;  // a GraphDef; without it the scenario's workload
  std::string family;
  std::optional<std::filesystem::path> series;  // see measured_series.hpp
  std::optional<Seconds> step_time;
  double weight = 1;
};

/// What Driple's builder takes: a folder of GraphDefs, and a table of their bursts.
struct MeasuredJobs {
  MeasuredScenario where;
  std::filesystem::path graphs, results;
  double weight = 1;
};

struct MeasurementList {
  std::string file_name;
  std::string source;  // who measured, when and how
  std::vector<MeasuredRun> runs;
  std::vector<MeasuredJobs> jobs;
};

/// Paths are relative to the file. Throws InputError.
MeasurementList read_measurement_list(const Json& json, const std::string& file_name);
MeasurementList load_measurement_list(const std::filesystem::path& file);

/// JSON Schema (draft 2020-12) of such a file.
std::string measurement_list_schema();

}  // namespace rehearse
