#pragma once
// What a stage of a pipeline keeps, counted in micro-batches.

#include <cstddef>
#include <vector>

#include "sim/scenario/kept_memory.hpp"

namespace rehearse::test {

/// [chunks] micro-batches that a stage keeps when it keeps the most, of `bytes` [chunks] each.
inline std::vector<int> kept_at_peak(const std::vector<PipelineSlot>& slots, const std::vector<Bytes>& bytes) {
  KeptChanges changes{std::vector<KeptBytes>(2 * bytes.size()), std::vector<KeptBytes>(2 * bytes.size())};
  PassOperators operators;
  for (std::size_t chunk = 0; chunk < bytes.size(); ++chunk) {  // two operators, forward and backward
    changes.taken[2 * chunk].activations = changes.given_back[2 * chunk + 1].activations = bytes[chunk];
    operators.push_back({std::vector{static_cast<int>(2 * chunk)}, std::vector{static_cast<int>(2 * chunk) + 1}});
  }
  const FullestMoment fullest = fullest_moment(changes, slots, operators);
  std::vector<int> kept(bytes.size());
  for (std::size_t s = 0; s <= fullest.slot; ++s)
    kept[static_cast<std::size_t>(slots[s].chunk)] += slots[s].phase == PassPhase::kForward ? 1 : -1;
  return kept;
}

}  // namespace rehearse::test
