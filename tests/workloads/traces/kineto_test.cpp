// Reading of traces: versions, dates, and what is refused.

#include "workloads/traces/kineto.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse {

namespace {

KinetoTrace read(const std::string& text, bool is_packed = false) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "t.json";
  write_file(file, is_packed ? gzip(text) : text);
  return read_kineto_trace(file);
}

KinetoTrace read_events(const std::string& events) { return read(R"({"traceEvents": [)" + events + "]}"); }

/// What is said of the file, after its name.
std::string refusal(const std::string& text) {
  try {
    (void)read(text);
  } catch (const InputError& error) {
    const std::string what = error.what();
    return what.substr(what.find("t.json: ") + 8);
  }
  return "";
}

std::string refusal_of_event(const std::string& event) { return refusal(R"({"traceEvents": [)" + event + "]}"); }

}  // namespace

TEST_CASE("events of old and new versions are the same") {
  const std::string old_events = R"(
    {"ph":"X","cat":"Operator","name":"aten::add","pid":7,"tid":"9","ts":10,"dur":5,"args":{}},
    {"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":7,"tid":"9","ts":11,"dur":2,"args":{"correlation":3}},
    {"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":"stream 7","ts":20,"dur":4,
     "args":{"device":0,"stream":7,"correlation":3}},
    {"ph":"s","cat":"async","name":"a","pid":7,"tid":"9","ts":11,"id":3},
    {"ph":"M","name":"process_name","pid":7,"tid":0,"args":{"name":"python"}})";
  std::string new_events = old_events;
  for (const auto& [before, after] :
       {std::pair{"Operator", "cpu_op"}, {"Runtime", "cuda_runtime"}, {"Kernel\"", "kernel\""}})
    new_events.replace(new_events.find(std::string{"cat\":\""} + before) + 6, std::string{before}.size(), after);
  for (const std::string& events : {old_events, new_events}) {
    const KinetoTrace trace = read_events(events);
    REQUIRE(trace.events.size() == 3);
    CHECK(trace.events[0].kind == KinetoEvent::Kind::kOperator);
    CHECK(trace.events[1].kind == KinetoEvent::Kind::kCall);
    CHECK(trace.events[1].correlation == 3);
    CHECK(trace.events[2].kind == KinetoEvent::Kind::kKernel);
    CHECK(trace.events[2].start == 20'000);
    CHECK(trace.events[2].end() == 24'000);
    CHECK(trace.streams == std::vector<std::string>{"0/7"});
    CHECK(trace.threads == std::vector<std::string>{"7/9"});
  }
}

TEST_CASE("dates are exact to the nanosecond, in any order, plain or packed, in an object or as a list") {
  const std::string event =
      R"({"name":"a","ts":1712195495502094.537,"ph":"X","dur":0.25,"cat":"cpu_op","tid":1,"pid":1})";
  for (const bool is_packed : {false, true}) {
    const KinetoTrace trace = read("[" + event + "]", is_packed);
    REQUIRE(trace.events.size() == 1);
    CHECK(trace.events[0].start == 1'712'195'495'502'094'537);
    CHECK(trace.events[0].duration == 250);
  }
  CHECK(read_events(event).events[0].start == 1'712'195'495'502'094'537);
}

TEST_CASE("payloads: of shapes and types, or as the kernel says") {
  const KinetoTrace trace = read_events(
      R"({"ph":"X","cat":"user_annotation","name":"nccl:all_reduce","pid":1,"tid":1,"ts":1,"dur":1,
          "args":{"Input Dims":[[3,5],[9]],"Input type":["c10::Half","int"]}},
         {"ph":"X","cat":"kernel","name":"ncclDevKernel","pid":0,"tid":7,"ts":2,"dur":1,
          "args":{"device":0,"stream":7,"In msg nelems":10,"dtype":"Float"}},
         {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":3,"dur":1,
          "args":{"Input Dims":[[-3,5]],"Input type":["float"]}})");
  CHECK(trace.events[0].bytes == 30);
  CHECK(trace.events[1].bytes == 40);
  CHECK(trace.events[2].bytes == -1);
}

