// Coordinates of workers.

#include "sim/scenario/rank_grid.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

namespace rehearse {

TEST_CASE("coordinates are the digits of a worker's number, and each worker has its own") {
  const RankGrid grid{{Axis::kPipeline, 3}, {Axis::kData, 4}};
  CHECK(grid.workers() == 12);
  CHECK(grid.degree(Axis::kPipeline) == 3);
  CHECK(grid.coordinate(7, Axis::kPipeline) == 1);  // 7 = 1 + 2 x 3
  CHECK(grid.coordinate(7, Axis::kData) == 2);
  std::set<std::pair<int, int>> places;
  for (int worker = 0; worker < grid.workers(); ++worker)
    places.emplace(grid.coordinate(worker, Axis::kPipeline), grid.coordinate(worker, Axis::kData));
  CHECK(places.size() == 12);
}

TEST_CASE("those along an axis differ in it alone; the lines of an axis part the workers") {
  const RankGrid grid{{Axis::kData, 2}, {Axis::kPipeline, 5}};
  CHECK(grid.along(Axis::kData, 7) == std::vector<int>{6, 7});
  CHECK(grid.along(Axis::kPipeline, 7) == std::vector<int>{1, 3, 5, 7, 9});
  for (const Axis axis : {Axis::kData, Axis::kPipeline}) {
    std::multiset<int> seen;
    for (int worker = 0; worker < grid.workers(); ++worker) {
      const std::vector<int> line = grid.along(axis, worker);
      CHECK(std::ranges::find(line, worker) != line.end());
      CHECK(grid.along(axis, line.front()) == line);
      if (line.front() == worker) seen.insert(line.begin(), line.end());
      for (int c = 0; c < grid.degree(axis); ++c) CHECK(grid.coordinate(grid.moved(worker, axis, c), axis) == c);
    }
    CHECK(seen.size() == 10);
  }
}

TEST_CASE("an axis that a grid does not have has one worker along it") {
  const RankGrid grid{{Axis::kData, 4}};
  CHECK(grid.degree(Axis::kPipeline) == 1);
  CHECK(grid.coordinate(3, Axis::kPipeline) == 0);
  CHECK(grid.along(Axis::kPipeline, 3) == std::vector<int>{3});
}

}  // namespace rehearse
