#pragma once
// Words by which scenarios may ask for strategies that are registered besides those of scenario.hpp.

#include <map>
#include <string>

namespace rehearse {

/// From now on a scenario's strategy may have this word as its "kind", with the keys of "all_reduce" but "sharding" and
/// "pipeline"; register_strategy() says what it does. To be called before any other thread runs. Throws
/// std::invalid_argument if there is the word.
void add_strategy_word(const std::string& word, const std::string& title);

/// [word] title, as reports name it.
const std::map<std::string, std::string>& added_strategies();

}  // namespace rehearse
