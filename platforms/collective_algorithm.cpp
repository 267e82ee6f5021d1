#include "platforms/collective_algorithm.hpp"

#include <algorithm>
#include <stdexcept>

namespace rehearse {

namespace {

using Words = std::vector<std::pair<std::string, CollectiveAlgorithm>>;

Words& words() {
  static Words all{{"ring", CollectiveAlgorithm::kRing},
                   {"tree", CollectiveAlgorithm::kTree},
                   {"double_binary_tree", CollectiveAlgorithm::kDoubleBinaryTree},
                   {"hierarchical", CollectiveAlgorithm::kHierarchical},
                   {"star", CollectiveAlgorithm::kStar},
                   {"clique", CollectiveAlgorithm::kClique},
                   {"binary_tree_star", CollectiveAlgorithm::kBinaryTreeStar},
                   {"nvls", CollectiveAlgorithm::kNvls},
                   {"chain_tree", CollectiveAlgorithm::kChainTree},
                   {"fastest", CollectiveAlgorithm::kFastest}};
  return all;
}

}  // namespace

const Words& collective_algorithms() { return words(); }

CollectiveAlgorithm add_collective_algorithm(const std::string& word) {
  Words& all = words();
  if (std::any_of(all.begin(), all.end(), [&](const auto& known) { return known.first == word; }))
    throw std::invalid_argument{"there is an all-reduce algorithm \"" + word + "\" already"};
  all.emplace_back(word, static_cast<CollectiveAlgorithm>(all.size()));
  return all.back().second;
}

}  // namespace rehearse
