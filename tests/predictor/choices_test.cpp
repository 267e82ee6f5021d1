#include "predictor/choices.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace rehearse {

namespace {

const double kNotKnown = std::nan("");

/// Alternatives "0", "1", ... of one question, as (measured, predicted).
std::vector<Alternative> question(const std::string& part, const std::string& name,
                                  const std::vector<std::pair<double, double>>& times) {
  std::vector<Alternative> alternatives;
  for (const auto& [measured, predicted] : times)
    alternatives.push_back({part, name, std::to_string(alternatives.size()), measured, {predicted}});
  return alternatives;
}

double regret_of(const std::vector<std::pair<double, double>>& times) {
  const auto choices = measured_choices(question("study", "model", times));
  REQUIRE(choices.size() == 1);
  return choices[0].regrets[0];
}

}  // namespace

TEST_CASE("a regret is the measured time of what is predicted to be fastest over the best measured one, minus 1") {
  CHECK(regret_of({{2, 20}, {3, 30}, {4, 40}}) == 0);                  // only the order counts
  CHECK(regret_of({{2, 3}, {3, 1}, {4, 2}}) == doctest::Approx(0.5));  // 3 / 2 - 1
  CHECK(regret_of({{2, 3}, {3, 2}, {4, 1}}) == doctest::Approx(1.0));  // 4 / 2 - 1
  // by chance: (0 + 1/2 + 1) / 3
  CHECK(measured_choices(question("s", "m", {{2, 1}, {3, 1}, {4, 1}}))[0].by_chance == doctest::Approx(0.5));
}

TEST_CASE("equal predictions are chosen from by chance, equal measurements are all the best") {
  CHECK(regret_of({{2, 1}, {3, 1}, {4, 2}}) == doctest::Approx(0.25));  // (0 + 1/2) / 2
  CHECK(regret_of({{2, 1}, {3, 1 + 1e-4}, {4, 2}}) == doctest::Approx(0.25));
  CHECK(regret_of({{2, 1}, {3, 1 + 1e-2}, {4, 2}}) == 0);
  CHECK(regret_of({{2, 5}, {2, 1}, {4, 2}}) == 0);
}

TEST_CASE("fewer than three alternatives are no choice, nor are rows that were not measured") {
  CHECK(measured_choices({}).empty());
  CHECK(measured_choices(question("s", "m", {{2, 1}})).empty());
  CHECK(measured_choices(question("s", "m", {{2, 1}, {3, 2}})).empty());
  CHECK(measured_choices(question("s", "m", {{2, 1}, {3, 2}, {kNotKnown, 3}})).empty());
  CHECK(measured_choices(question("s", "m", {{2, 1}, {3, 2}, {0, 3}})).empty());
  CHECK(measured_choices(question("s", "m", {{2, 1}, {3, 2}, {INFINITY, 3}})).empty());
}

TEST_CASE("a predictor that does not know all alternatives has no regret, and is not counted") {
  CHECK(std::isnan(regret_of({{2, 1}, {3, kNotKnown}, {4, 2}})));
  CHECK(std::isnan(regret_of({{2, 1}, {3, INFINITY}, {4, 2}})));
  std::vector<Alternative> all = question("a", "1", {{2, 1}, {3, kNotKnown}, {4, 2}});
  for (const Alternative& more : question("a", "2", {{2, 2}, {3, 1}, {7, 3}})) all.push_back(more);  // 50 %
  for (const Alternative& more : question("b", "1", {{1, 3}, {2, 1}, {3, 2}})) all.push_back(more);  // 100 %
  const auto choices = measured_choices(all);
  REQUIRE(choices.size() == 3);
  CHECK(regret_score(choices, 0, "a").questions == 1);
  CHECK(regret_score(choices, 0, "a").mean == doctest::Approx(0.5));
  CHECK(regret_score(choices, 0, "").questions == 2);
  CHECK(regret_score(choices, 0, "").mean == doctest::Approx(0.75));
  CHECK(regret_score(choices, 0, "").largest == doctest::Approx(1.0));
  CHECK(regret_score(choices, 0, "").by_chance == doctest::Approx(1.0));  // ((0 + 1/2 + 5/2) / 3 + (0 + 1 + 2) / 3) / 2
  CHECK(regret_score(choices, 0, "c").questions == 0);
  CHECK(regret_score(choices, 0, "c").mean == 0);
}

TEST_CASE("what is measured more than once counts with its mean") {
  std::vector<Alternative> all = question("s", "m", {{1, 1}, {2, 2}, {4, 3}});
  all.push_back({"s", "m", "0", 5, {1}});  // "0" takes 3, the best is 2
  const auto choices = measured_choices(all);
  REQUIRE(choices.size() == 1);
  CHECK(choices[0].alternatives == 3);
  CHECK(choices[0].regrets[0] == doctest::Approx(0.5));
}

}  // namespace rehearse
