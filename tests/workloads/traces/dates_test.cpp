#include "workloads/traces/detail/dates.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "sim/base/random.hpp"

using namespace rehearse;

namespace {

std::vector<LatestOfOthers::Work> random_work(Rng& rng, std::size_t count) {
  std::vector<LatestOfOthers::Work> work;
  for (std::size_t i = 0; i < count; ++i)
    work.push_back({static_cast<Nanoseconds>(rng.uniform() * 20), static_cast<std::int32_t>(rng.uniform() * 4)});
  return work;
}

}  // namespace

TEST_CASE("the last of the first places with a date, and the lowest date of some, are those that a scan finds") {
  Rng rng{1, "lowest dates"};
  for (std::size_t count = 1; count < 20; ++count) {
    std::vector<Nanoseconds> dates;
    for (std::size_t i = 0; i < count; ++i) dates.push_back(static_cast<Nanoseconds>(rng.uniform() * 20));
    const LowestDates lowest{dates};
    for (std::size_t size = 0; size <= count; ++size) {
      for (Nanoseconds date = -1; date <= 20; ++date) {
        std::optional<std::size_t> last;
        for (std::size_t i = 0; i < size; ++i)
          if (dates[i] <= date) last = i;
        CHECK(lowest.last_by(date, size) == last);
      }
      for (std::size_t first = 0; first < size; ++first)
        CHECK(lowest.lowest(first, size) == *std::min_element(dates.begin() + static_cast<std::ptrdiff_t>(first),
                                                              dates.begin() + static_cast<std::ptrdiff_t>(size)));
    }
  }
}

TEST_CASE("the latest work that had ended on another stream is the one that a scan of the streams finds") {
  Rng rng{1, "latest of others"};
  for (int repeat = 0; repeat < 50; ++repeat) {
    const std::vector<LatestOfOthers::Work> work = random_work(rng, 12);
    LatestOfOthers others{work};
    for (std::size_t added = 0; added < work.size(); ++added) {
      others.add(added);
      for (Nanoseconds ended = -1; ended <= 20; ++ended) {
        for (std::int32_t but_on = 0; but_on < 5; ++but_on) {
          std::optional<std::size_t> latest;
          for (std::size_t i = 0; i <= added; ++i) {
            if (work[i].stream == but_on || work[i].end > ended) continue;
            const bool is_later = !latest || work[i].end > work[*latest].end ||
                                  (work[i].end == work[*latest].end && work[i].stream <= work[*latest].stream);
            if (is_later) latest = i;
          }
          CHECK(others.latest(ended, but_on) == latest);
        }
      }
    }
  }
}

TEST_CASE("the first open window of another stream is the one that a scan of the windows finds") {
  Rng rng{1, "open windows"};
  for (int repeat = 0; repeat < 50; ++repeat) {
    OpenWindows open;
    std::vector<OpenWindows::Window> windows;
    for (Nanoseconds date = 0; date < 30; ++date) {
      open.go_to(date);
      for (std::int32_t but_on = 0; but_on < 5; ++but_on) {
        std::optional<std::size_t> first;
        for (const OpenWindows::Window& window : windows)
          if (!first && window.stream != but_on && window.from <= date && date <= window.until) first = window.place;
        CHECK(open.first_of_other(but_on) == first);
      }
      const auto from = date + static_cast<Nanoseconds>(rng.uniform() * 6) - 2;
      windows.push_back({from, std::max(from, date) + static_cast<Nanoseconds>(rng.uniform() * 8), windows.size(),
                         static_cast<std::int32_t>(rng.uniform() * 4)});
      open.add(windows.back());
    }
  }
}
