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

/// Throws InputError, in one line, with the pointers of all keys that `schema` requires anywhere in the value, if more than
/// one object lacks some; a single one is told of by whoever reads it.
void refuse_missing_keys(const JsonReader& json, JsonSchema schema);

/// Schemas that others refer to, as "#/$defs/NAME".
using SchemaParts = std::initializer_list<std::pair<std::string_view, JsonSchema>>;

/// The text of a schema: `rules` and the definitions that it refers to, of quantities ("#/$defs/time", "rate", "size",
/// "speed") and of `parts`, each under its name and with its own definitions.
std::string schema_text(std::string_view rules, SchemaParts parts = {});

/// What a schema says of an object besides its properties.
struct ObjectSchema {
  std::string_view title, description = {};
  std::vector<std::string_view> required = {};
  std::string_view definitions = "{}";  // a JSON object: what its properties refer to, as "#/$defs/KEY"
};

/// The schema_text() of an object with these `properties`, a JSON object of rules by key, and no others.
std::string object_schema(const ObjectSchema& object, std::string_view properties, SchemaParts parts = {});

/// The same of a file, whose first key is "format": 1.
std::string file_schema(const ObjectSchema& file, std::string_view properties, SchemaParts parts = {});

}  // namespace rehearse
