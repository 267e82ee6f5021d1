#pragma once
// What can never begin, as it waits for itself.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "workloads/traces/recorded_run.hpp"

namespace rehearse {

/// Operations that wait for each other in a circle, each for the next and the last for the first; 8 of them at most.
/// `waits`: [operations] for how many others each still waits when all have gone on that could; one of them must.
inline std::vector<std::int32_t> circle_of(std::span<const Dependency> dependencies, const std::vector<int>& waits) {
  constexpr std::size_t kMostListed = 8;
  const auto is_left = [&](std::int32_t i) { return waits[static_cast<std::size_t>(i)] > 0; };
  // Among those that are left each waits for another one of them: going back from any ends in a circle.
  std::map<std::int32_t, std::int32_t> before;
  for (const Dependency& dependency : dependencies)
    if (is_left(dependency.later) && is_left(dependency.earlier)) before.emplace(dependency.later, dependency.earlier);
  std::vector<std::int32_t> way;
  std::map<std::int32_t, std::size_t> seen;
  std::int32_t here = before.begin()->first;
  while (seen.emplace(here, way.size()).second) {
    way.push_back(here);
    here = before.at(here);
  }
  way.erase(way.begin(), way.begin() + static_cast<std::ptrdiff_t>(seen.at(here)));
  if (way.size() > kMostListed) way.resize(kMostListed);
  return way;
}

}  // namespace rehearse
