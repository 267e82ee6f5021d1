#include "sim/engine/placement.hpp"

#include <algorithm>

namespace rehearse {

std::vector<int> place_variables(const std::vector<Variable>& variables, int servers, Placement placement) {
  std::vector<int> server_of(variables.size());
  std::vector<Bytes> load(static_cast<std::size_t>(servers));
  for (std::size_t i = 0; i < variables.size(); ++i) {
    switch (placement) {
      case Placement::kRoundRobin:
        server_of[i] = static_cast<int>(i % static_cast<std::size_t>(servers));
        break;
      case Placement::kGreedyByBytes:
        server_of[i] = static_cast<int>(std::min_element(load.begin(), load.end()) - load.begin());
        break;
    }
    load[static_cast<std::size_t>(server_of[i])] += variables[i].bytes;
  }
  return server_of;
}

}  // namespace rehearse
