// rehearse remaining as its user meets it.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/json.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

using namespace test;

TEST_CASE("remaining prints the simulated time beside the controller's, and writes the same as JSON") {
  const TemporaryFolder folder;
  const std::string command = "remaining " + kScenario + " --set /training/steps=64000 --step 32096 --quiet";
  const Outcome outcome = rehearse_with(command);
  CHECK(outcome.exit_code == 0);
  for (const char* text : {"without 1 machine of group workers", "\nreplacement              works after ",
                           " for 31904 steps, ", "\nCM-DARE's controller     "})
    CHECK_MESSAGE(outcome.out.find(text) != std::string::npos, text);
  const std::string json = rehearse_with(command + " --json -o " + folder.path.string()).out;
  CHECK(json == read_file(folder / "remaining.json", kMiB));
  CHECK(read_file(folder / "remaining.html", 4 * kMiB).find("The training takes another") != std::string::npos);
  const Json prediction = parse_json(json, "r");
  CHECK(prediction["remaining_time_s"] > 1700);
  CHECK(prediction["remaining_time_s"] < 1900);
}

TEST_CASE("remaining takes past revocations, and refuses what it cannot use") {
  const TemporaryFolder folder;
  const std::string command = "remaining " + kScenario + " --set /training/steps=64000 --quiet --step ";
  const std::string cases = kRoot + "/calibration/data/cm-dare/remaining_time_after_revocation.csv";
  CHECK(rehearse_with(command + "10 --history " + cases).out.find("fitted to the history") != std::string::npos);
  check_refused("remaining " + kScenario, 2, "--step is required");
  check_refused(command + "64000", 2, "expected a loss before the last of 64000 steps; found step 64000");
  check_refused(command + "1 --lost 9", 2, "expected a loss of 1 to 4 machines of group \"workers\"; found 9");
  check_refused(command + "1 --replaced-after 90", 2, "--replaced-after: expected a time");
  folder.write("h.csv", "revocation_step,total_steps,measured_remaining_s\n9,9,1\n");
  check_refused(command + "1 --history " + (folder / "h.csv").string(), 2,
                "h.csv:2: column \"revocation_step\": expected a step from 0, below total_steps");
}

}  // namespace rehearse
