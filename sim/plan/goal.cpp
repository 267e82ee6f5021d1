#include "sim/plan/goal.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "platforms/pool_origin.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/plan/monte_carlo.hpp"
#include "sim/scenario/find_model.hpp"
#include "sim/scenario/peak_speed.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

std::string plan_text(const GoalCandidate& candidate, const Degrees& degrees) {
  return (candidate.training.empty() ? "" : candidate.training + ", ") + to_text(degrees, candidate.gpus);
}

Json plan_scenario(const GoalPlan& plan, const Degrees& degrees, bool has_revocations) {
  const GoalCandidate& candidate = plan.candidate;
  Json scenario = *candidate.scenario;
  set_degrees(scenario, degrees, candidate.global_batch);
  Json& training = scenario["training"];
  const Json samples = training["target"]["samples"];
  scenario["name"] = candidate.machines + ": " + plan_text(candidate, degrees);
  if (has_revocations) {
    if (!candidate.spot_pool.empty()) set_revocations(scenario, candidate.spot_pool);
    for (const char* key : {"steps", "steps_per_worker", "target", "warmup_steps"}) training.erase(key);
    training["samples"] = samples;
    if (plan.checkpoint_every) {
      training["checkpoint"].erase("interval");
      training["checkpoint"]["every"] = to_text(*plan.checkpoint_every);
    }
  }
  return scenario;
}

