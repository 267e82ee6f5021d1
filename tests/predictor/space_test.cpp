// Space files: what is drawn lies in the ranges, the same for the same seed; each mistake is one line.

#include "predictor/space.hpp"

#include <doctest/doctest.h>

#include <set>

#include "sim/base/errors.hpp"
#include "tests/support/paths.hpp"

namespace rehearse {

namespace {

const std::string kFolder = source_folder() + "/scenarios/spaces/";

Json small() {
  return parse_json(R"({ "format": 1, "name": "test",
    "workloads": [ { "family": "a", "model": "resnet18", "batch": 8 } ],
    "clusters": [ { "name": "one", "scenario": "../driple/01-v100-ps1-w2.json" } ] })",
                    "space");
}

/// The line about a space after `value_text` was put at `pointer`, without the file's name.
std::string problem_with(const std::string& pointer, const std::string& value_text) {
  Json json = small();
  set_json_pointer(json, pointer, value_text);
  try {
    (void)read_space(json, kFolder + "x.json");
  } catch (const InputError& error) {
    const std::string line = error.what();
    CHECK(line.find('\n') == std::string::npos);
    return line.substr(line.find(": /") + 2);
  }
  return "";
}

Json drawn(const std::string& let, const std::string& batch, std::uint64_t index) {
  Json json = small();
  json["workloads"][0]["let"] = parse_json(let, "let");
  json["workloads"][0]["batch"] = parse_json(batch, "batch");
  return draw_workload(read_space(json, kFolder + "x.json"), 1, index).batch;
}

}  // namespace

TEST_CASE("values are drawn from their ranges") {
  std::set<int> seen;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const int batch = drawn("{}", R"({"integer": [8, 24], "multiple_of": 8})", i).get<int>();
    CHECK((batch == 8 || batch == 16 || batch == 24));
    seen.insert(batch);
    const int rare = drawn("{}", R"({"integer": [1, 1000], "logarithmic": true})", i).get<int>();
    CHECK((rare >= 1 && rare <= 1000));
    CHECK(drawn(R"({"w": {"choose": [3, 5]}})", R"({"value": "w", "times": 2})", i).get<int>() % 4 == 2);
  }
  CHECK(seen.size() == 3);
}

TEST_CASE("a draw depends on seed and number alone") {
  const Space space = load_space(kFolder + "reference.json");
  for (std::uint64_t i = 0; i < 20; ++i) {
    const DrawnWorkload a = draw_workload(space, 5, i), b = draw_workload(space, 5, i), c = draw_workload(space, 6, i);
    CHECK(a.model == b.model);
    CHECK(a.batch == b.batch);
    CHECK((a.model != c.model || a.batch != c.batch || a.optimizer != c.optimizer || a.family != c.family));
  }
}

TEST_CASE("the reference space has all settings of Driple, synchronous and asynchronous") {
  const Space space = load_space(kFolder + "reference.json");
  CHECK(space.settings.size() == 28);
  CHECK(space.settings_per_graph == 4);
  CHECK(space.iterations == 20);
  CHECK(space.settings[0].name == "driple/01-v100-ps1-w2 synchronous");
  CHECK(space.settings[27].name == "driple/14-2080ti-ps5-w10 asynchronous");
}

TEST_CASE("a cluster with a count is there so often, each time with other values of its set") {
  Json json = small();
  json["clusters"][0] = parse_json(
      R"({ "name": "one", "scenario": "../driple/01-v100-ps1-w2.json", "count": 40,
           "let": { "nic": { "integer": [100, 10000], "logarithmic": true, "unit": "Mbps" } },
           "set": { "/cluster/groups/0/instance/nic": { "value": "nic" }, "/output/sampling_period": "7ms" } })",
      "cluster");
  json["variants"] = parse_json(R"([ { "name": "a" }, { "name": "b", "set": { "/seed": 3 } } ])", "variants");
  const Space space = read_space(json, kFolder + "x.json"), again = read_space(json, kFolder + "x.json");
  REQUIRE(space.settings.size() == 80);
  CHECK(space.settings[0].name == "one 1 a");
  CHECK(space.settings[79].name == "one 40 b");
  CHECK(space.settings[79].group == "one");
  CHECK(space.text == again.text);
  std::set<std::string> seen;
  int below = 0;  // the middle of the logarithms
  for (std::size_t i = 0; i < space.settings.size(); ++i) {
    const Json& scenario = space.settings[i].scenario;
    const auto nic = scenario["cluster"]["groups"][0]["instance"]["nic"].get<std::string>();
    CHECK(nic == again.settings[i].scenario["cluster"]["groups"][0]["instance"]["nic"].get<std::string>());
    CHECK(nic.ends_with("Mbps"));
    below += std::stoi(nic) < 1000 ? 1 : 0;
    seen.insert(nic);
    CHECK(scenario["output"]["sampling_period"] == "7ms");
    if (i % 2 == 1) CHECK(scenario["seed"] == 3);
  }
  CHECK(seen.size() > 30);  // both variants of a cluster have the same
  CHECK((below > 20 && below < 60));
}

