#pragma once
// What does not go together in a scenario, and why: each combination that is refused is a row of a table: of its strategy
// (sim/training/strategies), or of refusals.cpp. Whoever adds a feature adds rows for what it cannot go with, and nothing else
// refuses a combination. What a dataset or a predictor cannot tell is refused by predictor/undescribed.hpp.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// A JSON pointer to what can be changed; none: the scenario does not have the combination.
using RefusedPlace = std::optional<std::string>;

struct Refusal {
  /// A scenario as it was read, but for its size and profile, and as it is written. Of what a verb refuses only the
  /// latter is known.
  struct Subject {
    const Scenario* scenario;
    const JsonReader& root;
  };
  /// Of the rows of a strategy: whether they are about scenarios that have it, or about all others.
  enum class Of { kItsOwn, kOthers };

  std::string_view name;  // "backup workers that nobody waits for"
  RefusedPlace (*find)(const Subject& subject);
  std::string_view expected;  // there
  std::string_view reason;
  std::string_view verb{};  // that refuses it; empty: all
  Of of = Of::kItsOwn;
};

/// All rows, in the order in which they are checked: those of strategies, then the others.
std::vector<Refusal> refusals();

/// Throws InputError, "file: pointer: expected ...: reason", at the first combination that is refused, by all or by
/// `verb`.
void check_combinations(const Scenario& scenario, const JsonReader& root);
void check_combinations_of(std::string_view verb, const JsonReader& root);

// For rows

inline constexpr const char* kGroups = "/cluster/groups";
inline constexpr const char* kStrategy = "/training/strategy";

/// The subject's strategy, in a row that is about those of type Kind alone.
template <class Kind>
const Kind& own(const Refusal::Subject& subject) {
  return static_cast<const Kind&>(*subject.scenario->training.strategy.kind);
}

RefusedPlace place_if(bool has, std::string pointer);
/// That of a key of the strategy, whether it is stated or not.
RefusedPlace strategy_place_if(bool has, std::string_view key);
/// The first of `keys` that the object at `pointer` has.
RefusedPlace stated_key(const Refusal::Subject& subject, const std::string& pointer,
                        std::initializer_list<std::string_view> keys);
/// The same of the strategy.
RefusedPlace stated_of_strategy(const Refusal::Subject& subject, std::initializer_list<std::string_view> keys);
/// The first of `keys` of the first group of which `is_wrong(group)` holds and that has one of them.
template <class IsWrong>
RefusedPlace stated_of_group(const Refusal::Subject& subject, std::initializer_list<std::string_view> keys,
                             const IsWrong& is_wrong) {
  const std::vector<Group>& groups = subject.scenario->groups;
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (is_wrong(groups[g]))
      if (auto place = stated_key(subject, kGroups + ("/" + std::to_string(g)), keys)) return place;
  return {};
}

}  // namespace rehearse
