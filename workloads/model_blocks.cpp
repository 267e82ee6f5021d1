#include "workloads/model_blocks.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace rehearse {

namespace {

/// A number in a name: "encoder/layer" and "encoder/layer12" of "encoder/layer12/attention".
struct Numbered {
  std::string stem, block;
};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::vector<Numbered> numbers_of(const std::string& name) {
  constexpr std::size_t kMost = 4;
  std::vector<Numbered> found;
  for (std::size_t begin = 0; begin < name.size() && found.size() < kMost; ++begin) {
    if (!is_digit(name[begin])) continue;
    std::size_t end = begin;
    while (end < name.size() && is_digit(name[end])) ++end;
    if (end < name.size() && (name[end] == '/' || name[end] == '.' || name[end] == '_'))
      found.push_back({name.substr(0, begin), name.substr(0, end)});
    begin = end;
  }
  return found;
}

/// [block] what its variables are, as far as the block does not name them.
struct Contents {
  std::map<std::string, std::string> of_block;
  bool has_matrix = false;

  bool repeats() const {
    std::set<std::string> distinct;
    for (const auto& [block, content] : of_block) distinct.insert(content);
    return has_matrix && distinct.size() < of_block.size();
  }
};

}  // namespace

ModelBlocks model_blocks(const Workload& workload) {
  std::map<std::string, Contents> stems;
  std::vector<std::vector<Numbered>> numbers;
  for (const Variable& variable : workload.variables) {
    numbers.push_back(numbers_of(variable.name));
    for (const Numbered& number : numbers.back()) {
      Contents& contents = stems[number.stem];
      std::string& content = contents.of_block[number.block];
      content += variable.name.substr(number.block.size());
      for (const std::int64_t size : variable.shape) content += " " + std::to_string(size);
      content += "\n";
      contents.has_matrix = contents.has_matrix || variable.shape.size() > 1;
    }
  }
  std::set<std::string> repeated;
  for (const auto& [stem, contents] : stems)
    if (contents.repeats()) repeated.insert(stem);

  ModelBlocks blocks;
  std::map<std::string, int> index_of;
  for (const std::vector<Numbered>& of_variable : numbers) {
    const auto number =
        std::ranges::find_if(of_variable, [&](const Numbered& any) { return repeated.contains(any.stem); });
    if (number == of_variable.end()) {
      blocks.of_variable.push_back(-1);
      continue;
    }
    const auto [block, is_new] = index_of.emplace(number->block, static_cast<int>(blocks.names.size()));
    if (is_new) blocks.names.push_back(number->block);
    blocks.of_variable.push_back(block->second);
  }
  return blocks;
}

}  // namespace rehearse
