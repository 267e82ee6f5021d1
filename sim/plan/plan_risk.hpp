#pragma once
// What a plan's simulations say: when its training ends, what it costs, how likely it is to be in time.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/units.hpp"
#include "sim/pool/experiment.hpp"

namespace rehearse {

/// Thrown when `limits.is_stopped` has ended the simulations.
struct ProvisionStopped {};

/// Percentiles over the runs of a plan; infinity where so many of them never end.
struct Quantiles {
  double p5 = 0, p50 = 0, p95 = 0;
};

struct PlanRisk {
  double probability = 0;  // of being done by the deadline
  Quantiles time_s, cost_usd;
  std::optional<double> energy_j{};  // of many runs: the median, from the wall; none: not known
  std::size_t runs = 0;              // 1: without revocations
  std::vector<double> times_s = {};  // [runs] of the whole training; infinity where it never ends
  std::string error;                 // why there is nothing; then the rest is 0
};

/// Risks of scenarios that have a training target, in their order, with a deadline for each. May throw
/// ProvisionStopped.
using PlanEvaluator = std::function<std::vector<PlanRisk>(const std::vector<SharedJson>& scenarios,
                                                          const std::vector<Seconds>& deadlines)>;

/// Simulates each scenario once, without revocations, so that a probability is 0 or 1.
PlanEvaluator evaluate_without_revocations(const Catalog& catalog, std::string file_name, SimulationMeans means);

/// Runs the job of a scenario whose machines may be revoked `runs` times (monte_carlo.hpp), and simulates each of the
/// others once. Run i of every scenario has the same seed. Memberships that several scenarios have in common are
/// simulated once.
PlanEvaluator evaluate_by_monte_carlo(const Catalog& catalog, std::string file_name, SimulationMeans means,
                                      std::size_t runs);

}  // namespace rehearse
