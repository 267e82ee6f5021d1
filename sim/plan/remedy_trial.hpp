#pragma once
// The remedies of a run (remedies.hpp), each simulated: what it gains and what it costs.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/json.hpp"
#include "sim/plan/remedies.hpp"
#include "sim/pool/experiment.hpp"

namespace rehearse {

/// Runs the experiment; none if something stopped it.
using RunExperiment = std::function<std::optional<std::vector<PooledRun>>(const Experiment&)>;

/// Of a run of kSimulate or kSimulateWorse that has succeeded; without rent.
ClusterSpeed read_speed(const PooledRun& run);

/// The run in its steady state, and what helps it.
struct TriedRemedies {
  ClusterSpeed run;
  /// Those that gain 1 % or more, the largest gain first; then those without result.
  std::vector<Remedy> remedies;
};

class RemedyTrial {
 public:
  /// Throws InputError.
  RemedyTrial(const Scenario& scenario, const Catalog& catalog);

  /// How many run() asks for.
  std::size_t simulations() const { return scenarios_.size(); }

  /// None if `run_experiment` was stopped. Throws NoResultError if the scenario itself gives no result.
  std::optional<TriedRemedies> run(const RunExperiment& run_experiment) const;

 private:
  /// With what a remedy is compared whose steps come from elsewhere than those of the run.
  struct Comparison {
    bool is_needed = false;
    /// Places in scenarios_: this run, and the remedy, both computed in the same way.
    std::optional<std::pair<std::size_t, std::size_t>> by_kernels;
    std::pair<double, double> interval{1, 1};  // of the remedy's speed
  };

  Comparison comparison_of(const Json& remedy, std::optional<std::size_t>& own_by_kernels);
  PoolJob job(std::size_t place) const;
  std::optional<Remedy> judged(std::size_t variant, const std::vector<PooledRun>& runs,
                               const ClusterSpeed& before) const;

  const Scenario& scenario_;
  const Catalog& catalog_;
  Json effective_;
  std::vector<Variant> variants_;
  /// The run, its variants in their order, then those of Comparison::by_kernels.
  std::vector<Json> scenarios_;
  std::vector<Comparison> comparisons_;  // [variants]
};

}  // namespace rehearse
