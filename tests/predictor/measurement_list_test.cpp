#include "predictor/measurement_list.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace rehearse::measurement_list_test {
namespace {

MeasurementList read(const std::string& text) {
  return read_measurement_list(parse_json(text, "folder/list.json"), "folder/list.json");
}

void check_refused(const std::string& text, const std::string& message) {
  CHECK_THROWS_WITH_AS(read(text), ("folder/list.json: " + message).c_str(), InputError);
}

}  // namespace

TEST_CASE("a list names scenarios, graphs and what was recorded, relative to its file") {
  const MeasurementList list = read(R"({ "format": 1, "source": "us",
    "profiles": [ { "scenario": "a.json", "model": "resnet18", "batch_per_worker": 16, "set": { "/training/steps": 40 },
                    "series": "a.csv", "step_time": "20ms", "weight": 2 },
                  { "scenario": "a.json", "graph": "a.pbtxt", "family": "net", "setting": "mine", "step_time": "1s",
                    "study": "ours", "split": "test" } ],
    "jobs": [ { "scenario": "b.json", "graphs": "graphs", "results": "b.csv" } ] })");
  REQUIRE(list.runs.size() == 2);
  CHECK(list.runs[0].where.file == "folder/a.json");
  CHECK(list.runs[0].where.overrides ==
        std::vector<std::string>{"/workload/model=resnet18", "/workload/batch_per_worker=16", "/training/steps=40"});
  CHECK(*list.runs[0].series == "folder/a.csv");
  CHECK(list.runs[0].step_time == Seconds{0.02});
  CHECK(list.runs[0].weight == 2);
  CHECK(*list.runs[1].graph == "folder/a.pbtxt");
  CHECK(list.runs[1].family == "net");
  CHECK(list.runs[1].where.name == "mine");
  CHECK(list.runs[1].where.study == "ours");
  CHECK(list.runs[1].where.split == Split::kTest);
  CHECK(!list.runs[0].where.split);
  REQUIRE(list.jobs.size() == 1);
  CHECK(list.jobs[0].graphs == "folder/graphs");
  CHECK(parse_json(measurement_list_schema(), "schema")["properties"]["profiles"]["items"]["properties"].size() == 13);
}

TEST_CASE("a list that is not sound is refused with its place") {
  const std::string start = R"({ "format": 1, "source": "us", "profiles": [ )";
  check_refused(R"({ "format": 1, "source": "us" })", "expected 1 to 100000 profiles and jobs");
  check_refused(start + R"({ "scenario": "a.json" } ] })", "/profiles/0: expected a series, a step_time, or both");
  check_refused(start + R"({ "scenario": "a.json", "step_time": "0s" } ] })",
                "/profiles/0/step_time: expected a time above 0s; found \"0s\"");
  check_refused(start + R"({ "scenario": "a.json", "step_time": "1s", "model": "m", "graph": "g" } ] })",
                "/profiles/0/graph: expected no graph beside a model; found \"g\"");
  check_refused(start + R"({ "scenario": "a.json", "step_time": "1s", "set": { "batch": 1 } } ] })",
                "/profiles/0/set/batch: expected a JSON pointer, such as /cluster/groups/0/count, as the key");
  check_refused(start + R"({ "scenario": "a.json", "step_time": "1s", "serie": "a" } ] })",
                "/profiles/0: unknown key \"serie\"; did you mean \"series\"?");
  check_refused(start + R"({ "scenario": "a.json", "step_time": "1s", "split": "tests" } ] })",
                "/profiles/0/split: unknown split \"tests\"; did you mean \"test\"?");
}

}  // namespace rehearse::measurement_list_test
