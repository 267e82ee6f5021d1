#pragma once
// What a JSON Schema (draft 2020-12) says of a value.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/json.hpp"

namespace rehearse {

/// The keys that `schema` requires of the object at `pointer` of what it describes, and that `object` lacks. Of
/// alternatives ("anyOf", "oneOf") only one that alone fits the object, by "type", "const" and "enum", counts.
std::vector<std::string> missing_keys(const Json& schema, std::string_view pointer, const Json& object);

/// The text of a schema: `rules` and the definitions that it refers to, of quantities ("#/$defs/time", "rate", "size",
/// "speed") and of `parts`, each under its name ("#/$defs/NAME") and with its own definitions.
std::string schema_text(std::string_view rules,
                        std::initializer_list<std::pair<std::string_view, JsonSchema>> parts = {});

}  // namespace rehearse
