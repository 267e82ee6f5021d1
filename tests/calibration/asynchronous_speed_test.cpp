#include "calibration/asynchronous_speed.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "tests/support/paths.hpp"
#include "workloads/convergence.hpp"

namespace rehearse {

namespace {

const std::filesystem::path kData = std::filesystem::path{source_folder()} / "calibration/data/spotdnn";

/// ResNet-110 as released, resnet110_fitted_coefficients.csv.
SpotdnnWorkload resnet110() {
  return {.parameters = Bytes{11'500'000},
          .required_bandwidth = BytesPerSecond{142e6},
          .contention = {.slope = 0.8, .intercept = -1.92}};
}

/// [rows of resnet110_profile.csv]
std::vector<SpotdnnWorker> published_workers() {
  std::vector<SpotdnnWorker> workers;
  const CsvTable table = load_csv_file(kData / "resnet110_profile.csv");
  for (const CsvRow row : table.rows()) {
    const int gpus = static_cast<int>(row.integer("gpus"));
    const double batch = gpus * row.number("batch_per_gpu");
    workers.push_back(
        {.gpus = gpus, .batch = batch, .step_alone = Seconds{batch / row.number("profiled_speed_samples_per_s")}});
  }
  return workers;
}

/// The columns n_0 to n_4 count workers of the profile's rows.
std::vector<SpotdnnWorker> cluster_of(const CsvRow& plan) {
  std::vector<SpotdnnWorker> cluster;
  const std::vector<SpotdnnWorker> known = published_workers();
  for (std::size_t type = 0; type < known.size(); ++type)
    cluster.insert(cluster.end(), static_cast<std::size_t>(plan.integer("n_" + std::to_string(type))), known[type]);
  return cluster;
}

}  // namespace

TEST_CASE("the released variant gives what the released code printed, for every plan") {
  const CsvTable plans = load_csv_file(kData / "released_code_predictor_outputs.csv");
  for (const CsvRow plan : plans.rows()) {
    const AsynchronousSpeed speed =
        predict_speed(cluster_of(plan), resnet110(), SpotdnnServer{}, SpotdnnVariant::kReleased);
    CHECK(speed.samples_per_s == doctest::Approx(plan.number("cluster_speed_samples_per_s")).epsilon(1e-8));
    CHECK(speed.weighted_batch == doctest::Approx(plan.number("wa_batch")).epsilon(1e-9));
    CHECK(static_cast<std::int64_t>(speed.steps.size()) == plan.integer("workers"));
  }
}

TEST_CASE("five g3.8xlarge and three g3.16xlarge reach a loss of 0.8 in 2565 s") {
  const std::vector<SpotdnnWorker> known = published_workers();
  std::vector<SpotdnnWorker> cluster(5, known.at(2));
  cluster.insert(cluster.end(), 3, known.at(3));
  const AsynchronousSpeed speed = predict_speed(cluster, resnet110(), SpotdnnServer{}, SpotdnnVariant::kReleased);
  CHECK(speed.samples_per_s == doctest::Approx(10998.7).epsilon(1e-5));
  CHECK(speed.weighted_batch == doctest::Approx(1402.1).epsilon(1e-9));
  const Convergence loss{.offset = 876.5,
                         .initial_loss = {},
                         .batch_slope = -0.2,
                         .batch_intercept = 2507.6,
                         .spread_offset = {},
                         .floor = 0.5,
                         .source = "test"};
  const double updates = updates_to_loss(loss, {.workers = 8, .weighted_batch = speed.weighted_batch}, 0.8);
  CHECK(std::lround(updates) == 20122);
  CHECK(std::lround(updates * speed.weighted_batch / speed.samples_per_s) == 2565);
}

TEST_CASE("in the paper's variant a lone worker takes its step alone") {
  for (const SpotdnnWorker& worker : published_workers()) {
    const AsynchronousSpeed speed = predict_speed({worker}, resnet110(), SpotdnnServer{}, SpotdnnVariant::kPaper);
    CHECK(speed.steps.at(0).value() == doctest::Approx(worker.step_alone.value()).epsilon(1e-12));
    CHECK(speed.weighted_batch == doctest::Approx(worker.batch).epsilon(1e-12));
  }
}

TEST_CASE("workers share the server from n B_req > B_ps on") {
  // 142 x 8 = 1136 MB/s: alone; 142 x 9 = 1278: P = 0.8 x 3 - 1.92 = 0.48, 0.48 x 1200 / 9 + 0.52 x 142 = 137.84
  CHECK(shared_bandwidth(resnet110(), {}, 8).value() == 142e6);
  CHECK(shared_bandwidth(resnet110(), {}, 9).value() == doctest::Approx(137.84e6).epsilon(1e-12));
  // P = 1 from ((1 + 1.92) / 0.8)^2 = 13.3 workers on
  CHECK(shared_bandwidth(resnet110(), {}, 14).value() == doctest::Approx(1200e6 / 14).epsilon(1e-12));
  CHECK(contention_probability(resnet110().contention, 5) == 0);  // 0.8 x 2.24 - 1.92 < 0
}

TEST_CASE("a step shorter than its exchange is refused") {
  CHECK_THROWS_WITH_AS((void)predict_speed({{.gpus = 1, .batch = 8, .step_alone = Seconds{0.1}}}, resnet110(), {},
                                           SpotdnnVariant::kPaper),
                       "a step of 100ms is no longer than its exchange of 11.5MB each way, 164.2718309859155ms",
                       InputError);
}

}  // namespace rehearse
