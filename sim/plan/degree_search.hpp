#pragma once
// The fastest of thousands of plans (degrees.hpp) by which given machines may train a model, without simulating all of them.

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/json.hpp"
#include "sim/plan/degrees.hpp"
#include "sim/pool/experiment.hpp"
#include "sim/pool/result_store.hpp"

namespace rehearse {

/// What decides how long a step takes by the closed form, besides the time of a pass, which the engine gives.
struct EstimateInputs {
  int gpus = 0, island = 0;       // of the cluster, and those that NVLink joins
  std::int64_t global_batch = 0;  // samples of a step
  double layers = 0,
         ends = 0;  // of the model, or what it sends in one piece each; what its two ends take by what a layer takes
  double parameters = 0, expert_parameters = 0;    // of the whole model, without experts, and theirs
  double weight_bytes = 0, sent_bytes = 0;         // of a parameter: as stored, and of its gradient as sent
  double gradient_bytes = 0, optimizer_bytes = 0;  // as held
  double update_s = 0;                             // of a parameter
  std::map<std::string, double> near_s_per_byte,
      far_s_per_byte;  // of an all-reduce by this algorithm, on one machine and on all of them
};

/// Time of a step, in closed form, of a plan of which one worker that has the whole model takes `pass` for a micro-batch, forward and
/// backward, with what is exchanged in it (simulated: see search_degrees()). With p stages, v chunks, m micro-batches, t and D workers
/// that hold each layer together, and that have the same variables:
///   stage = pass ceil(2 (layers + ends) / (p v)) v / (2 (layers + ends)), as stages are cut before attention and feed-forward parts
///   T = (m + b (p - 1) / v) stage + exposed exchange of gradients and variables + update
///   b = 1; 1/3 where the backward pass is split
/// The exchange takes A(n), an all-reduce of n bytes among D, or half of it where parts are gathered or scattered. Of gradients it
/// is hidden behind two thirds of the last micro-batch's pass but for a layer's; with sharded gradients, or parameters, all of it is
/// in every micro-batch, and hidden behind its pass as far as that lasts, of parameters in the last one, too.
/// This is no bound: it knows no contention, no latency, and no order of messages. What it is used for allows for that.
double estimate_step(const EstimateInputs& model, const Degrees& degrees, double pass);

/// Bytes of states that each GPU has on average, which the fullest one has at least: no plan needs less (gpu_memory.hpp).
double least_state_bytes(const EstimateInputs& model, const Degrees& degrees);

enum class PlanOutcome {
  kNotTried,       // its closed form is too slow to be worth a simulation
  kTooLarge,       // for the memory of a GPU
  kWithoutResult,  // it cannot be trained so: what does not go together, or a simulation without result
  kSimulated,
};

struct SearchedPlan {
  Degrees degrees;
  double estimate_s = 0;  // of a step, by the closed form
  PlanOutcome outcome = PlanOutcome::kNotTried;
  double step_s = 0;   // simulated
  SharedJson summary;  // the same: summary.json
  std::string error;   // why there is none
};

struct DegreeSearch {
  int gpus = 0;
  std::int64_t global_batch = 0;
  std::vector<SearchedPlan>
      plans;  // the simulated ones first, the fastest of them first; the others by their closed form
  std::size_t simulated = 0, too_large = 0, without_result = 0, not_tried = 0;
  double least_ratio = 1;    // of simulated time by closed form, of all that were simulated, at most 1
  bool is_complete = false;  // no plan that is left would be faster, if its ratio were that
  bool has_time = true;      // false: its limits have ended it
  /// All plans, or all others, take longer than DegreeOptions::longest_s, even by as little of their closed form as any took: none of
  /// them was simulated.
  bool is_cut = false;

  const SearchedPlan* best() const { return simulated > 0 ? plans.data() : nullptr; }
  /// The plan that would be the fastest by the closed form among those that do not fit into memory; null: all fit.
  const SearchedPlan* best_too_large() const;
};

/// How simulations are run, and where their results are kept by their content, so that none is repeated.
struct SearchMeans {
  Pool pool = 1;
  ResultStore& store;
  std::string program;  // part of the keys of results
  JobLimits limits = {};
  std::function<void(std::size_t simulations)> on_done = {};
};

struct DegreeOptions {
  std::size_t least = 24;      // plans that fit are simulated at least, if there are so many
  std::size_t most = 240;      // and at the most
  bool is_exhaustive = false;  // all are
  double longest_s = std::numeric_limits<double>::infinity();  // of a step that is of use, by the closed form
  double least_ratio = 1;  // DegreeSearch::least_ratio of searches before, of machines like these
};

/// Finds the fastest plan of the scenario's machines and model with steps of `global_batch` samples. The scenario, JSON as a file has
/// it, has one group of workers; its degrees are replaced.
///   1. The engine simulates a pass, of each model that one worker may have (degrees within layers, micro-batch, recomputation), on
///      as few machines as can be, of unlimited memory: the difference of steps of one and of two micro-batches.
///   2. Plans are sorted by estimate_step(). Those whose states alone do not fit are left out. If none is of use, that is all.
///   3. In this order, eight at a time, plans are read as `simulate` reads them, which refuses what does not fit, and simulated, until there
///      are `least`, and all others would be slower than the best even if they took no more than their closed form, or as little of it as
///      any that was simulated; or until there are `most`; or until no other would be of use.
///      Of two plans that differ in the micro-batch alone the larger one needs more memory, and the one of m / k samples a kth of what m
///      samples need at least, as each part of it is proportional to the micro-batch, or does not depend on it.
/// Of a strategy without degrees (has_degrees()) no pass is simulated: a step takes the arithmetic at the peak of all GPUs at the least, and
/// the workers' samples by what they train in a second, as they may not go through steps together. The fewest batches of a step that fit
/// are the plan: to add more of them up changes nothing but memory.
/// So it is exact where the closed form is off by no more than it was for plans that were simulated. The same whatever pool it has.
/// Throws InputError: the scenario is wrong, no plan can be made.
DegreeSearch search_degrees(const Json& scenario, const std::string& file_name, std::int64_t global_batch,
                            const Catalog& catalog, const DegreeOptions& options, const SearchMeans& means);

/// Why `other` takes longer than `best`: the parts of its step that are longer, the largest difference first: "+1.2 s waiting for other
/// stages, +0.3 s exposed communication".
std::string why_slower(const Json& best, const Json& other);

}  // namespace rehearse
