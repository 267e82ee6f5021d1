// What variables servers hold.

#include <doctest/doctest.h>

#include <vector>

#include "sim/scenario/placement.hpp"

namespace rehearse {

TEST_CASE("round robin follows creation order; greedy keeps the largest load smallest so far") {
  const std::vector<Bytes> sizes{Bytes{100}, Bytes{1}, Bytes{1}, Bytes{100}, Bytes{50}};
  CHECK(place_on_servers(sizes, 2, Placement::kRoundRobin) == std::vector{0, 1, 0, 1, 0});
  CHECK(place_on_servers(sizes, 2, Placement::kGreedyByBytes) == std::vector{0, 1, 1, 1, 0});
  CHECK(place_on_servers(sizes, 1, Placement::kGreedyByBytes) == std::vector{0, 0, 0, 0, 0});
}

}  // namespace rehearse
