#include "sim/plan/provision_run.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "sim/base/csv.hpp"

namespace rehearse {

namespace {

Json to_json(const Quantiles& quantiles) {
  return {{"p5", quantiles.p5}, {"p50", quantiles.p50}, {"p95", quantiles.p95}};
}

Json to_json(const ProvisionProblem& problem, const ProposedPlan& proposed) {
  const MachinePlan& plan = proposed.plan;
  Json machines = Json::object();
  for (std::size_t i = 0; i < plan.counts.size(); ++i)
    if (plan.counts[i] > 0) machines[problem.offers[i].name] = plan.counts[i];
  Json json{{"plan", plan_text(problem, plan.counts)},
            {"machines", std::move(machines)},
            {"proposed_by", proposed.proposed_by},
            {"workers", plan.workers},
            {"usd_per_hour", plan.usd_per_hour + problem.objective.fixed_usd_per_hour},
            {"weighted_batch", plan.weighted_batch},
            {"convergence_coefficient", plan.spread},
            {"is_in_range", plan.is_in_range},
            {"exceeds_quota", proposed.exceeds_quota},
            {"closed_form",
             {{"samples_per_s", plan.samples_per_s},
              {"updates", plan.updates},
              {"time_s", plan.time.value()},
              {"cost_usd", plan.cost_usd},
              {"on_demand_cost_usd", proposed.on_demand_cost_usd ? Json(*proposed.on_demand_cost_usd) : Json{}}}}};
  const PlanRisk& risk = proposed.risk;
  const bool has_result = risk.error.empty();
  json["probability"] = has_result ? Json(risk.probability) : Json{};
  json["time_s"] = has_result ? to_json(risk.time_s) : Json{};
  json["cost_usd"] = has_result ? to_json(risk.cost_usd) : Json{};
  json["runs"] = risk.runs;
  json["is_on_frontier"] = proposed.is_on_frontier;
  json["error"] = has_result ? Json{} : Json(risk.error);
  return json;
}

}  // namespace

Json to_json(const ProvisionCase& provision_case, const ProvisionOptions& options, const Provision& result) {
  const ProvisionProblem& problem = provision_case.problem;
  const Objective& objective = problem.objective;
  Json plans = Json::array(), planners = Json::array(), candidates = Json::array(), misses = Json::array();
  for (const ProposedPlan& plan : result.plans) plans.push_back(to_json(problem, plan));
  const auto text_of = [&](std::size_t i) { return plan_text(problem, result.plans[i].plan.counts); };
  for (const PlannerOutcome& outcome : result.planners)
    planners.push_back({{"name", outcome.name},
                        {"plan", outcome.plan ? Json(text_of(*outcome.plan)) : Json{}},
                        {"considered", outcome.considered},
                        {"out_of_range", outcome.out_of_range},
                        {"is_optimal", outcome.is_optimal},
                        {"problem", outcome.problem.empty() ? Json{} : Json(outcome.problem)}});
  for (const MachineOffer& offer : problem.offers)
    candidates.push_back({{"name", offer.name},
                          {"quota", offer.quota},
                          {"existing", offer.existing},
                          {"usd_per_hour", offer.usd_per_hour},
                          {"workers", offer.workers},
                          {"batch", offer.worker.batch},
                          {"step_s", offer.worker.step_alone.value()}});
  for (const std::size_t i : result.misses) misses.push_back(text_of(i));
  return {{"format", 1},
          {"target_loss", objective.loss},
          {"deadline_s", objective.deadline.value()},
          {"confidence", options.confidence},
          {"planner", to_text(options.planner)},
          {"answer", result.answer ? to_json(problem, result.plans[*result.answer]) : Json{}},
          {"nearest_misses", std::move(misses)},
          {"planners", std::move(planners)},
          {"candidates", std::move(candidates)},
          {"dropped_candidates", provision_case.dropped},
          {"closed_form",
           {{"parameters_B", problem.workload.parameters.value()},
            {"required_bandwidth_Bps", problem.workload.required_bandwidth.value()},
            {"server_bandwidth_Bps", problem.server.bandwidth.value()},
            {"contention_slope", problem.workload.contention.slope},
            {"contention_intercept", problem.workload.contention.intercept},
            {"servers_usd_per_hour", objective.fixed_usd_per_hour}}},
          {"plans", std::move(plans)}};
}

std::string plans_csv(const ProvisionCase& provision_case, const Provision& result) {
  CsvWriter csv{{"plan",
                 "proposed_by",
                 "workers",
                 "usd_per_hour",
                 "weighted_batch",
                 "convergence_coefficient",
                 "closed_form_time_s",
                 "closed_form_cost_usd",
                 "on_demand_cost_usd",
                 "probability",
                 "time_s_p5",
                 "time_s_p50",
                 "time_s_p95",
                 "cost_usd_p5",
                 "cost_usd_p50",
                 "cost_usd_p95",
                 "runs",
                 "is_on_frontier",
                 "exceeds_quota",
                 "error"}};
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (const ProposedPlan& proposed : result.plans) {
    const MachinePlan& plan = proposed.plan;
    const PlanRisk& risk = proposed.risk;
    const bool has_result = risk.error.empty();
    std::string by;
    for (const std::string& name : proposed.proposed_by) by += (by.empty() ? "" : "; ") + name;
    csv.row({plan_text(provision_case.problem, plan.counts),
             by,
             plan.workers,
             plan.usd_per_hour + provision_case.problem.objective.fixed_usd_per_hour,
             plan.weighted_batch,
             plan.spread,
             plan.time.value(),
             plan.cost_usd,
             proposed.on_demand_cost_usd.value_or(none),
             has_result ? risk.probability : none,
             has_result ? risk.time_s.p5 : none,
             has_result ? risk.time_s.p50 : none,
             has_result ? risk.time_s.p95 : none,
             has_result ? risk.cost_usd.p5 : none,
             has_result ? risk.cost_usd.p50 : none,
             has_result ? risk.cost_usd.p95 : none,
             risk.runs,
             proposed.is_on_frontier ? "yes" : "no",
             proposed.exceeds_quota ? "yes" : "no",
             risk.error});
  }
  return csv.text();
}

}  // namespace rehearse
