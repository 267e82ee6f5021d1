// rehearse sweep as its user meets it: kills, resumption, rows that fail, one-line errors.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "sim/base/csv.hpp"
#include "sim/base/json.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

namespace fs = std::filesystem;

namespace {

using namespace test;

const std::string kSweep = "sweep " + kScenario + " --set /training/steps=8 --set /training/start_interval=0s ";

std::string table(const fs::path& folder) { return read_file(folder / "sweep.csv", 64 * kMiB); }

/// Starts a sweep into `folder` and ends it with `signal` once some results are there. Returns its exit code, -1 if the
/// signal ended it.
int interrupted_sweep(const std::string& grid, const fs::path& folder, int signal) {
  const pid_t process = ::fork();
  if (process == 0) {
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, 1);
    ::dup2(null, 2);
    ::execl((build_folder() + "/rehearse").c_str(), "rehearse", "sweep", kScenario.c_str(), "--set",
            "/training/steps=400", "--grid", grid.c_str(), "-j", "2", "-o", folder.c_str(),
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  constexpr std::uintmax_t kSomeResults = 60'000;  // bytes of the log: more than its creation takes
  std::error_code error;
  for (int i = 0; i < 40'000; ++i) {
    const std::uintmax_t size = fs::file_size(folder / "results.sqlite-wal", error);
    if (!error && size > kSomeResults) break;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  ::kill(process, signal);
  int status = 0;
  ::waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a sweep that is killed goes on where it stopped, and its table is that of an undisturbed one") {
  const std::string grid = "/workload/batch_per_worker=101..115";
  const TemporaryFolder folder;
  const std::string whole = (folder / "whole").string();
  const std::string command = "sweep " + kScenario + " --set /training/steps=400 --grid " + grid + " -o ";
  CHECK(rehearse_with(command + whole + " -j 1 --quiet").exit_code == 0);
  for (const int signal : {SIGKILL, SIGINT}) {
    const std::string killed = (folder.path / std::to_string(signal)).string();
    CHECK(interrupted_sweep(grid, killed, signal) == (signal == SIGKILL ? -1 : 130));
    CHECK_FALSE(fs::exists(killed + "/sweep.csv"));
    const Outcome resumed = rehearse_with(command + killed + " -j 2");
    CHECK(resumed.exit_code == 0);
    CAPTURE(resumed.err);
    const int before = std::atoi(resumed.err.c_str());  // "7 of 15 simulations had finished before"
    CHECK(resumed.err.find(" of 15 simulations had finished before\n") != std::string::npos);
    CHECK(before >= 1);
    CHECK(before < 15);
    CHECK(table(killed) == table(whole));
  }
}

/// What is left of a command that gets Ctrl-C: after a second, or later where it had not begun by then.
Outcome stopped_by_hand(const std::string& command) {
  Outcome outcome;
  for (const int seconds : {1, 4, 16, 64}) {
    outcome = rehearse_with(command, "timeout --preserve-status -s INT " + std::to_string(seconds));
    if (!outcome.err.empty()) break;
  }
  return outcome;
}

TEST_CASE("Ctrl-C says what is kept and how to go on") {
  const TemporaryFolder folder;
  const std::string command = "sweep " + kScenario + " --set /training/steps=1000000 --seeds 4 --quiet -j 2";
  const Outcome kept = stopped_by_hand(command + " -o " + (folder / "out").string());
  CHECK(kept.exit_code == 130);
  CHECK(kept.err == "rehearse: interrupted: 0 of 4 simulations are kept in " + (folder / "out").string() +
                        "/results.sqlite; the same command goes on there\n");
  CHECK(kept.out.empty());
  const Outcome lost = stopped_by_hand(command);
  CHECK(lost.exit_code == 130);
  CHECK(lost.err == "rehearse: interrupted: 0 of 4 simulations had finished; -o DIR would have kept them\n");
}

TEST_CASE("a combination without result is a row with its error; the exit code is 0 if any has a result") {
  const TemporaryFolder folder;
  const Outcome outcome =
      rehearse_with(kSweep + "--grid /workload/batch_per_worker=32,60000,0 --quiet -o " + folder.path.string());
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("3 combinations, 2 without result") != std::string::npos);
  const CsvTable rows = load_csv_file(folder / "sweep.csv");
  CHECK(rows.row_count() == 3);
  CHECK(rows.row(0).text("error").empty());
  CHECK(rows.row(1).text("error").find(": /cluster/groups/1: GPU memory exceeded") != std::string_view::npos);
  CHECK(rows.row(2).text("error").find("/workload/batch_per_worker: expected 1 to 65536 samples; found 0") !=
        std::string::npos);
  check_refused(kSweep + "--grid /workload/batch_per_worker=60000,65536", 3,
                ": /cluster/groups/1: GPU memory exceeded");
  const Outcome hidden = rehearse_with("sweep " + kScenario +
                                       " --set /cluster/groups/1/leaves_at=1ms --grid /seed=1,2 --quiet --where '1<2'");
  CHECK(hidden.exit_code == 3);
  CHECK(hidden.err.starts_with("rehearse: no combination has a result; the first: "));
  CHECK(hidden.err.find(": every worker has left after ") != std::string::npos);
  check_refused(kSweep + "--grid /workload/batch_per_worker=0,-5", 2, "every combination is refused; the first: ");
}

TEST_CASE("a simulation that takes too long is a row that is tried again") {
  const TemporaryFolder folder;
  const std::string command = "sweep " + kScenario + " --grid /training/steps=8,5000000 --quiet -o " +
                              folder.path.string() + " --max-run-time ";
  CHECK(rehearse_with(command + "300ms").exit_code == 0);
  CHECK(load_csv_file(folder / "sweep.csv").row(1).text("error") == "stopped after --max-run-time 300ms");
  CHECK(rehearse_with(command + "400ms").exit_code == 0);
  CHECK(load_csv_file(folder / "sweep.csv").row(1).text("error") == "stopped after --max-run-time 400ms");
  CHECK(load_csv_file(folder / "sweep.csv").row(0).text("error").empty());
}

TEST_CASE("--relative divides by the smallest of the rows that are printed") {
  const std::string grid = "--grid /cluster/groups/1/count=1,2,4 --quiet --relative time_s ";
  const Json rows =
      parse_json(rehearse_with(kSweep + grid + "--json --where '/cluster/groups/1/count < 4'").out, "rows")["rows"];
  REQUIRE(rows.size() == 2);
  const double first = rows[0]["summary"]["time_s"].get<double>(), second = rows[1]["summary"]["time_s"].get<double>();
  CHECK(rows[0]["relative"] == first / std::min(first, second));
  CHECK(rows[1]["relative"] == second / std::min(first, second));
  CHECK(rehearse_with(kSweep + grid).out.find("time_s / smallest") != std::string::npos);
  check_refused(kSweep + "--seeds 2 --relative bottleneck", 2, "--relative: \"bottleneck\": expected a number");
}

TEST_CASE("--where and --top choose rows on stdout; --json prints them; sweep.csv keeps all") {
  const TemporaryFolder folder;
  const std::string grid = "--grid /cluster/groups/1/count=1..4 --quiet ";
  const Json top = parse_json(rehearse_with(kSweep + grid + "--json --top 2 --where 'steps_per_s < 17'").out, "top");
  REQUIRE(top["rows"].size() == 2);
  CHECK(top["combinations"] == 4);
  CHECK(top["rows"][0]["parameters"]["/cluster/groups/1/count"] == 3);
  CHECK(top["rows"][1]["parameters"]["/cluster/groups/1/count"] == 2);
  CHECK(top["rows"][0]["summary"]["steps_per_s"].get<double>() < 17);
  const Json slowest = parse_json(rehearse_with(kSweep + grid + "--json --top 1 --by -steps_per_s").out, "slowest");
  CHECK(slowest["rows"][0]["parameters"]["/cluster/groups/1/count"] == 1);
  const Outcome text = rehearse_with(kSweep + grid + "--where 'steps_per_s > 1e6' -o " + folder.path.string());
  CHECK(text.exit_code == 0);
  CHECK(text.out == "4 combinations, 0 fulfil steps_per_s > 1e6; 4 carry warnings, which simulate prints\n");
  CHECK(load_csv_file(folder / "sweep.csv").row_count() == 4);
}

TEST_CASE("entries of a list set several places; seeds repeat every combination") {
  const Outcome outcome = rehearse_with(
      kSweep +
      "--quiet --json --seeds 2 --list '/cluster/groups/1/instance=gce-custom-4-k80;/cluster/groups/1/count=2' "
      "--list '/cluster/groups/1/instance=gce-custom-8-p100;/cluster/groups/1/count=1'");
  CHECK(outcome.exit_code == 0);
  const Json rows = parse_json(outcome.out, "rows")["rows"];
  REQUIRE(rows.size() == 4);
  CHECK(rows[1]["seed"] == 2);
  CHECK(rows[2]["parameters"]["/cluster/groups/1/instance"] == "gce-custom-8-p100");
  CHECK(rows[2]["parameters"]["/cluster/groups/1/count"] == 1);
}

TEST_CASE("options may stand before the file") {
  const Outcome outcome =
      rehearse_with("sweep --grid /cluster/groups/1/count=1,2 --set /training/steps=8 " + kScenario + " --quiet");
  CHECK(outcome.exit_code == 0);
  CHECK(
      outcome.out.starts_with("workers/count  steps_per_s  steps_per_s_low  steps_per_s_high  iteration_time_s  time_s "
                              " cost_usd  gpu_utilization  bottleneck_resource\n"
                              "1              4.461        "));
}

TEST_CASE("the shipped sweep file runs, and its schema is printed") {
  const Outcome outcome =
      rehearse_with("sweep " + kRoot + "/scenarios/sweeps/cm-dare-workers.json --quiet --json --set /training/steps=8");
  CHECK(outcome.exit_code == 0);
  const Json result = parse_json(outcome.out, "result");
  CHECK(result["combinations"] == 32);
  CHECK(result["left_out"] == 2);
  CHECK(result["failed"] == 0);
  CHECK(result["rows"].size() == 30);
  CHECK_NOTHROW((void)parse_json(rehearse_with("schema sweep").out, "schema"));
}

TEST_CASE("--dry-run checks everything, says how long it takes, and writes nothing") {
  const TemporaryFolder folder;
  const std::string grid = "--grid /cluster/groups/1/count=0..3 ";
  const Outcome outcome = rehearse_with(kSweep + grid + "--dry-run -o " + (folder / "out").string());
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("4 combinations, 0 left out by constraints, 1 refused, 3 simulations, 0 of them finished\n") ==
        0);
  CHECK_FALSE(fs::exists(folder / "out"));
  const Json counts = parse_json(rehearse_with(kSweep + grid + "--dry-run --json").out, "dry run");
  CHECK(counts["combinations"] == 4);
  CHECK(counts["refused"] == 1);
  CHECK(counts["simulations"] == 3);
  CHECK(rehearse_with(kSweep + grid + "--quiet -o " + (folder / "out").string()).exit_code == 0);
  CHECK(rehearse_with(kSweep + grid + "--dry-run -o " + (folder / "out").string()).out.find("3 of them finished") !=
        std::string::npos);
}

TEST_CASE("mistakes are one line with exit code 2, before anything has run") {
  const TemporaryFolder folder;
  check_refused(kSweep, 2, "expected something to vary: --grid, --list or --seeds");
  check_refused(kSweep + "--seeds 2 --set /seed=18446744073709551615", 2,
                "--seeds: expected 2 seeds up to 2^64 - 1; found 18446744073709551615 as the first");
  check_refused(kSweep + "--grid steps=1", 2, "--grid: expected a JSON pointer, such as");
  check_refused(kSweep + "--grid /cluster/groups/1/cuont=1,2", 2, "did you mean \"count\"?");
  check_refused(kSweep + "--grid /nowhere/at/all=1", 2, "unknown key \"nowhere\"");
  check_refused(kSweep + "--grid /cluster/groups/1/count=1..1001 --grid /workload/batch_per_worker=1..1000", 2,
                "expected at most 1000000 combinations; found at least 1001000");
  check_refused(kSweep + "--seeds 2 --where 'steps_per_s >'", 2, "--where: \"steps_per_s >\": character 14: expected");
  check_refused(kSweep + "--seeds 2 --where 'stepsper > 1'", 2,
                "--where: \"stepsper > 1\": unknown value \"stepsper\"");
  check_refused(kSweep + "--seeds 2 --top 1 --by bottleneck", 2, "--by: \"bottleneck\": expected a number");
  check_refused(kSweep + "--seeds 0", 2, "--seeds");
  check_refused(kSweep + "--seeds 2 --top 0", 2, "--top");
  check_refused(kSweep + "--seeds 2 --constraint 'x > 1'", 2, "--constraint: expected JSON pointers");
  check_refused(kSweep + "--seeds 2 -o /proc/nowhere", 2, "/proc/nowhere: cannot create this folder");
  check_refused("sweep " + folder.write("s.json", R"({"format": 1, "scenario": "missing.json", "seeds": 2})").string(),
                2, "missing.json: cannot read");
  check_refused("sweep " + folder.write("t.json", R"({"format": 1, "scenario": 3})").string(), 2,
                "t.json: /scenario: ");
  check_refused("sweep " + folder.write("u.json", "[1]").string() + " --seeds 2", 2, "u.json: expected an object");
  check_refused("sweep " + folder.path.string() + " --seeds 2", 2, "");
  folder.write("results.sqlite", std::string(5000, 'x'));
  check_refused(kSweep + "--seeds 2 -o " + folder.path.string(), 2,
                "results.sqlite: cannot use this result store: file is not a database");
}

}  // namespace rehearse
