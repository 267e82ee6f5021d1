#include "sim/base/json_schema.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/names.hpp"

namespace rehearse {

namespace {

using Nodes = std::vector<const Json*>;

const Json* member(const Json& object, const std::string& key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? nullptr : &*found;
}

/// A rule and what it refers to, whatever its alternatives.
void add_rules(const Json& schema, const Json& node, Nodes& rules) {
  rules.push_back(&node);
  if (const Json* reference = member(node, "$ref"))
    if (const Json* target = json_pointer_find(schema, reference->get<std::string>().substr(1)))
      add_rules(schema, *target, rules);
  for (const char* key : {"allOf", "anyOf", "oneOf"})
    if (const Json* parts = member(node, key))
      for (const Json& part : *parts) add_rules(schema, part, rules);
}

/// Whether the "type", "const" and "enum" of the rule and of its properties allow `value`; keys may be missing.
bool fits(const Json& schema, const Json& rule, const Json& value) {
  if (const Json* type = member(rule, "type"); type != nullptr && type->is_string())
    if ((*type == "object" && !value.is_object()) || (*type == "array" && !value.is_array()) ||
        (*type == "string" && !value.is_string()))
      return false;
  if (const Json* constant = member(rule, "const"); constant != nullptr && *constant != value) return false;
  if (const Json* words = member(rule, "enum");
      words != nullptr && std::find(words->begin(), words->end(), value) == words->end())
    return false;
  if (const Json* reference = member(rule, "$ref"))
    if (const Json* target = json_pointer_find(schema, reference->get<std::string>().substr(1)))
      if (!fits(schema, *target, value)) return false;
  if (const Json* properties = member(rule, "properties"))
    for (const auto& [key, property] : properties->items())
      if (const Json* own = member(value, key); own != nullptr && !fits(schema, property, *own)) return false;
  return true;
}

bool has_required(const Json& rule, const Json& object) {
  const Json* required = member(rule, "required");
  return required == nullptr || std::all_of(required->begin(), required->end(), [&](const Json& key) {
           return member(object, key.get<std::string>()) != nullptr;
         });
}

void add_required(const Json& schema, const Json& rule, const Json& object, std::vector<std::string>& missing) {
  if (const Json* required = member(rule, "required"))
    for (const Json& key : *required)
      if (const auto name = key.get<std::string>();
          member(object, name) == nullptr && std::find(missing.begin(), missing.end(), name) == missing.end())
        missing.push_back(name);
  if (const Json* reference = member(rule, "$ref"))
    if (const Json* target = json_pointer_find(schema, reference->get<std::string>().substr(1)))
      add_required(schema, *target, object, missing);
  if (const Json* parts = member(rule, "allOf"))
    for (const Json& part : *parts) add_required(schema, part, object, missing);
  if (const Json* condition = member(rule, "if")) {
    const bool holds = has_required(*condition, object) && fits(schema, *condition, object);
    if (const Json* then = member(rule, holds ? "then" : "else")) add_required(schema, *then, object, missing);
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    const Json* parts = member(rule, key);
    if (parts == nullptr) continue;
    const auto is_fitting = [&](const Json& part) { return fits(schema, part, object); };
    if (std::count_if(parts->begin(), parts->end(), is_fitting) == 1)
      add_required(schema, *std::find_if(parts->begin(), parts->end(), is_fitting), object, missing);
  }
}

/// Adds the pointers of keys that are missing in `value`, which is at `pointer`, or below, as far as few are known.
void add_missing(const Json& schema, const Json& value, const std::string& pointer, std::vector<std::string>& missing,
                 std::size_t& objects) {
  constexpr std::size_t kEnough = 20;
  if (missing.size() >= kEnough || !(value.is_object() || value.is_array())) return;
  const std::size_t before = missing.size();
  if (value.is_object())
    for (const std::string& key : missing_keys(schema, pointer, value))
      missing.push_back(extend_json_pointer(pointer, key));
  if (missing.size() > before) ++objects;
  std::size_t index = 0;
  for (const auto& [key, part] : value.items())
    if (index++ < kEnough) add_missing(schema, part, extend_json_pointer(pointer, key), missing, objects);
}

/// Definitions of the quantities that rules refer to.
const Json& quantity_schemas() {
  static const Json quantities = parse_json(R"json({
    "time": { "type": "string", "pattern": "^[0-9.eE+-]+ ?(ns|us|ms|s|min|h|d)$", "examples": ["1.5us", "100ms", "2h"] },
    "rate": { "type": "string", "pattern": "^[0-9.eE+-]+ ?([kMGTPEZ]|[KMGTPE]i)?[bB]ps$", "examples": ["25GBps", "200Gbps"] },
    "size": { "type": "string", "pattern": "^[0-9.eE+-]+ ?([kMGTPEZ]|[KMGTPE]i)?B$", "examples": ["25MiB", "4MB"] },
    "speed": { "type": "string", "pattern": "^[0-9.eE+-]+ ?[kMGTPEZ]?flops$", "examples": ["15.7Tflops"] }
  })json",
                                            "schema of quantities");
  return quantities;
}

