#pragma once
// What a JSON Schema (draft 2020-12) says of a value.

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json.hpp"

namespace rehearse {

/// The keys that `schema` requires of the object at `pointer` of what it describes, and that `object` lacks. Of
/// alternatives ("anyOf", "oneOf") only one that alone fits the object, by "type", "const" and "enum", counts.
std::vector<std::string> missing_keys(const Json& schema, std::string_view pointer, const Json& object);

}  // namespace rehearse
