#pragma once
// Counters of a trace in Chrome's format: what a profiler, a monitor or `simulate` recorded as numbers over time, such as
// the utilization of a GPU.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/traces/kineto.hpp"

namespace rehearse {

struct CounterSample {
  Nanoseconds date = 0;
  double value = 0;
};

/// One number of the events {"ph": "C", "name": ..., "pid": ..., "ts": ..., "args": {NUMBER: ...}} of a process.
struct TraceCounter {
  std::string process;  // as the trace numbers it
  std::string name;
  std::string number;                  // its key among the arguments; many traces have "value"
  std::vector<CounterSample> samples;  // by date; those of one date as they came
};

/// All counters of a file, plain or gzip, in the order in which they first come. Events of other phases are passed over,
/// as are arguments that are no numbers. Throws InputError: "FILE: counter 17 "GPU": ts: expected ...; found ...", or with
/// the byte at which JSON is broken, or if there is no list of events.
std::vector<TraceCounter> read_trace_counters(const std::filesystem::path& file, const Budget& budget = {});
std::vector<TraceCounter> parse_trace_counters(std::string_view text, const std::string& file_name);

}  // namespace rehearse
