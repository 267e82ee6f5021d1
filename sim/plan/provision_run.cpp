#include "sim/plan/provision_run.hpp"

#include <algorithm>
#include <map>

#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

/// The closed form may say so much too long, on purpose: spotDNN, section IV-C.
constexpr double kLatePercents[] = {1, 2, 3.5, 5};
constexpr std::size_t kMostLate = 2;  // plans for each
/// Parts of the deadline for which plans are looked for if machines may be revoked, and how many for each.
constexpr double kSaferDeadlines[] = {0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1};
constexpr std::size_t kMostSafer = 3;
constexpr double kOtherDeadlines[] = {0.5, 0.6, 0.7, 0.8, 0.9, 1.25, 1.5, 2};

/// The closed form's time at on-demand prices.
std::optional<double> on_demand_cost(const ProvisionCase& provision, const MachinePlan& plan) {
  if (!provision.fixed_on_demand_usd_per_hour) return {};
  double usd = *provision.fixed_on_demand_usd_per_hour;
  for (std::size_t i = 0; i < plan.counts.size(); ++i) {
    if (plan.counts[i] == 0) continue;
    if (!provision.on_demand_usd_per_hour[i]) return {};
    usd += plan.counts[i] * *provision.on_demand_usd_per_hour[i];
  }
  return usd * plan.time.value() / 3600;
}

/// Collects what planners propose, each plan once.
class Proposals {
 public:
  explicit Proposals(const ProvisionCase& provision) : provision_{provision} {}

  std::size_t add(const MachinePlan& plan, const std::string& by) {
    const auto [known, is_new] = known_.try_emplace(plan.counts, plans_.size());
    if (is_new) {
      ProposedPlan proposed{.plan = evaluate_plan(provision_.problem, plan.counts), .proposed_by = {}, .risk = {}};
      for (std::size_t i = 0; i < plan.counts.size(); ++i)
        proposed.exceeds_quota |= plan.counts[i] > provision_.problem.offers[i].quota;
      proposed.on_demand_cost_usd = on_demand_cost(provision_, proposed.plan);
      plans_.push_back(std::move(proposed));
    }
    std::vector<std::string>& names = plans_[known->second].proposed_by;
    if (std::find(names.begin(), names.end(), by) == names.end()) names.push_back(by);
    return known->second;
  }

  std::vector<ProposedPlan>& plans() { return plans_; }

 private:
  const ProvisionCase& provision_;
  std::vector<ProposedPlan> plans_;
  std::map<std::vector<int>, std::size_t> known_;
};

constexpr const char* kKnowsNoRun = "knows of no run that is under way";

bool is_under_way(const ProvisionProblem& problem) {
  return problem.objective.loss_so_far || problem.objective.updates_so_far > 0 ||
         std::any_of(problem.offers.begin(), problem.offers.end(),
                     [](const MachineOffer& offer) { return offer.existing > 0; });
}

PlannerOutcome outcome_of(const std::string& name, const PlannerResult& result, Proposals& proposals) {
  PlannerOutcome outcome{.name = name,
                         .plan = {},
                         .considered = result.considered,
                         .out_of_range = result.out_of_range,
                         .is_optimal = result.is_optimal,
                         .problem = {}};
  if (result.plan)
    outcome.plan = proposals.add(*result.plan, name);
  else
    outcome.problem = "no plan in time";
  return outcome;
}

/// Plans with time to spare, and with fewer kinds of machines that may be revoked: the closed form sees no use in them.
void propose_safer(const ProvisionCase& provision, Proposals& proposals) {
  const auto propose = [&](const std::string& name, const auto& is_left_out) {
    ProvisionProblem problem = provision.problem;
    bool has_any = false;
    for (std::size_t i = 0; i < problem.offers.size(); ++i) {
      if (is_left_out(i)) problem.offers[i].quota = problem.offers[i].existing;
      has_any |= problem.offers[i].quota > 0;
    }
    if (!has_any) return;
    for (const double factor : kSaferDeadlines) {
      problem.objective.deadline = provision.problem.objective.deadline * factor;
      for (const MachinePlan& plan : cheapest_plans(problem, kMostSafer).plans)
        proposals.add(plan, name + (factor == 1 ? "" : " x " + to_text(factor)));
    }
  };
  if (std::none_of(provision.is_revocable.begin(), provision.is_revocable.end(), [](bool is) { return is; })) return;
  propose("ours", [](std::size_t) { return false; });
  for (std::size_t i = 0; i < provision.is_revocable.size(); ++i)
    if (provision.is_revocable[i])
      propose("ours without " + provision.problem.offers[i].name, [i](std::size_t k) { return k == i; });
  propose("ours without revocations", [&](std::size_t k) { return provision.is_revocable[k]; });
}

