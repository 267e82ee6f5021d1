#pragma once
// What a trace says about a run: work, each with the time that it takes by itself, and what it waits for. Dates are not
// part of it but to compare with: whoever replays it finds every start from what has to come before.
//
// Rules, by which work waits (Dependency):
//   thread     what a thread does comes in its order; time between two recorded calls is host work
//   hand-over  a thread that was idle goes on when another one has become idle: the thread of the backward pass begins
//              when the one that called it waits, and that goes on when the backward pass has ended
//   launch     a kernel is ready a launch latency after the call that starts it began
//   stream     what is on a stream comes in its order, with a gap between two kernels
//   full GPU   a kernel that was ready began when one of another stream ended that has more threads than the GPU holds
//   event      a stream waits for an event: cudaStreamWaitEvent
//   sync       the host waits for the GPU: synchronizations, memory that is freed, copies from and to pageable memory, and
//              any call that lasts until what it has started there has ended, whatever its name
//   queue      the GPU takes so many launches, not more, until one of them has ended (about a thousand on CUDA)
// Sources: the CUDA programming guide (streams, events, API synchronization behavior); latency, gap and queue are those
// of the trace itself.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/traces/kernel_class.hpp"
#include "workloads/traces/kineto.hpp"

namespace rehearse {

struct RecordedOperation {
  enum class Kind : std::uint8_t { kHost, kGpu };
  Kind kind = Kind::kHost;
  KernelClass kernel = KernelClass::kOther;  // kGpu
  bool is_idle = false;          // kHost: nothing was recorded for longer than kLongestSilence, and nothing explains it
  std::int32_t lane = 0;         // thread or stream
  std::int32_t name = -1;        // of a kernel; of the call at a host operation's end, -1: of none
  std::int32_t step = -1;        // kHost: that begins when this has ended, of RecordedRun::steps; -1: none does
  std::int32_t collective = -1;  // of RecordedRun::collectives
  Nanoseconds duration = 0;      // without the waits that dependencies explain
  Nanoseconds recorded_start = 0, recorded_end = 0;

  friend bool operator==(const RecordedOperation&, const RecordedOperation&) = default;
};

struct Dependency {
  enum class Reason : std::uint8_t { kThread, kHandOver, kLaunch, kStream, kFullGpu, kEvent, kSync, kQueue };
  std::int32_t earlier = 0, later = 0;
  Reason reason = Reason::kThread;

  friend bool operator==(const Dependency&, const Dependency&) = default;
};
inline constexpr std::array<std::string_view, 8> kReasonNames{"thread",   "hand-over", "launch", "stream",
                                                              "full GPU", "event",     "sync",   "queue"};

struct RecordedStep {
  std::string name;                                  // "ProfilerStep#4"
  Nanoseconds recorded_start = 0, recorded_end = 0;  // of the thread that runs the loop

  friend bool operator==(const RecordedStep&, const RecordedStep&) = default;
};

struct RecordedCollective {
  std::int32_t operation = 0;
  std::int64_t bytes = -1;  // that the rank puts in, of an all-gather its part; -1: not recorded
  CollectiveWork work = CollectiveWork::kOther;
  std::int32_t group = -1;  // of ranks that take part, in RecordedRun::groups; -1: all of them, or not recorded
  std::int32_t ranks = 0;   // that take part; 0: not recorded

  friend bool operator==(const RecordedCollective&, const RecordedCollective&) = default;
};

/// A variable's gradient is complete: the backward pass has added its last part (PyTorch's AccumulateGrad).
struct RecordedGradient {
  /// The operation with whose end it is there: the latest that its thread had launched, but for collectives.
  std::int32_t after = 0;
  Nanoseconds recorded = 0;  // when its thread was there, which may be long before
  std::int64_t bytes = -1;   // -1: its shape was not recorded
};

/// One process of a job.
struct RecordedRun {
  std::string file_name;
  int rank = 0, world_size = 1;  // 0: not recorded
  std::string gpu;
  std::vector<std::string> names, threads, streams;
  std::vector<std::string> groups;            // of ranks: the same name on all of them
  std::vector<RecordedOperation> operations;  // what waits comes after what it waits for
  std::vector<Dependency> dependencies;       // by `later`
  std::vector<RecordedStep> steps;            // one after the other; the last one ends with `end_of_steps`
  std::int32_t end_of_steps = -1;             // host operation at whose end the last step has ended
  std::vector<RecordedCollective> collectives;
  bool has_rank = true, has_dates = true;   // whether they are recorded; all dates are 0 otherwise
  std::vector<RecordedGradient> gradients;  // by date; none if the framework does not record them
  std::int32_t backward_thread = -1;        // that makes them; -1: there are none
  Nanoseconds launch_latency = 0, kernel_gap = 0;
  int queue_depth = 0;               // launches under way at most, that of the call itself included; 0: never full
  std::vector<std::string> remarks;  // what was missing, and what was done about it

  Nanoseconds recorded_start() const;
  /// What the operation waits for.
  std::span<const Dependency> waits_of(std::int32_t operation) const;
  /// Of an edge, between the end of `earlier` and the start of `later`.
  Nanoseconds lag(const Dependency& dependency) const;
};

/// The operation of the collective that begins first in the step; -1 if it has none.
std::int32_t first_collective(const RecordedRun& run, const RecordedStep& step);

/// Steps as the GPU does them, where it falls behind the host, whose marks then say nothing about their length: [steps + 1]
/// operations on the GPU, of each step the first that it launches. A step lasts from the start of its own to that of the
/// next; the last one to the start of what was launched after it, or, if that is nothing, to the end of its own last work,
/// which is then the last of these. Empty if the host's marks count: the GPU is, from the second on, never by more than 5 %
/// of the time further behind.
struct GpuSteps {
  std::vector<std::int32_t> first;
  bool ends_with_last = false;  // the last one counts by its end

  friend bool operator==(const GpuSteps&, const GpuSteps&) = default;
};
GpuSteps gpu_steps(const RecordedRun& run);
/// Of a step as it was recorded: between the host's marks if `gpu` is empty.
Nanoseconds recorded_length(const RecordedRun& run, const GpuSteps& gpu, std::size_t step);

/// Dates on the GPU that differ by more are apart for a reason: no latency of its own is as long.
inline constexpr Nanoseconds kClearlyApart = 20'000;
/// So long may a thread be silent, in the interpreter for example, before that counts as time that nothing explains.
inline constexpr Nanoseconds kLongestSilence = 1'000'000;

/// Back from the end of the last step to the beginning of the first, or of the recording, each thing from what it waited for last: time in which nothing
/// that was recorded explains why the next had not begun.
struct UnexplainedTime {
  struct Gap {
    std::int32_t before = 0;  // the operation that could have begun earlier
    Nanoseconds time = 0;
  };
  Nanoseconds total = 0, of = 0;  // of what time
  std::vector<Gap> gaps;          // the longest first

  double share() const { return of > 0 ? static_cast<double>(total) / static_cast<double>(of) : 0; }
};
/// None where no dates are recorded.
UnexplainedTime unexplained_time(const RecordedRun& run);

/// Throws InputError if the trace has no work on a GPU, or dependencies that go in a circle, with the events of it.
RecordedRun recorded_run(const KinetoTrace& trace);

}  // namespace rehearse
