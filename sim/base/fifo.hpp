#pragma once
// A queue that takes no memory before something waits in it: std::deque takes 576 bytes, of which a cluster has one or two for each
// pair of a worker and a server.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace rehearse {

/// First in, first out, unless move_to_front() says otherwise. Of cheap copies.
template <class T>
class Fifo {
 public:
  bool empty() const { return head_ == items_.size(); }
  std::size_t size() const { return items_.size() - head_; }
  const T& front() const { return items_[head_]; }
  auto begin() const { return items_.begin() + static_cast<std::ptrdiff_t>(head_); }
  auto end() const { return items_.end(); }

  void push_back(const T& item) { items_.push_back(item); }
  void pop_front() {
    ++head_;
    constexpr std::size_t kFew = 16;
    if (head_ != items_.size() && (head_ < kFew || 2 * head_ < items_.size())) return;
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
  /// What `item` points to is the next; the others stay in their order.
  void move_to_front(typename std::vector<T>::const_iterator item) {
    const auto first = items_.begin() + static_cast<std::ptrdiff_t>(head_);
    const auto its = items_.begin() + (item - items_.cbegin());
    std::rotate(first, its, its + 1);
  }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0;  // of the first that waits
};

}  // namespace rehearse
