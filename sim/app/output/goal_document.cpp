#include "sim/app/output/goal_document.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "sim/app/output/document.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse {

namespace {

std::string number_text(double value, const char* unit) { return brief(value) + " " + unit; }

std::string energy_text(double kwh) { return kwh >= 1e4 ? number_text(kwh / 1e3, "MWh") : number_text(kwh, "kWh"); }

std::string usd_text(double usd) {
  return usd >= 1e6   ? number_text(usd / 1e6, "million USD")
         : usd >= 1e4 ? number_text(usd / 1e3, "thousand USD")
                      : number_text(usd, "USD");
}

/// "21.6 d", "3.2 h": of a training.
std::string long_time_text(double seconds) {
  if (seconds >= 2 * 86400) return number_text(seconds / 86400, "days");
  if (seconds >= 2 * 3600) return number_text(seconds / 3600, "h");
  return seconds >= 120 ? number_text(seconds / 60, "min") : number_text(seconds, "s");
}

/// "97 %", never rounded up to certainty or to what was asked for.
std::string probability_text(double probability) { return to_text(std::floor(1000 * probability) / 10) + " %"; }

/// Range of the answer's time, and what it is of.
std::string time_range(const GoalPlan& plan, const std::optional<std::pair<double, double>>& interval) {
  if (plan.risk)
    return long_time_text(plan.risk->time_s.p5) + " to " + long_time_text(plan.risk->time_s.p95) +
           " in nine of ten runs";
  if (!interval) return {};
  return long_time_text(plan.time_s * interval->first) + " to " + long_time_text(plan.time_s * interval->second) +
         ", 90 %";
}

std::string goal_text(const AskedGoal& asked) {
  const double samples = asked.goal.samples;
  std::string text =
      asked.positions > 0 ? count_text(samples * asked.positions) + " tokens" : count_text(samples) + " samples";
  if (asked.goal.deadline)
    text += " within " + long_time_text(asked.goal.deadline->value()) + " with a probability of " +
            to_text(asked.goal.confidence);
  if (asked.goal.budget_usd) text += " for at most " + usd_text(*asked.goal.budget_usd);
  return text;
}

/// Cost by time of the plans.
Plot costs_plot(const GoalAnswer& answer, const TrainingGoal& goal) {
  Series plans{.name = "plans", .x = {}, .y = {}, .is_points = true};
  Series chosen{.name = "answer", .x = {}, .y = {}, .is_points = true};
  Series frontier{.name = "frontier", .x = {}, .y = {}};
  std::vector<std::pair<double, double>> edge;
  double dearest = 0;
  for (std::size_t i = 0; i < answer.plans.size(); ++i) {
    const GoalPlan& plan = answer.plans[i];
    if (plan.best() == nullptr || !plan.cost_usd || !std::isfinite(plan.time_s)) continue;
    const double hours = plan.time_s / 3600;
    Series& series = answer.answer == i ? chosen : plans;
    series.x.push_back(hours);
    series.y.push_back(*plan.cost_usd);
    dearest = std::max(dearest, *plan.cost_usd);
    if (plan.is_on_frontier) edge.emplace_back(hours, *plan.cost_usd);
  }
  std::ranges::sort(edge);
  for (const auto& [hours, cost] : edge) {
    frontier.x.push_back(hours);
    frontier.y.push_back(cost);
  }
  Plot plot{.title = "What shorter training costs",
            .x_label = "time, h",
            .y_label = "cost, USD",
            .series = {plans, chosen, frontier}};
  if (goal.deadline) {
    const double hours = goal.deadline->value() / 3600;
    plot.series.push_back({.name = "deadline", .x = {hours, hours}, .y = {0, dearest}});
  }
  return plot;
}

}  // namespace

