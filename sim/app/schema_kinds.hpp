#pragma once
// The kinds of JSON files that users write.

#include <span>
#include <string>

namespace rehearse {

struct SchemaKind {
  const char* name;
  std::string (*schema)();  // JSON Schema, draft 2020-12
};

std::span<const SchemaKind> schema_kinds();
bool is_schema_kind(const std::string& name);

}  // namespace rehearse