namespace {

constexpr double kBeyondAll = std::numeric_limits<double>::infinity();

/// What the candidate takes and costs at the least: the arithmetic of the training at the peak of all of its GPUs.
Seconds least_time(const GoalCandidate& candidate, const TrainingGoal& goal, const Catalog& catalog) {
  Json plain = *candidate.scenario;
  clear_degrees(plain);
  plain["workload"]["batch_per_worker"] = 1;
  plain["training"]["memory_check"] = "warn";
  const Scenario scenario = read_scenario(plain, candidate.file_name, catalog, {}, {.seeks_remedies = false});
  return Seconds{goal.samples / peak_samples_per_s(scenario)};
}

/// Of the whole training.
double steps_of(const GoalCandidate& candidate, const TrainingGoal& goal) {
  return goal.samples / static_cast<double>(candidate.global_batch);
}

std::optional<double> cost_of(const GoalCandidate& candidate, double time_s) {
  return candidate.usd_per_hour ? std::optional{*candidate.usd_per_hour * time_s / 3600} : std::nullopt;
}

std::string usd_text(double usd) { return to_text(std::round(usd)) + " USD"; }

std::string days_text(double seconds) {
  const double unit = seconds >= 2 * 86'400 ? 86'400 : seconds >= 2 * 3600 ? 3600 : 60;
  const char* word = unit == 86'400 ? "d" : unit == 3600 ? "h" : "min";
  return to_text(std::round(seconds / unit * 100) / 100) + word;
}

bool has_result(const GoalPlan& plan) { return plan.best() != nullptr && (!plan.risk || plan.risk->error.empty()); }

bool meets(const GoalPlan& plan, const TrainingGoal& goal) {
  if (!has_result(plan)) return false;
  const bool is_in_time = !goal.deadline || plan.probability_by(*goal.deadline) >= goal.confidence;
  return is_in_time && (!goal.budget_usd || (plan.cost_usd && *plan.cost_usd <= *goal.budget_usd));
}

/// What a candidate competes with.
struct Rival {
  const GoalPlan* plan = nullptr;
  double from_s = kBeyondAll;  // time of the whole training from which on the candidate is slower and dearer
};

Rival rival_of(const GoalCandidate& candidate, const std::vector<GoalPlan>& found, const TrainingGoal& goal) {
  Rival rival;
  if (!candidate.usd_per_hour) return rival;
  for (const GoalPlan& other : found) {
    // One that may be late may be beaten by a slower one that is known better.
    const bool may_be_late = goal.deadline && other.time_s <= goal.deadline->value() && !meets(other, goal);
    if (!has_result(other) || !other.cost_usd || (other.risk && !meets(other, goal)) || may_be_late) continue;
    const double from_s = std::max(other.time_s, *other.cost_usd * 3600 / *candidate.usd_per_hour);
    if (from_s < rival.from_s) rival = {&other, from_s};
  }
  return rival;
}

/// Why a candidate need not be searched; empty: it has to be.
std::string why_left_out(const GoalPlan& plan, const Rival& rival, const TrainingGoal& goal) {
  const double least = plan.least_time.value();
  const auto cost = cost_of(plan.candidate, least);
  if (goal.deadline && least > goal.deadline->value())
    return "at the peak of its GPUs the arithmetic alone takes " + days_text(least);
  if (goal.budget_usd && cost && *cost > *goal.budget_usd)
    return "at the peak of its GPUs the arithmetic alone costs " + usd_text(*cost);
  if (least >= rival.from_s)
    return rival.plan->candidate.machines + " are faster and cheaper than its arithmetic at the peak of its GPUs";
  return {};
}

bool is_alike(const GoalCandidate& a, const GoalCandidate& b) {
  return !a.instance.empty() && a.instance == b.instance && a.training == b.training;
}

/// Of the degrees of a candidate: what is slower and dearer than its rival is of no use.
DegreeOptions options_beside(const Rival& rival, const GoalPlan& plan, const std::vector<GoalPlan>& found,
                             const TrainingGoal& goal, const DegreeOptions& options) {
  constexpr double kMargin = 0.9;  // of what the closed form may be too long, beyond what it was for simulated plans
  double least_ratio = 1;
  for (const GoalPlan& other : found)
    if (other.search) least_ratio = std::min(least_ratio, other.search->least_ratio);
  DegreeOptions its = options;
  for (const GoalPlan& other : found)
    if (other.search && is_alike(other.candidate, plan.candidate))
      its.least_ratio = std::min(its.least_ratio, other.search->least_ratio);
  if (!options.is_exhaustive) its.longest_s = rival.from_s / steps_of(plan.candidate, goal) / (kMargin * least_ratio);
  return its;
}

/// Of a candidate none of whose plans is of use; empty: one may be.
std::string why_too_slow(const GoalPlan& plan, const Rival& rival, const TrainingGoal& goal) {
  if (!plan.search->is_cut) return {};
  const SearchedPlan* best = plan.search->best();
  const double step_s = best != nullptr ? best->step_s : plan.search->plans.front().estimate_s;
  const double time_s = step_s * steps_of(plan.candidate, goal);
  if (best != nullptr && time_s < rival.from_s) return {};
  return "about " + days_text(time_s) + " and " + usd_text(*cost_of(plan.candidate, time_s)) +
         (best != nullptr ? " by the fastest of the plans simulated; " : " by the closed form; ") +
         rival.plan->candidate.machines + " are faster and cheaper";
}

/// Runs the whole training of the best plan, machines being taken away.
void run_with_revocations(GoalPlan& plan, const TrainingGoal& goal, const Catalog& catalog, const GoalOptions& options,
                          const SearchMeans& means) {
  const SimulationMeans of_runs{.pool = means.pool, .on_done = {}, .limits = means.limits};
  plan.risk = evaluate_by_monte_carlo(catalog, plan.candidate.file_name, of_runs, options.runs)(
                  {share(plan_scenario(plan, plan.best()->degrees, true))}, {goal.deadline.value_or(kGivesUpAfter)})
                  .front();
  if (!plan.risk->error.empty()) return;
  plan.time_s = plan.risk->time_s.p50;
  plan.cost_usd = plan.risk->cost_usd.p50;
  plan.energy_kwh.reset();
  if (const auto& energy = plan.risk->energy_j; energy && std::isfinite(*energy))
    plan.energy_kwh = plan.electricity.kwh(*energy);
}

/// Runs the whole training where machines may be taken away; otherwise what the simulated step says.
void finish(GoalPlan& plan, const TrainingGoal& goal, const Catalog& catalog, const GoalOptions& options,
            const SearchMeans& means) {
  const SearchedPlan& best = *plan.best();
  const Json& summary = *best.summary;
  plan.time_s = summary["training_time_s"].get<double>();
  if (summary["training_cost_usd"].is_number()) plan.cost_usd = summary["training_cost_usd"].get<double>();
  const Scenario scenario = read_scenario(plan_scenario(plan, best.degrees, true), plan.candidate.file_name, catalog);
  plan.uncertainty = scenario.profile.uncertainty;
  if (goal.deadline && options.uncertainty_by_parameters)
    plan.by_parameters = options.uncertainty_by_parameters(
        read_scenario(plan_scenario(plan, best.degrees, false), plan.candidate.file_name, catalog));
  if (summary["training_energy_kwh"].is_number()) plan.energy_kwh = summary["training_energy_kwh"].get<double>();
  plan.electricity = scenario.electricity;
  if (scenario.has_revocations()) run_with_revocations(plan, goal, catalog, options, means);
}

/// The smaller the better.
std::pair<double, double> rank(const GoalPlan& plan, const TrainingGoal& goal) {
  const double cost = plan.cost_usd.value_or(kBeyondAll);
  return goal.budget_usd && !goal.deadline ? std::pair{plan.time_s, cost} : std::pair{cost, plan.time_s};
}

void choose(GoalAnswer& answer, const TrainingGoal& goal) {
  for (std::size_t i = 0; i < answer.plans.size(); ++i) {
    GoalPlan& plan = answer.plans[i];
    if (!has_result(plan)) continue;
    plan.is_on_frontier = std::ranges::none_of(answer.plans, [&](const GoalPlan& other) {
      const double own_cost = plan.cost_usd.value_or(kBeyondAll), its_cost = other.cost_usd.value_or(kBeyondAll);
      return &other != &plan && has_result(other) && other.time_s <= plan.time_s && its_cost <= own_cost &&
             std::pair{other.time_s, its_cost} != std::pair{plan.time_s, own_cost};
    });
    if (meets(plan, goal) && (!answer.answer || rank(plan, goal) < rank(answer.plans[*answer.answer], goal)))
      answer.answer = i;
  }
}

/// Other intervals of the answer's checkpoints than Young and Daly's, which is best for revocations that come at any time alike and cost no
/// more than the work since the last one.
void try_intervals(GoalPlan& plan, const TrainingGoal& goal, const Catalog& catalog, const GoalOptions& options,
                   const SearchMeans& means) {
  const Json json = plan_scenario(plan, plan.best()->degrees, true);
  const Json* rule = json_pointer_find(json, "/training/checkpoint/interval");
  if (!plan.risk || rule == nullptr) return;
  const auto interval = checkpoint_interval(read_scenario(json, plan.candidate.file_name, catalog));
  if (!interval) return;
  for (const double factor : {0.5, 2.0}) {
    GoalPlan other = plan;
    other.checkpoint_every = *interval * factor;
    run_with_revocations(other, goal, catalog, options, means);
    if (meets(other, goal) && rank(other, goal) < rank(plan, goal)) plan = std::move(other);
  }
}

const char* word_of(PlanOutcome outcome) {
  constexpr const char* kWords[] = {"not simulated", "too large", "without result", "simulated"};
  return kWords[static_cast<std::size_t>(outcome)];
}

Json json_of(const Degrees& degrees) {
  return {{"tensor", degrees.tensor},
          {"sequence_parallel", degrees.has_sequence_parts},
          {"context", degrees.context},
          {"experts", degrees.experts},
          {"stages", degrees.stages},
          {"chunks", degrees.chunks},
          {"schedule", degrees.schedule},
          {"merged_passes", degrees.merges_passes},
          {"microbatch", degrees.microbatch},
          {"recompute", degrees.recompute},
          {"sharding", degrees.sharding},
          {"algorithm", degrees.algorithm},
          {"stages_first", degrees.has_stages_first},
          {"accumulated", degrees.accumulated}};
}

Json json_of(const GoalPlan& plan, const TrainingGoal& goal) {
  Json json{{"machines", plan.candidate.machines},
            {"gpus", plan.candidate.gpus},
            {"usd_per_hour", plan.candidate.usd_per_hour ? Json(*plan.candidate.usd_per_hour) : Json{}},
            {"least_time_s", plan.least_time.value()},
            {"is_on_frontier", plan.is_on_frontier}};
  if (!plan.search) {
    json["left_out"] = plan.left_out;
    return json;
  }
  const DegreeSearch& search = *plan.search;
  json["plans"] = search.plans.size();
  json["simulated"] = search.simulated;
  json["too_large"] = search.too_large;
  json["without_result"] = search.without_result;
  json["not_simulated"] = search.not_tried;
  json["is_complete"] = search.is_complete;
  json["least_ratio"] = search.least_ratio;
  json["degrees"] = plan.best() ? json_of(plan.best()->degrees) : Json{};
  if (!plan.best()) return json;
  json["plan"] = plan_text(plan.candidate, plan.best()->degrees);
  json["step_s"] = plan.best()->step_s;
  json["time_s"] = plan.time_s;
  json["cost_usd"] = plan.cost_usd ? Json(*plan.cost_usd) : Json{};
  json["energy_kwh"] = plan.energy_kwh ? Json(*plan.energy_kwh) : Json{};
  const auto co2 = plan.energy_kwh ? plan.electricity.co2_kg(*plan.energy_kwh) : std::nullopt;
  json["co2_kg"] = co2 ? Json(*co2) : Json{};
  if (goal.deadline && has_result(plan)) json["probability"] = plan.probability_by(*goal.deadline);
  const Json& summary = *plan.best()->summary;
  for (const char* key :
       {"samples_per_s", "gpu_utilization", "gpu_memory_needed_B", "gpu_memory_available_B", "bottleneck"})
    if (summary.contains(key)) json[key] = summary[key];
  constexpr std::size_t kMostNext = 5;
  Json& next = json["next"] = Json::array();
  for (std::size_t i = 1; i < std::min(search.simulated, kMostNext + 1); ++i) {
    const SearchedPlan& other = search.plans[i];
    next.push_back({{"plan", plan_text(plan.candidate, other.degrees)},
                    {"step_s", other.step_s},
                    {"why", why_slower(summary, *other.summary)}});
  }
  json["checkpoint_every_s"] = plan.checkpoint_every ? Json(plan.checkpoint_every->value()) : Json{};
  if (plan.risk)
    json["risk"] = {
        {"probability", plan.risk->probability},
        {"runs", plan.risk->runs},
        {"time_s", {{"p5", plan.risk->time_s.p5}, {"p50", plan.risk->time_s.p50}, {"p95", plan.risk->time_s.p95}}},
        {"cost_usd",
         {{"p5", plan.risk->cost_usd.p5}, {"p50", plan.risk->cost_usd.p50}, {"p95", plan.risk->cost_usd.p95}}},
        {"error", plan.risk->error.empty() ? Json{} : Json(plan.risk->error)}};
  return json;
}

}  // namespace