PlannerOutcome run_ours(const ProvisionCase& provision, const ProvisionOptions& options, Proposals& proposals) {
  const CheapestPlans ours = cheapest_plans(provision.problem, options.most_of_ours);
  PlannerOutcome outcome{.name = to_text(Planner::kOurs),
                         .plan = {},
                         .considered = ours.nodes,
                         .out_of_range = ours.out_of_range,
                         .is_optimal = ours.is_optimal,
                         .problem = ours.plans.empty() ? "no plan in time" : ""};
  for (const MachinePlan& plan : ours.plans) {
    const std::size_t index = proposals.add(plan, outcome.name);
    if (!outcome.plan) outcome.plan = index;
  }
  ProvisionProblem other = provision.problem;
  for (const double percent : kLatePercents) {
    other.objective.deadline = provision.problem.objective.deadline * (1 + percent / 100);
    for (const MachinePlan& plan : cheapest_plans(other, kMostLate).plans)
      if (plan.time > provision.problem.objective.deadline) proposals.add(plan, "ours +" + to_text(percent) + " %");
  }
  for (const double factor : kOtherDeadlines) {
    other.objective.deadline = provision.problem.objective.deadline * factor;
    for (const MachinePlan& plan : cheapest_plans(other).plans) proposals.add(plan, "ours x " + to_text(factor));
  }
  propose_safer(provision, proposals);
  return outcome;
}

PlannerOutcome run_planner(Planner planner, const ProvisionCase& provision, const ProvisionOptions& options,
                           Proposals& proposals) {
  const std::string name = to_text(planner);
  const ProvisionProblem& problem = provision.problem;
  try {
    switch (planner) {
      case Planner::kOurs:
        return run_ours(provision, options, proposals);
      case Planner::kSpotdnnPaper:
        return outcome_of(name, spotdnn_plan(problem), proposals);
      case Planner::kSpotdnnReleased:
        if (is_under_way(problem)) return {.name = name, .plan = {}, .problem = kKnowsNoRun};
        return outcome_of(name, spotdnn_released_plan(problem), proposals);
      case Planner::kCmDarePlus:
        return outcome_of(name, spotdnn_plan(problem, SpeedModel::kIdeal), proposals);
      case Planner::kExhaustive:
        return outcome_of(name, exhaustive_plan(problem), proposals);
      case Planner::kHomogeneous:
        break;
    }
  } catch (const NoResultError& error) { return {.name = name, .plan = {}, .problem = error.what()}; }
  PlannerOutcome outcome{.name = name, .plan = {}, .problem = "spotdnn-paper has no plan to follow"};
  if (is_under_way(problem)) {
    outcome.problem = kKnowsNoRun;
    return outcome;
  }
  const auto theirs = spotdnn_plan(problem).plan;
  if (!theirs) return outcome;
  outcome.problem = "no plan in time within the quotas";
  for (const bool is_fast : {false, true}) {
    const MachinePlan plan = homogeneous_plan(problem, *theirs, is_fast);
    const std::size_t index = proposals.add(plan, is_fast ? "homo-fast" : "homo-slow");
    ++outcome.considered;
    if (!plan.is_in_range) ++outcome.out_of_range;
    if (plan.time > problem.objective.deadline || proposals.plans()[index].exceeds_quota || !plan.is_in_range) continue;
    if (!outcome.plan || plan.cost_usd < proposals.plans()[*outcome.plan].plan.cost_usd) outcome.plan = index;
  }
  if (outcome.plan) outcome.problem.clear();
  return outcome;
}

void evaluate(const ProvisionCase& provision, std::vector<ProposedPlan>& plans, const PlanEvaluator& evaluate) {
  const Objective& objective = provision.problem.objective;
  std::vector<SharedJson> scenarios;
  std::vector<Seconds> deadlines, extras;
  for (const ProposedPlan& proposed : plans) {
    scenarios.push_back(share(scenario_of(provision, proposed.plan)));
    // what the closed form adds to the training itself
    extras.push_back(proposed.plan.time - Seconds{proposed.plan.updates / proposed.plan.updates_per_s});
    if (extras.back() < Seconds{1e-6}) extras.back() = Seconds{};
    deadlines.push_back(objective.deadline - extras.back());
  }
  const std::vector<PlanRisk> risks = evaluate(scenarios, deadlines);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    PlanRisk risk = risks.at(i);
    const double extra = extras[i].value();
    const double usd = (plans[i].plan.usd_per_hour + objective.fixed_usd_per_hour) * extra / 3600;
    if (risk.error.empty())
      for (double Quantiles::*of : {&Quantiles::p5, &Quantiles::p50, &Quantiles::p95}) {
        risk.time_s.*of += extra;
        risk.cost_usd.*of += usd;
      }
    plans[i].risk = std::move(risk);
  }
}

