#include "sim/base/budget.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/errors.hpp"

namespace rehearse {

TEST_CASE("a budget without limits is never over; one of no time is at once, and says what had been reached") {
  const Budget unlimited;
  CHECK_FALSE(unlimited.is_over());
  CHECK_NOTHROW(unlimited.check());

  const Budget none{Seconds{0}};
  CHECK(none.is_over());
  CHECK(none.asked()());
  CHECK_THROWS_WITH_AS(none.check(), "stopped by --max-wall-time 0s", NoResultError);
  CHECK_THROWS_WITH_AS(none.stop(" after 3 of 9 steps"), "stopped by --max-wall-time 0s after 3 of 9 steps",
                       NoResultError);
  CHECK_FALSE(Budget{Seconds{1e6}}.is_over());
  CHECK(Budget{Seconds{1}, {}, std::chrono::steady_clock::now() - std::chrono::seconds{2}}.is_over());
}

TEST_CASE("an interrupt ends a budget, also one whose time is over") {
  bool is_asked = false;
  const Budget budget{Seconds{1e6}, [&] { return is_asked; }};
  const auto asked = budget.asked();
  CHECK_FALSE(asked());
  is_asked = true;
  CHECK(asked());
  CHECK_THROWS_AS(budget.check(), Interrupted);
  CHECK_THROWS_AS(Budget(Seconds{0}, [] { return true; }).check(), Interrupted);
}

}  // namespace rehearse
