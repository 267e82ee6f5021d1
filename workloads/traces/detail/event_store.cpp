#include "workloads/traces/detail/event_store.hpp"

#include <algorithm>
#include <queue>
#include <utility>

#include "sim/base/errors.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kReadAtOnce = 1024;

bool is_before(const KinetoEvent& a, const KinetoEvent& b) {
  return a.start != b.start ? a.start < b.start : a.duration > b.duration;
}

/// A sorted part of the file.
class SortedRun {
 public:
  SortedRun(std::FILE* file, std::size_t begin, std::size_t end) : file_{file}, next_{begin}, end_{end} { fill(); }

  const KinetoEvent& front() const { return buffer_[place_]; }
  /// Whether there is another one.
  bool advance() {
    if (++place_ == buffer_.size()) fill();
    return place_ < buffer_.size();
  }

 private:
  void fill() {
    place_ = 0;
    buffer_.resize(std::min(kReadAtOnce, end_ - next_));
    if (buffer_.empty()) return;
    if (std::fseek(file_, static_cast<long>(next_ * sizeof(KinetoEvent)), SEEK_SET) != 0 ||
        std::fread(buffer_.data(), sizeof(KinetoEvent), buffer_.size(), file_) != buffer_.size())
      throw InputError{"a temporary file with the events of a trace cannot be read"};
    next_ += buffer_.size();
  }

  std::FILE* file_;
  std::size_t next_, end_, place_ = 0;
  std::vector<KinetoEvent> buffer_;
};

}  // namespace

void EventStore::add(const KinetoEvent& event) {
  if (buffer_.size() == most_in_memory_) spill();
  buffer_.push_back(event);
}

void EventStore::sort_buffer() { std::ranges::stable_sort(buffer_, is_before); }

void EventStore::spill() {
  if (!file_) file_.reset(std::tmpfile());
  sort_buffer();
  if (!file_ || std::fwrite(buffer_.data(), sizeof(KinetoEvent), buffer_.size(), file_.get()) != buffer_.size() ||
      std::fflush(file_.get()) != 0)
    throw InputError{"a temporary file for the events of a trace cannot be written"};
  stored_ += buffer_.size();
  buffer_.clear();
}

std::vector<KinetoEvent> EventStore::take(const std::function<bool(const KinetoEvent&)>& keeps) {
  if (!file_) {
    sort_buffer();
    std::erase_if(buffer_, [&](const KinetoEvent& event) { return !keeps(event); });
    return std::exchange(buffer_, {});
  }
  spill();
  buffer_.shrink_to_fit();
  std::vector<SortedRun> runs;
  for (std::size_t begin = 0; begin < stored_; begin += most_in_memory_)
    runs.emplace_back(file_.get(), begin, std::min(begin + most_in_memory_, stored_));
  const auto comes_later = [&](std::size_t a, std::size_t b) {
    return is_before(runs[b].front(), runs[a].front()) || (!is_before(runs[a].front(), runs[b].front()) && a > b);
  };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(comes_later)> queue{comes_later};
  for (std::size_t run = 0; run < runs.size(); ++run) queue.push(run);
  std::vector<KinetoEvent> kept;
  while (!queue.empty()) {
    const std::size_t run = queue.top();
    queue.pop();
    if (keeps(runs[run].front())) kept.push_back(runs[run].front());
    if (runs[run].advance()) queue.push(run);
  }
  file_.reset();
  stored_ = 0;
  return kept;
}

}  // namespace rehearse
