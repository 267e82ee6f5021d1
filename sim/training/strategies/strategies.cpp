#include "sim/training/strategies/strategies.hpp"

namespace rehearse {

std::vector<StrategyEntry> shipped_strategies() { return {parameter_servers(), all_reduce(), pairwise_averaging()}; }

}  // namespace rehearse
