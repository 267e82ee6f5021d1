#include "sim/scenario/placement.hpp"

#include <algorithm>

namespace rehearse {

std::vector<int> place_on_servers(std::span<const Bytes> sizes, int servers, Placement placement) {
  std::vector<int> server_of(sizes.size());
  std::vector<Bytes> load(static_cast<std::size_t>(servers));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    switch (placement) {
      case Placement::kRoundRobin:
      case Placement::kSharded:
        server_of[i] = static_cast<int>(i % static_cast<std::size_t>(servers));
        break;
      case Placement::kGreedyByBytes:
        server_of[i] = static_cast<int>(std::min_element(load.begin(), load.end()) - load.begin());
        break;
    }
    load[static_cast<std::size_t>(server_of[i])] += sizes[i];
  }
  return server_of;
}

}  // namespace rehearse
