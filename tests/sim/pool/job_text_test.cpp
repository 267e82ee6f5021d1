// A job as a text gives what the call gives: the same bytes, the same errors.

#include "sim/pool/job_text.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "sim/pool/pool.hpp"
#include "sim/scenario/work.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

/// The result of the job, or its error.
std::string outcome_of(const std::string& text) {
  return run_isolated(1, 1, [&](std::size_t) { return run_job(text); }).front().text;
}

std::string problem_of(const std::string& text) {
  try {
    (void)run_job(text);
  } catch (const InputError& error) { return error.what(); }
  return {};
}

std::vector<fs::path> shipped_scenarios() {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator{source_folder() + "/scenarios"})
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  return files;
}

}  // namespace

TEST_CASE("a shipped scenario's job gives its summary, warnings included") {
  const Catalog& catalog = test::shipped_catalog();
  std::vector<Scenario> scenarios;
  std::size_t warnings = 0;
  for (const fs::path& file : shipped_scenarios()) {
    Json json = load_json_file(file);
    for (const char* key : kJobSizes) json["training"].erase(key);
    json["training"]["steps"] = 12;
    scenarios.push_back(read_scenario(json, file.string(), catalog));
    warnings += scenarios.back().warnings.size();
  }
  const auto results = run_isolated(3 * scenarios.size(), 2, [&](std::size_t i) {
    const Scenario& scenario = scenarios[i / 3];
    if (i % 3 == 0) return summary_text(scenario);
    PoolJob job = kSimulate.job(Scenario{scenario});
    return i % 3 == 1 ? std::move(job).run() : run_job(job.text());
  });
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    CAPTURE(scenarios[i].file_name);
    CHECK(results[3 * i].text.starts_with("{\"format\":1,"));
    CHECK(results[3 * i + 1].text == results[3 * i].text);
    CHECK(results[3 * i + 2].text == results[3 * i].text);
  }
  CHECK(warnings > 0);
}

TEST_CASE("a warning that only names in catalogs give is part of the job") {
  const Scenario scenario = test::resolved(test::shipped_scenario({{"/calibration", "auto"}}));
  REQUIRE(scenario.warnings.front().starts_with("calibration \"auto\" takes"));
  CHECK(Json::parse(outcome_of(kSimulate.job(scenario).text()))["warnings"][0] == scenario.warnings.at(0));
}

TEST_CASE("options change what the scenario says") {
  const Scenario scenario = test::resolved(test::shipped_scenario());
  CHECK(Json::parse(outcome_of(kSimulate.job(scenario, {{"steps", 60}}).text()))["steps"] == 60);
  const Scenario spot = read_scenario(load_json_file(source_folder() + "/scenarios/cm-dare-spot.json"),
                                      "cm-dare-spot.json", test::shipped_catalog());
  REQUIRE(spot.has_revocations());
  const Json stays = Json::parse(outcome_of(kSimulate.job(spot, {{"steps", 60}, {"has_revocations", false}}).text()));
  CHECK(stays["steps"] == 60);
  CHECK_FALSE(stays.contains("revocations"));
}

TEST_CASE("what has no result has the same error as a job: who has set the value, and in which file") {
  Json json = test::shipped_scenario();
  JsonOrigins origins;
  origins.set(json, "/cluster/groups/1/instance",
              R"({"source": "a test", "vcpus": 4, "memory": "10GiB", "nic": "5bps", "accelerator": "P100",
                  "accelerators": 1})",
              "--set /cluster/groups/1/instance");
  const Scenario scenario = read_scenario(json, "somewhere.json", test::shipped_catalog(), origins);
  const std::string alone = run_isolated(1, 1, [&](std::size_t) { return summary_text(scenario); }).front().text;
  CHECK(alone.find("expected rates from 1Bps to 1e18Bps") != std::string::npos);
  CHECK(alone.find("(with --set /cluster/groups/1/instance=") != std::string::npos);
  CHECK(outcome_of(kSimulate.job(scenario).text()) == alone);
}

TEST_CASE("a malformed job is one clear error") {
  CHECK(problem_of("") == "job: expected a JSON object; found \"\"");
  CHECK(problem_of("{\"verb\": ") == "job: expected a JSON object; found \"{\"verb\": \"");
  CHECK(problem_of("12") == "job: expected an object; found 12");
  CHECK(run_job("[12]") == R"([{"error":"job: expected an object; found 12"}])");
  CHECK(problem_of("{}") == "job: expected the key \"verb\"; found none");
  CHECK(problem_of(R"({"verb": "simulat"})") == "job: /verb: unknown verb \"simulat\"; did you mean \"simulate\"?");
  CHECK(problem_of(R"({"verb": "simulate"})") == "job: expected the key \"options\"; found none");

  Json job = Json::parse(kSimulate.job(test::resolved(test::shipped_scenario())).text());
  job["options"]["stepps"] = 4;
  CHECK(problem_of(job.dump()) == "job: /options: unknown key \"stepps\"; did you mean \"steps\"?");
  job["places"] = {"one"};
  CHECK(problem_of(job.dump()) ==
        "job: /places: expected one of each group, then one of each link; found an array of 1");
  job["scenario"].erase("cluster");
  CHECK(problem_of(job.dump()).find("test.json: expected the key \"cluster\"") != std::string::npos);
}

}  // namespace rehearse
