#pragma once
// The all-reduce algorithms that there are; sim/collective/collective.hpp says what each of them does.

#include <string>
#include <utility>
#include <vector>

namespace rehearse {

enum class CollectiveAlgorithm {
  kRing,
  kTree,
  kDoubleBinaryTree,
  kHierarchical,
  kStar,
  kClique,
  kBinaryTreeStar,
  kNvls,
  kChainTree,
  kFastest
};

/// The words that files have for them.
const std::vector<std::pair<std::string, CollectiveAlgorithm>>& collective_algorithms();

/// Adds an algorithm by its word; register_all_reduce() says what it does. Throws std::invalid_argument if it is taken.
CollectiveAlgorithm add_collective_algorithm(const std::string& word);

}  // namespace rehearse
