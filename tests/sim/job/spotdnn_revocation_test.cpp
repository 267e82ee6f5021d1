// scenarios/spotdnn-revocation.json against what spotDNN drew of its run: speeds, and when the newcomers train.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "sim/base/csv.hpp"
#include "tests/support/readme_part.hpp"
#include "tests/support/simulated.hpp"

namespace rehearse {

namespace {

const std::string kData = source_folder() + "/calibration/data/spotdnn/";

/// Minute of the figure at which the training starts: the run's time 0.
double first_minute() {
  const CsvTable timeline = load_csv_file(kData + "revocation_timeline.csv");
  return timeline.rows().front().number("time_min");
}

/// Mean of the trace over these minutes.
double traced_speed(double from_min, double to_min) {
  double sum = 0;
  int samples = 0;
  const CsvTable trace = load_csv_file(kData + "revocation_speed_trace.csv");
  for (const CsvRow row : trace.rows()) {
    const double at = row.number("time_min");
    if (at < from_min - 1e-9 || at > to_min + 1e-9) continue;
    sum += row.number("cluster_speed_samples_per_s");
    ++samples;
  }
  REQUIRE(samples > 0);
  return sum / samples;
}

/// Samples per second within `window`; of a step that lies only partly in it, that part of its samples.
double speed(const Scenario& scenario, const RunRecord& record, Span window) {
  double samples = 0;
  for (const StepSpan& step : record.recorder.steps) {
    const Seconds within = std::min(step.span.end, window.end) - std::max(step.span.start, window.start);
    if (within <= Seconds{}) continue;
    const Machine& machine = record.machines[static_cast<std::size_t>(step.machine)];
    samples +=
        scenario.groups[static_cast<std::size_t>(machine.group)].batch * (within / (step.span.end - step.span.start));
  }
  return samples / (window.end - window.start).value();
}

}  // namespace

TEST_CASE("spotDNN's run through a revocation: speeds within 3 % of the trace, newcomers within 20 s") {
  const double start = first_minute();
  REQUIRE(start == 2.0);
  const std::vector<std::pair<double, double>> windows{{28.0, 31.4}, {31.55, 31.75}};  // minutes of the figure
  const Json result = test::in_child([&] {
    const Scenario scenario = test::resolved(load_json_file(source_folder() + "/scenarios/spotdnn-revocation.json"));
    const RunRecord record = simulate(scenario, {.on_update = {}});
    Json json{{"speeds", Json::array()}, {"joins", Json::array()}, {"lost", record.interruptions.lost_updates}};
    for (const auto& [from, to] : windows)
      json["speeds"].push_back(speed(scenario, record, {Seconds{(from - start) * 60}, Seconds{(to - start) * 60}}));
    for (const EventSpan& event : record.recorder.events)
      if (event.kind == "join") json["joins"].push_back(start + event.span.start.value() / 60);
    return json;
  });
  REQUIRE_MESSAGE(!result.contains("error"), result.dump());
  std::string errors;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const double measured = traced_speed(windows[i].first, windows[i].second);
    const double simulated = result["speeds"][i].get<double>();
    MESSAGE("minutes " << windows[i].first << " to " << windows[i].second << ": simulated " << simulated
                       << " samples/s, traced " << measured << ", error " << 100 * (simulated / measured - 1) << " %");
    CHECK(std::abs(simulated / measured - 1) <= 0.03);
    errors += (i == 0 ? "" : "; ") + test::with_decimals(100 * (simulated / measured - 1), 1) + " %";
  }
  test::check_calibration_row(
      "| samples/s before a revocation; with the three workers that stay | spotDNN, figure 9 | " + errors + " |");
  REQUIRE(result["joins"].size() == 3);
  for (const Json& join : result["joins"]) {
    MESSAGE("a newcomer trains from minute " << join.get<double>());
    CHECK(std::abs(join.get<double>() - 31.9) <= 20 / 60.0);
  }
  CHECK(result["lost"] == 0);
}

}  // namespace rehearse
