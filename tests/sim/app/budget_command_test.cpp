// Every verb that works for a while ends at its limit with exit code 3, and soon after Ctrl-C with 130, in each of its
// phases.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/json.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

namespace {

using namespace test;

/// 64 machines of which each lives for a minute: the job hardly ever makes a step.
std::string short_lived(const TemporaryFolder& folder) {
  Json scenario = load_json_file(kRoot + "/scenarios/resnet50-spot.json");
  scenario["cluster"]["groups"][0]["spot_pool"] = {
      {"source", "a test"}, {"lifetime", {{"law", {{"law", "exponential"}, {"mean", "1min"}}}}}, {"notice", "0s"}};
  return folder.write("short-lived.json", to_json_text(scenario)).string();
}

}  // namespace

TEST_CASE("every verb ends at --max-wall-time with exit code 3 and one line") {
  const TemporaryFolder folder;
  const std::string scenarios = kRoot + "/scenarios/", out = (folder.path / "out").string();
  for (const std::string& arguments :
       {"simulate " + scenarios + "cscs-tf-ps.json", "simulate " + kScenario + " -o " + out,
        "simulate " + scenarios + "resnet50-spot.json --runs 1000", "simulate " + short_lived(folder),
        "simulate " + short_lived(folder) + " --runs 2", "sweep " + kScenario + " --seeds 4",
        "sweep " + kScenario + " --seeds 4 -o " + out,
        "provision " + scenarios + "provision/resnet110.json --deadline 2600s --target-loss 0.8",
        "validate " + scenarios + "studies/cm-dare-cluster.json", "validate " + scenarios + "studies/all.json",
        "calibrate " + scenarios + "studies/cm-dare-cluster.json",
        "calibrate " + scenarios + "studies/lifetimes/all.json", "diagnose " + kScenario + " --measured-speed 12",
        "remaining " + kScenario + " --step 100", "queue " + scenarios + "queue/gavel-physical.json",
        "diff " + kScenario + " " + kScenario, "generate " + scenarios + "spaces/small.json --count 20 --dry-run",
        "generate " + scenarios + "spaces/small.json --count 20 -o " + out + "/d.db",
        "generate " + scenarios + "studies/cm-dare-cluster.json -o " + out + "/m.db"})
    check_refused(arguments + " --quiet --max-wall-time 1us", 3, "stopped by --max-wall-time 1us");
  check_refused("simulate " + short_lived(folder) + " --quiet --max-wall-time 1s", 3, "stopped by --max-wall-time 1s");
}

TEST_CASE("Ctrl-C ends every phase within moments") {
  const TemporaryFolder folder;
  const std::string scenarios = kRoot + "/scenarios/";
  for (const std::string& arguments :
       {"simulate " + short_lived(folder), "simulate " + short_lived(folder) + " --runs 1000",
        "validate " + scenarios + "studies/all.json -j 1", "calibrate " + scenarios + "studies/lifetimes/all.json",
        "generate " + scenarios + "studies/all.json -o " + (folder.path / "m.db").string()}) {
    CAPTURE(arguments);
    // A guard against a hang: killed after 20 s more it would be 137.
    CHECK(
        rehearse_with(arguments + " --quiet", "timeout --signal INT --kill-after 20 --preserve-status 0.5").exit_code ==
        130);
  }
}

TEST_CASE("the estimate covers the simulations for the interval, and a profile without uncertain values has none") {
  const std::string simulate = "simulate " + kRoot + "/scenarios/";
  CHECK(rehearse_with(simulate + "dlperf.json --dry-run --quiet").out.find(", its interval included") !=
        std::string::npos);
  const TemporaryFolder folder;
  Json scenario = load_json_file(kScenario);
  scenario["calibration"] = load_json_file(kRoot + "/calibration/profiles/cm-dare.json");
  scenario["calibration"]["fit"]["spread"]["components"] = Json::array();
  const std::string certain = folder.write("certain.json", to_json_text(scenario)).string();
  CHECK(rehearse_with("simulate " + certain + " --dry-run --quiet").out.find("interval") == std::string::npos);
}

TEST_CASE("--dry-run says that a job may never end whose machines go faster than it recovers") {
  const TemporaryFolder folder;
  const std::string out = rehearse_with("simulate " + short_lived(folder) + " --dry-run --quiet").out;
  CHECK(out.find("about one revocation every 0.9") != std::string::npos);  // 60 s / 64 machines = 0.9375 s
  CHECK(out.find("it may never end") != std::string::npos);
  CHECK(rehearse_with("simulate " + kRoot + "/scenarios/resnet50-spot.json --dry-run --quiet").out.find("never end") ==
        std::string::npos);
}

}  // namespace rehearse
