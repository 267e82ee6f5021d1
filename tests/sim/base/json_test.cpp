#include "sim/base/json.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/files.hpp"
#include "sim/base/random.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {
namespace {

using test::error_of;

std::string parse_error(std::string_view text) {
  return error_of([&] { parse_json(text, "f.json"); });
}

std::string set_error(std::string_view pointer) {
  Json json = parse_json(R"({"cluster": {"groups": [{"count": 1}, {"count": 2}], "name": "a"}})", "f.json");
  return error_of([&] { set_json_pointer(json, pointer, "4"); });
}

}  // namespace

TEST_CASE("objects keep the order of their keys, and comments are skipped") {
  const Json json = parse_json("{\"z\": 1, // last letter\n \"a\": [true, null, 2.5, \"x\"] /* end */}", "f.json");
  CHECK(to_json_text(json) == "{\n  \"z\": 1,\n  \"a\": [\n    true,\n    null,\n    2.5,\n    \"x\"\n  ]\n}\n");
}

TEST_CASE("a syntax error names line and column") {
  CHECK(parse_error("") == "f.json:1:1: expected JSON; found an empty file");
  CHECK(parse_error("{\n  \"a\": 1,\n  \"b\" 2\n}") ==
        "f.json:3:7: syntax error while parsing object separator - unexpected number literal; expected ':'");
  CHECK(parse_error("[1, 2").starts_with("f.json:1:6: syntax error while parsing array - unexpected end of input"));
  CHECK(parse_error("{\"a\": NaN}").starts_with("f.json:1:7: syntax error while parsing value - invalid literal"));
  CHECK(parse_error("[Infinity]").starts_with("f.json:1:2: syntax error"));
  CHECK(parse_error("[1] x").starts_with("f.json:1:5: syntax error while parsing value"));
  CHECK(parse_error("[01]").starts_with("f.json:1:3: syntax error"));
  CHECK(parse_error("[1,]").starts_with("f.json:1:4: syntax error"));
  CHECK(parse_error("\"\xff\"")
            .starts_with("f.json:1:2: syntax error while parsing value - invalid string: ill-formed UTF-8 byte"));
  CHECK(parse_error(std::string_view{"{\"a\0\": 1}", 9}).starts_with("f.json:1:4: syntax error"));
  CHECK(parse_error("[1e999]") == "f.json:1:6: number overflow parsing '1e999'");
}

TEST_CASE("a key may appear once in an object") {
  CHECK(parse_error(R"({"a": 1, "b": 2, "a": 3})") == R"(f.json: /: expected distinct keys; found "a" twice)");
  CHECK(parse_error(R"({"x": [0, {"y/z": {"a": 1, "a": 3}}]})") ==
        R"(f.json: /x/1/y~1z: expected distinct keys; found "a" twice)");
  CHECK(parse_error(R"([{"a": 1}, {"a": 1}])") == "no error");
}

