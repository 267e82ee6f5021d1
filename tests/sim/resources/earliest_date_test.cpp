#include "sim/resources/earliest_date.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/base/random.hpp"

using namespace rehearse;

TEST_CASE("the earliest of dates that change at random is the first of those that a search finds") {
  for (const std::size_t count : {1, 2, 3, 5, 8, 13, 64, 100}) {
    CAPTURE(count);
    Rng random{count, "dates"};
    EarliestDate earliest{count, 7};
    std::vector<double> dates(count, 7);
    for (int change = 0; change < 500; ++change) {
      const auto found = std::min_element(dates.begin(), dates.end());
      REQUIRE(earliest.date() == *found);
      REQUIRE(earliest.index() == static_cast<std::size_t>(found - dates.begin()));
      const auto changed = random.below(count);  // to one of few dates: many are equal
      dates[changed] = random.below(8) == 0 ? EarliestDate::kNever : static_cast<double>(random.below(12));
      earliest.set(changed, dates[changed]);
    }
  }
  CHECK(EarliestDate{0, 0}.date() == EarliestDate::kNever);
}
