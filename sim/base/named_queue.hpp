#pragma once
// A queue from whose middle things go by name.

#include <cstddef>
#include <iterator>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

namespace rehearse {

/// Things in the order in which they came. One leaves from the front or, found by its name, from anywhere, in constant
/// time. No name is there twice; what has an empty one leaves from the front alone.
template <class Value = std::monostate>
class NamedQueue {
 public:
  using Entry = std::pair<std::string, Value>;

  void append(std::string name, Value value = {}) {
    entries_.emplace_back(std::move(name), std::move(value));
    if (const auto last = std::prev(entries_.end()); !last->first.empty()) places_.emplace(last->first, last);
  }
  /// There has to be one.
  Entry take_first() {
    Entry first = std::move(entries_.front());
    places_.erase(first.first);
    entries_.pop_front();
    return first;
  }
  /// The value of what leaves; none if nothing has this name.
  std::optional<Value> take(const std::string& name) {
    const auto found = places_.find(name);
    if (found == places_.end()) return {};
    std::optional<Value> value{std::move(found->second->second)};
    entries_.erase(found->second);
    places_.erase(found);
    return value;
  }

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::list<Entry> entries_;
  std::unordered_map<std::string, typename std::list<Entry>::iterator> places_;  // only looked up
};

}  // namespace rehearse
