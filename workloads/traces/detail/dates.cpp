#include "workloads/traces/detail/dates.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

namespace rehearse {

LowestDates::LowestDates(std::span<const Nanoseconds> dates)
    : leaves_{std::bit_ceil(std::max<std::size_t>(dates.size(), 1))},
      lowest_(2 * leaves_, std::numeric_limits<Nanoseconds>::max()) {
  std::ranges::copy(dates, lowest_.begin() + static_cast<std::ptrdiff_t>(leaves_));
  for (std::size_t node = leaves_ - 1; node > 0; --node)
    lowest_[node] = std::min(lowest_[2 * node], lowest_[2 * node + 1]);
}

std::optional<std::size_t> LowestDates::last_by(Nanoseconds date, std::size_t size) const {
  if (size == leaves_ && size > 0 && lowest_[1] <= date) return last_below(1, date);
  if (size >= leaves_) return {};
  for (std::size_t node = leaves_ + size; node > 1; node /= 2)
    if (node % 2 == 1 && lowest_[node - 1] <= date) return last_below(node - 1, date);
  return {};
}

std::size_t LowestDates::last_below(std::size_t node, Nanoseconds date) const {
  while (node < leaves_) node = lowest_[2 * node + 1] <= date ? 2 * node + 1 : 2 * node;
  return node - leaves_;
}

Nanoseconds LowestDates::lowest(std::size_t first, std::size_t last) const {
  Nanoseconds lowest = std::numeric_limits<Nanoseconds>::max();
  for (first += leaves_, last += leaves_; first < last; first /= 2, last /= 2) {
    if (first % 2 == 1) lowest = std::min(lowest, lowest_[first++]);
    if (last % 2 == 1) lowest = std::min(lowest, lowest_[--last]);
  }
  return lowest;
}

LatestOfOthers::LatestOfOthers(std::span<const Work> work)
    : place_(work.size()), rank_(work.size()), best_(work.size() + 1) {
  std::iota(place_.begin(), place_.end(), std::size_t{0});
  std::ranges::sort(place_, {}, [&](std::size_t i) {
    return std::tuple{work[i].end, -std::int64_t{work[i].stream}, i};
  });
  for (std::size_t rank = 0; rank < place_.size(); ++rank) {
    rank_[place_[rank]] = rank;
    work_.push_back(work[place_[rank]]);
  }
}

void LatestOfOthers::take(Best& best, std::int64_t rank) const {
  const auto stream = [&](std::int64_t of) { return work_[static_cast<std::size_t>(of)].stream; };
  if (rank < 0 || rank == best.latest) return;
  if (best.latest < 0) {
    best.latest = rank;
  } else if (stream(rank) == stream(best.latest)) {
    best.latest = std::max(best.latest, rank);
  } else if (rank > best.latest) {
    best.of_another = std::exchange(best.latest, rank);
  } else {
    best.of_another = std::max(best.of_another, rank);
  }
}

void LatestOfOthers::add(std::size_t work) {
  const std::size_t rank = rank_[work];
  for (std::size_t i = rank + 1; i < best_.size(); i += i & (~i + 1)) take(best_[i], static_cast<std::int64_t>(rank));
}

std::optional<std::size_t> LatestOfOthers::latest(Nanoseconds ended, std::int32_t but_on) const {
  Best best;
  const auto ends = std::ranges::upper_bound(work_, ended, {}, &Work::end);
  for (auto i = static_cast<std::size_t>(ends - work_.begin()); i > 0; i -= i & (~i + 1)) {
    take(best, best_[i].latest);
    take(best, best_[i].of_another);
  }
  const bool is_other = best.latest >= 0 && work_[static_cast<std::size_t>(best.latest)].stream != but_on;
  const std::int64_t rank = is_other ? best.latest : best.of_another;
  return rank < 0 ? std::nullopt : std::optional{place_[static_cast<std::size_t>(rank)]};
}

void OpenWindows::go_to(Nanoseconds date) {
  for (; !to_open_.empty() && to_open_.top().first <= date; to_open_.pop()) {
    const Window& window = windows_[to_open_.top().second];
    open(window);
    to_close_.emplace(window.until, to_open_.top().second);
  }
  for (; !to_close_.empty() && to_close_.top().first < date; to_close_.pop()) close(windows_[to_close_.top().second]);
}

void OpenWindows::open(const Window& window) {
  std::set<std::size_t>& places = places_[window.stream];
  if (!places.empty()) first_.erase({*places.begin(), window.stream});
  places.insert(window.place);
  first_.emplace(*places.begin(), window.stream);
}

void OpenWindows::close(const Window& window) {
  std::set<std::size_t>& places = places_[window.stream];
  first_.erase({*places.begin(), window.stream});
  places.erase(window.place);
  if (!places.empty()) first_.emplace(*places.begin(), window.stream);
}

std::optional<std::size_t> OpenWindows::first_of_other(std::int32_t stream) const {
  auto first = first_.begin();
  if (first != first_.end() && first->second == stream) ++first;
  return first == first_.end() ? std::nullopt : std::optional{first->first};
}

}  // namespace rehearse
