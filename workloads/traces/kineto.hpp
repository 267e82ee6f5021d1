#pragma once
// Traces of PyTorch's profiler (Kineto, in Chrome's trace format): what the threads of one process and its GPUs did,
// event by event. recorded_run.hpp makes of it what waits for what.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/budget.hpp"
#include "sim/base/units.hpp"
#include "workloads/traces/kernel_class.hpp"

namespace rehearse {

/// Dates and durations of traces. They are whole: a date of today, in microseconds, fills a double.
using Nanoseconds = std::int64_t;
inline Seconds seconds(Nanoseconds time) { return Seconds{static_cast<double>(time) * 1e-9}; }

/// Of a job, as any trace may say.
inline constexpr std::int64_t kMostRanks = 1'000'000;

struct KinetoEvent {
  enum class Kind : std::uint8_t {
    kOperator,    // on a thread: an operator of the framework
    kAnnotation,  // on a thread: "ProfilerStep#4", or what the user or the framework calls a part of the program
    kCall,        // on a thread: of the GPU's runtime or driver
    kSync,        // on a stream: says more about the call of its correlation, such as for what a stream waits
    kKernel,      // on a stream
    kCopy,        // on a stream
    kSet,         // on a stream: memory is filled
  };

  Nanoseconds start = 0, duration = 0;
  std::int64_t correlation = -1;  // of a call and what it starts on the GPU; -1: not recorded
  std::int64_t bytes = -1;        // of a copy, of a collective's payload; -1: not recorded
  std::int64_t waits_for = -1;    // kSync, of a stream: correlation of the call that recorded the event
  float warps = -1;               // kKernel: on each multiprocessor, were all of them there at once; -1: not recorded
  std::int32_t name = 0;          // in KinetoTrace::names
  std::int32_t lane = -1;         // in KinetoTrace::threads or streams
  std::int32_t on_stream = -1;    // kSync, of a stream: on which stream that event was recorded
  std::int32_t ranks = 0;         // of the group of a collective; 0: not recorded
  Kind kind = Kind::kOperator;
  CollectiveWork work = CollectiveWork::kOther;  // of a collective, if its kind is stated besides its name

  Nanoseconds end() const { return start + duration; }
  bool is_on_gpu() const { return kind == Kind::kKernel || kind == Kind::kCopy || kind == Kind::kSet; }
};

/// Which of a trace's marked steps are read, counted from 1.
struct StepRange {
  std::size_t first = 1, last = 1;
};

struct KinetoOptions {
  /// Without it all steps; of a trace with more than `most_events` some around the one of median length: at least two,
  /// and of a quarter of so many events.
  std::optional<StepRange> steps;
  std::size_t most_events = 262'144;  // 64 bytes each
};

struct KinetoTrace {
  std::string file_name;
  std::vector<std::string> names;
  std::vector<std::string> threads;   // "process/thread", as the trace names them
  std::vector<std::string> streams;   // "device/stream"
  std::vector<KinetoEvent> events;    // by start; of those that start together the longest first
  int rank = 0, world_size = 1;       // as distributedInfo says
  bool has_rank = false;              // whether it does
  std::string gpu;                    // name of the first device; empty: not recorded
  std::int64_t without_duration = 0;  // complete events that state none, which are left out
  std::optional<StepRange> steps;     // that were read; nothing: all
  bool has_gpu_work = false;          // in any step, read or not
  std::vector<std::string> unread;  // categories of complete events that are passed over, the first ten by their names
  std::vector<std::string> remarks;
};

/// The trace of a file, plain or gzip, read event by event: 64 bytes are kept of each that matters, in a temporary file if
/// there are many, so that memory is that of the steps which are read. Categories may have the names of any version
/// ("Kernel", "kernel"); events of others, flows and metadata are passed over. Throws InputError "FILE: event 17
/// "aten::add": dur: expected ...; found ...", or with the byte at which JSON is broken, or if there are no such steps.
KinetoTrace read_kineto_trace(const std::filesystem::path& file, const Budget& budget = {},
                              const KinetoOptions& options = {});
KinetoTrace parse_kineto_trace(std::string_view text, const std::string& file_name, const KinetoOptions& options = {});

}  // namespace rehearse
