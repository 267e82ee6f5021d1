#pragma once
// Makes a RecordedRun of a trace: threads.cpp adds what threads do, gpu_work.cpp what GPUs do and who waits for it.

#include <map>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "workloads/traces/detail/dates.hpp"
#include "workloads/traces/detail/wait_budget.hpp"
#include "workloads/traces/recorded_run.hpp"

namespace rehearse {

inline constexpr Nanoseconds kClockError = 1'000;  // between dates of host and GPU

class RunBuilder {
 public:
  explicit RunBuilder(const KinetoTrace& trace);

  RecordedRun build();

 private:
  using Kind = KinetoEvent::Kind;
  using OperationIndex = std::int32_t;
  using EventIndex = std::size_t;
  using Reason = Dependency::Reason;

  struct Interval {
    Nanoseconds start = 0, end = 0;
  };
  /// A date at which something may begin or end to wait.
  struct Point {
    enum class Kind : std::uint8_t { kStep, kWake, kCall, kSleep };
    Nanoseconds when = 0;
    Kind kind = Kind::kCall;
    std::int32_t thread = 0;
    EventIndex event = 0;  // kCall; of kStep the step
    auto key() const { return std::tuple{when, kind, thread, event}; }
  };
  /// How far the work of a thread has been added.
  struct Reached {
    OperationIndex last = -1;
    Nanoseconds when = 0;
    std::pair<Nanoseconds, OperationIndex> sleep;  // since when it was idle at last, after what
  };
  /// A call that returns when the GPU has come so far.
  struct Waiting {
    OperationIndex operation = 0;  // that the call is
    EventIndex call = 0;
  };

  const KinetoEvent& event(EventIndex index) const { return trace_.events[index]; }
  const std::string& name(EventIndex index) const { return trace_.names[at(event(index).name)]; }
  /// What is on the GPU with one correlation.
  struct Started {
    std::vector<EventIndex> work;
    EventIndex call = kNoCall;  // that started it: the first with this correlation
  };
  static constexpr EventIndex kNoCall = static_cast<EventIndex>(-1);

  std::span<const EventIndex> started_by(EventIndex call) const {
    const auto found = of_correlation_.find(event(call).correlation);
    if (found == of_correlation_.end() || found->second.call != call) return {};
    return found->second.work;
  }

  void find_gpu_work();

  template <class Index>
  static std::size_t at(Index index) {
    return static_cast<std::size_t>(index);
  }
  static bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }
  /// Calls that wait for the GPU, by their names in CUDA, HIP, MUSA, Level Zero and SYCL.
  static bool is_sync(std::string_view call) {
    return has(call, "Synchronize") || has(call, "QueueFinish") || has(call, "EventWait") || frees_memory(call);
  }
  /// cudaFree() and its kin wait for all that the GPU has been given, unless they are ordered on a stream.
  static bool frees_memory(std::string_view call) {
    return (call.ends_with("Free") || call.ends_with("MemFree_v2") || call.ends_with("HostFree")) &&
           !has(call, "Async");
  }
  /// Whether it waits for all streams, not only for the one on which its thread has launched last.
  static bool waits_for_all(std::string_view call) {
    return has(call, "Device") || has(call, "Ctx") || has(call, "Context") || has(call, "Thread") || frees_memory(call);
  }
  static bool is_stream_wait(std::string_view call) { return has(call, "StreamWaitEvent"); }

  /// Calls that matter and when each thread did anything. Threads that only ask whether something has ended, such as
  /// NCCL's watchdog, are left out.
  void find_threads();

  void find_steps();

  /// Steps that nobody has marked: what the GPU is given repeats. One begins after the longest pause, in the mean.
  void find_period_of_launches();

  /// Of kernels that wait for nothing but their launch.
  void measure_latencies();

  /// What is launched first after its thread has told the stream to wait for an event.
  std::unordered_set<EventIndex> waiting_for_events() const;

  /// How many launches are under way at most.
  void measure_queue();

  std::vector<Point> points() const;

  OperationIndex add(RecordedOperation operation) {
    run_.operations.push_back(operation);
    return static_cast<OperationIndex>(run_.operations.size() - 1);
  }
  void wait(OperationIndex earlier, OperationIndex later, Reason reason) {
    run_.dependencies.push_back({earlier, later, reason});
  }

  /// What the thread does until `when`, after what it did before.
  OperationIndex add_until(std::int32_t thread, Nanoseconds when);

  /// Who became idle last, while the thread was silent, and has been since.
  const std::pair<Nanoseconds, OperationIndex>* waker(std::int32_t thread) const;

  void add_wake(std::int32_t thread, Nanoseconds when);

  /// Whether the thread gets samples: its time is the host's.
  bool is_input(std::int32_t thread, Nanoseconds start, Nanoseconds end) const;

  /// Whether the first that the thread gives the GPU from then on is a copy to it: it had waited for samples.
  bool copies_samples_after(std::int32_t thread, Nanoseconds when) const;

  void add_host_work();

  /// The step begins, or after the last one their end has come, when the operation has ended.
  void begin_step(std::size_t step, OperationIndex mark);

  void add_call(const Point& point);

  /// Of memory that the GPU cannot reach: the host takes part.
  bool is_staged(std::span<const EventIndex> started) const;

