#include "sim/app/output/schema_keys.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/app/schema_kinds.hpp"
#include "tests/support/program.hpp"
#include "tests/support/readme_part.hpp"

namespace rehearse {

TEST_CASE("a key says what it may be, whether it is required, its default and its meaning") {
  const Json schema = parse_json(R"json({
    "type": "object", "required": ["format", "groups"],
    "properties": {
      "format": { "const": 1 },
      "seed": { "type": "integer", "minimum": 0, "maximum": 9, "default": 1, "description": "of random numbers" },
      "groups": { "type": "array", "items": { "$ref": "#/$defs/group" } },
      "model": { "description": "a name or an object", "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/model" }] },
      "limits": { "type": "object", "additionalProperties": { "type": "number", "exclusiveMinimum": 0 } }
    },
    "$defs": {
      "time": { "type": "string", "description": "with a unit" },
      "model": { "type": "object", "properties": { "layers": { "type": "array" } } },
      "group": { "type": "object", "required": ["role"], "properties": {
        "role": { "enum": ["worker", "server"], "default": "worker" },
        "delay": { "$ref": "#/$defs/time" },
        "spare": { "$ref": "#/$defs/group", "description": "a group in a group" } } }
    } })json",
                                 "schema");
  CHECK(schema_keys(schema, [](const std::string& name) { return name == "model"; }) ==
        "format    1, required\n"
        "seed      integer from 0 to 9, default 1: of random numbers\n"
        "groups[]  list of object, required\n"
        "  role    worker | server, required, default worker\n"
        "  delay   time\n"
        "  spare   object, with keys as above: a group in a group\n"
        "model     text or model: a name or an object\n"
        "limits    object\n"
        "  <name>  number above 0\n");
}

TEST_CASE("long meanings go on below, and no line is longer than a page") {
  const std::string word = "meaning";
  std::string meaning;
  for (int i = 0; i < 40; ++i) meaning += (i == 0 ? "" : " ") + word;
  const Json schema{{"properties", {{"key", {{"type", "string"}, {"description", meaning}}}}}};
  const std::vector<std::string> lines = test::lines_of(schema_keys(schema, [](const std::string&) { return false; }));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("key  text: meaning meaning"));
  CHECK(lines[1].starts_with("     meaning meaning"));
  for (const std::string& line : lines) CHECK(line.size() <= 120);
}

TEST_CASE("scenarios/README.md has the keys of a scenario as schema --keys prints them") {
  const test::Outcome printed = test::rehearse_with("schema scenario --keys");
  CHECK(printed.exit_code == 0);
  test::check_readme_part("scenarios/README.md", "keys", "```\n" + printed.out + "```\n",
                          "cmake/refresh_readmes.sh keys");
}

TEST_CASE("schema --keys names every key of every kind") {
  for (const SchemaKind& kind : schema_kinds()) {
    CAPTURE(kind.name);
    const Json schema = parse_json(kind.schema(), kind.name);
    const std::string keys = schema_keys(schema, is_schema_kind);
    CHECK(!keys.empty());
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [key, property] : properties.items())
      CHECK_MESSAGE(("\n" + keys).find("\n" + key) != std::string::npos, key);
  }
}

}  // namespace rehearse
