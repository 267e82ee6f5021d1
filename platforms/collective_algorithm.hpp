#pragma once
// The all-reduce algorithms that there are; sim/collective/collective.hpp says what each of them does.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rehearse {

class JsonReader;

enum class CollectiveAlgorithm {
  kRing,
  kBinaryTree,
  kFlatDoubleBinaryTree,
  kHierarchical,
  kStar,
  kClique,
  kBinaryTreeStar,
  kNvls,
  kTree,
  kFastest,
  kLibrary
};

/// The words that files have for them.
const std::vector<std::pair<std::string, CollectiveAlgorithm>>& collective_algorithms();

/// Other words for them, in lower case: what libraries call them ("double_binary_tree": NCCL's Tree).
const std::vector<std::pair<std::string, CollectiveAlgorithm>>& collective_algorithm_aliases();

/// What a word stands for, whatever its case: NCCL_ALGO has "Ring", "Tree" and "NVLS". None: it is not known, or no algorithm
/// here does what a library means by it.
std::optional<CollectiveAlgorithm> find_collective_algorithm(std::string_view word);

/// Whether it is a choice of one of the others.
bool is_choice(CollectiveAlgorithm algorithm);

/// Reads a word for an algorithm; `takes_choices`: or for a choice of one. Throws InputError, which says of libraries' algorithms
/// that are not modelled what they are: no other one stands for them.
CollectiveAlgorithm read_collective_algorithm(const JsonReader& json, std::string_view key, bool takes_choices);

/// Adds an algorithm by its word; register_all_reduce() says what it does. Throws std::invalid_argument if it is taken.
CollectiveAlgorithm add_collective_algorithm(const std::string& word);

}  // namespace rehearse
