#pragma once
// From a request to an answer: a scenario and its candidates become a closed-form problem (provision.hpp), its planners
// propose plans, the engine simulates them, and the cheapest that is in time with enough probability is the answer.

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/json.hpp"
#include "sim/plan/plan_risk.hpp"
#include "sim/plan/provision.hpp"
#include "sim/plan/provision_request.hpp"

namespace rehearse {

/// A request with everything looked up and every candidate timed.
struct ProvisionCase {
  ProvisionProblem problem;
  SharedJson base;                                            // the scenario, without groups of workers
  std::vector<SharedJson> groups;                             // [offers] one machine of each, prices filled in
  std::vector<bool> is_revocable;                             // [offers] machines of a spot pool
  std::vector<std::optional<double>> on_demand_usd_per_hour;  // [offers]
  std::optional<double> fixed_on_demand_usd_per_hour;         // of the servers
  std::string file_name;                                      // of the scenario
  std::vector<std::string> dropped;                           // candidates that cannot run, with the reason
  std::set<std::string> step_sources;                         // of candidates: step_time.hpp
  std::pair<double, double> speed_interval{1, 1};  // 90 %, of the least certain candidate, in units of speeds
};

/// Simulates one machine of each candidate with the scenario's servers for its step, and three mixed clusters for the
/// closed form's contention unless the request gives it. Throws InputError: no convergence
/// model, another strategy, an unknown price, a loss outside of the model's range, no candidate whose batches lie
/// within it; NoResultError if no candidate can run.
ProvisionCase prepare_provision(const ProvisionRequest& request, const Catalog& catalog, const SimulationMeans& means);

/// The scenario that trains on the plan's machines until the loss, or for the samples that are left.
Json scenario_of(const ProvisionCase& provision, const MachinePlan& plan);

/// A plan that somebody proposed.
struct ProposedPlan {
  MachinePlan plan;                      // by the closed form
  std::vector<std::string> proposed_by;  // "ours", "ours +5 %" or "ours x 0.8" for other deadlines, "homo-slow"
  bool exceeds_quota = false;
  std::optional<double> on_demand_cost_usd;  // the closed form's time at on-demand prices
  PlanRisk risk;
  bool is_on_frontier = false;  // no other plan is cheaper, faster and safer: medians, and the probability
};

/// How one planner fared.
struct PlannerOutcome {
  std::string name;
  std::optional<std::size_t> plan;  // index in Provision::plans
  std::size_t considered = 0;       // plans, or nodes of the search tree
  std::size_t out_of_range = 0;
  bool is_optimal = false;
  std::string problem;  // why it has none
};

struct Provision {
  std::vector<ProposedPlan> plans;       // cheapest first; those without result last
  std::vector<PlannerOutcome> planners;  // the one that was asked for first
  std::optional<std::size_t> answer;     // none: nothing is in time with enough probability
  std::vector<std::size_t> misses;       // if there is none: the most probable and fastest plans
};

struct ProvisionOptions {
  Planner planner = Planner::kOurs;
  double confidence = 0.95;
  std::size_t most_of_ours = 6;  // plans in time by the closed form; a few that are up to 5 % late come besides
};

/// Plans of all planners, and ours for other deadlines, from half to double, for the frontier; evaluated and ranked.
/// The closed form knows no revocations: if machines may be revoked, ours without those of each candidate, and without
/// any of them, are evaluated, too. With a planner other than ours its plan alone can be the answer.
Provision provision(const ProvisionCase& provision_case, const ProvisionOptions& options,
                    const PlanEvaluator& evaluate);

/// Version 1 of provision's summary.json.
Json to_json(const ProvisionCase& provision_case, const ProvisionOptions& options, const Provision& result);
/// plans.csv: one row for each proposed plan, in their order.
std::string plans_csv(const ProvisionCase& provision_case, const Provision& result);

}  // namespace rehearse
