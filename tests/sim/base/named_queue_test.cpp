#include "sim/base/named_queue.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace rehearse {

TEST_CASE("what is in a queue leaves from the front, or by its name, and the others keep their order") {
  NamedQueue<int> queue;
  for (const auto& [name, value] : std::vector<std::pair<std::string, int>>{{"a", 1}, {"b", 2}, {"", 3}, {"", 4}})
    queue.append(name, value);
  CHECK(queue.take("b") == 2);
  CHECK(queue.take("b") == std::nullopt);
  CHECK(queue.take("") == std::nullopt);
  queue.append("b", 5);
  CHECK(queue.size() == 4);
  CHECK(queue.take_first() == NamedQueue<int>::Entry{"a", 1});
  CHECK(queue.take("a") == std::nullopt);
  CHECK(queue.take_first().second == 3);
  CHECK(queue.take_first().second == 4);
  CHECK(queue.take("b") == 5);
  CHECK(queue.empty());
}

}  // namespace rehearse
