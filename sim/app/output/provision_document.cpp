#include "sim/app/output/provision_document.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

std::string fixed(double value, int digits) { return std::isinf(value) ? "never" : formatted("%.*f", digits, value); }

/// As opposed to one for another deadline, or among the next best ones.
bool is_a_planners_own(const ProposedPlan& plan) {
  return std::any_of(plan.proposed_by.begin(), plan.proposed_by.end(),
                     [](const std::string& by) { return !by.starts_with("ours") && by != "fastest"; });
}

/// Probability by cost of the plans on the frontier, or of the answer.
Series risks_of(const Provision& result, bool is_of_answer) {
  Series series{.name = is_of_answer ? "answer" : "frontier", .x = {}, .y = {}, .is_points = true};
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    if (!result.plans[i].is_on_frontier || (result.answer == i) != is_of_answer) continue;
    series.x.push_back(result.plans[i].risk.cost_usd.p50);
    series.y.push_back(result.plans[i].risk.probability * 100);
  }
  return series;
}

}  // namespace

Table plans_table(const ProvisionCase& provision_case, const Provision& result, bool is_complete) {
  Table table{.header = {"plan", "cost, USD", "time, s", "in time", "closed form, s", "on demand, USD", "by"},
              .rows = {}};
  const bool has_distribution = std::any_of(result.plans.begin(), result.plans.end(),
                                            [](const ProposedPlan& plan) { return plan.risk.runs > 1; });
  if (has_distribution) {
    table.header[1] = "cost p50 (p5 - p95), USD";
    table.header[2] = "time p50 (p5 - p95), s";
  }
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    const ProposedPlan& proposed = result.plans[i];
    const bool is_answer = result.answer == i;
    const bool is_miss = std::find(result.misses.begin(), result.misses.end(), i) != result.misses.end();
    if (!is_complete && !is_answer && !is_miss && !proposed.is_on_frontier && !is_a_planners_own(proposed)) continue;
    const PlanRisk& risk = proposed.risk;
    const auto quantiles = [&](const Quantiles& of, int digits) {
      if (!risk.error.empty()) return std::string{"-"};
      std::string text = fixed(of.p50, digits);
      if (has_distribution) text += " (" + fixed(of.p5, digits) + " - " + fixed(of.p95, digits) + ")";
      return text;
    };
    std::string by = joined(proposed.proposed_by);
    if (proposed.exceeds_quota) by += " (beyond the quota)";
    if (!risk.error.empty()) by += ": " + shortened(risk.error, 100);
    table.rows.push_back({(is_answer ? "=> " : (proposed.is_on_frontier ? " * " : "   ")) +
                              shortened(plan_text(provision_case.problem, proposed.plan.counts), 120),
                          quantiles(risk.cost_usd, 3), quantiles(risk.time_s, 1),
                          risk.error.empty() ? fixed(risk.probability * 100, 1) + " %" : "-",
                          fixed(proposed.plan.time.value(), 1),
                          proposed.on_demand_cost_usd ? fixed(*proposed.on_demand_cost_usd, 3) : "-", by});
  }
  return table;
}

Table planners_table(const ProvisionCase& provision_case, const Provision& result) {
  Table table{.header = {"planner", "plan", "looked at", "out of range", "optimal"}, .rows = {}};
  for (const PlannerOutcome& outcome : result.planners)
    table.rows.push_back(
        {outcome.name,
         outcome.plan ? shortened(plan_text(provision_case.problem, result.plans[*outcome.plan].plan.counts), 120)
                      : outcome.problem,
         std::to_string(outcome.considered), std::to_string(outcome.out_of_range), outcome.is_optimal ? "yes" : ""});
  return table;
}

std::string plan_in_words(const ProvisionCase& provision_case, const ProposedPlan& proposed) {
  const Seconds deadline = provision_case.problem.objective.deadline;
  const PlanRisk& risk = proposed.risk;
  return plan_text(provision_case.problem, proposed.plan.counts) + ": " + fixed(risk.cost_usd.p50, 2) + " USD, " +
         fixed(risk.time_s.p50, 1) + " s of " + to_text(deadline) +
         (risk.runs == 1 ? ", simulated without revocations"
                         : ", in time in " + fixed(risk.probability * 100, 1) + " % of " + std::to_string(risk.runs) +
                               " simulations");
}

