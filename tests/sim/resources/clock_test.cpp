// Event calendar and cores.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"
#include "sim/resources/clock.hpp"
#include "sim/resources/core_pool.hpp"

namespace rehearse {

TEST_CASE("events happen in order of time, and in order of scheduling at the same time") {
  Clock clock;
  std::vector<int> order;
  clock.schedule(2.0_s, [&] { order.push_back(3); });
  clock.schedule(1.0_s, [&] { order.push_back(1); });
  clock.schedule(1.0_s, [&] {
    order.push_back(2);
    clock.schedule(1.0_s, [&] { order.push_back(4); });  // at the current date: still in this round
  });
  clock.advance_to(1.0_s);
  CHECK(order == std::vector{1, 2, 4});
  clock.advance_to(2.0_s);
  CHECK(order == std::vector{1, 2, 4, 3});
  CHECK(clock.is_empty());
}

TEST_CASE("whoever schedules them, events happen in order of time, and of scheduling at the same time") {
  struct Event {
    double when;
    int number;
    Clock::Owner owner;
  };
  Rng random{7, "events"};
  Clock clock;
  std::vector<Clock::Owner> owners{0};
  for (int i = 0; i < 5; ++i) owners.push_back(clock.new_owner());
  std::vector<Event> scheduled;
  std::vector<int> happened;
  const auto schedule = [&](double when) {
    const int number = static_cast<int>(scheduled.size());
    const Clock::Owner owner = owners[random.below(owners.size())];
    scheduled.push_back({when, number, owner});
    clock.schedule(
        Seconds{when}, [&happened, number] { happened.push_back(number); }, owner);
  };
  for (int i = 0; i < 3000; ++i) schedule(static_cast<double>(random.below(1000)));  // in no order
  for (int i = 0; i < 3000; ++i) schedule(static_cast<double>(i / 3 + i % 30));      // nearly in order
  for (int now = 0; now < 500; ++now) {
    for (int i = 0; i < 5; ++i) schedule(now + static_cast<double>(random.below(600)));
    clock.advance_to(Seconds{static_cast<double>(now)});
  }
  const std::size_t before = happened.size();
  clock.retire(owners[3]);
  clock.advance_to(2000.0_s);
  CHECK(clock.is_empty());

  std::stable_sort(scheduled.begin(), scheduled.end(), [](const Event& a, const Event& b) { return a.when < b.when; });
  std::vector<int> expected;
  for (const Event& event : scheduled)
    if (event.owner != owners[3] || expected.size() < before) expected.push_back(event.number);
  CHECK(before > 3000);
  CHECK(happened == expected);
}

TEST_CASE("jobs go to the core that is free first: c cores finish n equal jobs after ceil(n / c) durations") {
  CorePool pool{4};
  Seconds end{};
  for (int job = 0; job < 10; ++job) end = std::max(end, pool.run(1.0_s, 2.0_s).end);
  CHECK(end == 7.0_s);  // 1 + ceil(10 / 4) * 2
  CHECK(pool.work() == 20.0_s);
  CHECK(pool.run(100.0_s, 1.0_s).start == 100.0_s);  // an idle core starts at once
}

TEST_CASE("cores that have other work, too, take so many times as long for each job") {
  CorePool pool{2, 1.5};
  CHECK(pool.run(1.0_s, 2.0_s).end == 4.0_s);
  CHECK(pool.run(1.0_s, 2.0_s).end == 4.0_s);
  CHECK(pool.run(1.0_s, 2.0_s).start == 4.0_s);
}

TEST_CASE("time ends at 1e9 s") {
  Clock clock;
  clock.schedule(Clock::kLatest, [] {});
  CHECK_THROWS_AS(clock.schedule(Seconds{1.000001e9}, [] {}), NoResultError);
  CHECK_THROWS_AS(clock.schedule(Seconds{std::numeric_limits<double>::infinity()}, [] {}), NoResultError);
  CHECK_THROWS_AS(clock.advance_to(Seconds{1.000001e9}), NoResultError);
}

}  // namespace rehearse