  /// Whether the call lasts until what it has started on the GPU has ended: a copy that blocks, by whichever name, or any
  /// work of a program that launches one thing at a time. A call that only enqueues returns long before, and by chance
  /// at that date only after work that takes less than kClearlyApart.
  bool lasts_until_end(EventIndex call) const;
  bool may_wait(EventIndex call) const;

  void add_gpu_work();

  /// What the kernel states, and where it does not the innermost annotation or operator around its launch with bytes.
  RecordedCollective collective(EventIndex kernel, OperationIndex operation) const;

  struct Launched {
    Nanoseconds when = 0;  // of the call
    OperationIndex operation = -1;
  };
  /// What was launched on a stream whose launch is known, in the order of the calls.
  struct Stream {
    std::vector<Launched> launched;
    LowestDates ends;  // as recorded

    /// How many had been launched at that date.
    std::size_t launched_by(Nanoseconds when) const;
  };
  /// The latest that was launched on the stream before `when` and had ended by `ended`.
  OperationIndex latest_on(std::int32_t stream, Nanoseconds when, Nanoseconds ended) const;

  /// Who waits for an event, and for which, is stated by new traces. In others the next kernel that the thread launches
  /// waits for what was the latest to end, on another stream, of what had been launched before.
  void add_stream_waits();

  /// A call that tells a stream to wait for an event that is not stated, and what its thread launches next.
  struct InferredWait {
    EventIndex call = 0, launch = 0;
    OperationIndex latest = -1;  // to end, of what was launched before the call on another stream; -1: nothing
  };
  /// Those of a thread, in the order of its calls.
  std::vector<InferredWait> inferred_waits(const std::vector<EventIndex>& calls);
  void find_latest(std::vector<InferredWait*> waits) const;
  void add_stated_wait(EventIndex call, const KinetoEvent& sync, const std::map<std::int64_t, Nanoseconds>& records);

  /// Kernels that were ready, and began only when one on another stream that fills the GPU had all but ended.
  void add_full_gpu();

  void add_syncs();

  /// What is left for a thread to wait for on all streams: of what it had already waited for its later work knows.
  struct Unawaited {
    std::size_t launched = 0;                              // of launched_, so many have been seen
    std::set<std::int32_t> streams;                        // with work that it has not waited for
    std::set<std::pair<Nanoseconds, std::int32_t>> later;  // the same, by the date at which the next of it ends
  };
  /// What the call waits for on all streams, by their numbers.
  std::vector<OperationIndex> ended_on_all(const KinetoEvent& call, Unawaited& unawaited, bool is_free,
                                           WaitBudget& budget) const;

  /// The call's own time is what is left of it then.
  void returns_after(OperationIndex call, OperationIndex earlier, Reason reason);

  void add_gradients();

  /// What a copy from or to pageable memory makes its call wait for: its own end, or that of what is before it.
  OperationIndex staged(const KinetoEvent& call, EventIndex copy) const;

  /// The stream on which the thread has launched last; of a stated one that.
  std::int32_t stream_of_sync(EventIndex call) const {
    const std::vector<EventIndex>& calls = launches_[at(event(call).lane)];
    const auto after = std::ranges::lower_bound(calls, call);
    return after == calls.begin() ? -1 : event(started_by(*std::prev(after)).front()).lane;
  }

  /// Sorts operations so that none waits for a later one.
  void put_in_order();

  [[noreturn]] void refuse_circle(const std::vector<int>& waits) const;

  void remark();

  const KinetoTrace& trace_;
  RecordedRun run_;
  std::vector<EventIndex> gpu_;       // by start
  std::vector<EventIndex> launched_;  // those of them whose call is known, by its start
  std::unordered_map<std::int64_t, Started> of_correlation_;
  std::unordered_map<EventIndex, EventIndex> launch_;          // of what is on the GPU its call
  std::unordered_map<std::int64_t, EventIndex> stated_waits_;  // by the correlation of the call
  std::vector<std::vector<EventIndex>> calls_;                 // [threads]
  std::vector<std::vector<EventIndex>> launches_;              // [threads] those of them that have started something
  std::vector<std::vector<EventIndex>> with_bytes_;            // [threads] what states the bytes of a payload
  std::vector<EventIndex> gradients_;                          // operators that complete a gradient
  std::vector<std::vector<Interval>> inputs_;  // [threads] of getting samples: by start, until the latest end so far
  std::vector<std::vector<Interval>> busy_;    // [threads]
  std::vector<Reached> reached_;               // [threads]
  std::set<std::pair<Nanoseconds, std::int32_t>> idle_;  // since when, and minus the thread
  std::vector<Waiting> waiting_;
  std::unordered_map<EventIndex, OperationIndex> began_;      // calls: the host operation that ends where they start
  std::unordered_map<EventIndex, OperationIndex> operation_;  // of what is on the GPU
  std::unordered_map<OperationIndex, OperationIndex> before_on_stream_;
  std::map<std::int32_t, Stream> on_stream_;
  std::int32_t loop_thread_ = 0;
  Nanoseconds begin_ = 0;
  std::unordered_map<EventIndex, std::size_t> step_of_launch_;  // calls with which one begins, if none is marked
  std::int64_t inputs_waited_for_ = 0, without_launch_ = 0, inferred_waits_ = 0, unused_waits_ = 0, full_ = 0,
               empty_steps_ = 0;
};

}  // namespace rehearse
