#include "workloads/traces/period.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace rehearse {

TEST_CASE("a period is found behind a beginning that is different, and before a part of one more") {
  std::vector<std::int32_t> sequence{9, 8, 7, 6, 5};
  for (int repeat = 0; repeat < 4; ++repeat)
    for (const int element : {1, 1, 2, 3, 1, 4}) sequence.push_back(element);
  sequence.push_back(1);
  sequence.push_back(1);
  const auto period = find_period(sequence);
  REQUIRE(period);
  CHECK(period->length == 6);
  CHECK(period->count == 4);
  CHECK(period->first >= 5);
  CHECK(period->first + period->count * period->length <= sequence.size());
}

TEST_CASE("the shortest period is meant, and one that is not quite the same each time") {
  const std::vector<std::int32_t> same(40, 3);
  const auto alike = find_period(same);
  REQUIRE(alike);
  CHECK(alike->length == 1);
  std::vector<std::int32_t> sequence;
  for (int i = 0; i < 1000; ++i) sequence.push_back(i % 100);
  sequence[350] = -1;
  const auto period = find_period(sequence);
  REQUIRE(period);
  CHECK(period->length == 100);
  CHECK(period->count >= 8);
}

TEST_CASE("what does not repeat has no period") {
  CHECK_FALSE(find_period({}));
  CHECK_FALSE(find_period(std::vector<std::int32_t>{1, 2, 3}));
  std::vector<std::int32_t> counted;
  for (int i = 0; i < 100; ++i) counted.push_back(i);
  CHECK_FALSE(find_period(counted));
}

}  // namespace rehearse
