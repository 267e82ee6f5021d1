#pragma once
// A part of all-reduces: states that are kept in the hosts' memory. The copies: unit_exchange.hpp.

#include <string>

#include "sim/scenario/strategy.hpp"

namespace rehearse {

StrategyKeys offload_keys();
/// The object "offload" of the strategy.
Offload read_offload(const JsonReader& json);
/// "60 % of the optimizer on the hosts".
std::string title_of(const Offload& offload);

}  // namespace rehearse
