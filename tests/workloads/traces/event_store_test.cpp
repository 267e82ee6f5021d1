// Events in memory and in a file come back in the same order.

#include "workloads/traces/detail/event_store.hpp"

#include <doctest/doctest.h>

#include <random>

namespace rehearse {

namespace {

/// Many of which begin together; their correlations say in which order they came.
EventStore store_of(std::size_t most_in_memory, std::int64_t count) {
  EventStore store{most_in_memory};
  std::mt19937 random{7};
  for (std::int64_t i = 0; i < count; ++i)
    store.add({.start = static_cast<Nanoseconds>(random() % 20),
               .duration = static_cast<Nanoseconds>(random() % 3),
               .correlation = i});
  return store;
}

std::vector<std::int64_t> kept(std::size_t most_in_memory, std::int64_t count, Nanoseconds from) {
  EventStore store = store_of(most_in_memory, count);
  CHECK(store.size() == static_cast<std::size_t>(count));
  std::vector<std::int64_t> correlations;
  for (const KinetoEvent& event : store.take([&](const KinetoEvent& asked) { return asked.start >= from; }))
    correlations.push_back(event.correlation);
  CHECK(store.size() == 0);
  return correlations;
}

}  // namespace

TEST_CASE("events come by start, of those together the longest first, then as they came, from memory or a file") {
  for (const std::int64_t count : {0, 1, 6, 7, 8, 5000}) {
    const std::vector<std::int64_t> expected = kept(100'000, count, 5);
    for (const std::size_t most_in_memory : {1U, 7U, 1000U, 2500U}) CHECK(kept(most_in_memory, count, 5) == expected);
  }
  const std::vector<KinetoEvent> sorted = store_of(64, 1000).take([](const KinetoEvent&) { return true; });
  REQUIRE(sorted.size() == 1000);
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const KinetoEvent &a = sorted[i - 1], &b = sorted[i];
    const auto key = [](const KinetoEvent& event) {
      return std::tuple{event.start, -event.duration, event.correlation};
    };
    CHECK(key(a) < key(b));
  }
}

}  // namespace rehearse
