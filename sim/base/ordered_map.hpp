#pragma once
// A map of few entries that keeps the order in which a file names them.

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rehearse {

/// Values by name; looking for one takes linear time.
template <class Value>
class OrderedMap {
 public:
  using Entry = std::pair<std::string, Value>;

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }

  /// Null: there is none of that name.
  const Value* find(std::string_view name) const {
    const auto found = std::find_if(begin(), end(), [&](const Entry& entry) { return entry.first == name; });
    return found != end() ? &found->second : nullptr;
  }
  Value* find(std::string_view name) { return const_cast<Value*>(std::as_const(*this).find(name)); }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Throws std::out_of_range.
  const Value& at(std::string_view name) const {
    if (const Value* found = find(name)) return *found;
    throw std::out_of_range{std::string{name}};
  }
  /// A new one comes last.
  Value& operator[](std::string_view name) {
    if (Value* found = find(name)) return *found;
    return entries_.emplace_back(name, Value{}).second;
  }
  template <class IsErased>
  void erase_if(const IsErased& is_erased) {
    std::erase_if(entries_, [&](const Entry& entry) { return is_erased(entry.second); });
  }
  void clear() { entries_.clear(); }
  void sort_by_name() {
    std::stable_sort(begin(), end(), [](const Entry& a, const Entry& b) { return a.first < b.first; });
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace rehearse