GoalAnswer search_goal(const std::vector<GoalCandidate>& candidates, const TrainingGoal& goal, const Catalog& catalog,
                       const GoalOptions& options, const SearchMeans& means) {
  GoalAnswer answer;
  std::string first_error;
  for (const GoalCandidate& candidate : candidates) {
    GoalPlan plan{.candidate = candidate, .search = {}, .left_out = {}, .risk = {}};
    try {
      plan.least_time = least_time(candidate, goal, catalog);
    } catch (const InputError& error) {
      if (candidates.size() == 1) throw;
      plan.left_out = error.what();
      if (first_error.empty()) first_error = error.what();
    }
    answer.plans.push_back(std::move(plan));
  }
  if (std::ranges::all_of(answer.plans, [](const GoalPlan& plan) { return !plan.left_out.empty(); }))
    throw InputError{first_error};
  std::ranges::stable_sort(answer.plans, {}, [&](const GoalPlan& plan) {
    const double least = plan.least_time.value();
    return std::pair{cost_of(plan.candidate, least).value_or(kBeyondAll), least};
  });
  std::size_t number = 0;
  for (GoalPlan& plan : answer.plans) {
    ++number;
    if (!plan.left_out.empty()) continue;
    if (!answer.is_complete) {
      plan.left_out = "the search was ended before";
      continue;
    }
    const Rival rival = options.degrees.is_exhaustive ? Rival{} : rival_of(plan.candidate, answer.plans, goal);
    plan.left_out = why_left_out(plan, rival, goal);
    if (!plan.left_out.empty()) continue;
    if (options.on_machines) options.on_machines(plan.candidate.machines, number, answer.plans.size());
    try {
      plan.search = search_degrees(*plan.candidate.scenario, plan.candidate.file_name, plan.candidate.global_batch,
                                   catalog, options_beside(rival, plan, answer.plans, goal, options.degrees), means);
      answer.is_complete = plan.search->has_time;
      plan.left_out = why_too_slow(plan, rival, goal);
      if (!plan.left_out.empty()) plan.search.reset();
      if (plan.best() != nullptr) finish(plan, goal, catalog, options, means);
    } catch (const InputError& error) {
      if (candidates.size() == 1) throw;
      plan.left_out = error.what();
    } catch (const ProvisionStopped&) { answer.is_complete = false; }
  }
  choose(answer, goal);
  try {
    if (answer.answer && answer.is_complete) try_intervals(answer.plans[*answer.answer], goal, catalog, options, means);
  } catch (const ProvisionStopped&) { answer.is_complete = false; }
  return answer;
}

