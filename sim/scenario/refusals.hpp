#pragma once
// What does not go together in a scenario, and why: each combination that is refused is a row of one table
// (refusals.cpp). Whoever adds a feature adds rows for what it cannot go with, and nothing else refuses a combination.
// What a dataset or a predictor cannot tell is refused by predictor/undescribed.hpp.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/base/json.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

struct Refusal {
  /// A scenario as it was read, but for its size and profile, and as it is written. Of what a verb refuses only the
  /// latter is known.
  struct Subject {
    const Scenario* scenario;
    const JsonReader& root;
  };

  std::string_view name;  // "backup workers that nobody waits for"
  /// JSON pointer to what can be changed; none: the scenario does not have the combination.
  std::optional<std::string> (*find)(const Subject& subject);
  std::string_view expected;  // there
  std::string_view reason;
  std::string_view verb{};  // that refuses it; empty: all
};

std::span<const Refusal> refusals();

/// Throws InputError, "file: pointer: expected ...: reason", at the first combination that is refused, by all or by
/// `verb`.
void check_combinations(const Scenario& scenario, const JsonReader& root);
void check_combinations_of(std::string_view verb, const JsonReader& root);

}  // namespace rehearse
