// Classes of flows against the engine's flows, one by one.

#include "predictor/detail/flow_classes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/resources/max_min_flows.hpp"

namespace rehearse {

TEST_CASE("flows share what their machines' NICs have left, and none exceeds its cap") {
  FlowClasses flows{{10, 10, 10}, 6};
  const std::size_t to_first = flows.add(1, 0), to_second = flows.add(0, 1), from_third = flows.add(2, 1);
  flows.start(to_first, 0, 12, 0);  // alone: the cap, 2 s
  CHECK(flows.next_end(0) == doctest::Approx(2));
  flows.start(to_second, 1, 20, 0);  // two flows into machine 1: 5 each
  flows.start(from_third, 2, 10, 0);
  CHECK(flows.next_end(0) == doctest::Approx(2));
  CHECK(flows.end_next() == 0);
  CHECK(flows.next_end(2) == doctest::Approx(2));
  CHECK(flows.end_next() == 2);
  CHECK(flows.next_end(2) == doctest::Approx(2 + 10.0 / 6));
  CHECK(flows.end_next() == 1);
  CHECK(flows.next_end(9) == FlowClasses::kNever);
}

TEST_CASE("a flow that stands for three takes their share, and one that takes another's place its rate") {
  FlowClasses flows{{8, 8, 8}, 1e9};
  const std::size_t heavy = flows.add(0, 1, 3, 1), light = flows.add(0, 2);
  CHECK(flows.add(0, 1, 3, 1) == heavy);
  CHECK(flows.add(0, 1) != heavy);
  flows.start(heavy, 0, 2, 0);  // 2 of its own, 6 of machine 0
  flows.start(light, 1, 4, 0);  // 2
  CHECK(flows.next_end(0) == doctest::Approx(1));
  CHECK(flows.end_next() == 0);
  flows.start(heavy, 2, 4, 1);
  CHECK(flows.next_end(1) == doctest::Approx(2));
  CHECK(flows.end_next() == 1);
  CHECK(flows.next_end(2) == doctest::Approx(2 + 2 / (8.0 / 3)));
  CHECK(flows.end_next() == 2);
}

TEST_CASE("what a flow takes from one NIC for two is not there for another, though its bottleneck is elsewhere") {
  FlowClasses flows{{8, 8, 8}, 1e9};
  flows.start(flows.add(0, 1, 2, 4), 0, 1e9, 0);  // 2 of its own, 4 of machine 0, all of machine 1
  flows.start(flows.add(0, 2), 1, 4, 0);
  CHECK(flows.next_end(0) == doctest::Approx(1));
}

TEST_CASE("random flows end when those of the engine do") {
  constexpr int kMachines = 5;
  Rng rng{7, "flows"};
  for (int run = 0; run < 20; ++run) {
    const double cap = run % 2 == 0 ? 1e9 : 3;
    const std::vector<double> nics{10, 10, 10, 5, 20};
    FlowClasses classes{nics, cap};
    std::vector<double> directions;
    for (const double nic : nics) directions.insert(directions.end(), 2, nic);
    MaxMinFlows singles{directions};
    std::map<MaxMinFlows::FlowIndex, std::size_t> number_of;
    std::size_t started = 0;
    double now = 0;
    const auto start = [&] {
      const auto from = static_cast<int>(rng.below(kMachines));
      const int to = (from + 1 + static_cast<int>(rng.below(kMachines - 1))) % kMachines;
      const double bytes = 1 + 20 * rng.uniform();
      classes.start(classes.add(static_cast<std::size_t>(from), static_cast<std::size_t>(to)), started, bytes, now);
      number_of[singles.start(std::array{2 * from, 2 * to + 1}, bytes, cap)] = started++;
    };
    for (int i = 0; i < 10; ++i) start();
    for (int ended = 0; ended < 200; ++ended) {
      const double next = classes.next_end(now), other = singles.next_completion(now);
      REQUIRE(next == doctest::Approx(other));
      now = std::max(next, other);
      std::vector<MaxMinFlows::FlowIndex> completed;
      singles.pop_completed(now, completed);
      REQUIRE(completed.size() == 1);
      REQUIRE(classes.end_next() == number_of[completed.front()]);
      const std::uint64_t more = rng.below(3) + (started - static_cast<std::size_t>(ended) < 5 ? 1 : 0);
      for (std::uint64_t i = 0; i < more; ++i) start();
    }
  }
}

}  // namespace rehearse