TEST_CASE("what is no trace is refused with one line that says where") {
  CHECK(refusal("").find("byte 1, in or after event 0: no JSON: ") == 0);
  CHECK(refusal(R"({"traceEvents": [{"ph":"X"}, {"ph": ]})").find("in or after event 1: no JSON: ") !=
        std::string::npos);
  CHECK(refusal("{}") == "expected a trace of PyTorch's profiler: an object with the list traceEvents");
  CHECK(refusal(R"({"schema": "1.0.3", "nodes": []})") ==
        "is an execution trace, which has no durations: give the profiler's trace of the same run besides it");
  CHECK(refusal_of_event(R"({"ph":"X","cat":"kernel","name":"k","ts":1,"dur":-2})") ==
        "event 1 \"k\": dur: expected 0 microseconds or more, below 1e11; found -2");
  CHECK(refusal_of_event(R"({"ph":"M"},{"name":"k","ts":"soon"})") ==
        "event 2 \"k\": ts: expected a number of microseconds; found \"soon\"");
  CHECK(refusal_of_event(R"({"ts":1e300})") == "event 1: ts: expected microseconds below 2.2e15; found 1e300");
  CHECK(refusal(R"({"distributedInfo": {"rank": -1}, "traceEvents": []})") ==
        "/distributedInfo/rank: expected 0 to 1000000; found -1");
  CHECK(refusal(std::string(100, '[')) == "more than 64 nested levels");
  CHECK_THROWS_AS(read_kineto_trace("/"), InputError);
  CHECK_THROWS_AS(read_kineto_trace("/nowhere/t.json"), InputError);
  const std::string packed = gzip("{}" + std::string(1000, ' '));
  const test::TemporaryFolder folder;
  write_file(folder / "cut.json", packed.substr(0, packed.size() - 9));
  CHECK_THROWS_AS(read_kineto_trace(folder / "cut.json"), InputError);
}

TEST_CASE("an event without duration is left out and counted") {
  const KinetoTrace trace = read_events(R"({"ph":"X","cat":"kernel","name":"k","ts":1})");
  CHECK(trace.events.empty());
  CHECK(trace.without_duration == 1);
}

namespace {

/// Steps of 100 us: in each an operator, and a call whose kernel runs in the next one.
std::string steps_trace(int count) {
  std::string events;
  for (int step = 0; step < count; ++step) {
    const auto add = [&](const std::string& category, const std::string& name, int start, int duration,
                         const std::string& arguments) {
      events += std::string{events.empty() ? "" : ","} + R"({"ph":"X","cat":")" + category + R"(","name":")" + name +
                R"(","pid":1,"tid":1,"ts":)" + std::to_string(100 * step + start) + R"(,"dur":)" +
                std::to_string(duration) + R"(,"args":{)" + arguments + "}}";
    };
    const std::string correlation = R"("correlation":)" + std::to_string(step);
    add("user_annotation", "ProfilerStep#" + std::to_string(step), 0, step == 2 ? 99 : 90 + step, "");
    add("cpu_op", "aten::add", 10, 20, "");
    add("cuda_runtime", "cudaLaunchKernel", 12, 3, correlation);
    add("kernel", "k", 110, 40, correlation + R"(,"device":0,"stream":7)");
  }
  return R"({"traceEvents": [)" + events + "]}";
}

}  // namespace

TEST_CASE("of chosen steps is read what their threads do and launch, and what GPUs do meanwhile") {
  const std::string text = steps_trace(6);
  CHECK(parse_kineto_trace(text, "t.json").events.size() == 24);
  const KinetoTrace trace = parse_kineto_trace(text, "t.json", {.steps = StepRange{3, 4}});
  // 2 of 3 events of each step on the host; kernels of the step before, of the third, and of the fourth, which runs later.
  REQUIRE(trace.events.size() == 6 + 3);
  CHECK(trace.events.front().start == 200'000);
  CHECK(trace.events.back().correlation == 3);
  CHECK(trace.events.back().start == 410'000);
  REQUIRE(trace.remarks.size() == 1);
  CHECK(trace.remarks[0] == "of 6 steps \"ProfilerStep#2\" to \"ProfilerStep#3\" were read");
  CHECK_THROWS_WITH_AS(parse_kineto_trace(text, "t.json", {.steps = StepRange{5, 7}}),
                       "t.json: --steps: has 6 marked steps; found 5-7", InputError);
}

TEST_CASE("of a long trace the steps around the median are read, through a file as in memory") {
  const std::string text = steps_trace(6);
  const KinetoTrace trace = parse_kineto_trace(text, "t.json", {.steps = {}, .most_events = 23});
  REQUIRE(trace.steps);
  CHECK(trace.steps->last == trace.steps->first + 1);  // a quarter of 23 events are one step: two are read at least
  const KinetoTrace chosen = parse_kineto_trace(text, "t.json", {.steps = trace.steps});
  REQUIRE(chosen.events.size() == trace.events.size());
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    CHECK(trace.events[i].start == chosen.events[i].start);
    CHECK(trace.events[i].correlation == chosen.events[i].correlation);
  }
  CHECK(trace.remarks[0].ends_with(", for the size of the trace: --steps takes others"));
}

}  // namespace rehearse
