#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/json.hpp"
#include "sim/base/parse_quantity.hpp"

namespace rehearse::json_reader_test {
namespace {

struct Link {
  std::string name;
  BytesPerSecond bandwidth;
  Seconds latency;
  bool operator==(const Link&) const = default;
};

Link read_link(JsonReader json) {
  Link link{
      .name = json.required<std::string>("name"),
      .bandwidth = json.required<BytesPerSecond>("bandwidth"),
      .latency = json.optional<Seconds>("latency", 2.0_s),
  };
  json.expect(link.bandwidth > BytesPerSecond{0}, "bandwidth", "a rate above 0Bps");
  json.reject_unknown_keys();
  return link;
}

template <class F>
std::string error_of(std::string_view text, F&& read) {
  const Json json = parse_json(text, "f.json");
  try {
    read(JsonReader{json, "f.json"});
  } catch (const InputError& error) { return error.what(); }
  return "no error";
}

template <class T>
std::string error_as(std::string_view text) {
  return error_of(text, [](const JsonReader& json) { (void)json.as<T>(); });
}

template <class T>
T read_as(std::string_view text) {
  const Json json = parse_json(text, "f.json");
  return JsonReader{json, "f.json"}.as<T>();
}

std::string link_error(std::string_view text) {
  return error_of(text, [](const JsonReader& json) { read_link(json); });
}

}  // namespace

TEST_CASE("a struct is read, with its defaults") {
  const Json json = parse_json(R"({"name": "nvlink", "bandwidth": "25GBps"})", "f.json");
  CHECK(read_link({json, "f.json"}) == Link{"nvlink", 25_GBps, 2.0_s});
}

TEST_CASE("each mistake in an object is one line: where, what was expected, what was found") {
  CHECK(link_error(R"({"name": "a", "bandwidth": 25})") ==
        R"(f.json: /bandwidth: expected a rate with a unit, such as "25Bps" (bytes) or "25bps" (bits); found 25)");
  CHECK(link_error(R"({"name": "a", "bandwidth": "25"})") ==
        R"(f.json: /bandwidth: expected a rate with a unit, such as "25Bps" (bytes) or "25bps" (bits); found "25")");
  CHECK(link_error(R"({"name": "a", "bandwidth": "0Bps"})") ==
        R"(f.json: /bandwidth: expected a rate above 0Bps; found "0Bps")");
  CHECK(link_error(R"({"name": "a", "bandwidth": "1Bps", "latncy": "1s"})") ==
        R"(f.json: unknown key "latncy"; did you mean "latency"?)");
  CHECK(link_error(R"({"name": "a", "bandwidth": "1Bps", "colour": 1})") ==
        R"(f.json: unknown key "colour"; known: "name", "bandwidth", "latency")");
  CHECK(link_error(R"({"name": "a"})") == R"(f.json: expected the key "bandwidth"; found none)");
  CHECK(link_error(R"({"name": null})") == "f.json: /name: expected a string; found null");
  CHECK(link_error(R"({"name": {"x": 1}})") == "f.json: /name: expected a string; found an object");
  CHECK(link_error("[1, 2]") == "f.json: expected an object; found an array of 2");
}

TEST_CASE("nested mistakes carry the whole pointer") {
  const auto read = [](const JsonReader& json) {
    for (const JsonReader& link : json.children("links")) read_link(link);
  };
  CHECK(error_of(R"({"links": [{"name": "a", "bandwidth": "1Bps"}, {"name": 3}]})", read) ==
        "f.json: /links/1/name: expected a string; found 3");
  CHECK(error_of(R"({"links": [{"name": "a", "bandwidth": "1Bps", "x": 3}]})", read) ==
        R"(f.json: /links/0: unknown key "x"; known: "name", "bandwidth", "latency")");
  CHECK(error_of(R"({"links": {}})", read) == "f.json: /links: expected an array; found an empty object");
  const auto map = [](const JsonReader& json) {
    for (const auto& [name, link] : json.items()) read_link(link);
    json.reject_unknown_keys();
  };
  CHECK(error_of(R"({"pcie/3": {"name": 1}})", map) == "f.json: /pcie~13/name: expected a string; found 1");
}

TEST_CASE("integers are whole and within range") {
  CHECK(read_as<int>("-2147483648") == std::numeric_limits<int>::min());
  CHECK(read_as<int>("4.0") == 4);
  CHECK(read_as<std::int64_t>("1e6") == 1'000'000);
  CHECK(read_as<std::int64_t>("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  CHECK(read_as<std::uint64_t>("18446744073709551615") == std::numeric_limits<std::uint64_t>::max());
  const std::string expected = "f.json: expected a whole number between -2147483648 and 2147483647; found ";
  CHECK(error_as<int>("1.5") == expected + "1.5");
  CHECK(error_as<int>("2147483648") == expected + "2147483648");
  CHECK(error_as<int>("1e30") == expected + "1e+30");
  CHECK(error_as<int>("\"4\"") == expected + "\"4\"");
  CHECK(error_as<int>("true") == expected + "true");
  CHECK(error_as<std::int64_t>("9223372036854775808") ==
        "f.json: expected a whole number below 2^63; found 9223372036854775808");
  CHECK(error_as<std::int64_t>("-9223372036854775809") ==
        "f.json: expected a whole number below 2^63; found -9.223372036854776e+18");
  CHECK(error_as<std::uint64_t>("-1") == "f.json: expected a whole number from 0, below 2^64; found -1");
}

TEST_CASE("the other types take no substitutes") {
  CHECK(read_as<double>("3") == 3.0);
  CHECK(error_as<double>("\"3\"") == R"(f.json: expected a number; found "3")");
  CHECK(error_as<bool>("1") == "f.json: expected true or false; found 1");
  CHECK(error_as<std::string>("1") == "f.json: expected a string; found 1");
  CHECK(read_as<std::vector<double>>("[1, 2.5]") == std::vector<double>{1, 2.5});
  CHECK(read_as<std::vector<Bytes>>(R"(["1kB"])") == std::vector<Bytes>{1_kB});
  CHECK(error_as<std::vector<int>>("[1, \"2\"]") ==
        "f.json: /1: expected a whole number between -2147483648 and 2147483647; found \"2\"");
}

TEST_CASE("a key that was asked for in vain is known, also when a helper asked") {
  const auto read = [](JsonReader json) {
    CHECK_FALSE(json.has("a"));
    CHECK_FALSE(json.maybe<int>("b"));
    [](JsonReader copy) { CHECK(copy.optional<int>("c", 1) == 1); }(json);
    json.reject_unknown_keys();
  };
  CHECK(error_of(R"({"d": 0})", read) == R"(f.json: unknown key "d"; known: "a", "b", "c")");
}

TEST_CASE("what is found is shown shortened, on one line") {
  const std::string long_text(1000, 'x');
  CHECK(error_as<int>("\"" + long_text + "\"") ==
        "f.json: expected a whole number between -2147483648 and 2147483647; found \"" + std::string(60, 'x') +
            "...\"");
  CHECK(error_as<int>(R"("a\nb")").ends_with(R"(found "a\x0ab")"));
}

TEST_CASE("fail and expect speak about a key or about the value itself") {
  CHECK(error_of("{}", [](const JsonReader& json) { json.fail("a", "no"); }) == "f.json: /a: no");
  CHECK(error_of("{}", [](const JsonReader& json) { json.fail("no"); }) == "f.json: no");
  CHECK(error_of("3", [](const JsonReader& json) { json.expect(false, "4"); }) == "f.json: expected 4; found 3");
  CHECK(error_of("{}", [](const JsonReader& json) { json.expect(false, "a", "4"); }) ==
        "f.json: /a: expected 4; found no such key");
}

TEST_CASE("paths in a file are relative to its folder") {
  const Json json;
  CHECK((JsonReader{json, "scenarios/a.json"}.resolve("../data/x.csv")) == "scenarios/../data/x.csv");
  CHECK((JsonReader{json, "scenarios/a.json"}.resolve("/data/x.csv")) == "/data/x.csv");
  CHECK((JsonReader{json, "a.json"}.resolve("x.csv")) == "x.csv");
}

}  // namespace rehearse::json_reader_test
