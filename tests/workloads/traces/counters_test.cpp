#include "workloads/traces/counters.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/errors.hpp"
#include "sim/base/files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace rehearse::counters_test {
namespace {

std::vector<TraceCounter> parse_events(const std::string& events) {
  return parse_trace_counters(R"({"displayTimeUnit":"ms","traceEvents":[)" + events + "]}", "t.json");
}

void check_refused(const std::string& text, const std::string& message) {
  CHECK_THROWS_WITH_AS(parse_trace_counters(text, "t.json"), doctest::Contains(("t.json: " + message).c_str()),
                       InputError);
}

const std::string kEvents = R"(
  {"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"worker","sort_index":3}},
  {"ph":"C","name":"GPU","pid":1,"tid":0,"ts":2000.5,"args":{"value":50}},
  {"ph":"X","name":"kernel","pid":1,"tid":0,"ts":1,"dur":2,"args":{"bytes":7}},
  {"ph":"C","name":"GPU","pid":1,"tid":0,"ts":1000,"args":{"value":12.5,"unit":"%"}},
  {"name":"memory","args":{"free":1,"used":{"mine":4},"total":3},"pid":"two","ts":1000,"ph":"C"})";

}  // namespace

TEST_CASE("each number of a counter of a process has its values by date") {
  const std::vector<TraceCounter> counters = parse_events(kEvents);
  REQUIRE(counters.size() == 3);
  CHECK(counters[0].process == "1");
  CHECK(counters[0].name == "GPU");
  CHECK(counters[0].number == "value");
  REQUIRE(counters[0].samples.size() == 2);
  CHECK(counters[0].samples[0].date == 1'000'000);  // nanoseconds
  CHECK(counters[0].samples[0].value == 12.5);
  CHECK(counters[0].samples[1].date == 2'000'500);
  CHECK(counters[0].samples[1].value == 50);
  CHECK(counters[1].process == "two");
  CHECK(counters[1].number == "free");
  CHECK(counters[2].number == "total");
  CHECK(parse_trace_counters("[" + kEvents + "]", "t.json").size() == 3);  // a list of events is a trace, too
}

TEST_CASE("a packed file has the counters of the plain one") {
  const test::TemporaryFolder folder;
  write_file(folder / "t.json.gz", gzip("[" + kEvents + "]"));
  CHECK(read_trace_counters(folder / "t.json.gz").size() == 3);
}

TEST_CASE("a trace whose counters are not sound is refused with the place") {
  check_refused("{}", "expected a trace in Chrome's format: an object with the list traceEvents");
  check_refused(R"([{"ph":"C","name":"GPU","args":{"value":1}}])",
                R"(counter 1 "GPU": ts: expected microseconds below 2.2e15; found none)");
  check_refused(R"([{"ph":"C","name":"GPU","ts":1e16,"args":{"value":1}}])",
                R"(counter 1 "GPU": ts: expected microseconds below 2.2e15; found 1e16)");
  check_refused(R"([{"ph":"C","name":"GPU","ts":1,"args":{"value":1}}, {)",
                "byte 54, in or after counter 1: no JSON: ");
}

}  // namespace rehearse::counters_test
