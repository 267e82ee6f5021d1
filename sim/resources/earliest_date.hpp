#pragma once
// The earliest of many dates that change one at a time.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace rehearse {

/// A tree above the dates in which each node is the earlier one of the two below: a change takes O(log n). Raw doubles,
/// for max_min_flows.hpp; infinity for no date.
class EarliestDate {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// [count] dates, all `date`.
  explicit EarliestDate(std::size_t count = 0, double date = kNever)
      : leaves_{std::max<std::size_t>(1, std::bit_ceil(count))}, nodes_(2 * leaves_, kNever) {
    for (std::size_t i = 0; i < count; ++i) set(i, date);
  }

  /// There are so many dates; new ones are kNever.
  void extend_to(std::size_t count) {
    if (count <= leaves_) return;
    EarliestDate larger{count};
    for (std::size_t i = 0; i < leaves_; ++i) larger.set(i, nodes_[leaves_ + i]);
    *this = std::move(larger);
  }

  double date() const { return nodes_[1]; }
  /// Index of the earliest date: of equal ones, the first.
  std::size_t index() const {
    std::size_t node = 1;
    while (node < leaves_) node = 2 * node + (nodes_[2 * node] > nodes_[2 * node + 1] ? 1 : 0);
    return node - leaves_;
  }
  void set(std::size_t index, double date) {
    std::size_t node = leaves_ + index;
    nodes_[node] = date;
    for (; node > 1; node /= 2) {
      const double earlier = std::min(nodes_[node], nodes_[node ^ 1U]);
      if (nodes_[node / 2] == earlier) return;
      nodes_[node / 2] = earlier;
    }
  }

 private:
  std::size_t leaves_;         // a power of two
  std::vector<double> nodes_;  // [2 leaves_] the root is 1, below i are 2 i and 2 i + 1
};

}  // namespace rehearse
