// Places of a scenario as people type them.

#include "sim/scenario/place_names.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/error_of.hpp"

namespace rehearse::place_names_test {

TEST_CASE("a place is a pointer, the keys of a group, or those of a part of the file") {
  const Json scenario = Json::parse(R"({"training": {"steps": 3}, "cluster": {"groups": [
      {"name": "ps"}, {"name": "workers"}, {"name": "workers.v100"}, {"name": "a/b"}, {"name": 3}]}})");
  const auto place = [&](const char* name) { return pointer_of_place(name, scenario, "--set"); };
  CHECK(place("/any/place") == "/any/place");
  CHECK(place("workers.count") == "/cluster/groups/1/count");
  CHECK(place("workers.v100.count") == "/cluster/groups/2/count");
  CHECK(place("a/b.instance.nic") == "/cluster/groups/3/instance/nic");
  CHECK(place("training.steps") == "/training/steps");
  CHECK(place("training.strategy.a/b~") == "/training/strategy/a~1b~0");
  CHECK(place("seed") == "/seed");  // which the file may lack
  CHECK(with_pointer("ps.count=2=3", scenario, "--grid") == "/cluster/groups/0/count=2=3");
}

TEST_CASE("a place that is none, or one of two, is refused with what there is") {
  const Json scenario =
      Json::parse(R"({"training": {}, "cluster": {"groups": [{"name": "workers"}, {"name": "training"}]}})");
  const auto refusal = [&](const char* text) {
    return test::error_of([&] { (void)with_pointer(text, scenario, "--set"); });
  };
  CHECK(refusal("worker.count=1").find("unknown name \"worker\"; did you mean \"workers\"?") != std::string::npos);
  CHECK(refusal("workers=1").find("unknown name \"workers\"") != std::string::npos);  // a group is no place by itself
  CHECK(refusal("training.steps=1") ==
        "--set: \"training.steps\" is /cluster/groups/1/steps or /training/steps: expected one of these");
  CHECK(refusal("workers.count").starts_with("--set: expected /json/pointer=value, or GROUP.KEY=value"));
  CHECK(refusal("=1").starts_with("--set: expected /json/pointer=value"));
  CHECK_THROWS_AS((void)pointer_of_place("steps", Json::array(), "--set"), InputError);
}

}  // namespace rehearse::place_names_test
