#include "tests/fuzz/targets/targets.hpp"

namespace rehearse::fuzz {

std::vector<Target> all_targets() {
  std::vector<Target> all;
  for (const auto targets :
       {targets_of_text, targets_of_platforms, targets_of_workloads, targets_of_scenarios, targets_of_queue,
        targets_of_measurements, targets_of_predictor, targets_of_traffic, targets_of_corrected, targets_of_view})
    all.insert(all.end(), targets().begin(), targets().end());
  return all;
}

}  // namespace rehearse::fuzz
