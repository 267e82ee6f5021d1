// rehearse diff as its user meets it.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/json.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

using namespace test;

TEST_CASE("diff names the inputs that differ, the results, and what each input did") {
  const TemporaryFolder folder;
  const std::string a = (folder / "a").string(), b = (folder / "b").string(), out = (folder / "out").string();
  const std::string simulate = "simulate " + kScenario + " --quiet --set /training/steps=40 -o ";
  REQUIRE(rehearse_with(simulate + a).exit_code == 0);
  REQUIRE(rehearse_with(simulate + b + " --set /cluster/groups/1/count=8 --set /workload/model=cm-dare/resnet15")
              .exit_code == 0);
  const Outcome outcome = rehearse_with("diff " + a + " " + b + " --quiet -o " + out);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  for (const char* text :
       {"/workload/model          cm-dare/resnet32", "/cluster/groups/1/count  4", "\niteration_time_s ",
        "\nnumber of workers ", "\nmodel ", "\ntogether beyond the sum of these", "\nB - A "})
    CHECK_MESSAGE(outcome.out.find(text) != std::string::npos, text);
  const std::string json = rehearse_with("diff " + a + " " + b + " --json").out;
  CHECK(json == read_file(out + "/diff.json", kMiB));
  CHECK(parse_json(json, "diff")["mechanisms"].size() == 2);
}

TEST_CASE("diff takes scenario files, and says when nothing differs") {
  const Outcome same = rehearse_with("diff " + kScenario + " " + kScenario);
  CHECK(same.exit_code == 0);
  CHECK(same.out.find("the inputs are the same") != std::string::npos);
  CHECK(same.out.find("the results are the same") != std::string::npos);
  CHECK(rehearse_with("diff " + kScenario + " " + kRoot + "/scenarios/cm-dare-heterogeneous.json --quiet").exit_code ==
        0);
}

TEST_CASE("diff of two replays of a trace: what was asked, and what came of it") {
  const TemporaryFolder folder;
  const std::string a = (folder / "a").string(), b = (folder / "b").string();
  const std::string replay =
      "replay " + kRoot + "/calibration/data/pytorch-kineto-traces/alexnet_a100_1gpu.json.gz --force ";
  REQUIRE(rehearse_with(replay + "-o " + a).exit_code == 0);
  REQUIRE(rehearse_with(replay + "--scale convolution=0.5 -o " + b).exit_code == 0);
  const Outcome outcome = rehearse_with("diff " + a + " " + b);
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("/scale  (not there)") != std::string::npos);
  CHECK(outcome.out.find("\nconvolution_time_s ") != std::string::npos);
  CHECK(outcome.out.find("-50.0 %") != std::string::npos);
  CHECK(outcome.out.find("\npooling_time_s ") == std::string::npos);  // as before
  check_refused("diff " + a + " " + kScenario, 2, "is a replay; expected another one beside it, found a simulation");
}

TEST_CASE("a factor on work that was not recorded is said to change nothing") {
  const std::string traces = kRoot + "/calibration/data/pytorch-kineto-traces/";
  const Outcome replayed = rehearse_with(
      "replay " + traces + "alexnet_a100_1gpu.json.gz --force --scale embedding=0.5 --scale convolution=2");
  CHECK(replayed.out.find("note: --scale embedding=0.5 changes nothing: no work of class \"embedding\" was recorded") !=
        std::string::npos);
  CHECK(replayed.out.find("convolution=2 changes nothing") == std::string::npos);
  const TemporaryFolder folder;
  const Outcome imported = rehearse_with(
      "import " + traces + "ddp_a100_2gpu_rank0.json.gz --batch 32 --variables resnet50 --scale embedding=0.5 -o " +
      (folder / "model.json").string());
  CAPTURE(imported.err);
  CHECK(imported.exit_code == 0);
  CHECK((imported.out + imported.err).find("embedding=0.5 changes nothing") != std::string::npos);
}

TEST_CASE("kernels move from the GPU of which they were recorded, not from another one") {
  const std::string replay =
      "replay " + kRoot + "/calibration/data/pytorch-kineto-traces/alexnet_a100_1gpu.json.gz --force --gpu ";
  check_refused(replay + "T4=H100", 2,
                "--gpu \"T4=H100\": " + kRoot +
                    "/calibration/data/pytorch-kineto-traces/alexnet_a100_1gpu.json.gz was recorded on \"NVIDIA "
                    "A100-PG509-200\", which is A100 in the catalog, not T4");
  CHECK(rehearse_with(replay + "A100=H100").exit_code == 0);
}

TEST_CASE("what cannot be compared is refused with one line") {
  const TemporaryFolder folder;
  check_refused("diff " + kScenario, 2, "RUN_B");
  check_refused("diff " + kScenario + " " + (folder / "none.json").string(), 2, "none.json: cannot read");
  check_refused("diff " + kScenario + " " + folder.path.string(), 2, "scenario.json: cannot read");
  folder.write("scenario.json", read_file(kScenario, kMiB));
  check_refused("diff " + kScenario + " " + folder.path.string(), 2, "summary.json: cannot read");
  folder.write("summary.json", R"({"format": 1, "iteration_time_s": "fast"})");
  check_refused("diff " + kScenario + " " + folder.path.string(), 2,
                "summary.json: /iteration_time_s: expected a number");
}

}  // namespace rehearse
