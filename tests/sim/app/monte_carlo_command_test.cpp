// rehearse simulate --runs as its user meets it.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/csv.hpp"
#include "sim/base/json.hpp"
#include "tests/support/program.hpp"

namespace rehearse {

namespace {

using namespace test;

const std::string kFiveRuns = "simulate " + test::kRoot + "/scenarios/cm-dare-spot.json --runs 5 --quiet ";

}  // namespace

TEST_CASE("simulate --runs prints and writes percentiles, the same bytes whatever -j") {
  const TemporaryFolder one, two;
  const Outcome outcome = rehearse_with(kFiveRuns + "--deadline 1h --json -j 1 -o " + one.path.string());
  CHECK_MESSAGE(outcome.exit_code == 0, outcome.err);
  CHECK(outcome.err.empty());
  CHECK(rehearse_with(kFiveRuns + "--deadline 1h --json -j 2 -o " + two.path.string()).out == outcome.out);
  for (const char* file : {"summary.json", "runs.csv", "report.html", "scenario.json"})
    CHECK(read_file(one.path / file, 4 * kMiB) == read_file(two.path / file, 4 * kMiB));
  const Json summary = load_json_file(one.path / "summary.json");
  CHECK(parse_json(outcome.out, "out") == summary);
  CHECK(summary["runs"] == 5);
  CHECK(summary["deadline_s"] == 3600);
  const CsvTable runs = load_csv_file(one.path / "runs.csv");
  REQUIRE(runs.row_count() == 5);
  double in_time = 0, revocations = 0;
  for (const CsvRow row : runs.rows()) {
    in_time += row.text("finished") == "yes" && row.number("time_s") <= 3600 ? 1 : 0;
    revocations += row.number("revocations");
  }
  CHECK(summary["deadline_probability"] == in_time / 5);
  CHECK(summary["mean"]["revocations"] == revocations / 5);
  CHECK(revocations > 0);
  CHECK(read_file(one.path / "report.html", 4 * kMiB).find("finished") != std::string::npos);
  // The scenario that is written gives the same runs.
  CHECK(rehearse_with("simulate " + (one.path / "scenario.json").string() + " --runs 5 --deadline 1h --json --quiet")
            .out == outcome.out);
}

TEST_CASE("runs that do not end are said to take for ever") {
  const Outcome outcome = rehearse_with(kFiveRuns +
                                        "--set '/cluster/groups/1/spot_pool={\"source\": \"test\", \"lifetime\": "
                                        "{\"law\": {\"law\": \"exponential\", \"mean\": \"20s\"}}}' --set "
                                        "'/cluster/groups/1/replacement={\"with\": \"none\"}'");
  CHECK_MESSAGE(outcome.exit_code == 0, outcome.err);
  CHECK(outcome.out.find("never") != std::string::npos);
  CHECK(outcome.out.find("given up after 1440 h") != std::string::npos);
  CHECK(outcome.out.find(">= ") != std::string::npos);
  CHECK(outcome.err.empty());  // --quiet: the table says it
}

TEST_CASE("--deadline asks for runs") {
  test::check_refused("simulate " + test::kScenario + " --deadline 1h", 2, "--deadline: expected --runs beside it");
  test::check_refused("simulate " + test::kScenario + " --runs 0", 2, "--runs");
}

}  // namespace rehearse
