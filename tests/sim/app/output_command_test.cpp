// What verbs leave in folders and on terminals.

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "predictor/measured_series.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/json.hpp"
#include "sim/base/output_folder.hpp"
#include "sim/record/resource_profile.hpp"
#include "tests/support/program.hpp"

namespace rehearse::output_command_test {

namespace fs = std::filesystem;

namespace {

using namespace test;

const std::string kSimulate = "simulate " + kScenario + " --set /training/steps=60 ";

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator{folder})
    if (!entry.is_directory())
      files[entry.path().lexically_relative(folder).string()] = read_file(entry.path(), 64 * kMiB);
  return files;
}

}  // namespace

TEST_CASE("simulate -o over an earlier result on a disk that fills leaves the earlier one as it was") {
  const TemporaryFolder folder;
  const std::string out = (folder.path / "out").string();
  REQUIRE(rehearse_with(kSimulate + "--quiet -o " + out).exit_code == 0);
  const auto before = contents(out);
  for (const std::string kibibytes : {"0", "4", "16", "48"}) {
    const Outcome full = rehearse_with(kSimulate + "--quiet --seed 7 -o " + out, "ulimit -f " + kibibytes + " &&");
    CAPTURE(kibibytes);
    CHECK(full.exit_code != 0);
    CHECK(contents(out) == before);
  }
}

TEST_CASE("another kind of run leaves no file of the earlier one, and the user's own stay") {
  const TemporaryFolder folder;
  folder.write("notes.txt", "mine");
  REQUIRE(rehearse_with(kSimulate + "--quiet -o " + folder.path.string()).exit_code == 0);
  REQUIRE(
      rehearse_with("simulate " + kRoot + "/scenarios/resnet50-spot.json --runs 10 --quiet -o " + folder.path.string())
          .exit_code == 0);
  const auto files = contents(folder.path);
  CHECK(files.contains("notes.txt"));
  CHECK(files.contains("runs.csv"));
  CHECK_FALSE(files.contains("iterations.csv"));
  CHECK_FALSE(files.contains("timeline.json.gz"));
}

TEST_CASE("diff and sweep refuse a folder that says it is incomplete; the next run into it makes it whole") {
  const TemporaryFolder folder;
  const std::string out = (folder.path / "out").string();
  REQUIRE(rehearse_with(kSimulate + "--quiet -o " + out).exit_code == 0);
  folder.write(std::string{"out/"} + kIncompleteMark, "");
  check_refused("diff " + out + " " + kScenario, 2, "out: is incomplete");
  check_refused("sweep " + kScenario + " --seeds 2 -o " + out, 2, "out: is incomplete");
  REQUIRE(rehearse_with(kSimulate + "--quiet -o " + out).exit_code == 0);
  CHECK(rehearse_with("diff " + out + " " + kScenario + " --quiet").exit_code == 0);
}

TEST_CASE("a scenario's name says which workload and cluster overrides have made of it") {
  const auto name = [](const std::string& settings) {
    return parse_json(rehearse_with(kSimulate + "--quiet --json " + settings).out, "summary")["name"]
        .get<std::string>();
  };
  const std::string own = name("");
  CHECK(own == load_json_file(kScenario)["name"].get<std::string>());
  CHECK(name("--set /workload/model=cm-dare/resnet15 --set /seed=3") == own + ", with workload/model=cm-dare/resnet15");
  CHECK(name("--set /cluster/groups/1/count=2 --set /name=mine") == "mine");
}

TEST_CASE("-o says what it wrote, init names the run by the last part of its path, and a closed pipe is no error") {
  const TemporaryFolder folder;
  const std::string out = (folder.path / "out").string(), mine = (folder.path / "mine").string();
  const Outcome outcome = rehearse_with(kSimulate + "-o " + out);
  CHECK(outcome.err.find("wrote " + out + ": scenario.json, ") != std::string::npos);
  CHECK(outcome.err.find("report.html, summary.json\n") != std::string::npos);
  REQUIRE(rehearse_with("init " + mine).exit_code == 0);
  CHECK(read_file(mine + ".json", kMiB).find("\"name\": \"mine\"") != std::string::npos);
  const std::string err = (folder.path / "err").string();
  for (const char* reader : {"head -n 1", "true"}) {
    (void)rehearse_with("schema scenario 2>" + err + " | " + reader);
    CHECK(read_file(err, kMiB).empty());
  }
}

TEST_CASE("validate says how many measurements its intervals hold, and which rows it does not score, and why") {
  const std::string out =
      rehearse_with("validate " + kRoot + "/scenarios/studies/spotdnn-resnet110-speed.json --quiet").out;
  CHECK(out.find("intervals of 90 %") != std::string::npos);
  CHECK(out.find("not scored: ") != std::string::npos);
  CHECK(out.find(", lines ") != std::string::npos);
}

TEST_CASE("a second sweep into a folder leaves the first one's table, the same sweep replaces its own") {
  const TemporaryFolder folder;
  const std::string sweep = "sweep " + kScenario + " --set /training/steps=8 -o " + folder.path.string();
  REQUIRE(rehearse_with(sweep + " --grid /seed=1,2 --quiet").exit_code == 0);
  const std::string first = read_file(folder.path / "sweep.csv", kMiB);
  const Outcome second = rehearse_with(sweep + " --grid /workload/batch_per_worker=32,64");
  CHECK(second.err.find("wrote " + folder.path.string() + ": sweep-2.csv, sweep-2.html, results.sqlite\n") !=
        std::string::npos);
  CHECK(read_file(folder.path / "sweep.csv", kMiB) == first);
  REQUIRE(rehearse_with(sweep + " --grid /seed=1,2 --quiet").exit_code == 0);
  CHECK(read_file(folder.path / "sweep.csv", kMiB) == first);
  CHECK_FALSE(fs::exists(folder.path / "sweep-3.csv"));
}

