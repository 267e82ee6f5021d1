#pragma once
// The all-reduce algorithms that there are; sim/engine/collective.hpp says what each of them does.

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

/// As files spell them.
inline const std::vector<std::pair<std::string, CollectiveAlgorithm>>& collective_algorithms() {
  static const std::vector<std::pair<std::string, CollectiveAlgorithm>> kNames{
      {"ring", CollectiveAlgorithm::kRing},
      {"tree", CollectiveAlgorithm::kTree},
      {"double_binary_tree", CollectiveAlgorithm::kDoubleBinaryTree},
      {"hierarchical", CollectiveAlgorithm::kHierarchical},
      {"star", CollectiveAlgorithm::kStar},
      {"clique", CollectiveAlgorithm::kClique},
      {"binary_tree_star", CollectiveAlgorithm::kBinaryTreeStar},
      {"nvls", CollectiveAlgorithm::kNvls},
      {"chain_tree", CollectiveAlgorithm::kChainTree},
      {"fastest", CollectiveAlgorithm::kFastest}};
  return kNames;
}

}  // namespace rehearse