Table goal_plans_table(const GoalAnswer& answer, const std::optional<Seconds>& deadline, std::size_t most) {
  Table table{.header = {"", "machines", "plan", "time", "cost", "plans", "simulated", "do not fit"}, .rows = {}};
  if (deadline) table.header.emplace_back("in time");
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < answer.plans.size(); ++i)
    if (answer.plans[i].best() != nullptr) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    const GoalPlan& plan = answer.plans[i];
    return std::tuple{answer.answer != i, !plan.is_on_frontier, plan.cost_usd.value_or(plan.time_s)};
  });
  if (order.size() > most) order.resize(most);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return answer.plans[i].time_s; });
  for (const std::size_t i : order) {
    const GoalPlan& plan = answer.plans[i];
    const DegreeSearch& search = *plan.search;
    table.rows.push_back({answer.answer == i    ? "=>"
                          : plan.is_on_frontier ? "*"
                                                : "",
                          plan.candidate.machines, plan_text(plan.candidate, plan.best()->degrees),
                          long_time_text(plan.time_s), plan.cost_usd ? usd_text(*plan.cost_usd) : "-",
                          std::to_string(search.plans.size()), std::to_string(search.simulated),
                          std::to_string(search.too_large)});
    if (deadline) table.rows.back().push_back(probability_text(plan.probability_by(*deadline)));
  }
  return table;
}

Table next_plans_table(const GoalPlan& plan) {
  constexpr std::size_t kMost = 5;
  Table table{.header = {"next", "step", "slower", "because of"}, .rows = {}};
  const std::vector<SearchedPlan>& plans = plan.search->plans;
  const Json& best = *plans.front().summary;
  for (std::size_t i = 1; i < std::min(plan.search->simulated, kMost + 1); ++i) {
    const Json& other = *plans[i].summary;
    table.rows.push_back({plan_text(plan.candidate, plans[i].degrees), number_text(plans[i].step_s, "s"),
                          number_text(100 * (plans[i].step_s / plans.front().step_s - 1), "%"),
                          why_slower(best, other)});
  }
  return table;
}

std::string goal_sentence(const GoalAnswer& answer, const AskedGoal& asked,
                          const std::optional<std::pair<double, double>>& interval) {
  const GoalPlan& plan = answer.plans[*answer.answer];
  const Json& summary = *plan.best()->summary;
  std::string text =
      asked.model + " on " + plan.candidate.machines + ": " + plan_text(plan.candidate, plan.best()->degrees) + ": ";
  text += plan.risk ? long_time_text(plan.time_s) + " (" + long_time_text(plan.risk->time_s.p5) + " to " +
                          long_time_text(plan.risk->time_s.p95) + " in nine of ten runs)"
                    : long_time_text(plan.time_s);
  if (plan.checkpoint_every)
    text += ", a checkpoint every " + long_time_text(plan.checkpoint_every->value()) +
            ", which does better than Young and Daly's interval";
  if (interval && !plan.risk)
    text += " (" + long_time_text(plan.time_s * interval->first) + " to " +
            long_time_text(plan.time_s * interval->second) + ", 90 %)";
  if (asked.goal.deadline) text += ", in time with " + probability_text(plan.probability_by(*asked.goal.deadline));
  if (plan.cost_usd) text += ", " + usd_text(*plan.cost_usd);
  if (plan.energy_kwh) {
    text += ", " + energy_text(*plan.energy_kwh);
    if (const auto co2 = plan.electricity.co2_kg(*plan.energy_kwh)) text += ", " + number_text(*co2, "kg CO2");
  }
  text += ", a step of " + number_text(plan.best()->step_s, "s");
  if (asked.positions > 0)
    text += ", " + number_text(summary["samples_per_s"].get<double>() * asked.positions / 1e3, "thousand tokens/s");
  text += ", GPUs busy " + number_text(100 * summary["gpu_utilization"].get<double>(), "%");
  return text;
}

