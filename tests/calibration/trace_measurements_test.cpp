// Traces as tables of measurements: of a few events whose times are known, and of eight ranks that ship.

#include "calibration/trace_measurements.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "calibration/measurements.hpp"
#include "sim/base/errors.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse::trace_measurements_test {

namespace {

std::string event(const std::string& category, const std::string& name, const std::string& lane, int start,
                  int duration, const std::string& arguments = "") {
  return R"(,{"ph":"X","cat":")" + category + R"(","name":")" + name + R"(","pid":1,"tid":")" + lane + R"(","ts":)" +
         std::to_string(start) + R"(,"dur":)" + std::to_string(duration) + R"(,"args":{)" + arguments + "}}";
}

/// Steps of 1000 us: 100 us of host work, then three launches, 40 us apart; the first kernel begins 10 us after its
/// launch and takes 200 us, the others follow it 2 us after each other. Then the host waits for them.
std::string trace(int steps) {
  std::string events = R"({"ph":"M","name":"process_name"})";
  for (int step = 0; step < steps; ++step) {
    const int begin = 1000 * step;
    events += event("user_annotation", "ProfilerStep#" + std::to_string(step), "main", begin, 1000);
    events += event("cpu_op", "forward", "main", begin, 998);
    int free = 0;
    for (int k = 0; k < 3; ++k) {
      const std::string correlation = R"("correlation":)" + std::to_string(3 * step + k + 1);
      const int launch = begin + 100 + 40 * k;
      events += event("cuda_runtime", "cudaLaunchKernel", "main", launch, 5, correlation);
      const int start = k == 0 ? launch + 10 : free + 2;
      const int duration = k == 0 ? 200 : 50;
      events += event("kernel", k == 0 ? "gemm" : "batch_norm", "7", start, duration,
                      correlation + R"(,"device":0,"stream":7)");
      free = start + duration;
    }
    events += event("cuda_runtime", "cudaDeviceSynchronize", "main", begin + 190, free - begin - 190 + 10);
  }
  return R"({"traceEvents":[)" + events + "]}";
}

CsvTable table_of(const std::string& text) {
  return measurements_of(recorded_job({recorded_run(parse_kineto_trace(text, "t.json"))}), "t.json");
}

/// Times in microseconds by kind and name, of one step.
std::map<std::string, double> times_of(const CsvTable& table, const std::string& step) {
  std::map<std::string, double> times;
  for (const CsvRow& row : table.rows())
    if (row.text("step") == step)
      times[std::string{row.text("kind")} + std::string{row.text("name")}] = row.number("time_s") * 1e6;
  return times;
}

}  // namespace

TEST_CASE("a step's host work, launches, gaps and kernels are measured apart") {
  const CsvTable table = table_of(trace(3));
  const std::map<std::string, double> times = times_of(table, "ProfilerStep#1");
  CHECK(times.at("step") == doctest::Approx(1000));
  CHECK(times.at("step_overhead") == doctest::Approx(100));
  // 90 us until it waits, 590 us after the kernels have ended, of which the wait is over 10 us later: all host work but
  // the wait, for each of three launches.
  const double waits = 1000 - 100 - 3 * times.at("dispatch");
  CHECK(waits == doctest::Approx(414 - 190).epsilon(0.03));
  CHECK(times.at("latency") == doctest::Approx(10));
  CHECK(times.at("gap") == doctest::Approx(2));
  CHECK(times.at("kernelsmatrix-product") == doctest::Approx(200));
  CHECK(times.at("kernelsnormalization") == doctest::Approx(100));
}

TEST_CASE("a recording without marked steps is one row of each kind") {
  std::string text = trace(1);
  text.replace(text.find("ProfilerStep#0"), 14, "a part of mine");
  std::set<std::string> kinds;
  const CsvTable table = table_of(text);
  for (const CsvRow& row : table.rows()) {
    CHECK(row.text("step") == "the recording");
    kinds.insert(std::string{row.text("kind")});
  }
  CHECK(kinds == std::set<std::string>{"step", "step_overhead", "dispatch", "latency", "gap", "kernels"});
}

TEST_CASE("a folder is the ranks of one job, and a collective the shortest of them") {
  const CsvTable table =
      load_trace_measurements(source_folder() + "/calibration/data/pytorch-kineto-traces/dlrm_v100_8gpu");
  int all_reduces = 0, others = 0;
  std::set<std::string> ranks;
  for (const CsvRow& row : table.rows()) {
    ranks.insert(std::string{row.text("rank")});
    if (row.text("kind") != "collective") continue;
    CHECK(row.integer("ranks") == 8);
    if (row.text("name") != "all_reduce") {
      ++others;
      continue;
    }
    ++all_reduces;
    if (row.integer("bytes") == 4 * 394'241) CHECK(row.number("time_s") == doctest::Approx(86e-6));
  }
  CHECK(ranks.size() == 8);
  CHECK(all_reduces == 3);  // of each rank's three one row
  CHECK(others == 5);
  const test::TemporaryFolder empty;
  CHECK_THROWS_AS(load_trace_measurements(empty / ""), InputError);
}

}  // namespace rehearse::trace_measurements_test
