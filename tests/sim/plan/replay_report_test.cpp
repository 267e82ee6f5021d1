// What is said of a replay.

#include "sim/plan/replay_report.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "workloads/traces/chakra_run.hpp"

namespace rehearse {

TEST_CASE("what was not recorded is not said to be measured") {
  ChakraTrace trace{.file_name = "t.et", .names = {"gemm"}};
  trace.nodes.push_back({.id = 1, .type = ChakraType::kCompute, .duration = 5'000'000, .stream = 7});
  const RecordedJob undated = recorded_job({recorded_run(trace)});
  const ReplayReport report = replay_report(undated, replay(undated));
  CHECK(report.whole.replayed.value() == doctest::Approx(5e-3));
  CHECK(report.refusal() == "no dates are recorded with which the replay could be compared: no what-ifs");
  const Json json = replay_json(undated, report, false);
  CHECK(!json["whole"].contains("measured_s"));
  CHECK(!json["streams"][0].contains("busy_measured"));
  CHECK(json["unexplained_share"].is_null());

  trace.nodes[0].start = 1000;
  const RecordedJob dated = recorded_job({recorded_run(trace)});
  const ReplayReport compared = replay_report(dated, replay(dated));
  CHECK(compared.refusal().empty());
  CHECK(replay_json(dated, compared, false)["whole"]["measured_s"].get<double>() == doctest::Approx(5e-3));
}

TEST_CASE("a what-if is said of classes and streams, beside what was replayed") {
  ChakraTrace trace{.file_name = "t.et", .names = {"gemm", "batch_norm"}};
  trace.nodes.push_back({.id = 1, .type = ChakraType::kCompute, .start = 1000, .duration = 6'000'000, .stream = 7});
  trace.nodes.push_back({.id = 2, .name = 1, .type = ChakraType::kCompute, .duration = 2'000'000, .stream = 7});
  const RecordedJob job = recorded_job({recorded_run(trace)});
  ReplayReport report = replay_report(job, replay(job));
  RecordedChange change;
  scale(change, "matrix-product", 0.5);
  add_changed(report, job, replay(job, change));
  REQUIRE(report.classes.size() == 2);
  CHECK(report.classes[0].changed.value() == doctest::Approx(3e-3));
  CHECK(report.classes[1].changed.value() == doctest::Approx(2e-3));
  CHECK(report.whole.changed.value() == doctest::Approx(5e-3));
  CHECK(report.streams[0].busy_changed == doctest::Approx(1));
  const Json json = replay_json(job, report, true);
  CHECK(json["classes"][0]["changed_s"].get<double>() == doctest::Approx(3e-3));
  CHECK(!replay_json(job, report, false)["classes"][0].contains("changed_s"));

  // Without marked steps the whole recording is the iteration.
  const Json recorded = replay_summary(job, report, false), changed = replay_summary(job, report, true);
  CHECK(recorded["iteration_time_s"] == 8e-3);
  CHECK(changed["iteration_time_s"] == 5e-3);
  CHECK(changed["steps_per_s"] == 200);
  CHECK(changed["matrix_product_time_s"] == 3e-3);
  CHECK(changed["normalization_time_s"] == recorded["normalization_time_s"]);
  CHECK(!recorded.contains("measured_iteration_time_s"));  // Chakra says when nothing began but the first
}

TEST_CASE("with more than 10 % of the time of kernels of unknown kind a replay is not good enough for all what-ifs") {
  ChakraTrace trace{.file_name = "t.et", .names = {"sgemm", "unheard_of"}};
  trace.nodes.push_back({.id = 1, .type = ChakraType::kCompute, .start = 1000, .duration = 8'000'000, .stream = 7});
  trace.nodes.push_back(
      {.id = 2, .name = 1, .type = ChakraType::kCompute, .start = 8'001'000, .duration = 2'000'000, .stream = 7});
  RecordedJob job = recorded_job({recorded_run(trace)});
  const ReplayReport report = replay_report(job, replay(job));
  CHECK(report.refusal().empty());
  CHECK(report.unscaled.kind == doctest::Approx(0.2));
  CHECK(report.unscaled_warning().starts_with(
      "not good enough for what-ifs by class of kernels or on another GPU: they leave 20.0 %"));
  const Json json = replay_json(job, report, false);
  CHECK(!json["allows_what_ifs"].get<bool>());
  CHECK(json["gpus"][0]["measured"]["busy_s"].get<double>() == doctest::Approx(10e-3));
  CHECK(json["gpus"][0]["replayed"]["idle_host_wait_s"] == 0);
  CHECK(replay_summary(job, report, false)["gpu_computation_time_s"].get<double>() == doctest::Approx(10e-3));
  trace.nodes[1].duration = 800'000;
  job = recorded_job({recorded_run(trace)});
  CHECK(replay_report(job, replay(job)).unscaled_warning().empty());
}

TEST_CASE("a step in which nothing is done is replayed without an error") {
  CHECK(ReplayedStep{}.error() == 0);
  CHECK(ReplayedStep{.name = "", .measured = Seconds{}, .replayed = Seconds{1e-3}}.error() == 1);
}

}  // namespace rehearse