double GoalPlan::probability_by(Seconds deadline) const {
  if (best() == nullptr || (risk && !risk->error.empty())) return 0;
  const std::vector<double> one{time_s};
  const std::vector<double>& times = risk ? risk->times_s : one;
  double sum = 0;
  for (const double time : times) sum += uncertainty.probability_of(time / deadline.value(), by_parameters);
  return sum / static_cast<double>(times.size());
}

Seconds GoalPlan::time_with(double probability) const {
  constexpr double kMost = 1e4;  // times the predicted one
  if (!std::isfinite(time_s)) return Seconds{kBeyondAll};
  double too_short = 0, enough = kMost * time_s;
  if (probability_by(Seconds{enough}) < probability) return Seconds{kBeyondAll};
  for (int i = 0; i < 64; ++i) {
    const double middle = (too_short + enough) / 2;
    (probability_by(Seconds{middle}) < probability ? too_short : enough) = middle;
  }
  return Seconds{enough};
}

std::string miss_in_words(const GoalAnswer& answer, const TrainingGoal& goal) {
  const GoalPlan *fastest = nullptr, *cheapest = nullptr;
  for (const GoalPlan& plan : answer.plans) {
    if (!has_result(plan)) continue;
    if (fastest == nullptr || plan.time_s < fastest->time_s) fastest = &plan;
    if (plan.cost_usd && (cheapest == nullptr || *plan.cost_usd < *cheapest->cost_usd)) cheapest = &plan;
  }
  if (fastest == nullptr) {
    for (const GoalPlan& plan : answer.plans)
      if (plan.search)
        for (const SearchedPlan& each : plan.search->plans)
          if (!each.error.empty() && each.outcome != PlanOutcome::kNotTried)
            return "no plan has a result; the first, " + plan_text(plan.candidate, each.degrees) + " on " +
                   plan.candidate.machines + ": " + each.error;
    for (const GoalPlan& plan : answer.plans) {
      if (plan.left_out.empty()) continue;
      std::string text =
          "no machines are in question; the cheapest at their peak, " + plan.candidate.machines + ": " + plan.left_out;
      if (const double least = plan.least_time.value(); goal.deadline && least > goal.deadline->value())
        text += ": more than " +
                std::to_string(std::llround(std::ceil(plan.candidate.gpus * least / goal.deadline->value()))) +
                " such GPUs would be needed, or more time";
      return text;
    }
    return "no plan has a result";
  }
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (goal.deadline) {
    const double deadline = goal.deadline->value();
    const double surely = fastest->time_with(goal.confidence).value();
    const double probability = fastest->probability_by(*goal.deadline);
    const std::string more_gpus =
        fastest->risk
            ? ""
            : ", or about " + std::to_string(std::llround(std::ceil(fastest->candidate.gpus * surely / deadline))) +
                  " such GPUs, if as many more were as much faster";
    if (probability < goal.confidence)
      add("nothing is done within " + to_text(*goal.deadline) + " with a probability of " + to_text(goal.confidence) +
          ": the fastest, " + fastest->candidate.machines + ", takes " + days_text(fastest->time_s) +
          ", in time with a probability of " + to_text(std::floor(probability * 1000) / 1000) +
          (std::isfinite(surely)
               ? "; --deadline " + days_text(std::ceil(surely)) + " would do" + more_gpus +
                     (probability >= 0.01 ? ", or --confidence " + to_text(std::floor(probability * 100) / 100) : "")
               : ""));
  }
  if (goal.budget_usd && cheapest != nullptr) {
    if (*cheapest->cost_usd > *goal.budget_usd)
      add("nothing costs at most " + usd_text(*goal.budget_usd) + ": the cheapest, " + cheapest->candidate.machines +
          ", costs " + usd_text(*cheapest->cost_usd) + ", " + usd_text(*cheapest->cost_usd - *goal.budget_usd) +
          " more; --budget " + usd_text(std::ceil(*cheapest->cost_usd)) + " would do");
    else if (text.empty())
      add("nothing is both in time and within the budget: the fastest, " + fastest->candidate.machines + ", takes " +
          days_text(fastest->time_s) + (fastest->cost_usd ? " for " + usd_text(*fastest->cost_usd) : "") +
          ", the cheapest, " + cheapest->candidate.machines + ", " + days_text(cheapest->time_s) + " for " +
          usd_text(*cheapest->cost_usd));
  } else if (goal.budget_usd) {
    add("no price of these machines is known, so that no budget can be kept: without --budget they are compared by "
        "time");
  }
  return text.empty() ? "no plan meets the goal" : text;
}

