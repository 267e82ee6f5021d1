#include "sim/base/json_origins.hpp"
#include "tests/support/error_of.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace rehearse {
namespace {

using test::error_of;

}  // namespace

TEST_CASE("a mistake at a place that an option set names the option") {
  Json json = parse_json(R"({"training": {"steps": 5}, "groups": [{"count": 1}]})", "s.json");
  JsonOrigins origins;
  origins.set(json, "/training/steps", "none", "--set /training/steps");
  origins.set(json, "/groups/0", R"({"count": "x", "link": {"rate": 3}})", "study.json: /columns/gpu");
  const JsonReader reader{json, "s.json", "", &origins};

  CHECK(error_of([&] { (void)reader.child("training").required<int>("steps"); }) ==
        "--set /training/steps: expected a whole number between -2147483648 and 2147483647; found \"none\"");
  const JsonReader group = reader.children("groups")[0];
  CHECK(error_of([&] { (void)group.child("link").required<BytesPerSecond>("rate"); }) ==
        "study.json: /columns/gpu/link/rate: expected a rate with a unit, such as \"3Bps\" (bytes) or \"3bps\" (bits); "
        "found 3");
  CHECK(error_of([&] { group.fail("no"); }) == "study.json: /columns/gpu: no");
}

TEST_CASE("a mistake at a place of the file names the file, and what was set besides") {
  Json json = parse_json(R"({"training": {"steps": 5}})", "s.json");
  JsonOrigins origins;
  const auto message = [](const JsonReader& reader) { return error_of([&] { reader.fail("no"); }); };
  CHECK(message(JsonReader{json, "s.json", "", &origins}.child("training")) == "s.json: /training: no");
  origins.set(json, "/training/kind", "ring", "--set /training/kind");
  const JsonReader reader{json, "s.json", "", &origins};
  CHECK(message(reader.child("training")) == "s.json: /training: no (with --set /training/kind=ring)");
  for (const char* key : {"a", "b", "c"}) origins.set(json, std::string{"/"} + key, "1", std::string{"--set /"} + key);
  CHECK(message(reader) == "s.json: no (with --set /a=1, --set /b=1, --set /c=1 and 1 more)");

  const JsonOrigins row{"row rows.csv:3 of study.json"};
  CHECK(message(JsonReader{json, "s.json", "", &row}) == "s.json: no (with row rows.csv:3 of study.json)");
}

TEST_CASE("an unknown key that was set is blamed on who set it") {
  Json json = parse_json(R"({"a": 1})", "s.json");
  JsonOrigins origins;
  origins.set(json, "/training/target/samples", "5", "--set /training/target/samples");
  CHECK(json["training"]["target"]["samples"] == 5);
  const JsonReader reader{json, "s.json", "", &origins};
  (void)reader.has("a");
  CHECK(error_of([&] { reader.reject_unknown_keys(); }) ==
        "--set /training/target/samples: unknown key \"training\"; known: \"a\"");
}

TEST_CASE("the last one to set a place, or one around it, is named") {
  Json json = Json::object();
  JsonOrigins origins;
  origins.set(json, "/a/b", "1", "first");
  origins.set(json, "/a", R"({"b": 2})", "second");
  CHECK(origins.place_of("/a/b") == "second/b");
  origins.set(json, "/a/b", "3", "third");
  CHECK(origins.place_of("/a/b") == "third");
  CHECK(origins.place_of("/a/c") == "second/c");
  CHECK(origins.place_of("/ab") == std::nullopt);
}

TEST_CASE("what is set above places takes them away, and no others; 200 000 places take no time that is quadratic") {
  JsonOrigins origins;
  for (const char* place : {"/a", "/a!", "/a/b", "/a/b/c", "/a0", "/ab/c"}) origins.add(place, place);
  origins.add("/a", "above");
  CHECK(origins.place_of("/a/b/c") == "above/b/c");
  for (const char* place : {"/a!", "/a0", "/ab/c"}) CHECK(origins.place_of(place) == place);
  for (int i = 0; i < 200'000; ++i)
    origins.add("/many/" + std::to_string(i), "x");  // minutes if each looks at all others
  CHECK(origins.place_of("/many/77/y") == "x/y");
}

TEST_CASE("at most 1000 places can be set, some of them again") {
  Json json = Json::object();
  JsonOrigins origins;
  for (int i = 0; i < 1000; ++i) origins.set(json, "/a" + std::to_string(i), "1", "study.json: /set");
  origins.set(json, "/a7", "2", "study.json: /set");
  CHECK(error_of([&] { origins.set(json, "/b", "1", "study.json: /set/~1b"); }) ==
        "study.json: /set/~1b: expected at most 1000 places that are set; found more");
}

TEST_CASE("null takes a key or an element away, and is remembered") {
  Json json = parse_json(R"({"training": {"steps": 5, "seed": 1}, "groups": [1, 2, 3]})", "s.json");
  JsonOrigins origins;
  origins.set(json, "/training/steps", "null", "--set /training/steps");
  origins.set(json, "/groups/1", "null", "--set /groups/1");
  origins.set(json, "/training/target/loss", "null", "a sweep");  // not there, and stays so
  CHECK(json == parse_json(R"({"training": {"seed": 1}, "groups": [1, 3]})", "s.json"));
  CHECK(origins.place_of("/training/steps") == "--set /training/steps");
}

TEST_CASE("what cannot be set is told at the place that asked for it") {
  Json json = parse_json(R"({"groups": [1], "name": "x"})", "s.json");
  JsonOrigins origins;
  CHECK(error_of([&] { origins.set(json, "/groups/3/count", "1", "--set /groups/3/count"); }) ==
        "--set /groups/3/count: /groups is an array of 1, which has no element \"3\"");
  CHECK(error_of([&] { origins.set(json, "/name/x", "1", "study.json: /set/~1name~1x"); }) ==
        "study.json: /set/~1name~1x: /name is neither an object nor an array, so it has no \"x\"");
}

}  // namespace rehearse
