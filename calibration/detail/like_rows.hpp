#pragma once
// What measured rows tell of another one without a model: the nearest of them, and how far they lie above a bound.

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/statistics.hpp"

namespace rehearse {

/// The candidate (an index) at which `distance` is least, the first of equal ones; none without candidates.
template <class Distance>
std::optional<std::size_t> nearest_of(const std::vector<std::size_t>& candidates, Distance distance) {
  std::optional<std::size_t> best;
  double least = std::numeric_limits<double>::infinity();
  for (const std::size_t candidate : candidates)
    if (const double found = distance(candidate); found < least) {
      least = found;
      best = candidate;
    }
  return best;
}

inline double squared_distance(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

/// The median of measured / bound over rows of the same key.
class BoundFactors {
 public:
  void add(const std::string& key, double measured, double bound) { ratios_[key].push_back(measured / bound); }
  /// None for a key without rows.
  std::optional<double> of(const std::string& key) const {
    const auto found = ratios_.find(key);
    return found == ratios_.end() ? std::nullopt : std::optional{median(found->second)};
  }

 private:
  std::map<std::string, std::vector<double>> ratios_;
};

}  // namespace rehearse