std::string goal_search_text(const GoalPlan& plan) {
  const DegreeSearch& search = *plan.search;
  std::string text = std::to_string(search.plans.size()) + " plans: " + std::to_string(search.simulated) +
                     " simulated, " + std::to_string(search.too_large) + " do not fit into memory, " +
                     std::to_string(search.without_result) + " cannot be trained so";
  if (!search.is_complete)
    return text + ", " + std::to_string(search.not_tried) +
           " come later by the closed form; some of these might be faster: --simulated " +
           std::to_string(2 * search.simulated) + " looks at more";
  if (search.not_tried > 0) text += ", " + std::to_string(search.not_tried) + " are slower by the closed form";
  if (search.not_tried > 0 && search.least_ratio < 1)
    text += ", even at " + number_text(100 * search.least_ratio, "%") +
            " of it, which is the least that a simulated plan took";
  return text;
}

std::vector<std::string> left_out_texts(const GoalAnswer& answer, const AskedGoal& asked, std::size_t most) {
  std::vector<std::string> texts;
  for (const std::string& reason : asked.unmatched) texts.push_back(shortened(reason, 300));
  for (const GoalPlan& plan : answer.plans)
    if (!plan.left_out.empty()) texts.push_back(plan.candidate.machines + ": " + shortened(plan.left_out, 200));
  if (texts.size() > most) {
    const std::size_t more = texts.size() - most;
    texts.resize(most);
    texts.push_back(std::to_string(more) + " more sets of machines; summary.json (-o, --json) has all reasons");
  }
  return texts;
}

std::string goal_report(const GoalAnswer& answer, const AskedGoal& asked,
                        const std::optional<std::pair<double, double>>& interval, const std::string& refused) {
  Document document{.title = asked.model + ": no machines meet the goal",
                    .subtitle = goal_text(asked),
                    .headlines = {},
                    .sections = {}};
  document.verdict =
      answer.answer ? goal_sentence(answer, asked, interval) + "." : miss_in_words(answer, asked.goal) + ".";
  if (answer.answer) {
    const GoalPlan& plan = answer.plans[*answer.answer];
    document.title = asked.model + " on " + plan.candidate.machines;
    document.headlines.push_back({"time", long_time_text(plan.time_s), time_range(plan, interval)});
    if (plan.cost_usd) document.headlines.push_back({"cost", usd_text(*plan.cost_usd)});
    if (plan.energy_kwh) document.headlines.push_back({"energy", energy_text(*plan.energy_kwh)});
    if (asked.goal.deadline)
      document.headlines.push_back({"in time", probability_text(plan.probability_by(*asked.goal.deadline))});
    document.headlines.push_back({"a step", short_time_text(plan.best()->step_s)});
  }
  document.overview.push_back({.title = "Time and cost",
                               .paragraphs = {},
                               .tables = {},
                               .figures = {costs_plot(answer, asked.goal)},
                               .is_wide = true});
  document.sections.push_back(
      {.title = "Machines",
       .paragraphs = {"=> is the answer, * is on the frontier: no other is faster and cheaper. Each has the "
                      "best of its plans."},
       .tables = {goal_plans_table(answer, asked.goal.deadline, answer.plans.size())},
       .figures = {}});
  if (answer.answer) {
    const GoalPlan& plan = answer.plans[*answer.answer];
    Section next{
        .title = "Why not otherwise", .paragraphs = {goal_search_text(plan) + "."}, .tables = {}, .figures = {}};
    if (!refused.empty()) next.paragraphs.push_back(refused);
    if (Table table = next_plans_table(plan); !table.rows.empty()) next.tables.push_back(std::move(table));
    document.sections.push_back(std::move(next));
  }
  if (const auto texts = left_out_texts(answer, asked, answer.plans.size() + asked.unmatched.size()); !texts.empty())
    document.sections.push_back({.title = "Left out", .paragraphs = texts, .tables = {}, .figures = {}});
  return render_html(document);
}

}  // namespace rehearse
