// Sweep files and options: values, ranges, and refusals by their whole line.

#include "sim/plan/sweep_request.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace rehearse {

namespace {

using Texts = std::vector<std::string>;

template <class Work>
std::string refusal(Work work) {
  try {
    (void)work();
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

std::string values_refusal(const std::string& text) {
  return refusal([&] { return read_sweep_values(text); });
}

std::string file_refusal(const std::string& text) {
  return refusal([&] { return read_sweep_request(parse_json(text, "s.json"), "s.json"); });
}

}  // namespace

TEST_CASE("values are separated by commas outside of brackets and quotes; what is no JSON is a text") {
  CHECK(read_sweep_values("1,2.5,true,null") == Texts{"1", "2.5", "true", "null"});
  CHECK(read_sweep_values("10GBps,us-west1") == Texts{"\"10GBps\"", "\"us-west1\""});
  CHECK(read_sweep_values(R"("a,b",[1,2],{"x":"},"})") == Texts{"\"a,b\"", "[1,2]", R"({"x":"},"})"});
  CHECK(values_refusal("1,,2") == "\"1,,2\": expected values between commas; found an empty one");
  CHECK(values_refusal("") == "\"\": expected values between commas; found an empty one");
}

TEST_CASE("ranges count by one, by a step, or by a factor") {
  CHECK(read_sweep_values("1..4") == Texts{"1", "2", "3", "4"});
  CHECK(read_sweep_values("-1..1") == Texts{"-1", "0", "1"});
  CHECK(read_sweep_values("5..5") == Texts{"5"});
  CHECK(read_sweep_values("0..1+0.25") == Texts{"0", "0.25", "0.5", "0.75", "1"});
  CHECK(read_sweep_values("0..1+0.1").size() == 11);
  CHECK(read_sweep_values("1..10+4") == Texts{"1", "5", "9"});
  CHECK(read_sweep_values("1..64*2") == Texts{"1", "2", "4", "8", "16", "32", "64"});
  CHECK(read_sweep_values("1..100*10,7") == Texts{"1", "10", "100", "7"});
  CHECK(read_sweep_values("0.5..2*2") == Texts{"0.5", "1", "2"});
  CHECK(read_sweep_values("1...b") == Texts{"\"1...b\""});
  CHECK(read_sweep_values("a..b") == Texts{"\"a..b\""});
  CHECK(read_sweep_values("1..2GBps") == Texts{"\"1..2GBps\""});
  CHECK(values_refusal("8..1") == "\"8..1\": expected a range that ends above its begin");
  CHECK(values_refusal("0..1+0") == "\"0..1+0\": expected a step above 0");
  CHECK(values_refusal("1..8*1") == "\"1..8*1\": expected a factor above 1 and a begin above 0");
  CHECK(values_refusal("0..8*2") == "\"0..8*2\": expected a factor above 1 and a begin above 0");
  CHECK(values_refusal("0..0.5").find("expected a step for a range that is not of whole numbers") != std::string::npos);
  CHECK(values_refusal("1..1000000") == "accepted");
  CHECK(values_refusal("1..1000001") == "\"1..1000001\": expected at most 1000000 values");
  CHECK(values_refusal("1..1e300") == "\"1..1e300\": expected at most 1000000 values");
  CHECK(values_refusal("1e300..2e300") == "\"1e300..2e300\": expected a step that moves on from the begin");
}

TEST_CASE("options name a place and its values") {
  const SweepAxis grid = read_grid_option("/training/steps=10,20", Json::object());
  CHECK(grid.origin == "--grid /training/steps");
  REQUIRE(grid.choices.size() == 2);
  CHECK(grid.choices[1][0].pointer == "/training/steps");
  CHECK(grid.choices[1][0].value == "20");
  const SweepAxis list = read_list_options({"/a=1;/b=\"x;y\"", "/a=2"}, Json::object());
  REQUIRE(list.choices.size() == 2);
  CHECK(list.choices[0][1].value == "\"x;y\"");
  CHECK(
      refusal([] { return read_list_options({"/a=1;b=2"}, Json::object()); }) ==
      "--list: expected a JSON pointer, such as /training/steps, or the name of a group or part and its keys, such as "
      "training.steps: unknown name \"b\"; none is known here");
  const Json scenario = parse_json(R"({"cluster": {"groups": [{"name": "ps"}, {"name": "workers"}]}})", "s.json");
  CHECK(read_grid_option("workers.count=1..4*2", scenario).choices[2][0].pointer == "/cluster/groups/1/count");
  CHECK(read_list_options({"ps.count=1;workers.count=2"}, scenario).choices[0][1].pointer == "/cluster/groups/1/count");
  CHECK(read_set_option("seed=3", scenario).pointer == "/seed");
}

