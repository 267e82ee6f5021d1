#pragma once
// The strategies of Rehearse: each in a file of its own, listed in strategies.cpp.

#include <algorithm>
#include <functional>

#include "sim/scenario/refusals.hpp"
#include "sim/scenario/strategy.hpp"

namespace rehearse {

StrategyEntry parameter_servers();
StrategyEntry all_reduce();
StrategyEntry pairwise_averaging();

/// Of the scenario in question, whose strategy has collectives.
const CollectiveRules& collective_rules_of(const Refusal::Subject& subject);

// Places that several parts of all-reduces refuse

/// An algorithm that is one of whole machines.
RefusedPlace algorithm_of_machines(const Refusal::Subject& subject);
/// A group of workers with another batch than the first.
RefusedPlace batch_of_others(const Refusal::Subject& subject);
RefusedPlace forward_overlap(const Refusal::Subject& subject);

/// "global_batch" of the strategy, samples of a step of all workers, of which so many hold the model together: how many batches
/// each of them has in a step. Throws InputError at the key if that is not whole, with the nearest ones of which `is_valid`.
int passes_of_global_batch(
    const JsonReader& json, const Scenario& scenario, int workers_per_model,
    const std::function<bool(int passes)>& is_valid = [](int) { return true; });

/// The one of `from` to `to` nearest to `asked` by ratio, the first of such, of which the condition is true; `to` if it is of none.
template <class Condition>
int nearest_by_ratio(int asked, int from, int to, const Condition& is_valid) {
  const auto apart = [asked](int value) {
    return std::max(value, asked) / static_cast<double>(std::min(value, asked));
  };
  int best = 0;
  for (int value = from; value <= to; ++value)
    if (is_valid(value) && (best == 0 || apart(value) < apart(best))) best = value;
  return best == 0 ? to : best;
}

// For strategies whose all-reduces may be by any algorithm

/// "algorithm", and what it does not go with.
StrategyKeys algorithm_keys();
/// The default is a ring.
CollectiveAlgorithm read_algorithm(const JsonReader& json, const Scenario& scenario, Json& effective);

}  // namespace rehearse