TEST_CASE("nesting ends at 200 levels") {
  CHECK(parse_error(std::string(200, '[') + std::string(200, ']')) == "no error");
  CHECK(parse_error(std::string(201, '[') + std::string(201, ']')) ==
        "f.json: expected at most 200 nested levels; found more");
  CHECK(parse_error(std::string(200'000, '[')) == "f.json: expected at most 200 nested levels; found more");
  std::string objects;
  for (int i = 0; i < 200'000; ++i) objects += "{\"a\":";
  CHECK(parse_error(objects) == "f.json: expected at most 200 nested levels; found more");
}

TEST_CASE("ten megabytes of garbage are refused with one short line") {
  Rng rng{1, "garbage"};
  std::string garbage(10'000'000, '\0');
  for (char& byte : garbage) byte = static_cast<char>(rng.bits());
  CHECK(parse_error(garbage).size() < 400);
  CHECK(parse_error("\"" + garbage).size() < 400);
  CHECK(parse_error(std::string(10'000'000, '9')).size() < 400);
  CHECK(parse_error(std::string(10'000'000, 'a')).size() < 400);
}

TEST_CASE("objects with many keys take time in proportion, and with very many they are refused") {
  std::string text = "{";
  for (int i = 1; i < 100'000; ++i) text += "\"key" + std::to_string(i) + "\": 0,";
  const Json json = parse_json(text + "\"last\": 1}", "f.json");  // quadratic time would be tens of seconds
  CHECK(json.size() == 100'000);
  CHECK(parse_error("{\"all\": " + text + "\"last\": 1, \"more\": 1}}") ==
        "f.json: /all: expected at most 100000 keys in an object; found more");
}

TEST_CASE("a list of a million elements is read, and a longer one refused where it is") {
  std::string list = "[0";
  for (int i = 1; i < 1'000'000; ++i) list += ",0";
  CHECK(parse_json("{\"all\": [" + list + "]]}", "f.json")["all"][0].size() == 1'000'000);
  CHECK(parse_error("{\"all\": [" + list + ",0]]}") ==
        "f.json: /all/0: expected at most 1000000 elements in a list; found more");
}

TEST_CASE("doubles are written so that they read back the same") {
  Rng rng{2, "doubles"};
  Json values = Json::array();
  for (int i = 0; i < 2000; ++i) values.push_back(rng.normal() * rng.exponential(1e10));
  CHECK(parse_json(to_json_text(values), "f.json") == values);
  CHECK(to_json_text(Json(0.1)) == "0.1\n");
}

TEST_CASE("a file is read, and its name is in the error") {
  const std::filesystem::path folder = std::filesystem::path{build_folder()} / "json_test";
  std::filesystem::create_directories(folder);
  write_file(folder / "good.json", "{\"a\": 1}");
  write_file(folder / "bad.json", "{\n]");
  CHECK(load_json_file(folder / "good.json")["a"] == 1);
  CHECK(error_of([&] {
          load_json_file(folder / "bad.json");
        }).starts_with((folder / "bad.json").string() + ":2:1: syntax error"));
  CHECK(error_of([&] { load_json_file(folder / "none.json"); }) ==
        (folder / "none.json").string() + ": cannot read: No such file or directory");
  std::filesystem::remove_all(folder);
}

TEST_CASE("a pointer leads to its value") {
  const Json json = parse_json(R"({"a": [10, {"b/c": {"~": 5}}], "": 6})", "f.json");
  CHECK(json_pointer_find(json, "") == &json);
  CHECK(*json_pointer_find(json, "/a/0") == 10);
  CHECK(*json_pointer_find(json, "/a/1/b~1c/~0") == 5);
  CHECK(*json_pointer_find(json, "/") == 6);
  for (const std::string missing : {"/b", "/a/2", "/a/-", "/a/01", "/a/-1", "/a/0/x", "a", "/a/99999999999999999999"}) {
    CAPTURE(missing);
    CHECK(json_pointer_find(json, missing) == nullptr);
  }
}

TEST_CASE("a value is set as JSON if it is JSON, otherwise as a string") {
  Json json = parse_json(R"({"groups": [{"count": 1}], "rate": "1GBps"})", "f.json");
  set_json_pointer(json, "/groups/0/count", "4");
  set_json_pointer(json, "/rate", "25GBps");
  set_json_pointer(json, "/groups/0/new", "[1, true]");
  set_json_pointer(json, "/quoted", "\"4\"");
  set_json_pointer(json, "/empty", "");
  set_json_pointer(json, "/not_json", "4 // four");
  CHECK(json == parse_json(R"({"groups": [{"count": 4, "new": [1, true]}], "rate": "25GBps", "quoted": "4", "empty": "",
                               "not_json": "4 // four"})",
                           "f.json"));
}

TEST_CASE("objects that are missing on the way to a new value are made") {
  Json json = parse_json(R"({"training": {"steps": 5}})", "f.json");
  set_json_pointer(json, "/training/target/samples", "100");
  CHECK(json == parse_json(R"({"training": {"steps": 5, "target": {"samples": 100}}})", "f.json"));
}

TEST_CASE("a pointer that leads nowhere is refused, with the deepest part that exists") {
  CHECK(set_error("/cluster/groups/2/count") ==
        R"(/cluster/groups/2/count: /cluster/groups is an array of 2, which has no element "2")");
  CHECK(set_error("/cluster/groups/-") ==
        R"(/cluster/groups/-: /cluster/groups is an array of 2, which has no element "-")");
  CHECK(set_error("/cluster/name/x") ==
        R"(/cluster/name/x: /cluster/name is neither an object nor an array, so it has no "x")");
  CHECK(set_error("cluster") == "cluster: expected a JSON pointer, such as /cluster/groups/1/count");
  CHECK(set_error("/cluster/new") == "no error");
}

}  // namespace rehearse
