#include "calibration/training_fit.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "calibration/study.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/random.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

/// What the logs are made from.
struct Truth {
  SpotdnnWorkload workload{.parameters = Bytes{100'000'000},
                           .required_bandwidth = BytesPerSecond{500e6},
                           .contention = {.slope = 0.3, .intercept = -0.1}};
  SpotdnnServer server;
  Convergence convergence{.offset = 400,
                          .initial_loss = {},
                          .batch_slope = -0.5,
                          .batch_intercept = 900,
                          .spread_offset = {},
                          .floor = 0.3,
                          .source = "test"};
  double noise = 0;
};

const SpotdnnWorker kFast{.gpus = 1, .batch = 64, .step_alone = Seconds{0.9}};
const SpotdnnWorker kSlow{.gpus = 2, .batch = 256, .step_alone = Seconds{2.2}};

/// Clusters of (fast, slow) workers, 60 steps of each worker.
TrainingStudy logs_of(const Truth& truth, const std::vector<std::pair<int, int>>& clusters) {
  TrainingStudy study;
  study.name = "test";
  study.file_name = "test.json";
  study.server = truth.server;
  Rng rng{7, "logs"};
  for (const auto& [fast, slow] : clusters) {
    std::vector<SpotdnnWorker> workers(static_cast<std::size_t>(fast), kFast);
    workers.insert(workers.end(), static_cast<std::size_t>(slow), kSlow);
    const AsynchronousSpeed speed = predict_speed(workers, truth.workload, truth.server, SpotdnnVariant::kPaper);
    std::vector<double> samples_per_s;
    for (std::size_t i = 0; i < workers.size(); ++i) samples_per_s.push_back(workers[i].batch / speed.steps[i].value());
    const ConvergenceCluster shape{.workers = static_cast<int>(workers.size()),
                                   .weighted_batch = speed.weighted_batch,
                                   .spread = speed_spread(samples_per_s)};
    const std::string name = std::to_string(fast) + "+" + std::to_string(slow);
    for (std::size_t i = 0; i < workers.size(); ++i) {
      WorkerLog log{.cluster = name,
                    .worker = std::to_string(i),
                    .instance = workers[i].gpus == 1 ? "fast" : "slow",
                    .gpus = workers[i].gpus,
                    .batch = static_cast<int>(workers[i].batch),
                    .entries = {}};
      for (int k = 0; k < 60; ++k) {
        const std::int64_t step = 40 * (k + 1);
        const auto noisy = [&](double value) { return value * (1 + truth.noise * rng.normal()); };
        const bool is_skipped = k < 10 || k >= 57;  // what the profiler leaves out
        log.entries.push_back(
            {.step = step,
             .seconds_per_batch = noisy(speed.steps[i].value()) * (is_skipped ? 5 : 1),
             .loss = noisy(loss_after(truth.convergence, shape, static_cast<double>(step))),
             .exchanged_bytes = 2 * as_double(truth.workload.parameters),
             .exchange_seconds = 2 * (truth.workload.parameters / truth.workload.required_bandwidth).value()});
      }
      study.logs.push_back(std::move(log));
    }
  }
  return study;
}

const std::vector<std::pair<int, int>> kClusters{{1, 0}, {0, 1}, {1, 1}, {2, 2}, {4, 3}, {5, 5}};

}  // namespace

TEST_CASE("logs give back the coefficients that they were made from") {
  const Truth truth;
  const TrainingCoefficients fit = fit_training_logs(logs_of(truth, kClusters));
  CHECK(fit.warnings.empty());
  CHECK(fit.parameters == truth.workload.parameters);
  CHECK(fit.required_bandwidth.value == doctest::Approx(500e6).epsilon(1e-9));
  REQUIRE(fit.machines.size() == 2);
  CHECK(fit.machines[0].instance == "fast");
  CHECK(fit.machines[0].step.value == doctest::Approx(0.9).epsilon(1e-9));
  // 2 x 100 MB / 500 MB/s + 2 x 2 GPUs x 100 MB / 10 GB/s
  CHECK(fit.machines[1].compute.value == doctest::Approx(2.2 - 0.4 - 0.04).epsilon(1e-9));
  REQUIRE(fit.contention_slope);
  CHECK(fit.contention_slope->value == doctest::Approx(0.3).epsilon(1e-3));
  CHECK(fit.contention_intercept->value == doctest::Approx(-0.1).epsilon(1e-2));
  REQUIRE(fit.convergence);
  CHECK_FALSE(fit.convergence->initial_loss);
  CHECK(fit.convergence->offset.value() == doctest::Approx(400).epsilon(1e-3));
  CHECK(fit.convergence->batch_slope == doctest::Approx(-0.5).epsilon(1e-3));
  CHECK(fit.convergence->batch_intercept == doctest::Approx(900).epsilon(1e-3));
  CHECK(fit.convergence->floor == doctest::Approx(0.3).epsilon(1e-3));
  CHECK(fit.convergence->workers == std::pair{1, 10});
  for (const LoggedCluster& cluster : fit.clusters)
    CHECK(cluster.predicted_samples_per_s == doctest::Approx(cluster.samples_per_s).epsilon(1e-4));
  CHECK(*fit.loss_error < 1e-4);
}

