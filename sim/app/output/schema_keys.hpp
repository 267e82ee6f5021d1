#pragma once
// A JSON Schema for a reader: its keys, one a line, as schema --keys prints them and scenarios/README.md holds them.

#include <functional>
#include <string>

#include "sim/base/json.hpp"

namespace rehearse {

/// The keys of the objects that `schema` describes: what each may be, whether it is required, its default, and what it
/// means. Keys of an object below another are indented; "groups[]" has those of each element of a list, "<name>" those
/// of a map's values. Definitions ("#/$defs/model") that are kinds of their own, by `is_kind`, are named and not opened.
std::string schema_keys(const Json& schema, const std::function<bool(const std::string&)>& is_kind);

}  // namespace rehearse
