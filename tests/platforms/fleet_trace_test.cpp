#include "platforms/fleet_trace.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/csv.hpp"
#include "sim/base/errors.hpp"
#include "tests/support/paths.hpp"

namespace rehearse::fleet_trace_test {

namespace {

using Kind = FleetEvent::Kind;

FleetTrace read(const std::string& text) { return read_fleet_trace(parse_csv(text, "t.csv")); }

std::vector<FleetEvent> events_of(FleetReplay replay) {
  std::vector<FleetEvent> events;
  while (const auto event = replay.next()) events.push_back(*event);
  return events;
}

}  // namespace

TEST_CASE("a trace of nodes is played back as it was recorded") {
  const FleetTrace trace =
      read("time_s,event,node\n0,add,a\n0,add,b\n10,remove,a\n15,add,c\n20,remove,b\n20,remove,c\n");
  const FleetReplay replay{trace, 2};
  CHECK(replay.runs_at_start(0));
  CHECK(replay.runs_at_start(1));
  const std::vector<FleetEvent> expected{{Seconds{10}, 0, Kind::kRevoked},
                                         {Seconds{15}, 0, Kind::kRunning},
                                         {Seconds{20}, 1, Kind::kRevoked},
                                         {Seconds{20}, 0, Kind::kRevoked}};
  CHECK(events_of(FleetReplay{trace, 2}) == expected);
}

TEST_CASE("a notice comes before each revocation, but not before the machine") {
  const FleetTrace trace = read("time_s,event,node\n0,add,a\n10,remove,a\n15,add,c\n20,remove,c\n");
  const std::vector<FleetEvent> expected{{Seconds{3}, 0, Kind::kNotice},
                                         {Seconds{10}, 0, Kind::kRevoked},
                                         {Seconds{15}, 0, Kind::kRunning},
                                         {Seconds{15}, 0, Kind::kNotice},
                                         {Seconds{20}, 0, Kind::kRevoked}};
  CHECK(events_of(FleetReplay{trace, 1, Seconds{}, Seconds{7}}) == expected);
}

TEST_CASE("machines beyond the slots wait until one is free") {
  const FleetTrace trace =
      read("time_s,event,node\n0,add,a\n0,add,b\n5,add,c\n10,remove,a\n12,remove,c\n30,remove,b\n");
  const std::vector<FleetEvent> expected{
      {Seconds{10}, 0, Kind::kRevoked}, {Seconds{10}, 0, Kind::kRunning}, {Seconds{30}, 0, Kind::kRevoked}};
  CHECK(events_of(FleetReplay{trace, 1}) == expected);
}

TEST_CASE("a replay may begin anywhere in the trace") {
  const FleetTrace trace = read("time_s,event,node\n0,add,a\n10,remove,a\n15,add,c\n20,remove,c\n");
  FleetReplay replay{trace, 2, Seconds{16}};
  CHECK(replay.runs_at_start(0));
  CHECK_FALSE(replay.runs_at_start(1));
  CHECK(events_of(std::move(replay)) == std::vector<FleetEvent>{{Seconds{4}, 0, Kind::kRevoked}});
}

TEST_CASE("200 000 machines that go in another order than they came take no time that is quadratic") {
  constexpr int kMachines = 200'000;  // minutes if each that goes is looked for among all
  FleetTrace trace{.events = {}, .end = Seconds{3.0 * kMachines}, .has_names = true};
  const auto add = [&](int at, bool is_added, int node) {
    trace.events.push_back({Seconds{static_cast<double>(at)}, is_added, std::to_string(node)});
  };
  for (int i = 0; i < kMachines; ++i) add(i, true, i);
  for (int i = 0; i + 2 < kMachines; ++i) add(kMachines + i, false, kMachines - 1 - i);
  const FleetTrace rest = cut(trace, Seconds{2.0 * kMachines});
  REQUIRE(rest.events.size() == 2);
  CHECK(rest.events[0].node == "0");
  CHECK(rest.events[1].node == "1");
  CHECK(events_of(FleetReplay{trace, 2, Seconds{5}}).empty());  // the two that came first stay
}

TEST_CASE("counts become machines of which the first to come is the first to go") {
  const FleetTrace counts = read("time_s,instances\n0,0\n5,0\n5,2\n9,2\n9,1\n12,3\n");
  const FleetTrace runs = read("start_s,available_instances,duration_s\n0,0,5\n5,2,4\n9,1,3\n12,3,8\n");
  for (const FleetTrace* trace : {&counts, &runs}) {
    std::string text;
    for (const TraceEvent& event : trace->events)
      text += std::to_string(static_cast<int>(event.at.value())) + (event.is_added ? "+" : "-") + event.node + " ";
    CHECK(text == "5+1 5+2 9-1 12+3 12+4 ");
    CHECK_FALSE(trace->has_names);
  }
  CHECK(counts.end == Seconds{12});
  CHECK(runs.end == Seconds{20});
}

TEST_CASE("milliseconds and hours are told by the column's name") {
  CHECK(read("time_ms,event,node\n60000,add,a\n").events[0].at == Seconds{60});
  CHECK(read("time_h,instances\n0,0\n0.5,1\n").events[0].at == Seconds{1800});
}

TEST_CASE("a shipped trace, played back on as many slots as it has machines, has all its events") {
  const FleetTrace trace =
      load_fleet_trace(std::filesystem::path{source_folder()} / "calibration/data/bamboo-spot-traces/p3-trace.csv");
  int at_start = 0, running = 0, revoked = 0, alive = 0, most = 0;
  FleetReplay replay{trace, 32};
  for (int slot = 0; slot < 32; ++slot) at_start += replay.runs_at_start(slot);
  alive = at_start;
  while (const auto event = replay.next()) {
    (event->kind == Kind::kRunning ? running : revoked)++;
    most = std::max(most, alive += event->kind == Kind::kRunning ? 1 : -1);
  }
  CHECK(at_start == 18);
  CHECK(at_start + running == 177);
  CHECK(revoked == 167);
  CHECK(most == 32);
}

TEST_CASE("mistakes in traces name their line") {
  const auto refused = [](const std::string& text, const char* message) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS((void)read(text), message, InputError);
  };
  refused("time_s,event,node\n5,add,a\n4,remove,a\n",
          "t.csv:3: column \"time_s\": expected dates from 0 to 1e9 s that do not fall");
  refused("time_s,event,node\n5,ad,a\n", "t.csv:2: column \"event\": expected add or remove");
  refused("time_s,event,node\n5,add,a\n6,add,a\n", "t.csv:3: column \"node\": this node is already there");
  refused("time_s,event,node\n5,remove,a\n", "t.csv:2: column \"node\": this node is not there");
  refused("time_s,instances\n5,-1\n", "t.csv:2: column \"instances\": expected 0 to 10000 machines");
  std::string churn = "time_s,instances\n";
  for (int i = 0; i < 101; ++i) churn += std::to_string(i) + (i % 2 == 0 ? ",10000\n" : ",0\n");
  refused(churn, "t.csv:102: column \"instances\": expected at most 1000000 arrivals and losses of machines");
  refused("time_s,event,node\n1e10,add,a\n",
          "t.csv:2: column \"time_s\": expected dates from 0 to 1e9 s that do not fall");
  refused("time,event\n1,add\n",
          "t.csv: expected the columns time_s,event,node or time_s,instances or "
          "start_s,available_instances,duration_s");
}

}  // namespace rehearse::fleet_trace_test
