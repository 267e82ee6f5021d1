#pragma once
// "Train this model on so much, on machines of the catalog, by then or for so much": machines that may be rented, the best way to train
// on each (degree_search.hpp), and which of them meets the goal for the least.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/plan/degree_search.hpp"
#include "sim/plan/goal_machines.hpp"
#include "sim/plan/plan_risk.hpp"

namespace rehearse {

struct TrainingGoal {
  double samples = 0;  // of the whole training
  std::optional<Seconds> deadline;
  std::optional<double> budget_usd;
  double confidence = 0.95;  // of being in time
};

/// Machines, and the training on them as a scenario (JSON) without degrees.
struct GoalCandidate {
  std::string machines;       // in words
  std::string training = {};  // what of it is not as with others, in words; may be empty
  std::string instance = {};  // of the machines; what the closed form is off by is known of other numbers of it
  SharedJson scenario;
  std::string file_name;
  std::int64_t global_batch = 0;
  int gpus = 0;
  std::string spot_pool = {};  // of spot machines, by whose revocations the best plan is judged; empty: the scenario's
  std::optional<double> usd_per_hour;  // of all machines
};

/// What came of a candidate.
struct GoalPlan {
  GoalCandidate candidate;
  std::optional<DegreeSearch> search;  // none: it was left out
  std::string left_out;                // why
  Seconds least_time{};                // of the arithmetic alone, at the peak of all GPUs
  double time_s = 0;  // of the whole training by its best plan; the median where machines may be taken away
  std::optional<double> cost_usd;
  Electricity electricity;
  std::optional<double> energy_kwh;     // with what the site adds; none: not known
  std::optional<PlanRisk> risk;         // where machines may be taken away
  PredictionUncertainty uncertainty{};  // of the best plan's speed,
  double by_parameters = 0;             // .. by the profile's values
  bool is_on_frontier = false;          // no other is faster and cheaper
  std::optional<Seconds>
      checkpoint_every{};  // of the best plan, where another interval than Young and Daly's does better

  /// That the best plan is done by then: by what happens to machines, and by how far the predicted speed may be off.
  double probability_by(Seconds deadline) const;
  /// By when it is done with that probability.
  Seconds time_with(double probability) const;
  const SearchedPlan* best() const { return search ? search->best() : nullptr; }
};

struct GoalAnswer {
  std::vector<GoalPlan> plans;        // in the order in which they were looked at: by the least cost that they can have
  std::optional<std::size_t> answer;  // none: the goal is missed
  bool is_complete = true;            // false: the limits have ended the search
};

struct GoalOptions {
  DegreeOptions degrees;
  std::size_t runs = 200;  // of each best plan whose machines may be taken away
  /// Standard deviation of the logarithm of a scenario's speed by the profile's values: asked where there is a deadline.
  std::function<double(const Scenario&)> uncertainty_by_parameters = {};
  std::function<void(const std::string& machines, std::size_t number, std::size_t candidates)> on_machines =
      {};  // a search begins
};

/// Searches each candidate, those first that may be the cheapest. A candidate is left out if its arithmetic alone, at the peak of its
/// GPUs, takes longer than the deadline or costs more than the budget, or if one that has been searched is faster and cheaper than that;
/// or than nine tenths of its best plan by the closed form, which is corrected by the least ratio of simulated times to it so far.
/// The answer is the cheapest that is in time with the goal's probability; with a budget and no deadline the fastest within it; of
/// machines without a price the fastest. Where it writes checkpoints by Young and Daly's rule, half and twice their interval are run, too, and
/// the one that does best is taken.
/// Once the limits of `means` are over what was found so far is returned. Throws InputError if no candidate can be read.
GoalAnswer search_goal(const std::vector<GoalCandidate>& candidates, const TrainingGoal& goal, const Catalog& catalog,
                       const GoalOptions& options, const SearchMeans& means);

/// What the candidate trains so, in words.
std::string plan_text(const GoalCandidate& candidate, const Degrees& degrees);

/// The scenario (JSON) of one way to train on the plan's machines, as `simulate` reads it: a few steps, and the whole training as their target;
/// or all of it, where machines may be taken away.
Json plan_scenario(const GoalPlan& plan, const Degrees& degrees, bool has_revocations);

/// By how much the best misses the goal, and what would meet it: one line.
std::string miss_in_words(const GoalAnswer& answer, const TrainingGoal& goal);

/// summary.json, version 1, and plans.csv: a row for each plan of each candidate that was looked at.
Json to_json(const GoalAnswer& answer, const TrainingGoal& goal);
std::string plans_csv(const GoalAnswer& answer);

}  // namespace rehearse