TEST_CASE("a common initial loss and the spread of speeds are found where logs have them") {
  Truth truth;
  truth.convergence.offset = {};
  truth.convergence.initial_loss = 4.6;
  truth.convergence.spread_offset = 0.4;
  TrainingStudy study = logs_of(truth, kClusters);
  study.uses_spread = true;
  const TrainingCoefficients fit = fit_training_logs(study);
  REQUIRE(fit.convergence);
  CHECK_FALSE(fit.convergence->offset);
  CHECK(fit.convergence->initial_loss.value() == doctest::Approx(4.6).epsilon(1e-3));
  CHECK(fit.convergence->spread_offset.value() == doctest::Approx(0.4).epsilon(1e-2));
  CHECK(fit.convergence->batch_intercept == doctest::Approx(900).epsilon(1e-2));
}

TEST_CASE("intervals of noisy logs hold the values, and the predicted speeds stay near") {
  Truth truth;
  truth.noise = 0.02;
  const TrainingCoefficients fit = fit_training_logs(logs_of(truth, kClusters));
  CHECK(fit.machines[0].step.interval->first < 0.9);
  CHECK(fit.machines[0].step.interval->second > 0.9);
  CHECK(fit.contention_slope->interval->first < 0.3);
  CHECK(fit.contention_slope->interval->second > 0.3);
  REQUIRE(fit.convergence_intervals.size() == 4);
  const std::vector<double> values{400, -0.5, 900, 0.3};
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(fit.convergence_intervals[i].first);
    CHECK(fit.convergence_intervals[i].second.first < values[i]);
    CHECK(fit.convergence_intervals[i].second.second > values[i]);
  }
  for (const LoggedCluster& cluster : fit.clusters)
    CHECK(cluster.predicted_samples_per_s == doctest::Approx(cluster.samples_per_s).epsilon(0.02));
}

TEST_CASE("the fitted convergence is what a scenario's workload takes") {
  const TrainingStudy study = logs_of({}, kClusters);
  const Json json = to_json(fit_training_logs(study), study, "rehearse calibrate test.json");
  const Convergence read = read_convergence(JsonReader{json, "coefficients.json"}.child("convergence"));
  CHECK(read.batch_intercept == doctest::Approx(900).epsilon(1e-3));
  CHECK(json["fit"]["command"] == "rehearse calibrate test.json");
}

TEST_CASE("logs from which something does not follow") {
  const TrainingCoefficients few = fit_training_logs(logs_of({}, {{1, 0}, {2, 0}}));
  CHECK_FALSE(few.contention_slope);
  REQUIRE(few.warnings.size() == 2);
  CHECK(few.warnings[0] ==
        "contention is not fitted: it takes clusters of two sizes whose workers together require more than the "
        "server's bandwidth of 1.2GBps; found 0");
  CHECK(few.warnings[1] == "batch_slope is taken as 0: all clusters have the same samples per update");
  CHECK_THROWS_WITH_AS(
      (void)fit_training_logs(logs_of({}, {{1, 1}, {1, 0}})),
      "test.json: worker \"1\" of cluster \"1+1\": expected a log of one slow alone, with 2 GPUs and batch "
      "256; found none",
      InputError);
  TrainingStudy study = logs_of({}, {{1, 0}});
  study.skip_first = 58;
  CHECK_THROWS_WITH_AS(
      (void)fit_training_logs(study),
      "test.json: worker \"0\" of cluster \"1+0\" has 60 entries, of which the first 58 and the last 3 do "
      "not count: expected at least two more",
      InputError);
  study = logs_of({}, {{1, 0}});
  for (LogEntry& entry : study.logs[0].entries) entry.exchanged_bytes = {};
  CHECK_THROWS_WITH_AS((void)fit_training_logs(study),
                       "test.json: /parameters: expected the bytes of the parameters, or logs with exchanged_B",
                       InputError);
}

TEST_CASE("a study of training logs is read with its files") {
  const test::TemporaryFolder folder;
  std::string text;
  for (int step = 100; step <= 2000; step += 100)
    text += "loss = " + std::to_string(500.0 / (step + 100) + 1) + ", step = " + std::to_string(step) + " (20.0 sec)\n";
  folder.write("chief.log", text);
  const auto study_file = folder.write("study.json", R"json({ "format": 1, "kind": "training_logs",
    "logs": [ { "file": "chief.log", "line": "loss = {loss}, step = {step} ({elapsed_s} sec)", "cluster": "one",
                "worker": "chief", "instance": "p3.2xlarge", "batch": 128 } ],
    "parameters": "10MB", "required_bandwidth": "200MBps", "skip_first": 2 })json");
  CHECK(study_kind(load_json_file(study_file)) == "training_logs");
  const TrainingCoefficients fit = fit_training_logs(load_training_study(study_file));
  CHECK(fit.machines.at(0).step.value == doctest::Approx(0.2));
  CHECK(fit.convergence->floor == doctest::Approx(1).epsilon(1e-3));
  CHECK(fit.convergence->batch_intercept == doctest::Approx(500).epsilon(1e-2));
  const auto broken = folder.write("broken.json", R"({ "format": 1, "kind": "training_logs", "logs": [] })");
  CHECK_THROWS_WITH_AS((void)load_training_study(broken),
                       (broken.string() + ": /logs: expected at least one log").c_str(), InputError);
}

}  // namespace rehearse
