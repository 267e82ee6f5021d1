#pragma once
// Text that a character separates into fields: lines of tables, names of runs.

#include <string_view>
#include <vector>

namespace rehearse {

/// At least one field; views into `text`.
inline std::vector<std::string_view> fields_of(std::string_view text, char separator) {
  std::vector<std::string_view> fields;
  for (std::size_t end; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1))
    fields.push_back(text.substr(0, end));
  fields.push_back(text);
  return fields;
}

}  // namespace rehearse
