#include "sim/scenario/strategy_words.hpp"

#include <set>
#include <stdexcept>

namespace rehearse {

namespace {

std::map<std::string, std::string>& titles() {
  static std::map<std::string, std::string> all;
  return all;
}

}  // namespace

void add_strategy_word(const std::string& word, const std::string& title) {
  const std::set<std::string> built_in{"parameter_server", "all_reduce", "pairwise_averaging"};
  if (built_in.contains(word) || !titles().emplace(word, title).second)
    throw std::invalid_argument{"there is a strategy \"" + word + "\" already"};
}

const std::map<std::string, std::string>& added_strategies() { return titles(); }

}  // namespace rehearse
