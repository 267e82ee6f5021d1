#include "sim/base/json_schema.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace rehearse {
namespace {

constexpr const char* kSchema = R"({
  "type": "object", "required": ["format", "parts"],
  "properties": {
    "parts": { "type": "array", "items": { "$ref": "#/$defs/part" } },
    "shape": { "anyOf": [
      { "type": "string" },
      { "type": "object", "required": ["kind", "radius"], "properties": { "kind": { "const": "circle" } } },
      { "type": "object", "required": ["kind", "a", "b"], "properties": { "kind": { "const": "box" } } } ] },
    "by_name": { "additionalProperties": { "required": ["x"] } },
    "either": { "oneOf": [{ "required": ["p"] }, { "required": ["q"] }] } },
  "if": { "properties": { "has_lid": { "const": true } }, "required": ["has_lid"] }, "then": { "required": ["lid"] },
  "$defs": { "part": { "required": ["name", "size"] } }
})";

std::vector<std::string> missing(std::string_view pointer, std::string_view object) {
  return missing_keys(parse_json(kSchema, "schema"), pointer, parse_json(object, "f.json"));
}

std::string schema_text() { return kSchema; }

}  // namespace

using Keys = std::vector<std::string>;

TEST_CASE("the keys that a schema requires, and an object lacks") {
  CHECK(missing("", "{}") == Keys{"format", "parts"});
  CHECK(missing("", R"({"format": 1})") == Keys{"parts"});
  CHECK(missing("", R"({"format": 1, "parts": [], "has_lid": true})") == Keys{"lid"});
  CHECK(missing("", R"({"format": 1, "parts": [], "has_lid": false})").empty());
  CHECK(missing("/parts/3", R"({"size": 1})") == Keys{"name"});
  CHECK(missing("/by_name/any", "{}") == Keys{"x"});
  CHECK(missing("/unknown/below", "{}").empty());
}

TEST_CASE("of alternatives only one that alone fits counts") {
  CHECK(missing("/either", "{}").empty());
  CHECK(missing("/shape", R"({"kind": "box", "a": 1})") == Keys{"b"});
  CHECK(missing("/shape", R"({})").empty());
}

TEST_CASE("all missing keys of an object stand in one line") {
  const auto error = [](const char* text, auto read) -> std::string {
    const Json json = parse_json(text, "f.json");
    const JsonReader reader{json, "f.json"};
    reader.use_schema(schema_text);
    try {
      read(reader);
    } catch (const InputError& failure) { return failure.what(); }
    return "no error";
  };
  CHECK(error("{}", [](const JsonReader& json) { (void)json.required<int>("format"); }) ==
        "f.json: expected the keys \"format\" and \"parts\"; found none of them");
  CHECK(error(R"({"parts": [{}]})", [](const JsonReader& json) {
          (void)json.children("parts")[0].required<int>("size");
        }) == "f.json: /parts/0: expected the keys \"size\" and \"name\"; found none of them");
  CHECK(error(R"({"format": 1})", [](const JsonReader& json) { (void)json.child("parts"); }) ==
        "f.json: expected the key \"parts\"; found none");
}

TEST_CASE("keys that several objects of a file lack are told in one line") {
  const auto refusal = [](const char* text) -> std::string {
    const Json file = parse_json(text, "f.json");
    try {
      refuse_missing_keys(JsonReader{file, "f.json"}, schema_text);
    } catch (const InputError& error) { return error.what(); }
    return "accepted";
  };
  CHECK(refusal(R"({"parts": [{"size": 1}], "by_name": {"a/b": {}}})") ==
        "f.json: expected the keys \"/format\", \"/parts/0/name\" and \"/by_name/a~1b/x\"; found none of them");
  CHECK(refusal(R"({"parts": []})") == "accepted");  // whoever reads it says so
  CHECK(refusal(R"({"format": 1, "parts": [{}]})") == "accepted");
}

}  // namespace rehearse
