// Numbers of replays, of a few events whose dates can be worked out.

#include "calibration/replayed_metric.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "calibration/metric.hpp"
#include "calibration/study.hpp"
#include "calibration/trace_measurements.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/timed_cluster.hpp"

namespace rehearse::replayed_metric_test {

namespace {

std::string event(const std::string& category, const std::string& name, const std::string& thread, int start,
                  int duration, const std::string& arguments = "") {
  return R"({"ph":"X","cat":")" + category + R"(","name":")" + name + R"(","pid":1,"tid":)" + thread + R"(,"ts":)" +
         std::to_string(start) + R"(,"dur":)" + std::to_string(duration) + R"(,"args":{)" + arguments + "}}";
}

/// A step of 1000 us: a kernel until 120 us, an all-reduce of 1 MB until 520 us, for which the host waits until 530 us.
std::string trace(const std::string& collective) {
  const std::string on_gpu = R"(,"device":0,"stream":7)";
  return R"({"distributedInfo":{"rank":0,"world_size":2},"traceEvents":[)" +
         event("user_annotation", "ProfilerStep#1", "1", 0, 1000) + "," + event("cpu_op", "all", "1", 0, 1000) + "," +
         event("cuda_runtime", "cudaLaunchKernel", "1", 10, 5, R"("correlation":1)") + "," +
         event("cuda_runtime", "cudaLaunchKernel", "1", 30, 5, R"("correlation":2)") + "," +
         event("cuda_runtime", "cudaDeviceSynchronize", "1", 40, 490, R"("correlation":3)") + "," +
         event("kernel", "gemm", "7", 20, 100, R"("correlation":1)" + on_gpu) + "," +
         event("kernel", collective, "7", 120, 400,
               R"("correlation":2,"In msg nelems":250000,"dtype":"Float")" + on_gpu) +
         "]}";
}

Scenario two_workers() {
  return test::resolved(test::timed_scenario(2, {{"4B"}}, {{"kind", "all_reduce"}, {"algorithm", "ring"}}));
}

}  // namespace

TEST_CASE("a replayed step has the simulated collective in it; what comes after it stays") {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("t.json", trace("ncclAllReduce")).string();
  // 1 MB in a ring of two at 1 GB/s: 2 (10 us + 500 us) in place of 400 us; 480 us of the step are behind it.
  CHECK(replayed_metric(two_workers(), "replayed_step_s", file) == doctest::Approx(1620e-6).epsilon(2e-3));
  CHECK(replayed_metric(two_workers(), "replayed_after_first_collective_s", file) ==
        doctest::Approx(480e-6).epsilon(2e-3));
  const CsvTable measured = load_trace_measurements(file);
  for (const CsvRow& row : measured.rows())
    if (row.text("kind") == "after_first_collective") CHECK(row.number("time_s") == doctest::Approx(480e-6));

  const std::string alone = folder.write("u.json", trace("gemm")).string();
  CHECK(test::error_of([&] {
          (void)replayed_metric(two_workers(), "replayed_after_first_collective_s", alone);
        }).ends_with("has no step with a collective, of which replayed_after_first_collective_s is the time"));
}

TEST_CASE("a study of one rank's trace predicts the steps of eight, and names the trace for such metrics alone") {
  const std::string own = source_folder() + "/scenarios/studies/own/";
  const Study study = load_studies(own + "trace-step.json").front();
  REQUIRE(study.rows.size() == 8);
  const std::vector<Prediction> predictions = predict(study, test::shipped_catalog(), 1);
  for (const Prediction& prediction : predictions) {
    REQUIRE(prediction.value);
    CHECK(*prediction.value == predictions.front().value);
  }
  Json json = load_json_file(own + "trace-step.json");
  json["target"]["metric"] = "collective_time_s";
  const test::TemporaryFolder folder;
  for (const char* place : {"scenario", "measurements/file", "target/traces"}) {
    Json& path = json[Json::json_pointer("/" + std::string{place})];
    path = std::filesystem::weakly_canonical(own + path.get<std::string>()).string();
  }
  const std::string file = folder.write("s.json", json.dump()).string();
  CHECK(test::error_of([&] { (void)load_studies(file); }).find("a trace beside a metric of replays") !=
        std::string::npos);
}

}  // namespace rehearse::replayed_metric_test