/// `rules` with what they refer to.
std::string complete_schema(const Json& rules, SchemaParts parts) {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"}};
  for (const auto& [key, value] : rules.items())
    if (key != "$defs") schema[key] = value;
  Json definitions = rules.value("$defs", Json::object());
  for (const auto& [name, text] : parts) {
    Json part = parse_json(text(), "schema");
    part.erase("$schema");
    const Json below = part.value("$defs", Json::object());
    for (const auto& [key, value] : below.items()) definitions[key] = value;
    part.erase("$defs");
    definitions[std::string{name}] = std::move(part);
  }
  const std::string text = rules.dump();
  for (const auto& [name, quantity] : quantity_schemas().items())
    if (text.find("\"#/$defs/" + name + "\"") != std::string::npos) definitions[name] = quantity;
  if (!definitions.empty()) schema["$defs"] = std::move(definitions);
  return to_json_text(schema);
}

std::string object_schema(const ObjectSchema& object, Json properties, SchemaParts parts) {
  Json rules{{"title", object.title}};
  if (!object.description.empty()) rules["description"] = object.description;
  rules["type"] = "object";
  if (!object.required.empty()) rules["required"] = object.required;
  rules["additionalProperties"] = false;
  rules["properties"] = std::move(properties);
  rules["$defs"] = parse_json(object.definitions, "schema");
  return complete_schema(rules, parts);
}

}  // namespace

std::vector<std::string> missing_keys(const Json& schema, std::string_view pointer, const Json& object) {
  Nodes rules;
  add_rules(schema, schema, rules);
  for (const std::string& key : split_json_pointer(pointer)) {
    Nodes below;
    for (const Json* rule : rules) {
      const Json* properties = member(*rule, "properties");
      const Json* next = properties == nullptr ? nullptr : member(*properties, key);
      if (next == nullptr) next = member(*rule, "items");
      if (next == nullptr) next = member(*rule, "additionalProperties");
      if (next != nullptr && next->is_object()) add_rules(schema, *next, below);
    }
    rules = std::move(below);
  }
  std::vector<std::string> missing;
  if (!rules.empty()) add_required(schema, *rules.front(), object, missing);
  return missing;
}

void refuse_missing_keys(const JsonReader& json, JsonSchema schema) {
  std::vector<std::string> missing;
  std::size_t objects = 0;
  add_missing(parse_json(schema(), "schema"), json.value(), "", missing, objects);
  if (objects > 1) json.fail("expected the keys " + list_in_quotes(missing) + "; found none of them");
}

std::string schema_text(std::string_view rules, SchemaParts parts) {
  return complete_schema(parse_json(rules, "schema"), parts);
}

std::string object_schema(const ObjectSchema& object, std::string_view properties, SchemaParts parts) {
  return object_schema(object, parse_json(properties, "schema"), parts);
}

std::string file_schema(const ObjectSchema& file, std::string_view properties, SchemaParts parts) {
  ObjectSchema object = file;
  object.required.insert(object.required.begin(), "format");
  Json all{{"format", {{"const", 1}}}};
  all.update(parse_json(properties, "schema"));
  return object_schema(object, std::move(all), parts);
}

}  // namespace rehearse
