#pragma once
// The cheapest asynchronous cluster that reaches a loss by a deadline, in closed form: spotDNN's planner as published
// and as released, those that it was compared with, and an exact one. Speeds are those of
// calibration/asynchronous_speed.hpp, updates to the loss those of workloads/convergence.hpp:
//
//   time = (j(loss) - j so far) / updates per second + takeover,  cost = time x (machines x price + fixed price)
//
// provision_run.hpp then simulates what these planners propose. Source: Shang et al., spotDNN, IWQoS 2023, section IV;
// repository icloud-ecnu/spotDNN.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibration/asynchronous_speed.hpp"
#include "workloads/convergence.hpp"

namespace rehearse {

/// A machine type that may be rented.
struct MachineOffer {
  std::string name;
  SpotdnnWorker worker;
  int workers = 1;  // on one machine
  double usd_per_hour = 0;
  int quota = 0;     // most machines, with those that exist
  int existing = 0;  // rented already: part of every plan
};

struct Objective {
  double loss = 0;
  Seconds deadline{};                 // from now on
  std::optional<double> loss_so_far;  // of a run that is under way
  double updates_so_far = 0;          // the same, without `loss_so_far`: of the updates that the loss takes
  Seconds takeover{};                 // added to the time of plans that join new machines to existing ones
  double fixed_usd_per_hour = 0;      // of what every plan needs: servers
  bool keeps_range = true;            // plans outside of the fitted range of the loss model are left out
};

struct ProvisionProblem {
  std::vector<MachineOffer> offers;
  SpotdnnWorkload workload;
  SpotdnnServer server;
  Convergence convergence;
  Objective objective;
};

enum class SpeedModel {
  kPaper,  // equations 2 to 9
  kIdeal,  // every worker as fast as alone: what CM-DARE's prediction amounts to
};

/// What a set of machines does by the closed form.
struct MachinePlan {
  std::vector<int> counts;  // [offers]
  int workers = 0;
  double usd_per_hour = 0;    // of the machines
  double weighted_batch = 0;  // b_w
  double spread = 0;          // R
  double samples_per_s = 0, updates_per_s = 0;
  double updates = 0;  // still to do; infinite where the loss model does not hold
  Seconds time{};
  double cost_usd = 0;
  bool is_in_range = false;  // of the loss model: b_w and workers
};

/// A plan as text: "5*g3.8xlarge;3*g3.16xlarge".
std::string plan_text(const ProvisionProblem& problem, const std::vector<int>& counts);

/// The plan of `counts` [offers], at least one machine, by the closed form.
MachinePlan evaluate_plan(const ProvisionProblem& problem, const std::vector<int>& counts,
                          SpeedModel model = SpeedModel::kPaper);

/// What a planner found.
struct PlannerResult {
  std::optional<MachinePlan> plan;  // none if nothing that it looked at meets the deadline
  std::size_t considered = 0;       // plans
  std::size_t out_of_range = 0;     // of these
  bool is_optimal = false;          // no plan whatsoever is cheaper
};

/// n_lower = ceil(b_min ((g2 b_min + g3) sqrt(g4) / (loss - g5) - g1) / (v_max deadline)), at least 1: no fewer of the
/// fastest workers are in time. Equation 16; without R, sqrt(g4) is 1.
int least_workers(const ProvisionProblem& problem);
/// n_upper = floor(((1 - intercept) / slope)^2): with more workers the server's bandwidth is always shared.
/// Equation 15. At most all that the quotas allow, which it is for a slope of 0.
int most_workers(const ProvisionProblem& problem);

/// Algorithm 1: all machines that may be rented, sorted by their step alone, the longest first; of every window of them
/// whose workers, with the existing ones, are n_lower to n_upper, the cheapest in time; the first of equals.
/// `on_each` sees every plan that is considered.
PlannerResult spotdnn_plan(const ProvisionProblem& problem, SpeedModel model = SpeedModel::kPaper,
                           const std::function<void(const MachinePlan&)>& on_each = {});

/// The planner as released: machines sorted by their step alone, the shortest first; windows of 1 to all but one
/// machines begin anywhere and wrap around; a window equal to the one before is skipped; b_w is rounded to 0.1 samples,
/// updates to integers, time to 0.01 s and cost to 1e-6 USD, halves to even; R is left out. Takes no account of
/// existing machines, progress, or fixed prices.
PlannerResult spotdnn_released_plan(const ProvisionProblem& problem);
/// A plan's values as that program computes them.
MachinePlan evaluate_released_plan(const ProvisionProblem& problem, const std::vector<int>& counts);

/// As many workers as `plan` has, all of the type that is slowest or fastest alone among those that it uses. More
/// machines than the quota allows are not refused.
MachinePlan homogeneous_plan(const ProvisionProblem& problem, const MachinePlan& plan, bool is_fast);

inline constexpr double kMostEnumerated = 2e8;

/// The cheapest plan in time of all within the quotas. Throws NoResultError for more than kMostEnumerated of them.
PlannerResult exhaustive_plan(const ProvisionProblem& problem);

/// The `most` cheapest plans in time, cheapest first, by branch and bound over the machine counts, started from
/// spotDNN's plan and improved neighbours of it. Optimal unless `most_nodes` end it before; never dearer than
/// spotDNN's.
struct CheapestPlans {
  std::vector<MachinePlan> plans;
  std::size_t nodes = 0;         // of the search tree
  std::size_t out_of_range = 0;  // of these, left out with all plans below them
  bool is_optimal = false;
};
CheapestPlans cheapest_plans(const ProvisionProblem& problem, std::size_t most = 1, std::size_t most_nodes = 5'000'000);

/// The plans of Algorithm 1, whatever their time, that take least: for a message when none is in time.
std::vector<MachinePlan> fastest_plans(const ProvisionProblem& problem, std::size_t most);

}  // namespace rehearse
