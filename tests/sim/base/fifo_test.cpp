// Fifo against std::deque.

#include "sim/base/fifo.hpp"

#include <doctest/doctest.h>

#include <deque>

#include "sim/base/random.hpp"

namespace rehearse {

TEST_CASE("a fifo gives back what a deque does, whatever is put in front") {
  Rng rng{1, "fifo"};
  Fifo<int> fifo;
  std::deque<int> expected;
  for (int i = 0; i < 20'000; ++i) {
    const auto choice = rng.below(10);
    const bool grows = (i / 500) % 2 == 0;  // long queues and empty ones
    if (choice < (grows ? 6U : 4U)) {
      fifo.push_back(i);
      expected.push_back(i);
    } else if (choice < 9 && !expected.empty()) {
      CHECK(fifo.front() == expected.front());
      fifo.pop_front();
      expected.pop_front();
    } else if (!expected.empty()) {
      const auto place = static_cast<std::ptrdiff_t>(rng.below(expected.size()));
      fifo.move_to_front(fifo.begin() + place);
      const int item = expected[static_cast<std::size_t>(place)];
      expected.erase(expected.begin() + place);
      expected.push_front(item);
    }
    REQUIRE(fifo.size() == expected.size());
    REQUIRE(fifo.empty() == expected.empty());
    if (i % 100 == 0) CHECK(std::equal(fifo.begin(), fifo.end(), expected.begin(), expected.end()));
  }
}

}  // namespace rehearse
