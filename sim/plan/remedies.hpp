#pragma once
// What might make a job faster or cheaper, as changes of its effective scenario. What helps is for the simulation to
// say: diagnosis.hpp.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/json.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// What a cluster does and costs, simulated.
struct ClusterSpeed {
  double steps_per_s = 0, samples_per_s = 0;
  double iteration_time_s = 0;
  std::optional<double> usd_per_hour;
  std::string bottleneck, bottleneck_resource;
  std::string step_source;          // step_sources()
  Json step_parts = Json::array();  // as in summary.json

  std::optional<double> usd_per_million_samples() const;
};

struct Remedy {
  RemedyKind kind = RemedyKind::kRented;
  std::string change;                 // in words
  std::vector<std::string> settings;  // "/pointer=value", as --set takes them; empty for hypothetical machines
  std::optional<ClusterSpeed> result;
  std::string error;                       // why there is none
  std::optional<double> simulated_gain{};  // samples/s, relative
  std::optional<double> cost_change{};     // USD for each sample, relative
  /// Where the steps of the remedy come from elsewhere than those of the run: the gain's interval of 90 %, and why.
  std::optional<std::pair<double, double>> gain_interval{};
  std::string note{};
};

struct Variant {
  Remedy remedy;
  Json scenario;
  std::string mechanism{};  // of made_worse(), twice as fast; empty: the scenario as it is
};

/// Precision, batch, accumulation, algorithm and exchange, servers, input, machines. `effective` is that of `scenario`.
std::vector<Variant> list_remedies(const Scenario& scenario, const Json& effective, const Catalog& catalog);

}  // namespace rehearse
