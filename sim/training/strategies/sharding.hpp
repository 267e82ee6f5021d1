#pragma once
// A part of all-reduces: what each worker keeps only its part of. The collectives: unit_exchange.hpp.

#include <vector>

#include "sim/base/named.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

StrategyKeys sharding_keys();
void read_sharding(const JsonReader& json, CollectiveRules& rules);

/// "sharded gradients".
std::string title_of(Sharding sharding);
DividedStates divided_by(Sharding sharding);
/// Words of the levels by which a GPU would keep less, the least first, if the scenario may have them.
std::vector<Named<Sharding>> more_sharding(const Scenario& scenario, const CollectiveRules& rules);

}  // namespace rehearse
