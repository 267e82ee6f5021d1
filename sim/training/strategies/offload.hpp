#pragma once
// A part of all-reduces: what is kept in the hosts' memory. Copies of states: unit_exchange.hpp; of activations:
// sim/scenario/offloaded_layers.hpp.

#include <string>

#include "sim/scenario/strategy.hpp"

namespace rehearse {

StrategyKeys offload_keys();
/// The object "offload" of the strategy.
Offload read_offload(const JsonReader& json);
/// "60 % of the optimizer and the layers' activations on the hosts".
std::string title_of(const Offload& offload);

}  // namespace rehearse
