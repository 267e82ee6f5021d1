// The whole loop on this machine's processor: kernels are measured, a profile is fitted, steps of networks are predicted
// and measured. Where the program has no LibTorch, that it says so. How accurate it is depends on who else uses the
// machine: tests/bench has the figures.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "calibration/microbench/cases.hpp"
#include "calibration/microbench/network_steps.hpp"
#include "platforms/catalog.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/files.hpp"
#include "sim/base/parse_quantity.hpp"
#include "tests/support/program.hpp"

namespace rehearse::microbench {

namespace {

namespace fs = std::filesystem;

double column_sum(const fs::path& file, const std::string& column) {
  double sum = 0;
  const CsvTable table = load_csv_file(file);
  for (const CsvRow& row : table.rows()) sum += row.number(column);
  return sum;
}

}  // namespace

TEST_CASE("without a GPU the program says so in one line") {
  const test::TemporaryFolder folder;
  if (fs::exists("/dev/nvidiactl")) return;
  const test::Outcome outcome = test::rehearse_with("microbench -o " + (folder / "results").string());
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.starts_with("rehearse: no GPU can be measured: "));
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  CHECK_FALSE(fs::exists(folder / "results"));
  const test::Outcome networks = test::rehearse_with("microbench --networks -o " + (folder / "results").string());
  CHECK(networks.exit_code == 2);
}

TEST_CASE("kernels of this processor, a profile, steps of six networks predicted and measured") {
  const test::TemporaryFolder folder;
  const std::string results = (folder / "results").string();
  const std::string command = "microbench --device cpu --quick --time-per-kernel 3ms --quiet -o " + results;
  const test::Outcome outcome = test::rehearse_with(command + " --networks");
  if (outcome.exit_code == 3) {  // built without LibTorch
    CHECK(outcome.err.starts_with("rehearse: the processor cannot be measured: "));
    return;
  }
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find("median of the absolute errors: ") != std::string::npos);

  const CsvTable compared = load_csv_file(results + "/networks.csv");
  CHECK(compared.row_count() == kNetworks.size());
  for (const CsvRow& row : compared.rows()) {
    const std::string name{row.text("network")};
    CAPTURE(name);
    const double predicted = row.number("predicted_s"), measured = row.number("measured_s");
    CHECK(measured >= row.number("measured_least_s"));
    // A step takes its operators and the updates of its variables: a small part of it.
    const double operators = column_sum(results + "/steps/" + name + ".csv", "time_s");
    CHECK(predicted >= operators);
    CHECK(predicted < 1.3 * operators + 1e-3);
    // Only as far as no busy machine goes.
    CHECK(predicted > measured / 5);
    CHECK(predicted < measured * 5);
    // Numbers of norms and losses are left out, a few of each sample or channel.
    CHECK(row.number("predicted_kept_B") == doctest::Approx(row.number("measured_kept_B")).epsilon(0.003));
  }

  // The scenario that it wrote gives the same, by any program with the folder as a catalog.
  const test::Outcome simulated =
      test::rehearse_with("simulate " + results + "/scenarios/mlp.json --quiet --json --catalog " + results);
  CAPTURE(simulated.err);
  REQUIRE(simulated.exit_code == 0);
  const Json summary = parse_json(simulated.out, "summary");
  CHECK(summary.at("iteration_time_s").get<double>() ==
        doctest::Approx(compared.row(0).number("predicted_s")).epsilon(1e-9));

  // With a pause of 0.1 s after each step: its eight bursts, of what the step computes.
  const Json jobs = load_json_file(results + "/paused/measurements.json").at("profiles");
  REQUIRE(jobs.size() == kNetworks.size());
  for (const Json& job : jobs) {
    const CsvTable series = load_csv_file(results + "/paused/" + job.at("series").get<std::string>());
    int bursts = 0;
    double busy = 0, before = 0;
    for (const CsvRow& row : series.rows()) {
      const double share = row.number("gpu_utilization");
      if (share > 0 && before == 0) ++bursts;
      busy += 0.01 * share;
      before = share;
    }
    CAPTURE(job.dump());
    CHECK(bursts == 8);
    const Seconds step_time = parse_seconds(job.at("step_time").get<std::string>());
    CHECK(step_time > Seconds{0.1 + 0.99 * busy / 8});
    CHECK(8 * step_time < Seconds{0.01 * static_cast<double>(series.row_count()) + 0.02});
  }
  const test::Outcome paused = test::rehearse_with(
      "simulate " + results + "/scenarios/mlp.json --quiet --json --catalog " + results + " --set /calibration=paused");
  CAPTURE(paused.err);
  REQUIRE(paused.exit_code == 0);
  CHECK(parse_json(paused.out, "summary").at("iteration_time_s").get<double>() ==
        doctest::Approx(compared.row(0).number("predicted_s") + 0.1));

  if (fs::exists(build_folder() + "/rehearse-predictor")) {
    const test::Outcome imported =
        test::rehearse_with("import " + results + "/paused/measurements.json --quiet --catalog " + results + " -o " +
                            (folder / "paused.db").string());
    CAPTURE(imported.err);
    CHECK(imported.exit_code == 0);
    CHECK(imported.out.starts_with("6 samples of 6 graphs in 6 settings"));
  }

  // Again: nothing is measured twice, and calibrate finds the same profile.
  const std::string products = read_file(results + "/study/products.csv", kMiB);
  CHECK(test::rehearse_with(command).exit_code == 0);
  CHECK(read_file(results + "/study/products.csv", kMiB) == products);
  const Json before = load_json_file(results + "/profiles/microbench.json");
  CHECK(test::rehearse_with("calibrate " + results + "/study/kernels.json --quiet --catalog " + results + " -o " +
                            results + "/profiles/microbench.json")
            .exit_code == 0);
  const Json after = load_json_file(results + "/profiles/microbench.json");
  for (const char* section : {"kernels", "frameworks"}) CHECK(before.at(section) == after.at(section));
}

}  // namespace rehearse::microbench
