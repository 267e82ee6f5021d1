#pragma once
// A part of all-reduces: what each worker keeps only its part of. The collectives: unit_exchange.hpp.

#include <vector>

#include "sim/base/named.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

StrategyKeys sharding_keys();
void read_sharding(const JsonReader& json, CollectiveRules& rules);
/// How many of `likes` data-parallel workers share what is sharded, in whole groups of those that share samples; 0: all of them.
int read_shard_group(const JsonReader& json, int likes, int of_samples);

/// "sharded gradients".
std::string title_of(Sharding sharding);
/// ", shared by groups of 8"; empty if all share.
std::string shard_group_text(const CollectiveRules& rules);
DividedStates divided_by(const CollectiveRules& rules);
/// Whether some that share states stand on one machine.
bool shares_machines(const Scenario& scenario);
/// Words of the levels by which a GPU would keep less, the least first, if the scenario may have them.
std::vector<Named<Sharding>> more_sharding(const Scenario& scenario, const CollectiveRules& rules);

}  // namespace rehearse