TEST_CASE("a sweep file becomes settings, axes in order, and constraints") {
  const SweepRequest request = read_sweep_request(parse_json(R"({"format": 1, "scenario": "../x.json",
    "set": {"/training/steps": 40}, "grid": {"/a": [1, "b"], "/c~1d": "1..3"},
    "list": [{"/e": 1, "/f": {"g": 2}}], "constraints": ["/a < 2"], "seeds": 3})",
                                                             "folder/s.json"),
                                                  "folder/s.json");
  CHECK(request.scenario == std::filesystem::path{"folder/../x.json"});
  CHECK(request.set[0].pointer == "/training/steps");
  REQUIRE(request.axes.size() == 3);
  CHECK(request.axes[0].origin == "folder/s.json: /grid/~1a");
  CHECK(request.axes[0].choices[1][0].value == "\"b\"");
  CHECK(request.axes[1].choices.size() == 3);
  CHECK(request.axes[2].choices[0][1].value == "{\"g\":2}");
  CHECK(request.constraints[0].first == "folder/s.json: /constraints/0");
  CHECK(request.seeds == 3);
  CHECK(count_combinations(request) == 6);
}

TEST_CASE("a malformed sweep file is refused with one line") {
  CHECK(file_refusal(R"({"format": 1})").find("s.json: expected the key \"scenario\"") == 0);
  CHECK(file_refusal(R"({"format": 2, "scenario": "x"})") == "s.json: /format: expected 1; found 2");
  CHECK(file_refusal(R"({"format": 1, "scenario": "x", "gird": {}})") ==
        "s.json: unknown key \"gird\"; did you mean \"grid\"?");
  CHECK(file_refusal(R"({"format": 1, "scenario": "x", "grid": {"a": [1]}})") ==
        "s.json: /grid/a: expected a JSON pointer, such as /training/steps, as the key");
  CHECK(file_refusal(R"({"format": 1, "scenario": "x", "grid": {"/a": []}})")
            .find("s.json: /grid/~1a: expected an array") == 0);
  CHECK(file_refusal(R"({"format": 1, "scenario": "x", "grid": {"/a": "8..1"}})") ==
        "s.json: /grid/~1a: \"8..1\": expected a range that ends above its begin");
  CHECK(file_refusal(R"({"format": 1, "scenario": "x", "grid": {"/a": "1..1000", "/b": "1..1001"}})") ==
        "s.json: /grid/~1b: expected at most 1000000 combinations; found at least 1001000");
  std::string axes = R"({"format": 1, "scenario": "x", "grid": {"/a": [1])";
  for (int i = 0; i < 1000; ++i) axes += ", \"/b" + std::to_string(i) + "\": [1]";
  CHECK(file_refusal(axes + "}}") == "s.json: /grid/~1b999: expected at most 1000 places that are set; found more");
  CHECK(file_refusal(R"({"format": 1, "scenario": "x", "list": []})")
            .find("s.json: /list: expected at least one entry") == 0);
  CHECK(file_refusal(R"({"format": 1, "scenario": "x", "seeds": 0})") ==
        "s.json: /seeds: expected 1 to 1000000 seeds; found 0");
  CHECK(refusal([] {
          return read_grid_option("steps=1", Json::object());
        }).find("--grid: expected a JSON pointer, such as") == 0);
  CHECK(refusal([] { return read_grid_option("/steps=3..1", Json::object()); }) ==
        "--grid /steps: \"3..1\": expected a range that ends above its begin");
  CHECK(refusal([] { return read_list_options({"/a=1;/a=2"}, Json::object()); }) ==
        "--list \"/a=1;/a=2\": expected each place once; found /a twice");
}

TEST_CASE("the schema is JSON and knows the keys that the reader knows") {
  const Json schema = parse_json(sweep_schema(), "schema");
  std::vector<std::string> keys;
  for (const auto& [key, value] : schema["properties"].items()) keys.push_back(key);
  CHECK(keys == Texts{"format", "scenario", "set", "grid", "list", "constraints", "seeds"});
}

}  // namespace rehearse
