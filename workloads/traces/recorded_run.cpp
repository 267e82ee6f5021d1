#include "workloads/traces/recorded_run.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "workloads/traces/period.hpp"

namespace rehearse {

namespace {

constexpr Nanoseconds kHandOverSilence = 30'000;  // a thread that is silent for less goes on by itself
constexpr Nanoseconds kClearly = 20'000;          // apart: more than any latency of the GPU's
constexpr Nanoseconds kClockError = 1'000;        // between dates of host and GPU
constexpr float kFullMultiprocessor = 64;         // warps: CUDA programming guide, compute capabilities 7.0, 8.0, 9.0
constexpr double kTail = 0.05;                    // of a kernel that fills the GPU: its last threads leave room
constexpr int kFullQueue = 1000;                  // launches under way that are no coincidence
constexpr std::int64_t kStagedCopy = 65'536;      // bytes: larger copies from pageable memory keep the host waiting

using OperationIndex = std::int32_t;
using EventIndex = std::size_t;

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

template <class Index>
std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

Nanoseconds median(std::vector<Nanoseconds>& values, Nanoseconds otherwise) {
  if (values.empty()) return otherwise;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

class RunBuilder {
 public:
  explicit RunBuilder(const KinetoTrace& trace) : trace_{trace} {
    run_.file_name = trace.file_name;
    run_.rank = trace.rank;
    run_.world_size = trace.world_size;
    run_.gpu = trace.gpu;
    run_.names = trace.names;
    run_.threads = trace.threads;
    run_.streams = trace.streams;
    calls_.resize(trace.threads.size());
    busy_.resize(trace.threads.size());
    reached_.resize(trace.threads.size());
    with_bytes_.resize(trace.threads.size());
  }

  RecordedRun build() {
    find_gpu_work();
    find_threads();
    find_steps();
    if (run_.steps.empty()) find_period_of_launches();
    measure_latencies();
    measure_queue();
    add_host_work();
    add_gpu_work();
    add_stream_waits();
    add_full_gpu();
    add_syncs();
    put_in_order();
    remark();
    return std::move(run_);
  }

 private:
  using Kind = KinetoEvent::Kind;
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
    std::vector<std::pair<Nanoseconds, OperationIndex>> sleeps;  // since when it was idle, after what
  };
  /// A call that returns when the GPU has come so far.
  struct Waiting {
    OperationIndex operation = 0;  // that the call is
    EventIndex call = 0;
  };

  const KinetoEvent& event(EventIndex index) const { return trace_.events[index]; }
  const std::string& name(EventIndex index) const { return trace_.names[at(event(index).name)]; }
  std::span<const EventIndex> started_by(const KinetoEvent& call) const {
    const auto found = of_correlation_.find(call.correlation);
    if (call.correlation < 0 || found == of_correlation_.end()) return {};
    return found->second;
  }

  void find_gpu_work() {
    for (EventIndex i = 0; i < trace_.events.size(); ++i) {
      if (event(i).kind == Kind::kSync && event(i).waits_for >= 0) stated_waits_.emplace(event(i).correlation, i);
      if (!event(i).is_on_gpu()) continue;
      gpu_.push_back(i);
      if (event(i).correlation >= 0) of_correlation_[event(i).correlation].push_back(i);
    }
    if (gpu_.empty()) throw InputError{trace_.file_name + ": has no kernel or copy on a GPU"};
  }

  static bool is_sync(std::string_view call) { return has(call, "Synchronize"); }
  static bool is_stream_wait(std::string_view call) { return has(call, "StreamWaitEvent"); }

  /// Calls that matter and when each thread did anything. Threads that only ask whether something has ended, such as
  /// NCCL's watchdog, are left out.
  void find_threads() {
    std::vector<std::vector<Interval>> busy(trace_.threads.size());
    std::vector<bool> takes_part(trace_.threads.size());
    std::vector<Nanoseconds> call_end(trace_.threads.size());
    for (EventIndex i = 0; i < trace_.events.size(); ++i) {
      const KinetoEvent& event = trace_.events[i];
      if (event.kind == Kind::kAnnotation && has(name(i), "DataLoader")) inputs_.push_back(i);
      if ((event.kind == Kind::kAnnotation || event.kind == Kind::kOperator) && event.bytes >= 0)
        with_bytes_[at(event.lane)].push_back(i);
      if (event.kind != Kind::kOperator && event.kind != Kind::kCall) continue;
      std::vector<Interval>& intervals = busy[at(event.lane)];
      if (!intervals.empty() && event.start <= intervals.back().end)
        intervals.back().end = std::max(intervals.back().end, event.end());
      else
        intervals.push_back({event.start, event.end()});
      const bool matters =
          event.kind == Kind::kCall && (!started_by(event).empty() || is_sync(name(i)) || is_stream_wait(name(i)));
      if (event.kind == Kind::kOperator || matters) takes_part[at(event.lane)] = true;
      if (!matters || event.start < call_end[at(event.lane)]) continue;  // a call inside of one that matters
      call_end[at(event.lane)] = event.end();
      calls_[at(event.lane)].push_back(i);
      for (const EventIndex gpu : started_by(event)) launch_.try_emplace(gpu, i);
    }
    for (std::size_t thread = 0; thread < busy.size(); ++thread)
      if (takes_part[thread]) busy_[thread] = std::move(busy[thread]);
    begin_ = event(gpu_.front()).start;
    for (const std::vector<Interval>& intervals : busy_)
      if (!intervals.empty()) begin_ = std::min(begin_, intervals.front().start);
    for (const EventIndex gpu : gpu_)
      if (const auto launch = launch_.find(gpu); launch != launch_.end()) launched_.push_back(gpu);
    std::ranges::stable_sort(launched_, {}, [&](EventIndex gpu) { return event(launch_.at(gpu)).start; });
  }

  void find_steps() {
    for (EventIndex i = 0; i < trace_.events.size(); ++i) {
      if (event(i).kind != Kind::kAnnotation || !name(i).starts_with("ProfilerStep#")) continue;
      if (run_.steps.empty()) loop_thread_ = event(i).lane;
      if (event(i).lane != loop_thread_) continue;
      if (!run_.steps.empty()) run_.steps.back().recorded_end = event(i).start;
      run_.steps.push_back({name(i), event(i).start, event(i).end()});
      begin_ = std::min(begin_, event(i).start);
    }
  }

  /// Steps that nobody has marked: what the GPU is given repeats. One begins after the longest pause, in the mean.
  void find_period_of_launches() {
    std::vector<std::int32_t> sequence;
    for (const EventIndex i : launched_) sequence.push_back(event(i).name);
    const std::optional<Period> period = find_period(sequence);
    if (!period) return;
    const auto called = [&](std::size_t i) { return event(launch_.at(launched_[i])).start; };
    std::size_t best = 0;
    Nanoseconds longest = -1;
    for (std::size_t offset = 0; offset < period->length; ++offset) {
      Nanoseconds pauses = 0;
      for (std::size_t k = 1; k < period->count; ++k) {
        const std::size_t i = period->first + offset + k * period->length;
        pauses += called(i) - called(i - 1);
      }
      if (pauses <= longest) continue;
      longest = pauses;
      best = offset;
    }
    for (std::size_t i = period->first + best; i < sequence.size(); i += period->length) {
      if (!run_.steps.empty()) run_.steps.back().recorded_end = called(i);
      step_of_launch_.emplace(launch_.at(launched_[i]), run_.steps.size());
      run_.steps.push_back({"step " + std::to_string(run_.steps.size() + 1), called(i), called(i)});
    }
    run_.steps.pop_back();  // that may have no end
    run_.remarks.push_back("no step is marked: " + std::to_string(period->length) +
                           " kernels and copies that repeat count as one, from launch to launch");
  }

  void measure_latencies() {
    std::vector<Nanoseconds> latencies, gaps;
    std::map<std::int32_t, Nanoseconds> free;  // [streams]
    for (const EventIndex i : gpu_) {
      const auto launch = launch_.find(i);
      const auto before = free.find(event(i).lane);
      if (launch != launch_.end()) {
        const Nanoseconds called = event(launch->second).start;
        if (before == free.end() || called > before->second + kClearly)
          latencies.push_back(std::max<Nanoseconds>(event(i).start - called, 0));
        else if (called < before->second - kClearly)
          gaps.push_back(std::max<Nanoseconds>(event(i).start - before->second, 0));
      }
      Nanoseconds& end = free[event(i).lane];
      end = std::max(end, event(i).end());
    }
    run_.launch_latency = median(latencies, 10'000);
    run_.kernel_gap = std::min(median(gaps, 1'000), run_.launch_latency);
  }

  /// How many launches are under way at most.
  void measure_queue() {
    std::vector<Nanoseconds> ends;
    for (const EventIndex i : launched_) ends.push_back(event(i).end());
    std::ranges::sort(ends);
    std::size_t ended = 0;
    for (std::size_t i = 0; i < launched_.size(); ++i) {
      while (ended < ends.size() && ends[ended] <= event(launch_.at(launched_[i])).start) ++ended;
      run_.queue_depth = std::max(run_.queue_depth, static_cast<int>(i + 1) - static_cast<int>(ended));
    }
    if (run_.queue_depth < kFullQueue) run_.queue_depth = 0;
  }

  std::vector<Point> points() const {
    std::vector<Point> points;
    for (std::int32_t thread = 0; at(thread) < busy_.size(); ++thread) {
      const std::vector<Interval>& busy = busy_[at(thread)];
      for (std::size_t i = 0; i < busy.size(); ++i) {
        if (i == 0 || busy[i].start - busy[i - 1].end > kHandOverSilence)
          points.push_back({busy[i].start, Point::Kind::kWake, thread});
        if (i + 1 == busy.size() || busy[i + 1].start - busy[i].end > kHandOverSilence)
          points.push_back({busy[i].end, Point::Kind::kSleep, thread});
      }
      for (const EventIndex call : calls_[at(thread)])
        points.push_back({event(call).start, Point::Kind::kCall, thread, call});
    }
    for (std::size_t step = 0; step < run_.steps.size() && step_of_launch_.empty(); ++step)
      points.push_back({run_.steps[step].recorded_start, Point::Kind::kStep, loop_thread_, step});
    if (!run_.steps.empty() && step_of_launch_.empty())
      points.push_back({run_.steps.back().recorded_end, Point::Kind::kStep, loop_thread_, run_.steps.size()});
    std::ranges::sort(points, {}, &Point::key);
    return points;
  }

  OperationIndex add(RecordedOperation operation) {
    run_.operations.push_back(operation);
    return static_cast<OperationIndex>(run_.operations.size() - 1);
  }
  void wait(OperationIndex earlier, OperationIndex later, Reason reason) {
    run_.dependencies.push_back({earlier, later, reason});
  }

  /// What the thread does until `when`, after what it did before.
  OperationIndex add_until(std::int32_t thread, Nanoseconds when) {
    Reached& reached = reached_[at(thread)];
    const Nanoseconds start = reached.last < 0 ? begin_ : std::min(reached.when, when);
    const OperationIndex added =
        add({.lane = thread, .duration = when - start, .recorded_start = start, .recorded_end = when});
    if (reached.last >= 0) wait(reached.last, added, Reason::kThread);
    reached.last = added;
    reached.when = when;
    return added;
  }

  /// Who became idle last, while the thread was silent, and has been since.
  const std::pair<Nanoseconds, OperationIndex>* waker(std::int32_t thread, Nanoseconds when) const {
    const std::pair<Nanoseconds, OperationIndex>* latest = nullptr;
    for (std::size_t other = 0; other < busy_.size(); ++other) {
      if (other == at(thread) || reached_[other].sleeps.empty()) continue;
      const auto next = std::ranges::upper_bound(busy_[other], when, {}, &Interval::start);
      if (next == busy_[other].begin() || std::prev(next)->end > when) continue;  // at work
      const auto& sleep = reached_[other].sleeps.back();
      if (reached_[at(thread)].last >= 0 && sleep.first <= reached_[at(thread)].when) continue;
      if (latest == nullptr || sleep.first > latest->first) latest = &sleep;
    }
    return latest;
  }

  void add_wake(std::int32_t thread, Nanoseconds when) {
    const auto* by = waker(thread, when);
    if (by == nullptr) {
      const OperationIndex added = add_until(thread, when);
      RecordedOperation& silence = run_.operations[at(added)];
      silence.is_idle = silence.duration > kLongestSilence && !is_input(thread, silence.recorded_start, when);
      if (silence.is_idle && copies_samples_after(thread, when)) {
        silence.is_idle = false;
        ++inputs_waited_for_;
      }
      return;
    }
    const OperationIndex added = add({.is_idle = when - by->first > kLongestSilence,
                                      .lane = thread,
                                      .duration = when - by->first,
                                      .recorded_start = by->first,
                                      .recorded_end = when});
    wait(by->second, added, Reason::kHandOver);
    Reached& reached = reached_[at(thread)];
    if (reached.last >= 0) wait(reached.last, added, Reason::kThread);
    reached.last = added;
    reached.when = when;
  }

  /// Whether the thread gets samples: its time is the host's.
  bool is_input(std::int32_t thread, Nanoseconds start, Nanoseconds end) const {
    return std::ranges::any_of(inputs_, [&](EventIndex i) {
      return event(i).lane == thread && event(i).start <= start + kClockError && event(i).end() >= end - kClockError;
    });
  }

  /// Whether the first that the thread gives the GPU from then on is a copy to it: it had waited for samples.
  bool copies_samples_after(std::int32_t thread, Nanoseconds when) const {
    const std::vector<EventIndex>& calls = calls_[at(thread)];
    auto call = std::ranges::lower_bound(calls, when, {}, [&](EventIndex i) { return event(i).start; });
    while (call != calls.end() && started_by(event(*call)).empty()) ++call;
    return call != calls.end() && has(name(started_by(event(*call)).front()), "HtoD");
  }

  void add_host_work() {
    for (const Point& point : points()) {
      Reached& reached = reached_[at(point.thread)];
      switch (point.kind) {
        case Point::Kind::kWake:
          add_wake(point.thread, point.when);
          break;
        case Point::Kind::kSleep:
          reached.sleeps.emplace_back(point.when, add_until(point.thread, point.when));
          break;
        case Point::Kind::kStep:
          begin_step(point.event, add_until(point.thread, point.when));
          break;
        case Point::Kind::kCall:
          add_call(point);
          break;
      }
    }
  }

  /// The step begins, or after the last one their end has come, when the operation has ended.
  void begin_step(std::size_t step, OperationIndex mark) {
    if (step < run_.steps.size())
      run_.operations[at(mark)].step = static_cast<std::int32_t>(step);
    else
      run_.end_of_steps = mark;
  }

  void add_call(const Point& point) {
    const KinetoEvent& call = event(point.event);
    const OperationIndex before = add_until(point.thread, call.start);
    run_.operations[at(before)].name = call.name;
    began_.emplace(point.event, before);
    if (const auto step = step_of_launch_.find(point.event); step != step_of_launch_.end())
      begin_step(step->second, before);
    const std::span<const EventIndex> started = started_by(call);
    const bool waits = is_sync(name(point.event)) || (!started.empty() && (run_.queue_depth > 0 || is_staged(started)));
    if (!waits) return;
    const OperationIndex rest = add_until(point.thread, std::max(call.end(), call.start));
    run_.operations[at(rest)].name = call.name;
    waiting_.push_back({rest, point.event});
  }

  /// Of memory that the GPU cannot reach: the host takes part.
  bool is_staged(std::span<const EventIndex> started) const {
    return std::ranges::any_of(started, [&](EventIndex gpu) {
      return has(name(gpu), "Pageable") && (has(name(gpu), "DtoH") || event(gpu).bytes > kStagedCopy);
    });
  }

  void add_gpu_work() {
    std::map<std::int32_t, OperationIndex> latest;  // [streams]
    for (const EventIndex i : gpu_) {
      const KinetoEvent& work = event(i);
      const KernelClass kernel = work.kind == Kind::kKernel ? kernel_class(name(i)) : KernelClass::kCopy;
      const OperationIndex added = add({.kind = RecordedOperation::Kind::kGpu,
                                        .kernel = kernel,
                                        .lane = work.lane,
                                        .name = work.name,
                                        .duration = work.duration,
                                        .recorded_start = work.start,
                                        .recorded_end = work.end()});
      operation_.emplace(i, added);
      if (kernel == KernelClass::kCollective) {
        run_.operations[at(added)].collective = static_cast<std::int32_t>(run_.collectives.size());
        run_.collectives.push_back({added, payload(i)});
      }
      const auto launch = launch_.find(i);
      if (launch != launch_.end())
        wait(began_.at(launch->second), added, Reason::kLaunch);
      else
        ++without_launch_;
      const auto [before, is_first] = latest.try_emplace(work.lane, added);
      if (!is_first) {
        before_on_stream_.emplace(added, before->second);
        wait(std::exchange(before->second, added), added, Reason::kStream);
      }
      if (launch != launch_.end()) on_stream_[work.lane].push_back({event(launch->second).start, added});
    }
    for (auto& [stream, list] : on_stream_) std::ranges::stable_sort(list, {}, &Launched::when);
  }

  /// What the kernel states, or the innermost annotation or operator around its launch.
  std::int64_t payload(EventIndex kernel) const {
    if (event(kernel).bytes >= 0) return event(kernel).bytes;
    const auto launch = launch_.find(kernel);
    if (launch == launch_.end()) return -1;
    const KinetoEvent& call = event(launch->second);
    const std::vector<EventIndex>& stating = with_bytes_[at(call.lane)];
    auto before = std::ranges::lower_bound(stating, launch->second);
    for (int tried = 0; tried < 64 && before != stating.begin(); ++tried)
      if (event(*--before).end() >= call.end()) return event(*before).bytes;
    return -1;
  }

  struct Launched {
    Nanoseconds when = 0;  // of the call
    OperationIndex operation = -1;
  };
  /// The latest that was launched on the stream before `when` and had ended by `ended`.
  OperationIndex latest_on(std::int32_t stream, Nanoseconds when, Nanoseconds ended) const {
    const auto list = on_stream_.find(stream);
    if (list == on_stream_.end()) return -1;
    auto next = std::ranges::upper_bound(list->second, when, {}, &Launched::when);
    while (next != list->second.begin()) {
      --next;
      if (run_.operations[at(next->operation)].recorded_end <= ended) return next->operation;
    }
    return -1;
  }

  /// Who waits for an event, and for which, is stated by new traces. In others the next kernel that the thread launches
  /// waits for what was the latest to end, on another stream, of what had been launched before.
  void add_stream_waits() {
    constexpr Nanoseconds kAny = std::int64_t{1} << 62;
    std::map<std::int64_t, Nanoseconds> records;
    for (const KinetoEvent& call : trace_.events)
      if (call.kind == Kind::kCall && !stated_waits_.empty()) records.emplace(call.correlation, call.start);
    for (const std::vector<EventIndex>& calls : calls_) {
      std::vector<EventIndex> open;
      for (const EventIndex i : calls) {
        if (is_stream_wait(name(i))) {
          const auto stated = stated_waits_.find(event(i).correlation);
          if (stated == stated_waits_.end()) {
            open.push_back(i);
            continue;
          }
          const KinetoEvent& sync = event(stated->second);
          const auto record = records.find(sync.waits_for);
          const auto list = on_stream_.find(sync.lane);
          if (record == records.end() || list == on_stream_.end()) continue;
          const OperationIndex earlier = latest_on(sync.on_stream, record->second, kAny);
          const auto later = std::ranges::upper_bound(list->second, event(i).start, {}, &Launched::when);
          if (earlier >= 0 && later != list->second.end()) wait(earlier, later->operation, Reason::kEvent);
          continue;
        }
        const std::span<const EventIndex> started = started_by(event(i));
        if (started.empty() || open.empty()) continue;
        for (const EventIndex waiting : open) infer_wait(waiting, started.front());
        open.clear();
      }
      unused_waits_ += static_cast<std::int64_t>(open.size());
    }
  }

  void infer_wait(EventIndex call, EventIndex waits) {
    const OperationIndex later = operation_.at(waits);
    OperationIndex latest = -1;
    for (const auto& [stream, list] : on_stream_) {
      if (stream == event(waits).lane) continue;
      const OperationIndex candidate = latest_on(stream, event(call).start, event(waits).start + kClockError);
      if (candidate >= 0 &&
          (latest < 0 || run_.operations[at(candidate)].recorded_end > run_.operations[at(latest)].recorded_end))
        latest = candidate;
    }
    if (latest < 0) {
      ++unused_waits_;
      return;
    }
    wait(latest, later, Reason::kEvent);
    ++inferred_waits_;
  }

  /// Kernels that were ready, and began only when one on another stream that fills the GPU had all but ended.
  void add_full_gpu() {
    std::vector<Nanoseconds> ready(run_.operations.size());
    for (const Dependency& dependency : run_.dependencies)
      ready[at(dependency.later)] = std::max(
          ready[at(dependency.later)], run_.operations[at(dependency.earlier)].recorded_end + run_.lag(dependency));
    std::vector<EventIndex> filling;  // in the order of their starts, those that may not have ended
    for (const EventIndex i : gpu_) {
      const KinetoEvent& work = event(i);
      const OperationIndex operation = operation_.at(i);
      std::erase_if(filling, [&](EventIndex k) { return event(k).end() + kClearly < work.start; });
      if (work.kind == Kind::kKernel && work.start > ready[at(operation)] + kClearly) {
        for (const EventIndex k : filling) {
          const auto tail = static_cast<Nanoseconds>(kTail * static_cast<double>(event(k).duration));
          if (event(k).lane == work.lane || std::abs(event(k).end() - work.start) > std::max(tail, kClearly)) continue;
          wait(operation_.at(k), operation, Reason::kFullGpu);
          ++full_;
          break;
        }
      }
      if (work.kind == Kind::kKernel && work.warps >= kFullMultiprocessor) filling.push_back(i);
    }
  }

  void add_syncs() {
    for (const Waiting& waiting : waiting_) {
      const KinetoEvent& call = event(waiting.call);
      const std::span<const EventIndex> started = started_by(call);
      std::vector<OperationIndex> earlier;
      if (!started.empty() && is_staged(started)) {
        earlier.push_back(staged(call, started.front()));
      } else if (is_sync(name(waiting.call))) {
        for (const auto& [stream, list] : on_stream_) {
          const bool is_awaited = has(name(waiting.call), "Device") || stream == stream_of_sync(waiting.call);
          if (is_awaited) earlier.push_back(latest_on(stream, call.start, call.end() + kClockError));
        }
      }
      for (const OperationIndex operation : earlier) returns_after(waiting.operation, operation, Reason::kSync);
      if (run_.queue_depth > 0 && !started.empty()) {
        const auto place = std::ranges::lower_bound(launched_, call.start, {},
                                                    [&](EventIndex gpu) { return event(launch_.at(gpu)).start; });
        const auto before = place - launched_.begin() - run_.queue_depth;
        if (before >= 0) returns_after(waiting.operation, operation_.at(launched_[at(before)]), Reason::kQueue);
      }
    }
  }

  /// The call's own time is what is left of it then.
  void returns_after(OperationIndex call, OperationIndex earlier, Reason reason) {
    if (earlier < 0) return;
    wait(earlier, call, reason);
    RecordedOperation& rest = run_.operations[at(call)];
    const Nanoseconds ended = run_.operations[at(earlier)].recorded_end;
    rest.duration = std::clamp<Nanoseconds>(rest.recorded_end - ended, 0, rest.duration);
  }

  /// What a copy from or to pageable memory makes its call wait for: its own end, or that of what is before it.
  OperationIndex staged(const KinetoEvent& call, EventIndex copy) const {
    const OperationIndex operation = operation_.at(copy);
    if (event(copy).end() <= call.end()) return operation;
    const auto before = before_on_stream_.find(operation);
    return before == before_on_stream_.end() ? -1 : before->second;
  }

  /// The stream on which the thread has launched last; of a stated one that.
  std::int32_t stream_of_sync(EventIndex call) const {
    const std::vector<EventIndex>& calls = calls_[at(event(call).lane)];
    for (auto before = std::ranges::lower_bound(calls, call); before != calls.begin();) {
      --before;
      if (const auto started = started_by(event(*before)); !started.empty()) return event(started.front()).lane;
    }
    return -1;
  }

  /// Sorts operations so that none waits for a later one.
  void put_in_order() {
    const std::size_t count = run_.operations.size();
    std::vector<std::vector<OperationIndex>> after(count);
    std::vector<int> waits(count);
    for (const Dependency& dependency : run_.dependencies) {
      after[at(dependency.earlier)].push_back(dependency.later);
      ++waits[at(dependency.later)];
    }
    std::vector<OperationIndex> order, place(count, -1);
    for (std::size_t i = 0; i < count; ++i)
      if (waits[i] == 0) order.push_back(static_cast<OperationIndex>(i));
    for (std::size_t next = 0; next < order.size(); ++next) {
      place[at(order[next])] = static_cast<OperationIndex>(next);
      for (const OperationIndex later : after[at(order[next])])
        if (--waits[at(later)] == 0) order.push_back(later);
    }
    if (order.size() < count) refuse_circle(waits);
    std::vector<RecordedOperation> sorted;
    for (const OperationIndex i : order) sorted.push_back(run_.operations[at(i)]);
    run_.operations = std::move(sorted);
    for (Dependency& dependency : run_.dependencies)
      dependency = {place[at(dependency.earlier)], place[at(dependency.later)], dependency.reason};
    std::ranges::sort(run_.dependencies, {}, [](const Dependency& d) {
      return std::tuple{d.later, d.earlier, d.reason};
    });
    for (RecordedCollective& collective : run_.collectives) collective.operation = place[at(collective.operation)];
    if (run_.end_of_steps >= 0) run_.end_of_steps = place[at(run_.end_of_steps)];
  }

  [[noreturn]] void refuse_circle(const std::vector<int>& waits) const {
    // Among those that are left each waits for another one of them: going back from any ends in a circle.
    std::map<OperationIndex, OperationIndex> before;
    for (const Dependency& dependency : run_.dependencies)
      if (waits[at(dependency.later)] > 0 && waits[at(dependency.earlier)] > 0)
        before.emplace(dependency.later, dependency.earlier);
    std::vector<OperationIndex> way;
    std::map<OperationIndex, std::size_t> seen;
    OperationIndex here = before.begin()->first;
    while (seen.emplace(here, way.size()).second) {
      way.push_back(here);
      here = before.at(here);
    }
    std::string text;
    for (std::size_t i = seen.at(here), listed = 0; i < way.size() && listed < 8; ++i, ++listed) {
      const RecordedOperation& operation = run_.operations[at(way[i])];
      text += (listed > 0 ? " waits for " : "") +
              in_quotes(operation.name < 0 ? std::string{"host work"} : run_.names[at(operation.name)]) + " at " +
              std::to_string(operation.recorded_start / 1000) + " us";
    }
    throw InputError{trace_.file_name + ": events wait for each other in a circle: " + text};
  }

  void remark() {
    const auto say = [&](std::int64_t count, const std::string& text) {
      if (count > 0) run_.remarks.push_back(std::to_string(count) + ' ' + text);
    };
    say(trace_.without_duration, "events have no start or no duration: left out");
    say(without_launch_, "of " + std::to_string(gpu_.size()) + " kernels and copies were launched by no recorded call");
    say(inferred_waits_,
        "waits of a stream do not say for which event: taken as for the latest to end on another stream, of what was "
        "launched before");
    say(full_, "kernels were ready while one of another stream filled the GPU: they wait for its end");
    say(unused_waits_, "waits of a stream for an event have no work on both sides");
    say(inputs_waited_for_, "silences of a thread before it copies to the GPU count as waits for samples");
    if (run_.steps.empty())
      run_.remarks.push_back("no step is marked and nothing repeats: the whole recording counts as one");
    if (run_.world_size > 1)
      run_.remarks.push_back("rank " + std::to_string(run_.rank) + " of " + std::to_string(run_.world_size));
  }

  const KinetoTrace& trace_;
  RecordedRun run_;
  std::vector<EventIndex> gpu_;       // by start
  std::vector<EventIndex> launched_;  // those of them whose call is known, by its start
  std::unordered_map<std::int64_t, std::vector<EventIndex>> of_correlation_;
  std::unordered_map<EventIndex, EventIndex> launch_;          // of what is on the GPU its call
  std::unordered_map<std::int64_t, EventIndex> stated_waits_;  // by the correlation of the call
  std::vector<std::vector<EventIndex>> calls_;                 // [threads]
  std::vector<std::vector<EventIndex>> with_bytes_;            // [threads] what states the bytes of a payload
  std::vector<EventIndex> inputs_;                             // annotations of getting samples
  std::vector<std::vector<Interval>> busy_;                    // [threads]
  std::vector<Reached> reached_;                               // [threads]
  std::vector<Waiting> waiting_;
  std::unordered_map<EventIndex, OperationIndex> began_;      // calls: the host operation that ends where they start
  std::unordered_map<EventIndex, OperationIndex> operation_;  // of what is on the GPU
  std::unordered_map<OperationIndex, OperationIndex> before_on_stream_;
  std::map<std::int32_t, std::vector<Launched>> on_stream_;
  std::int32_t loop_thread_ = 0;
  Nanoseconds begin_ = 0;
  std::unordered_map<EventIndex, std::size_t> step_of_launch_;  // calls with which one begins, if none is marked
  std::int64_t inputs_waited_for_ = 0, without_launch_ = 0, inferred_waits_ = 0, unused_waits_ = 0, full_ = 0;
};

}  // namespace

Nanoseconds RecordedRun::recorded_start() const {
  Nanoseconds start = operations.front().recorded_start;
  for (const RecordedOperation& operation : operations) start = std::min(start, operation.recorded_start);
  return start;
}

Nanoseconds RecordedRun::lag(const Dependency& dependency) const {
  switch (dependency.reason) {
    case Dependency::Reason::kLaunch:
      return launch_latency;
    case Dependency::Reason::kStream:
      return kernel_gap;
    default:
      return 0;
  }
}

UnexplainedTime unexplained_time(const RecordedRun& run) {
  const auto operation_at = [&](OperationIndex i) -> const RecordedOperation& { return run.operations[at(i)]; };
  const auto latest = std::ranges::max_element(run.operations, {}, &RecordedOperation::recorded_end);
  OperationIndex here =
      run.end_of_steps >= 0 ? run.end_of_steps : static_cast<OperationIndex>(latest - run.operations.begin());
  const Nanoseconds from = run.steps.empty() ? run.recorded_start() : run.steps.front().recorded_start;
  UnexplainedTime unexplained{.of = operation_at(here).recorded_end - from};
  const auto add = [&](OperationIndex before, Nanoseconds time) {
    if (time <= 0) return;
    unexplained.total += time;
    unexplained.gaps.push_back({before, time});
  };
  while (here >= 0 && operation_at(here).recorded_end > from) {
    const RecordedOperation& operation = operation_at(here);
    OperationIndex before = -1;
    Nanoseconds ready = 0;
    for (const Dependency& dependency : std::ranges::equal_range(run.dependencies, here, {}, &Dependency::later)) {
      const Nanoseconds date = operation_at(dependency.earlier).recorded_end + run.lag(dependency);
      if (before < 0 || date > ready) {
        before = dependency.earlier;
        ready = date;
      }
    }
    if (operation.is_idle)
      add(here, operation.duration);
    else if (before >= 0 && operation.kind == RecordedOperation::Kind::kGpu)
      add(here, operation.recorded_start - ready - kClearly);
    here = before;
  }
  std::ranges::stable_sort(unexplained.gaps, std::ranges::greater{}, &UnexplainedTime::Gap::time);
  return unexplained;
}

RecordedRun recorded_run(const KinetoTrace& trace) { return RunBuilder{trace}.build(); }

}  // namespace rehearse
