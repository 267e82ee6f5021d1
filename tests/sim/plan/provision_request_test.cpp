// Provision files and options, read or refused with one line.

#include "sim/plan/provision_request.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

const std::string kRoot = source_folder();

/// What is wrong with a provision file that has these members besides format and scenario.
std::string problem_of(const std::string& members) {
  try {
    (void)read_provision_request(parse_json(R"({"format": 1, "scenario": "s.json", )" + members + "}", "p.json"),
                                 "p.json");
  } catch (const InputError& error) { return error.what(); }
  return {};
}

}  // namespace

TEST_CASE("the shipped provision file") {
  const ProvisionRequest request = load_provision_request(kRoot + "/scenarios/provision/resnet110.json");
  CHECK(request.candidates.size() == 5);
  CHECK(request.candidates[2].name == "g3.8xlarge");
  CHECK(request.candidates[2].quota == 5);
  CHECK(request.candidates[2].usd_per_hour == 0.684);
  CHECK(request.candidates[3].group->at("batch_per_worker") == 2048);
  CHECK(request.candidates[3].group->at("instance") == "g3.16xlarge");
  CHECK(request.contention->intercept == -1.92);
  CHECK(request.price == PriceSource::kSpot);
  CHECK(request.scenario->at("calibration") == "spotdnn");
}

TEST_CASE("a scenario alone: its groups of workers are the candidates") {
  const ProvisionRequest request =
      load_provision_request(kRoot + "/scenarios/spotdnn.json", {"/cluster/groups/1/name=a", "/calibration=other"});
  CHECK(request.candidates.size() == 2);
  CHECK(request.candidates[0].name == "a");
  CHECK(request.candidates[0].quota == kDefaultQuota);
  CHECK(request.candidates[1].name == "g3.16xlarge");
  CHECK(request.scenario->at("calibration") == "other");
  const ProvisionRequest by_name = load_provision_request(kRoot + "/scenarios/spotdnn.json", {"calibration=other"});
  CHECK(by_name.scenario->at("calibration") == "other");
  CHECK_THROWS_WITH_AS((void)load_provision_request(kRoot + "/scenarios/spotdnn.json", {"claibration=other"}),
                       doctest::Contains("--set: expected a JSON pointer, such as"), InputError);
}

TEST_CASE("mistakes in a provision file are named with their place") {
  CHECK(problem_of(R"("price": "spot")").empty());
  CHECK(problem_of(R"("prices": "spot")") == "p.json: unknown key \"prices\"; did you mean \"price\"?");
  CHECK(problem_of(R"("price": "sport")") == "p.json: /price: unknown price source \"sport\"; did you mean \"spot\"?");
  CHECK(problem_of(R"("candidates": [])") ==
        "p.json: /candidates: expected at least one candidate; found an empty array");
  CHECK(problem_of(R"("candidates": [{"instance": "a", "quota": -1}])") ==
        "p.json: /candidates/0/quota: expected 0 to 10000 machines; found -1");
  CHECK(problem_of(R"("candidates": [{"instance": "a", "quota": 2, "existing": 3}])") ==
        "p.json: /candidates/0/existing: expected 0 machines or more, and no more than the quota of 2; found 3");
  CHECK(problem_of(R"("candidates": [{"instance": "a"}, {"instance": "a"}])") ==
        "p.json: /candidates/1/instance: another candidate has this name already: \"a\"");
  CHECK(problem_of(R"("candidates": [{"instance": "a"}, {"instance": "a", "name": "b"}])").empty());
  CHECK(problem_of(R"("candidates": [{"instance": "a", "group": {"count": 3}}])") ==
        "p.json: /candidates/0/group/count: this is what provision sets; found a value");
  CHECK(problem_of(R"("progress": {})") == "p.json: /progress: expected \"loss\" or \"updates\"; found neither");
  CHECK(problem_of(R"("confidence": 1.5)") == "p.json: /confidence: expected a probability from 0 to 1; found 1.5");
  CHECK(problem_of(R"("closed_form": {"contention": {"slope": -1, "intercept": 0}})") ==
        "p.json: /closed_form/contention/slope: expected 0 to 1e6; found -1");
}

TEST_CASE("numbers of machines, planners and prices on the command line") {
  CHECK(read_machine_number("--quota", "g3.8xlarge=5") == std::pair<std::string, int>{"g3.8xlarge", 5});
  CHECK(read_machine_number("--quota", "a=b=0") == std::pair<std::string, int>{"a=b", 0});
  for (const char* text : {"g3.8xlarge", "=5", "a=", "a=-1", "a=1.5", "a=10001", "a=99999999999"})
    CHECK_THROWS_WITH_AS(
        (void)read_machine_number("--quota", text),
        doctest::Contains("--quota: expected an instance and 0 to 10000 machines, such as g3.8xlarge=5; found"),
        InputError);
  CHECK(read_planner("cm-dare+") == Planner::kCmDarePlus);
  CHECK(to_text(Planner::kSpotdnnReleased) == "spotdnn-released");
  CHECK_THROWS_WITH_AS((void)read_planner("our"), "unknown planner \"our\"; did you mean \"ours\"?", InputError);
  ProvisionRequest request = load_provision_request(kRoot + "/scenarios/provision/resnet110.json");
  CHECK_THROWS_WITH_AS((void)find_candidate(request, "g3.8xlarg", "--quota"),
                       "--quota: unknown candidate \"g3.8xlarg\"; did you mean \"g3.8xlarge\"?", InputError);
}

}  // namespace rehearse
