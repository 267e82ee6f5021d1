// rehearse export and replay of traces, as their user meets them.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/json.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

using namespace test;

namespace {

const std::string kTraces = kRoot + "/calibration/data/pytorch-kineto-traces/";

}  // namespace

TEST_CASE("what was recorded is replayed as before once it is exported: each step within 1 us") {
  const TemporaryFolder folder;
  std::string recorded, exported;
  for (int rank = 0; rank < 8; ++rank) {
    recorded += " " + kTraces + "dlrm_v100_8gpu/kineto_rank" + std::to_string(rank) + ".json.gz";
    exported += " " + folder.path.string() + "/dlrm." + std::to_string(rank) + ".et";
  }
  CHECK(rehearse_with("export" + recorded + " --name dlrm --quiet -o " + folder.path.string()).exit_code == 0);
  Json before = parse_json(rehearse_with("replay --json" + recorded).out, "before");
  Json after = parse_json(rehearse_with("replay --json" + exported).out, "after");
  REQUIRE(after["steps"].size() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    const double difference =
        after["steps"][i]["replayed_s"].get<double>() - before["steps"][i]["replayed_s"].get<double>();
    CHECK(std::abs(difference) < 1e-6);
  }
  for (const char* of_files : {"trace", "remarks"}) {
    before.erase(of_files);
    after.erase(of_files);
  }
  CHECK(before == after);
}

TEST_CASE("a scenario's ranks and process groups are files of one name") {
  const TemporaryFolder folder;
  CHECK(rehearse_with("export " + kRoot + "/scenarios/gpt2-xl-pipeline.json --quiet -o " + folder.path.string())
            .exit_code == 0);
  CHECK(std::filesystem::exists(folder / "gpt2-xl-pipeline.15.et"));
  CHECK(!std::filesystem::exists(folder / "gpt2-xl-pipeline.16.et"));
  CHECK(parse_json(read_file(folder / "gpt2-xl-pipeline.groups.json", kMiB), "groups")["1"] == Json{0, 8});
  check_refused("export " + kScenario, 2, "--output is required");
  check_refused("export " + kTraces + "chakra/chakra.0.et.gz --set /a=1 -o " + folder.path.string(), 2,
                "--set: is for scenarios, not for traces");
  check_refused("export " + kScenario + " --name a/b -o " + folder.path.string(), 2,
                "--name: expected the beginning of a file's name; found \"a/b\"");
  check_refused(
      "export " + kScenario + " --set /training/strategy={\"kind\":\"pairwise_averaging\"} -o " + folder.path.string(),
      2, "");
}

TEST_CASE("Chakra's own trace is replayed, and nothing is said to be measured") {
  const Outcome outcome = rehearse_with("replay " + kTraces + "chakra/chakra.0.et.gz");
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("the recording               all             -    297.072 ms           -\n") !=
        std::string::npos);
  check_refused(
      "replay " + kTraces + "chakra/chakra.0.et.gz --scale kernels=0.5", 2,
      "no dates are recorded with which the replay could be compared: no what-ifs; --force answers all the same");
}

}  // namespace rehearse