TEST_CASE("a refused command leaves nothing where it was to write") {
  const TemporaryFolder folder, inputs;
  const std::string scenarios = kRoot + "/scenarios/", studies = scenarios + "studies/";
  const auto written = [&](const char* name, const std::string& text) { return inputs.write(name, text).string(); };
  const std::string history = written("history.csv", "revocation_step,total_steps,measured_remaining_s\n5,4,1\n");
  const std::string unfit =
      written("unfit.json", R"({"format": 1, "scenario": ")" + kScenario + R"(", "measurements": ")" +
                                written("m.csv", "a,b\n1,1\n") +
                                R"(", "columns": {}, "target": {"column": "b", "metric": "no"}})");
  const std::string logs =
      written("logs.json", R"({"format": 1, "kind": "training_logs", "skip_first": 100000, "logs": [{"file": ")" +
                               kRoot + R"(/calibration/data/example-training-logs/logs.csv"}]})");
  const std::string out = (folder.path / "new/deep/out").string();
  const std::vector<std::string> commands{
      "simulate " + kScenario + " --set /training/steps=0",
      "simulate " + kScenario + " --set /training/steps=9000000 --max-wall-time 100ms",
      "simulate " + scenarios + "resnet50-spot.json --runs 100 --max-wall-time 10ms",
      "simulate " + scenarios + "resnet50-spot.json --set /training/recovery/give_up_after=1s",
      "validate " + unfit,
      "calibrate " + unfit,
      "calibrate " + logs,
      "calibrate " + studies + "lifetimes/all.json --max-wall-time 10ms",
      "sweep " + kScenario + " --grid /training/steps=0,-1",
      "sweep " + kScenario + " --grid /training/no_such=1,2",
      "sweep " + kScenario + " --seeds 2 --where no_such",
      "provision " + scenarios + "provision/resnet110.json --deadline 1h --target-loss 0.0001",
      "provision " + scenarios + "provision/resnet110.json --deadline 1h --target-loss 0.3 --quota no_such=3",
      "provision " + scenarios + "provision/resnet110.json --deadline 1h --target-loss 0.3 --max-wall-time 10ms",
      "remaining " + kScenario + " --step 900000000",
      "remaining " + kScenario + " --step 3 --group no_such",
      "remaining " + kScenario + " --step 3 --history " + history,
      "diagnose " + kScenario,
      "diagnose " + kScenario + " --measured-speed 10 --max-wall-time 1ms",
      "diff " + kScenario + " " + scenarios + "dgx.json --max-wall-time 1ms",
      "generate " + scenarios + "spaces/small.json --count 3 --setting no_such",
      "generate " + unfit,
  };
  for (const std::string& command : commands) {
    const Outcome outcome = rehearse_with(command + " -o " + out);
    CAPTURE(command);
    CAPTURE(outcome.err);
    CHECK((outcome.exit_code == 2 || outcome.exit_code == 3));
    CHECK(folder.entry_count() == 0);
    fs::remove_all(folder.path / "new");
  }
}

TEST_CASE("no option takes an empty text") {
  const std::vector<std::string> commands{"remaining " + kScenario + " --step 3 --history ''",
                                          "simulate " + kScenario + " --set ''",
                                          "simulate " + kScenario + " --catalog ''",
                                          "simulate " + kScenario + " -o ''",
                                          "validate " + kScenario + " --measurements ''",
                                          "calibrate " + kScenario + " --report ''",
                                          "sweep " + kScenario + " --grid ''",
                                          "diff '' " + kScenario,
                                          "simulate ''",
                                          "init ''",
                                          "calibrate ''",
                                          "generate ''",
                                          "list ''",
                                          "schema ''"};
  for (const std::string& command : commands) check_refused(command, 2, "expected a value; found none");
}

TEST_CASE("the counters of a timeline are a measured series, whose bursts are those of the run") {
  const TemporaryFolder folder;
  const std::string simulate = kSimulate + "--quiet --set /output/sampling_period=7ms -o " + folder.path.string();
  REQUIRE(rehearse_with(simulate).exit_code == 0);
  const auto bursts = [&] { return load_csv_file(folder / "bursts.csv"); };
  const CsvTable whole = bursts();
  const CsvRow row = whole.row(0);
  REQUIRE(rehearse_with(simulate + " --set /output/timeline_start=" + std::string{row.text("covered_start_s")} +
                        "s --set /output/timeline_length=" + std::string{row.text("covered_s")} + "s")
              .exit_code == 0);
  const MeasuredSeries series = load_measured_series(folder / "timeline.json.gz");
  CHECK(series.period.value() == doctest::Approx(0.007));
  CHECK(series.memory.empty());  // of which a timeline has no counter
  const auto check_bursts = [&](const char* resource, const Bursts& found) {
    CAPTURE(resource);
    for (const CsvRow& expected : whole.rows()) {
      if (expected.text("machine") != "workers-0" || expected.text("resource") != resource) continue;
      CHECK(found.idle.value() == doctest::Approx(expected.number("idle_s")));
      CHECK(found.active.value() == doctest::Approx(expected.number("active_s")));
      CHECK(found.peak == doctest::Approx(expected.number("peak")));
      CHECK(found.bursts == expected.integer("bursts"));
      return;
    }
    FAIL("the run has no such bursts");
  };
  check_bursts("gpu_utilization", find_bursts_of_utilization(series.gpu, series.period, {}));
  check_bursts("nic_receive", find_bursts_of_rate(series.receive, series.period, {}));
  check_bursts("nic_transmit", find_bursts_of_rate(series.transmit, series.period, {}));
}

}  // namespace rehearse::output_command_test
