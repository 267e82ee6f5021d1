#include "sim/app/output/timeline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace rehearse {

namespace {

/// A worker and a server whose messages touch end to end, with a latency that is not a whole number of nanoseconds.
RunRecord hand_made_record(int messages) {
  RunRecord record;
  record.machines = {
      {.name = "worker <1>", .group = 0, .role = Role::kWorker, .workers = 1, .nic = BytesPerSecond{1e9}},
      {.name = "ps \"0\"",
       .group = 1,
       .role = Role::kParameterServer,
       .servers = 1,
       .cores = 1,
       .nic = BytesPerSecond{1e9}}};
  record.total.resize(2);
  Seconds time{0.01};
  const Seconds latency{123.4567e-6};
  for (int i = 0; i < messages; ++i) {
    const Span wire{time, time + Seconds{1.00000037e-4 + 1e-9 * i / 7}};
    record.recorder.messages.push_back({{1}, {0, 0}, 0, 0, wire, wire.end + latency, Bytes{1000}});
    record.recorder.server_work.push_back({1, 0, 0, false, wire});
    record.recorder.kernels.push_back({0, 0, 0, wire, Seconds{1e-5}});
    time = wire.end;
  }
  record.recorder.steps = {
      {.global_step = 1, .span = {Seconds{0}, time}, .last_pull = time * 0.3, .compute_end = time * 0.6}};
  record.unit_names = {"kernel \"0\"\\"};
  record.end = time + Seconds{1};
  record.window = {Seconds{}, record.end};
  return record;
}

Scenario hand_made_scenario() {
  Scenario scenario;
  scenario.workload.variables = {{.name = "kernel \"0\"\\", .shape = {}, .bytes = Bytes{1000}}};
  Operator kernel;
  kernel.name = "conv";
  scenario.workload.graph.add(kernel);
  return scenario;
}

std::string timeline_json(const Scenario& scenario, const RunRecord& record, const ResourceProfile& profile) {
  std::string text;
  write_timeline(scenario, record, profile, [&text](std::string_view part) { text += part; });
  return text;
}

struct Slice {
  std::int64_t start, end;
};
std::int64_t as_nanoseconds(const Json& value) { return std::llround(value.get<double>() * 1000); }

}  // namespace

TEST_CASE("slices of a track are sorted and nest or do not overlap, and every arrow has two ends within slices") {
  const RunRecord record = hand_made_record(20'000);
  Scenario scenario = hand_made_scenario();
  scenario.output.timeline_start = Seconds{0.0105};
  scenario.output.timeline_length = Seconds{1.0};
  const ResourceProfile profile = resource_profile(record, Seconds{0.1});
  const std::string text = timeline_json(scenario, record, profile);
  CHECK(text == timeline_json(scenario, record, profile));
  CHECK(text.size() > 4 << 20);  // written in several parts
  const Json trace = Json::parse(text);
  std::map<std::pair<int, int>, std::vector<Slice>> tracks;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == "X")
      tracks[{event["pid"], event["tid"]}].push_back(
          {as_nanoseconds(event["ts"]), as_nanoseconds(event["ts"]) + as_nanoseconds(event["dur"])});
  REQUIRE(tracks.size() == 5);
  int overlaps = 0, unsorted = 0, outside = 0;
  for (const auto& [key, slices] : tracks) {
    std::vector<std::int64_t> open;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      if (i > 0 && slices[i].start < slices[i - 1].start) ++unsorted;
      if (slices[i].start < 10'500'000 || slices[i].end > 1'010'500'000) ++outside;
      while (!open.empty() && open.back() <= slices[i].start) open.pop_back();
      if (!open.empty() && slices[i].end > open.back()) ++overlaps;
      open.push_back(slices[i].end);
    }
  }
  CHECK(overlaps == 0);
  CHECK(unsorted == 0);
  CHECK(outside == 0);
  std::map<int, std::set<std::string>> arrows;
  int loose = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "s" && event["ph"] != "f") continue;
    arrows[event["id"]].insert(event["ph"]);
    const std::int64_t at = as_nanoseconds(event["ts"]);
    const auto& slices = tracks[{event["pid"], event["tid"]}];
    loose += std::none_of(slices.begin(), slices.end(), [&](const Slice& s) { return s.start <= at && at < s.end; });
  }
  CHECK(arrows.size() > 1000);
  for (const auto& [id, ends] : arrows) CHECK(ends.size() == 2);
  CHECK(loose == 0);
}

}  // namespace rehearse