Json to_json(const GoalAnswer& answer, const TrainingGoal& goal) {
  Json candidates = Json::array();
  for (const GoalPlan& plan : answer.plans) candidates.push_back(json_of(plan, goal));
  return {{"format", 1},
          {"samples", goal.samples},
          {"deadline_s", goal.deadline ? Json(goal.deadline->value()) : Json{}},
          {"budget_usd", goal.budget_usd ? Json(*goal.budget_usd) : Json{}},
          {"confidence", goal.confidence},
          {"is_complete", answer.is_complete},
          {"answer", answer.answer ? json_of(answer.plans[*answer.answer], goal) : Json{}},
          {"candidates", std::move(candidates)}};
}

std::string plans_csv(const GoalAnswer& answer) {
  std::vector<std::string> columns{"machines", "gpus"};
  const Json of_any_plan = json_of(Degrees{});
  for (const auto& [key, unused] : of_any_plan.items()) columns.push_back(key);
  for (const char* key : {"estimated_step_s", "outcome", "step_s", "training_time_s", "training_cost_usd",
                          "training_energy_kwh", "gpu_memory_needed_B", "why"})
    columns.emplace_back(key);
  CsvWriter csv{columns};
  for (const GoalPlan& plan : answer.plans) {
    if (!plan.search) continue;
    for (const SearchedPlan& each : plan.search->plans) {
      std::vector<CsvField> fields{plan.candidate.machines, plan.candidate.gpus};
      const Json degrees = json_of(each.degrees);
      for (const auto& [key, value] : degrees.items())
        fields.emplace_back(value.is_string() ? value.get<std::string>() : value.dump());
      const Json summary = each.summary ? *each.summary : Json::object();
      const auto number = [&](const char* key) {
        return summary.contains(key) && summary[key].is_number() ? CsvField{summary[key].get<double>()}
                                                                 : CsvField{std::string{}};
      };
      fields.emplace_back(each.estimate_s);
      fields.emplace_back(std::string{word_of(each.outcome)});
      for (const char* key :
           {"iteration_time_s", "training_time_s", "training_cost_usd", "training_energy_kwh", "gpu_memory_needed_B"})
        fields.push_back(number(key));
      fields.emplace_back(each.error);
      csv.row(fields);
    }
  }
  return csv.text();
}

}  // namespace rehearse