namespace {

Section frontier_of(const ProvisionCase& provision_case, const Provision& result) {
  const double deadline_s = provision_case.problem.objective.deadline.value();
  Section frontier{
      .title = "Cost, time and risk",
      .paragraphs =
          {"=> is the answer, * is on the frontier: no other plan is cheaper, faster and safer. "
           "Costs include the servers; closed form and on demand are those of the analytic model. Ours + 5 % was "
           "found for a deadline that much later, ours x 0.8 for that part of it."},
      .tables = {plans_table(provision_case, result, true)}};
  Series plans{.name = "plans", .x = {}, .y = {}, .is_points = true};
  Series answer{.name = "answer", .x = {}, .y = {}, .is_points = true};
  Series edge{.name = "frontier", .x = {}, .y = {}};
  std::vector<std::pair<double, double>> points;
  double dearest = 0;
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    const PlanRisk& risk = result.plans[i].risk;
    if (!risk.error.empty() || std::isinf(risk.time_s.p50)) continue;
    Series& series = result.answer == i ? answer : plans;
    series.x.push_back(risk.time_s.p50);
    series.y.push_back(risk.cost_usd.p50);
    dearest = std::max(dearest, risk.cost_usd.p50);
    if (result.plans[i].is_on_frontier) points.emplace_back(risk.time_s.p50, risk.cost_usd.p50);
  }
  std::sort(points.begin(), points.end());
  for (const auto& [time, cost] : points) {
    edge.x.push_back(time);
    edge.y.push_back(cost);
  }
  const Series deadline{.name = "deadline", .x = {deadline_s, deadline_s}, .y = {0, dearest}};
  frontier.figures.emplace_back(Plot{.title = "What shorter training costs",
                                     .x_label = "time, s",
                                     .y_label = "cost, USD",
                                     .series = {plans, answer, edge, deadline}});
  if (std::any_of(result.plans.begin(), result.plans.end(),
                  [](const ProposedPlan& plan) { return plan.risk.runs > 1; })) {
    frontier.paragraphs.emplace_back(
        "Plans whose machines may be revoked were run many times, run i of each with the same seed: p50 is the median, "
        "p5 and p95 hold nine runs of ten between them. The others were simulated once. Ours without X was found "
        "without machines of type X, or without any that may be revoked.");
    frontier.figures.emplace_back(Plot{.title = "What being in time costs",
                                       .x_label = "cost, USD",
                                       .y_label = "in time, %",
                                       .series = {risks_of(result, false), risks_of(result, true)}});
  }
  return frontier;
}

Section candidates_of(const ProvisionCase& provision_case) {
  const ProvisionProblem& problem = provision_case.problem;
  Table candidates{.header = {"candidate", "quota", "existing", "USD per hour", "workers", "batch", "step alone, s"},
                   .rows = {}};
  for (const MachineOffer& offer : problem.offers)
    candidates.rows.push_back({offer.name, std::to_string(offer.quota), std::to_string(offer.existing),
                               display(offer.usd_per_hour), std::to_string(offer.workers), display(offer.worker.batch),
                               display(offer.worker.step_alone.value())});
  Section machines{.title = "Candidates",
                   .paragraphs = {"Servers cost " + display(problem.objective.fixed_usd_per_hour) +
                                  " USD per hour. Loss model: " + problem.convergence.source},
                   .tables = {std::move(candidates)}};
  for (const std::string& reason : provision_case.dropped) machines.paragraphs.push_back("left out: " + reason);
  return machines;
}

}  // namespace

std::string provision_report(const ProvisionCase& provision_case, const ProvisionOptions& options,
                             const Provision& result) {
  const ProvisionProblem& problem = provision_case.problem;
  const Objective& objective = problem.objective;
  Document document{.title = "No machines are in time",
                    .subtitle = "a loss of " + to_text(objective.loss) + " within " + to_text(objective.deadline) +
                                "; planner " + to_text(options.planner) + ", in time with a probability of at least " +
                                to_text(options.confidence),
                    .headlines = {},
                    .sections = {}};
  if (result.answer) {
    const ProposedPlan& answer = result.plans[*result.answer];
    document.title = plan_text(problem, answer.plan.counts);
    document.headlines = {{"cost", fixed(answer.risk.cost_usd.p50, 2) + " USD"},
                          {"time", fixed(answer.risk.time_s.p50, 1) + " s"},
                          {"in time", fixed(answer.risk.probability * 100, 1) + " %"}};
    if (answer.on_demand_cost_usd)
      document.headlines.push_back({"at on-demand prices", fixed(*answer.on_demand_cost_usd, 2) + " USD"});
  }

  document.verdict = result.answer
                         ? "Cheapest in time: " + plan_in_words(provision_case, result.plans[*result.answer]) + "."
                         : "No machines are in time.";
  Section frontier = frontier_of(provision_case, result);
  document.overview.push_back({.title = "Cost, time and risk",
                               .paragraphs = {},
                               .tables = {},
                               .figures = std::exchange(frontier.figures, {}),
                               .is_wide = true});
  frontier.title = "Plans";
  document.sections.push_back(std::move(frontier));
  document.sections.push_back(
      {.title = "Planners",
       .paragraphs = {"Plans whose weighted batch or number of workers lies outside of what the loss model was fitted "
                      "for are left out and counted. Ours counts the nodes of its search tree, each of which stands "
                      "for all plans below it."},
       .tables = {planners_table(provision_case, result)}});
  document.sections.push_back(candidates_of(provision_case));
  return render_html(document);
}

}  // namespace rehearse
