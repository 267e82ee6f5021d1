#pragma once
// Why a run is as fast as it was measured to be, and what would make it faster: each remedy is simulated.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/json.hpp"

namespace rehearse {

/// CM-DARE flags a bottleneck at the parameter servers where the measured speed lies further below the sum of the
/// workers' own speeds. Source: Li, Walls, Guo, ICDCS 2020.
inline constexpr double kFlaggedShortfall = 0.067;

/// What a cluster does and costs, simulated.
struct ClusterSpeed {
  double steps_per_s = 0, samples_per_s = 0;
  std::optional<double> usd_per_hour;
  std::string bottleneck, bottleneck_resource;

  std::optional<double> usd_per_million_samples() const;
};

enum class RemedyKind {
  kRented,        // other settings, more machines, other machines of the catalog
  kShared,        // servers on the workers' machines: an upper bound, since their hosts' work is not slowed by it
  kHypothetical,  // a machine that no catalog has, at an unknown price
};

struct Remedy {
  RemedyKind kind = RemedyKind::kRented;
  std::string change;                 // in words
  std::vector<std::string> settings;  // "/pointer=value", as --set takes them; empty for hypothetical machines
  std::optional<ClusterSpeed> result;
  std::string error;                       // why there is none
  std::optional<double> simulated_gain{};  // samples/s, relative
  std::optional<double> cost_change{};     // USD for each sample, relative
};

struct Diagnosis {
  double measured = 0;  // steps/s
  ClusterSpeed simulated;
  std::optional<std::pair<double, double>> interval;  // steps/s, 90 %
  double by_addition =
      0;  // steps/s: each worker's speed alone, added up; of the slowest where they wait for each other
  bool is_flagged = false;    // measured < (1 - kFlaggedShortfall) by_addition
  bool is_explained = false;  // measured lies in the interval, or within kFlaggedShortfall if there is none
  std::string verdict;        // one sentence
  /// Those that gain 1 % or more, best first: in order of their kinds, then what makes a sample cheapest, then the
  /// largest gain. Then those without result.
  std::vector<Remedy> remedies;
};

/// Simulates the scenario, each worker alone, and each remedy, `parallel` at a time. None if `is_stopped` ended it.
/// Throws InputError; NoResultError if the scenario itself gives no result.
std::optional<Diagnosis> diagnose(const Json& scenario, const std::string& file_name, const Catalog& catalog,
                                  double measured, int parallel,
                                  const std::function<void(std::size_t done, std::size_t total)>& on_done = {},
                                  const std::function<bool()>& is_stopped = {});

/// Version 1 of diagnosis.json.
Json to_json(const Diagnosis& diagnosis);

}  // namespace rehearse
