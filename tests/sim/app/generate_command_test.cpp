// rehearse generate as its user meets it.

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "predictor/dataset.hpp"
#include "sim/base/json.hpp"
#include "sim/base/output_lock.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

using namespace test;

namespace {
const std::string kSpace = kRoot + "/scenarios/spaces/small.json ";
}

TEST_CASE("generate writes a dataset, a report and a summary") {
  const TemporaryFolder folder;
  const std::string file = (folder / "made/for/data").string();
  const Outcome outcome = rehearse_with("generate " + kSpace + "--count 16 --seed 2 -j 2 --json --quiet -o " + file);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  const Json summary = parse_json(outcome.out, "summary");
  CHECK(summary["samples"] == 16);
  CHECK(summary["graphs"] == 4);
  CHECK(summary["labels"].size() == label_names().size());
  CHECK(load_dataset(file).samples.size() == 16);
  CHECK(read_file(file + ".report.html", kMiB * 16).find("transmit_mean_Bps") != std::string::npos);
  CHECK(std::distance(std::filesystem::directory_iterator{folder / "made/for"}, {}) == 2);
}

TEST_CASE("generate draws without simulating") {
  const Outcome outcome = rehearse_with("generate " + kSpace + "--count 40 --dry-run --quiet");
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.starts_with("40 samples of 10 graphs in "));
}

TEST_CASE("what generate would do is printed as JSON, too: without labels") {
  const Outcome outcome = rehearse_with("generate " + kSpace + "--count 3 --dry-run --json --quiet");
  CHECK(outcome.exit_code == 0);
  const Json planned = parse_json(outcome.out, "plan");
  CHECK(planned["samples"] == 3);
  CHECK(planned["labels"] == Json::object());
}

TEST_CASE("one generate at a time writes a dataset, and removes what a killed one has left") {
  const TemporaryFolder folder;
  const std::string file = folder.write("data", "precious").string();
  folder.write("data.tmp", "half a dataset");
  for (const std::string& what :
       {kSpace + "--count 4 --quiet -o ", kRoot + "/scenarios/studies/cm-dare-single-worker.json -o "}) {
    const OutputLock lock{file};
    check_refused("generate " + what + file, 3, file + ": process " + std::to_string(::getpid()) + " is writing it");
    CHECK(read_file(file, kMiB) == "precious");
    CHECK(read_file(file + ".tmp", kMiB) == "half a dataset");
    CHECK(folder.entry_count() == 3);
  }
  CHECK(rehearse_with("generate " + kSpace + "--count 4 --quiet -o " + file).exit_code == 0);
  CHECK(load_dataset(file).samples.size() == 4);
  CHECK(folder.entry_count() == 2);  // and the report
}

TEST_CASE("generate says before it simulates that a part of Driple's files would have no whole batch") {
  const TemporaryFolder folder;
  const std::string files = (folder / "files").string();
  check_refused("generate " + kSpace + "--format driple --count 40 -o " + files, 2,
                "less than a batch of 32: give a larger --count");
  CHECK(!std::filesystem::exists(files + "/dataset.db.part"));  // nothing has been simulated
}

TEST_CASE("generate takes the measured rows of a study") {
  const TemporaryFolder folder;
  const std::string study = "generate " + kRoot + "/scenarios/studies/cm-dare-single-worker.json ";
  const std::string file = (folder / "data").string();
  const Outcome outcome = rehearse_with(study + "--json -o " + file);
  CHECK(outcome.exit_code == 0);
  const Json summary = parse_json(outcome.out, "summary");
  CHECK(summary["samples"] == 42);
  CHECK(summary["studies"][0] == Json{{"study", "cm-dare-single-worker"}, {"rows", 42}, {"left_out_because", nullptr}});
  CHECK(load_dataset(file).samples.front().origin == Origin::kMeasured);
  CHECK(rehearse_with(study + "--dry-run").out.starts_with("42 measured samples of 16 graphs in 3 settings"));
  {  // as a user of another cluster has them
    const Outcome blind = rehearse_with(study + "--without-own-profiles --json --quiet -o " + file);
    CHECK(parse_json(blind.out, "summary")["samples"] == 42);
    const auto profile_of = [](const std::string& data) {
      return parse_json(load_dataset(data).settings.front().provenance, "setting")["calibration"];
    };
    const Json profile = profile_of(file);
    CHECK(profile["name"].get<std::string>().find("cm-dare") == std::string::npos);
    CHECK(!profile.contains("step_times"));
    CHECK(load_dataset(file).provenance.find("--without-own-profiles") != std::string::npos);
  }
  check_refused("generate " + kSpace + "--count 4 --without-own-profiles -o x", 2, "expected a study");
  check_refused(study + "--count 4 -o x", 2, "no --count");
  check_refused(study + "--setting x -o x", 2, "no --count");
}

TEST_CASE("generate refuses with one line") {
  const TemporaryFolder folder;
  check_refused("generate " + kSpace + "-o x", 2, "expected --count");
  check_refused("generate " + kSpace + "--count 4", 2, "expected -o DATASET");
  check_refused("generate " + kSpace + "--count 0 -o x", 2, "--count");
  check_refused("generate " + kRoot + "/scenarios/cm-dare.json --count 4 -o x", 2,
                "expected the keys \"workloads\" and \"clusters\"");
  const std::string file = folder.write("file", "").string();
  check_refused("generate " + kSpace + "--count 4 -o " + file + "/data", 2, "cannot create this folder");
  check_refused("generate " + kSpace + "--count 4 -o " + folder.path.string(), 2, "found a folder");
  const std::string made = (folder.path / "made").string();
  check_refused("generate " + file + " --count 4 --format driple -o " + made, 2, "file:1:1");
  CHECK_FALSE(std::filesystem::exists(made));
}

}  // namespace rehearse
