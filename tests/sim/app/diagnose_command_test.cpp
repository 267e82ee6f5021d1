// rehearse diagnose as its user meets it.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/json.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

using namespace test;

TEST_CASE("diagnose prints verdict, limit and remedies, and writes the same as JSON") {
  const TemporaryFolder folder;
  const std::string command = "diagnose " + kScenario + " --set /training/steps=100 --measured-speed 18 --quiet";
  const Outcome outcome = rehearse_with(command);
  CHECK(outcome.exit_code == 0);
  for (const char* text :
       {"measured                 18 steps/s, 2304 samples/s\n", "\nverdict                  the run is as fast",
        "\nsimulated step              96.9 %  kernels on the GPUs\n", "kernels on the GPUs\n",
        "--set '/cluster/groups/1/count=5'", "(only for more money)"})
    CHECK_MESSAGE(outcome.out.find(text) != std::string::npos, text);
  const std::string json = rehearse_with(command + " --json -j 1 -o " + folder.path.string()).out;
  CHECK(json == read_file(folder / "diagnosis.json", kMiB));
  CHECK(json == rehearse_with(command + " --json -j 2").out);
  CHECK(parse_json(json, "d")["is_flagged"] == false);
}

TEST_CASE("diagnose of several sizes prints computation and scaling apart") {
  const TemporaryFolder folder;
  write_file(folder / "sizes.csv", "gpus,samples_per_s\n1,330\n8,2500\n");
  const std::string scenario = "diagnose " + source_folder() + "/scenarios/dgx.json --quiet ";
  const std::string json = rehearse_with(scenario + "--measured 1=330 --measured 8=2500 --json").out;
  CHECK(json == rehearse_with(scenario + "--measured " + (folder / "sizes.csv").string() + " --json").out);
  CHECK(json == rehearse_with(scenario + "--measured-samples-per-s 2500 --one-gpu-samples-per-s 330 --json").out);
  CHECK(parse_json(json, "d")["sizes"].size() == 2);
  const std::string text = rehearse_with(scenario + "--measured 1=330 --measured 8=2500").out;
  for (const char* part : {"\ncomputation: ", "\nscaling: ", "\n8 GPUs, simulated with the step that one GPU was"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
  check_refused("diagnose " + kScenario + " --measured-speed 3 --one-gpu-samples-per-s 4", 2,
                "--one-gpu-samples-per-s: ");
}

TEST_CASE("diagnose refuses what it cannot use") {
  check_refused("diagnose " + kScenario, 2, "diagnose: expected one of --measured-speed");
  check_refused("diagnose " + kScenario + " --measured-speed -3", 2, "--measured-speed");
  check_refused("diagnose " + kScenario + " --measured-speed 3 --measured-samples-per-s 4", 2, "found 2");
  check_refused("diagnose " + kScenario + " --measured-step-time 3", 2, "--measured-step-time: ");
  check_refused("diagnose " + kScenario + " --measured-speed 3 --set x", 2, "--set: expected /json/pointer=value");
}

}  // namespace rehearse