/// `order[i]` is the index that plan i had before.
std::vector<std::size_t> sort_by_cost(std::vector<ProposedPlan>& plans) {
  std::vector<std::size_t> order(plans.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const PlanRisk &risk_a = plans[a].risk, &risk_b = plans[b].risk;
    if (risk_a.error.empty() != risk_b.error.empty()) return risk_a.error.empty();
    return std::pair{risk_a.cost_usd.p50, risk_a.time_s.p50} < std::pair{risk_b.cost_usd.p50, risk_b.time_s.p50};
  });
  std::vector<ProposedPlan> sorted;
  for (const std::size_t i : order) sorted.push_back(std::move(plans[i]));
  plans = std::move(sorted);
  return order;
}

void mark_frontier(std::vector<ProposedPlan>& plans) {
  const auto is_candidate = [](const ProposedPlan& plan) { return plan.risk.error.empty() && !plan.exceeds_quota; };
  for (ProposedPlan& plan : plans) {
    if (!is_candidate(plan)) continue;
    const PlanRisk& own = plan.risk;
    plan.is_on_frontier = std::none_of(plans.begin(), plans.end(), [&](const ProposedPlan& other) {
      const PlanRisk& risk = other.risk;
      const bool is_as_good = risk.cost_usd.p50 <= own.cost_usd.p50 && risk.time_s.p50 <= own.time_s.p50 &&
                              risk.probability >= own.probability;
      const bool is_better = risk.cost_usd.p50 < own.cost_usd.p50 || risk.time_s.p50 < own.time_s.p50 ||
                             risk.probability > own.probability;
      return is_candidate(other) && is_as_good && is_better;
    });
  }
}

}  // namespace

Provision provision(const ProvisionCase& provision_case, const ProvisionOptions& options,
                    const PlanEvaluator& evaluator) {
  constexpr std::size_t kMostMisses = 3;
  Proposals proposals{provision_case};
  Provision result;
  std::vector<Planner> planners{options.planner};
  for (const Planner planner :
       {Planner::kOurs, Planner::kSpotdnnPaper, Planner::kSpotdnnReleased, Planner::kCmDarePlus, Planner::kHomogeneous})
    if (planner != options.planner) planners.push_back(planner);
  for (const Planner planner : planners) {
    result.planners.push_back(run_planner(planner, provision_case, options, proposals));
  }
  if (!result.planners.front().plan)
    for (const MachinePlan& plan : fastest_plans(provision_case.problem, kMostMisses)) proposals.add(plan, "fastest");
  result.plans = std::move(proposals.plans());
  evaluate(provision_case, result.plans, evaluator);
  const std::vector<std::size_t> order = sort_by_cost(result.plans);
  std::vector<std::size_t> now(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) now[order[i]] = i;
  for (PlannerOutcome& outcome : result.planners)
    if (outcome.plan) outcome.plan = now[*outcome.plan];
  mark_frontier(result.plans);

  const auto is_answer = [&](const ProposedPlan& plan) {
    return plan.risk.error.empty() && !plan.exceeds_quota && plan.plan.is_in_range &&
           plan.risk.probability >= options.confidence && plan.risk.runs > 0;
  };
  if (options.planner == Planner::kOurs) {
    const auto found = std::find_if(result.plans.begin(), result.plans.end(), is_answer);
    if (found != result.plans.end()) result.answer = static_cast<std::size_t>(found - result.plans.begin());
  } else if (const auto& plan = result.planners.front().plan; plan && is_answer(result.plans[*plan])) {
    result.answer = plan;
  }
  if (result.answer) return result;
  for (std::size_t i = 0; i < result.plans.size(); ++i)
    if (result.plans[i].risk.error.empty() && !result.plans[i].exceeds_quota) result.misses.push_back(i);
  std::stable_sort(result.misses.begin(), result.misses.end(), [&](std::size_t a, std::size_t b) {
    const PlanRisk &risk_a = result.plans[a].risk, &risk_b = result.plans[b].risk;
    return std::pair{-risk_a.probability, risk_a.time_s.p50} < std::pair{-risk_b.probability, risk_b.time_s.p50};
  });
  if (result.misses.size() > kMostMisses) result.misses.resize(kMostMisses);
  return result;
}

}  // namespace rehearse
