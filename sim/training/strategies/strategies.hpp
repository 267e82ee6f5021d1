#pragma once
// The strategies of Rehearse: each in a file of its own, listed in strategies.cpp.

#include "sim/scenario/refusals.hpp"
#include "sim/scenario/strategy.hpp"

namespace rehearse {

StrategyEntry parameter_servers();
StrategyEntry all_reduce();
StrategyEntry pairwise_averaging();

/// Of the scenario in question, whose strategy has collectives.
const CollectiveRules& collective_rules_of(const Refusal::Subject& subject);

// For strategies whose all-reduces may be by any algorithm

/// "algorithm", and what it does not go with.
StrategyKeys algorithm_keys();
/// The default is a ring.
CollectiveAlgorithm read_algorithm(const JsonReader& json, const Scenario& scenario, Json& effective);

}  // namespace rehearse
