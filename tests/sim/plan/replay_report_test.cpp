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

}  // namespace rehearse
