#include "platforms/collective_algorithm.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>

#include "sim/base/json.hpp"
#include "sim/base/names.hpp"

namespace rehearse {

namespace {

using Words = std::vector<std::pair<std::string, CollectiveAlgorithm>>;

/// In the order of the enumerators. Others come after them: an algorithm that the code never asks for by name needs none.
Words& words() {
  static Words all = [] {
    Words numbered;
    for (const char* word : {"ring", "binary_tree", "flat_double_binary_tree", "hierarchical", "star", "clique",
                             "binary_tree_star", "nvls", "tree", "fastest", "library"})
      numbered.emplace_back(word, static_cast<CollectiveAlgorithm>(numbered.size()));
    return numbered;
  }();
  return all;
}

struct NotModelled {
  const char* word;  // in lower case, without "_", "-" and spaces
  const char* what;
};

/// Algorithms of libraries that no algorithm here stands for. Sources: NCCL, src/include/device.h (NCCL_ALGO); OpenMPI,
/// coll_tuned_allreduce_algorithm; MPICH, MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM; Gloo, docs/algorithms.md; MSCCL.
constexpr auto kNotModelled = std::to_array<NotModelled>({
    {"collnetdirect", "NCCL's sums in the switches of the network (SHARP)"},
    {"collnetchain", "NCCL's sums in the switches of the network (SHARP)"},
    {"collnet", "NCCL's sums in the switches of the network (SHARP)"},
    {"sharp", "sums in the switches of the network"},
    {"nvlstree", "NCCL's NVLink SHARP inside machines with trees between them"},
    {"pat",
     "NCCL's parallel aggregated trees of all-gathers and reduce-scatters, which \"gather_algorithm\" beside "
     "\"sharding\" says; as an all-reduce it"},
    {"msccl", "MSCCL's schedules"},
    {"halvingdoubling", "recursive halving and doubling"},
    {"recursivehalvingdoubling", "recursive halving and doubling"},
    {"halvingdoublingpipelined", "recursive halving and doubling"},
    {"rabenseifner", "recursive halving and doubling"},
    {"reducescatterallgather", "recursive halving and doubling"},
    {"recursivedoubling", "recursive doubling"},
    {"recursiveexchange", "recursive doubling of higher radix"},
    {"recursivemultiplying", "recursive doubling of higher radix"},
    {"bcube", "Gloo's hypercube of higher radix"},
    {"bruck", "Bruck's algorithm"},
    {"ringchunked", "Gloo's ring in chunks"},
    {"segmentedring", "OpenMPI's ring in segments"},
    {"ringsegmented", "OpenMPI's ring in segments"},
    {"basiclinear", "OpenMPI's linear reduction and broadcast"},
    {"linear", "OpenMPI's linear reduction and broadcast"},
    {"nonoverlapping", "OpenMPI's reduction and broadcast one after the other"},
    {"knomial", "trees of higher radix"},
    {"binomial", "binomial trees"},
});

std::string lower_case(std::string_view word) {
  std::string lower{word};
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

const NotModelled* find_not_modelled(std::string_view word) {
  std::string key = lower_case(word);
  std::erase_if(key, [](char c) { return c == '_' || c == '-' || c == ' '; });
  const auto found = std::ranges::find_if(kNotModelled, [&](const NotModelled& entry) { return key == entry.word; });
  return found == kNotModelled.end() ? nullptr : found;
}

}  // namespace

const Words& collective_algorithms() { return words(); }

const Words& collective_algorithm_aliases() {
  static const Words aliases{{"double_binary_tree", CollectiveAlgorithm::kTree},
                             {"nccl_tree", CollectiveAlgorithm::kTree},
                             {"chain_tree", CollectiveAlgorithm::kTree}};
  return aliases;
}

std::optional<CollectiveAlgorithm> find_collective_algorithm(std::string_view word) {
  const std::string lower = lower_case(word);
  for (const Words* list : {&collective_algorithms(), &collective_algorithm_aliases()})
    for (const auto& [known, algorithm] : *list)
      if (known == word || known == lower) return algorithm;
  return {};
}

bool is_choice(CollectiveAlgorithm algorithm) {
  return algorithm == CollectiveAlgorithm::kFastest || algorithm == CollectiveAlgorithm::kLibrary;
}

CollectiveAlgorithm read_collective_algorithm(const JsonReader& json, std::string_view key, bool takes_choices) {
  const auto word = json.required<std::string>(key);
  const auto found = find_collective_algorithm(word);
  if (found && (takes_choices || !is_choice(*found))) return *found;
  std::vector<std::string> known;
  for (const auto& [name, algorithm] : words())
    if (takes_choices || !is_choice(algorithm)) known.push_back(name);
  if (const NotModelled* entry = find_not_modelled(word))
    json.fail(key, in_quotes(word) + " (" + entry->what + ") is not modelled; known: " + joined(known));
  if (word.find(',') != std::string::npos || word.starts_with('^'))
    json.fail(key, "expected one algorithm; found the list " + in_quotes(word) + "; known: " + joined(known));
  json.fail(key, unknown_name_message("algorithm", word, known));
}

CollectiveAlgorithm add_collective_algorithm(const std::string& word) {
  Words& all = words();
  if (find_collective_algorithm(word))
    throw std::invalid_argument{"there is an all-reduce algorithm \"" + word + "\" already"};
  all.emplace_back(word, static_cast<CollectiveAlgorithm>(all.size()));
  return all.back().second;
}

}  // namespace rehearse
