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
#include "sim/plan/plan_risk.hpp"

namespace rehearse {

/// Which machines may be rented. Lists that are empty allow all.
struct MachineFilter {
  std::vector<std::string> gpus;                    // "A100" is also "A100 80GB" and other boards whose names begin so
  std::vector<std::string> instances;               // these need no price
  std::map<std::string, std::vector<int>> numbers;  // by instance: so many machines, whatever the GPUs below
  std::vector<std::string> providers;               // "aws", "gce", "azure"
  std::vector<bool> are_spot{false};                // markets
  std::optional<int> gpu_count;                     // of a cluster: so many,
  std::optional<int> most_gpus;                     // or powers of two of machines, and as many as there may be
};

/// Whether the GPU is one of those that are asked for, as MachineFilter::gpus means it.
bool is_board(const std::vector<std::string>& asked, const std::string& gpu);

/// So many machines of a type.
struct MachineChoice {
  std::string instance;
  int count = 1;
  bool is_spot = false;
  int gpus = 0;
  std::string gpu;                     // its name
  std::optional<double> usd_per_hour;  // of a machine
  std::string region;                  // where it costs that

  /// "64 x p5.48xlarge (512 H100)", "8 x p3.2xlarge, spot (8 V100)".
  std::string text() const;
};

/// Those of the catalog, in the order of its names. Machines without a price are left out unless they are named. Throws InputError, which
/// names the option: an unknown name, no machine. `unmatched`: is told of each GPU and instance asked for that gave none.
std::vector<MachineChoice> machine_choices(const Catalog& catalog, const MachineFilter& filter,
                                           std::vector<std::string>* unmatched = nullptr);

/// The only group of workers of a scenario (JSON); InputError if there are others, or servers.
Json& only_workers(Json& scenario, const std::string& file_name);

/// The group (JSON of a scenario) is these machines from now on.
void set_machines(Json& group, const MachineChoice& machines);

/// A scenario (JSON) that trains the model of this name, or file, on the machines: Adam and 16 bits where GPUs have matrix units for it,
/// gradients of transformers added up in fp32, the library's all-reduces; machines are in one placement group.
Json scenario_of_model(const std::string& model, const MachineChoice& machines, const Catalog& catalog);

/// Spot machines of a scenario (JSON) are revoked as those of the pool of this name. Where it states none, the job goes back to a
/// checkpoint when it loses a machine, and writes them at the interval of Young and Daly: 5 s and 500 MB/s each, the loss is
/// noticed after 30 s, and a restart takes 60 s besides: assumptions.
void set_revocations(Json& scenario, const std::string& pool);
/// Throws InputError, which names --spot-pool, if the catalog does not have it.
void check_spot_pool(const Catalog& catalog, const std::string& pool);

/// Pools of the catalog that were fitted to revocations of machines with this GPU.
std::vector<std::string> pools_of_gpu(const Catalog& catalog, const std::string& gpu);

struct TrainingGoal {
  double samples = 0;  // of the whole training
  std::optional<Seconds> deadline;
  std::optional<double> budget_usd;
  double confidence = 0.95;  // of being in time
};

/// Machines, and the training on them as a scenario (JSON) without degrees.
struct GoalCandidate {
  std::string machines;  // in words
  std::string scenario;  // JSON text
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
  std::optional<PlanRisk> risk;         // where machines may be taken away
  PredictionUncertainty uncertainty{};  // of the best plan's speed,
  double by_parameters = 0;             // .. by the profile's values
  bool is_on_frontier = false;          // no other is faster and cheaper

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
/// machines without a price the fastest.
/// Once the limits of `means` are over what was found so far is returned. Throws InputError if no candidate can be read.
GoalAnswer search_goal(const std::vector<GoalCandidate>& candidates, const TrainingGoal& goal, const Catalog& catalog,
                       const GoalOptions& options, const SearchMeans& means);

/// The scenario (JSON) of a plan of a candidate, as `simulate` reads it: a few steps, and the whole training as their target; or all of
/// it, where machines may be taken away.
Json plan_scenario(const GoalCandidate& candidate, const Degrees& degrees, bool has_revocations);

/// By how much the best misses the goal, and what would meet it: one line.
std::string miss_in_words(const GoalAnswer& answer, const TrainingGoal& goal);

/// summary.json, version 1, and plans.csv: a row for each plan of each candidate that was looked at.
Json to_json(const GoalAnswer& answer, const TrainingGoal& goal);
std::string plans_csv(const GoalAnswer& answer);

}  // namespace rehearse