TEST_CASE("workloads are those of another space, if it is named") {
  Json json = small();
  json["workloads"] = "reference.json";
  const Space space = read_space(json, kFolder + "x.json"), reference = load_space(kFolder + "reference.json");
  REQUIRE(space.families.size() == reference.families.size());
  CHECK(draw_workload(space, 3, 4).model == draw_workload(reference, 3, 4).model);
  Json changed = json;
  changed["workloads"] = "small.json";
  CHECK(read_space(changed, kFolder + "x.json").text != space.text);
  const Space strategies = load_space(kFolder + "strategies.json");
  CHECK(strategies.settings.size() == 1000);
}

TEST_CASE("settings are kept by their name or by that of their cluster") {
  Space space = load_space(kFolder + "reference.json");
  const std::string whole = space.text;
  keep_settings(space, {"driple/02-v100-ps2-w2 asynchronous", "driple/01-v100-ps1-w2"});
  REQUIRE(space.settings.size() == 3);
  CHECK(space.settings[0].name == "driple/01-v100-ps1-w2 synchronous");
  CHECK(space.settings[2].name == "driple/02-v100-ps2-w2 asynchronous");
  CHECK(space.settings_per_graph == 3);
  CHECK(space.text != whole);  // which is what a dataset depends on
  CHECK_THROWS_WITH_AS(
      keep_settings(space, {"driple/02-v100-ps2-w2 asynchronos"}),
      doctest::Contains(
          "--setting: unknown setting \"driple/02-v100-ps2-w2 asynchronos\"; did you mean \"driple/02-v100-ps2-w2 "
          "asynchronous\"?"),
      InputError);
}

TEST_CASE("each mistake in a space file is one line") {
  CHECK(problem_with("/format", "2") == "/format: expected 1; found 2");
  CHECK(problem_with("/iterations", "0") == "/iterations: expected 1 to 10000; found 0");
  CHECK(problem_with("/sampling_period", "1us") == "/sampling_period: expected 0.1ms to 100s; found \"1us\"");
  CHECK(problem_with("/workloads", "[]") == "/workloads: expected 1 to 200 families; found an empty array");
  CHECK(problem_with("/clusters", "[]") ==
        "/clusters: expected 1 to 1000 settings: clusters, each as often as its count, times variants; found an empty "
        "array");
  CHECK(problem_with("/settings_per_graph", "2") ==
        "/settings_per_graph: expected 1 to the number of settings, 1; found 2");
  CHECK(problem_with("/workloads/0/wieght", "2") == "/workloads/0: unknown key \"wieght\"; did you mean \"weight\"?");
  CHECK(problem_with("/workloads/0/batch", R"({"integer": [9, 8]})") ==
        "/workloads/0/batch: expected \"integer\": [low, high], whole numbers from 0, the second not below the first");
  CHECK(problem_with("/workloads/0/batch", "0") == "/workloads/0/batch: expected 1 to 65536 samples; found 0");
  CHECK(problem_with("/workloads/0/batch", R"({"value": "widht"})") ==
        "/workloads/0/batch: unknown value \"widht\"; none is known here");
  CHECK(problem_with("/workloads/0/batch", R"({"choose": []})") ==
        "/workloads/0/batch: expected a list of values to choose from");
  CHECK(problem_with("/workloads/0/optimizer", "lion") ==
        "/workloads/0/optimizer: expected \"sgd\", \"momentum\" or \"adam\"; found \"lion\"");
  CHECK(problem_with("/clusters/0/set", R"({"training": 1})") ==
        "/clusters/0/set: expected JSON pointers such as \"/training/strategy/synchronization\"; found \"training\"");
  for (const auto& [pointer, by] : {std::pair{"/workload/precision", "a space's own \"workloads\", in fp32"},
                                    std::pair{"/workload/batch_per_worker", "a space's own \"workloads\", in fp32"},
                                    std::pair{"/training/steps", "\"iterations\" of the space"},
                                    std::pair{"/training/warmup_steps", "\"warmup_steps\" of the space"}})
    CHECK(problem_with("/clusters/0/set", std::string{"{\""} + pointer + "\": 5}") ==
          "/clusters/0/set: expected no \"" + std::string{pointer} + "\", which is said by " + by);
  CHECK(problem_with("/clusters/0/set", R"({"/workload/framework": "PyTorch"})").empty());
  CHECK(problem_with("/clusters/0/count", "0") == "/clusters/0/count: expected 1 to 1000 settings; found 0");
  CHECK(problem_with("/clusters/0/count", "1001") ==
        "/clusters: expected 1 to 1000 settings: clusters, each as often as its count, times variants; found an array "
        "of 1");
  CHECK(problem_with("/clusters/0/let", R"({"a": 1})") ==
        "/clusters/0/let: expected a count beside it: how many settings are drawn; found an object");
  CHECK(problem_with("/workloads/0/batch", R"({"integer": [1, 8], "unit": 5})") ==
        "/workloads/0/batch: expected \"unit\": a text such as \"Mbps\"");
  CHECK(problem_with("/operators", "[5, 4]").starts_with("/operators: expected [least, most]"));
  CHECK(problem_with("/split", R"({"validation": 0.6, "test": 0.4})").starts_with("/split: expected shares"));
}

}  // namespace rehearse
