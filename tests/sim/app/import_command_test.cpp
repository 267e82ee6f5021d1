// rehearse import, and what the other verbs make of its files.

#include <doctest/doctest.h>

#include "sim/base/files.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

using namespace test;

namespace {

const std::string kProfiles = kRoot + "/calibration/data/pipedream-profiles/";

}  // namespace

TEST_CASE("a model of another tool becomes a model file, and its numbers are printed") {
  const TemporaryFolder folder;
  const std::string model = (folder / "new/alexnet.json").string();
  const Outcome outcome = rehearse_with("import " + kProfiles + "alexnet.nodes.csv -o " + model);
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out ==
        "PipeDream profile\n\n"
        "operators    22 forward, 44 in a training step\n"
        "parameters   61,100,840 in 8 tensors\n"
        "measured     44.801 ms forward, 40.520 ms backward, of a batch of 256\n"
        "activations  1.124 GB, of a batch of 256 in fp32\n\n"
        "note: times are those of one GPU, layer by layer, with a batch of 256\n");
  const Outcome simulated = rehearse_with(
      "simulate " + kScenario +
      " --quiet --set /training/steps=8 --set /workload/batch_per_worker=256 --set /workload/model=" + model);
  CAPTURE(simulated.err);
  CHECK(simulated.exit_code == 0);
}

TEST_CASE("what is no model is refused, and nothing is written") {
  const TemporaryFolder folder;
  const std::string out = " -o " + (folder / "out.json").string();
  const std::string text = folder.write("some.txt", "hello").string();
  check_refused("import " + text + out, 2, text + ": unknown content; known: model file, ");
  check_refused("import " + kScenario + out, 2, kScenario + ": expected a model; found a scenario");
  const std::string profile = kProfiles + "alexnet.nodes.csv ";
  check_refused("import " + profile + kProfiles + "resnet18.nodes.csv" + out, 2,
                "resnet18.nodes.csv: one model at a time");
  check_refused("import " + profile + "--grouped" + out, 2, "--grouped: expected datasets");
  check_refused("import " + profile, 2, "--output is required");
  CHECK(folder.entry_count() == 1);
  const Outcome dry = rehearse_with("import " + profile + text + " --dry-run" + out);
  CHECK(dry.out == kProfiles + "alexnet.nodes.csv: PipeDream profile\n" + text + ": unknown content\n");
}

}  // namespace rehearse
