#include "platforms/collective_algorithm.hpp"

#include <algorithm>
#include <stdexcept>

namespace rehearse {

namespace {

using Words = std::vector<std::pair<std::string, CollectiveAlgorithm>>;

/// In the order of the enumerators. Others come after them: an algorithm that the code never asks for by name needs none.
Words& words() {
  static Words all = [] {
    Words numbered;
    for (const char* word : {"ring", "tree", "double_binary_tree", "hierarchical", "star", "clique", "binary_tree_star",
                             "nvls", "chain_tree", "fastest"})
      numbered.emplace_back(word, static_cast<CollectiveAlgorithm>(numbered.size()));
    return numbered;
  }();
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
