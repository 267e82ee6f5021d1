#pragma once
// Tables of what has a name: one entry for each, with its name beside its value or beside where that is.

#include <string>
#include <vector>

namespace rehearse {

/// A value and the word for it in files and options.
template <class Value>
struct Named {
  const char* name;
  Value value;
};
template <class Value>
Named(const char*, Value) -> Named<Value>;

/// The word for `value`; empty if no entry of `table` has it.
template <class Table, class Value>
std::string name_in(const Table& table, const Value& value) {
  for (const auto& entry : table)
    if (entry.value == value) return entry.name;
  return {};
}

/// The names of all entries of `table`, in its order.
template <class Table>
std::vector<std::string> names_in(const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return names;
}

}  // namespace rehearse
