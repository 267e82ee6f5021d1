#pragma once
// What it costs to choose among measured alternatives by a prediction.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace rehearse {

/// A way to answer a question, and the time that a training sample takes with it, in any unit.
struct Alternative {
  std::string part;      // that its question is counted in: a study
  std::string question;  // what is given; alternatives of one part answer the same
  std::string name;      // what is chosen; the same name in a question is the same, measured again
  double measured = 0;
  std::vector<double> predicted{};  // [predictors] NaN: not known
};

/// A question with at least kLeastAlternatives. Those that were measured more than once count with their mean times.
struct MeasuredChoice {
  std::string part, question;
  std::size_t alternatives = 0;
  double by_chance = 0;           // mean over the alternatives of measured / best measured - 1
  std::vector<double> regrets{};  // [predictors] measured(chosen) / best measured - 1; NaN: see below
};

inline constexpr std::size_t kLeastAlternatives = 3;

/// A predictor chooses the alternative for which it predicts the least time; among equals, to 0.1 %, by chance: its regret is
/// their mean. It has none where it does not know all alternatives of a question. Alternatives whose measured time is
/// not a finite one above 0 are none. In the order of parts and questions.
std::vector<MeasuredChoice> measured_choices(std::span<const Alternative> alternatives);

/// Regrets of a predictor.
struct RegretScore {
  std::size_t questions = 0;  // of which it knows all alternatives
  double mean = 0, largest = 0;
  double by_chance = 0;  // mean of a choice by chance in the same questions
};

/// Of the questions of a part, or of all if `part` is empty.
RegretScore regret_score(std::span<const MeasuredChoice> choices, std::size_t predictor, const std::string& part);

}  // namespace rehearse
