#pragma once
// Which work had ended, or was about to, at a date: answers in logarithmic time, however many streams and calls there are.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "workloads/traces/kineto.hpp"

namespace rehearse {

/// A list of dates: a tree of the lowest of its parts.
class LowestDates {
 public:
  LowestDates() = default;
  explicit LowestDates(std::span<const Nanoseconds> dates);
  /// The last of the first `size` places whose date is at most `date`.
  std::optional<std::size_t> last_by(Nanoseconds date, std::size_t size) const;
  /// The lowest of places `first` to `last` - 1, of which there must be one.
  Nanoseconds lowest(std::size_t first, std::size_t last) const;

 private:
  std::size_t last_below(std::size_t node, Nanoseconds date) const;

  std::size_t leaves_ = 1;
  std::vector<Nanoseconds> lowest_;  // [nodes] the children of i are 2 i and 2 i + 1
};

/// Of work that comes bit by bit, the latest that had ended by a date on another stream.
class LatestOfOthers {
 public:
  struct Work {
    Nanoseconds end = 0;
    std::int32_t stream = 0;
  };
  /// `work`: all that will come, in the order of its launches.
  explicit LatestOfOthers(std::span<const Work> work);
  void add(std::size_t work);
  /// Of two that end together the one on the stream of the lower number, and of one stream what was launched later.
  std::optional<std::size_t> latest(Nanoseconds ended, std::int32_t but_on) const;

 private:
  struct Best {
    std::int64_t latest = -1, of_another = -1;  // ranks; -1: none
  };
  void take(Best& best, std::int64_t rank) const;

  std::vector<Work> work_;          // [ranks] by end
  std::vector<std::size_t> place_;  // [ranks] in the list that was given
  std::vector<std::size_t> rank_;   // [works]
  std::vector<Best> best_;          // [ranks + 1] a Fenwick tree: of the ranks below i, as many as the lowest bit of i
};

/// Windows of time, each of work on a stream, as time goes on.
class OpenWindows {
 public:
  struct Window {
    Nanoseconds from = 0, until = 0;
    std::size_t place = 0;
    std::int32_t stream = 0;
  };
  void add(const Window& window) {
    to_open_.emplace(window.from, windows_.size());
    windows_.push_back(window);
  }
  /// Opens windows that begin by the date, and closes those that end before; dates never go back.
  void go_to(Nanoseconds date);
  /// The lowest place of an open window of another stream.
  std::optional<std::size_t> first_of_other(std::int32_t stream) const;

 private:
  using Queue = std::priority_queue<std::pair<Nanoseconds, std::size_t>,
                                    std::vector<std::pair<Nanoseconds, std::size_t>>, std::greater<>>;
  void open(const Window& window);
  void close(const Window& window);

  std::vector<Window> windows_;
  Queue to_open_, to_close_;
  std::map<std::int32_t, std::set<std::size_t>> places_;  // [streams] of open windows
  std::set<std::pair<std::size_t, std::int32_t>> first_;  // of each stream with an open one
};

}  // namespace rehearse
