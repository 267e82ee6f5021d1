#include "sim/training/compile_recorded.hpp"

#include <algorithm>
#include <map>

namespace rehearse {

namespace {

/// The executor ends operations within one another where dates are known: so many at most.
constexpr std::size_t kMostAtOnce = 256;

class RecordedCompiler {
 public:
  RecordedCompiler(const RecordedJob& job, std::size_t rank, const RecordedChange& change, bool simulates_collectives)
      : job_{job}, run_{job.ranks[rank]}, rank_{rank}, change_{change}, compiled_(run_.operations.size(), -1) {
    for (const RecordedCollective& collective : run_.collectives)
      kinds_.push_back(simulates_collectives ? simulated_kind(collective) : std::nullopt);
  }

  RecordedProgram compile() {
    add_gpu_work();
    const OperationIndex begin = add_begin();
    add_host_work();
    add_dependencies(begin);
    for (std::size_t i = 0; i < run_.collectives.size(); ++i)
      if (kinds_[i] || !job_.meetings.empty()) add_meeting(begin, static_cast<int>(i));
    builder_.program().counts_waits = false;
    for (const RecordedCollective& collective : run_.collectives)
      builder_.program().labels.push_back(run_.names[at(run_.operations[at(collective.operation)].name)]);
    const OperationIndex fence = builder_.add({.kind = OperationKind::kFence});
    for (const OperationIndex operation : compiled_) builder_.order(operation, fence);
    return {builder_.finish(), std::move(compiled_), seconds(run_.kernel_gap)};
  }

 private:
  const RecordedOperation& recorded(std::size_t operation) const { return run_.operations[operation]; }
  static bool is_on_gpu(const RecordedOperation& operation) { return operation.kind == RecordedOperation::Kind::kGpu; }

  Seconds gpu_time(const RecordedOperation& work) const {
    Nanoseconds time = work.duration;
    if (work.collective >= 0 && kinds_[at(work.collective)]) return seconds(run_.kernel_gap);
    if (work.collective >= 0 && !job_.meetings.empty()) time = meeting(work.collective).transfer;
    return seconds(run_.kernel_gap) + seconds(time) * change_.kernels[at(work.kernel)];
  }

  /// Of the rank's i-th collective.
  const RecordedMeeting& meeting(int index) const { return job_.meetings[at(job_.meeting_of[rank_][at(index)])]; }

  void add_gpu_work() {
    std::vector<std::vector<std::size_t>> streams(run_.streams.size());
    for (std::size_t i = 0; i < run_.operations.size(); ++i)
      if (is_on_gpu(recorded(i))) streams[at(recorded(i).lane)].push_back(i);
    for (std::size_t stream = 0; stream < streams.size(); ++stream) {
      if (streams[stream].empty()) continue;
      std::ranges::stable_sort(streams[stream], {}, [&](std::size_t i) { return recorded(i).recorded_start; });
      const auto first = static_cast<OperationIndex>(builder_.program().operations.size());
      for (const std::size_t i : streams[stream])
        compiled_[i] = builder_.add({.kind = OperationKind::kCompute,
                                     .resource = static_cast<int>(stream),
                                     .label = static_cast<int>(i),
                                     .time = gpu_time(recorded(i))});
      builder_.add_stretch(static_cast<int>(stream), first);
      for (const RecordedChange::Delay& delay : change_.delays)
        if (delay.stream == run_.streams[stream]) delays_[streams[stream].front()] += delay.time;
    }
  }

  /// Of the rank's clock: recordings of ranks do not begin together.
  OperationIndex add_begin() {
    const Nanoseconds later = run_.recorded_start() + job_.clock_offset[rank_] - job_.recorded_start();
    const OperationIndex wait = builder_.add({.kind = OperationKind::kDelay, .time = seconds(later)});
    const OperationIndex begin = builder_.add({.kind = OperationKind::kBegin});
    builder_.order(wait, begin);
    return begin;
  }

  void add_host_work() {
    std::size_t added = 0;
    for (std::size_t i = 0; i < run_.operations.size(); ++i)
      if (!is_on_gpu(recorded(i)))
        compiled_[i] = builder_.add({.kind = OperationKind::kDelay,
                                     .is_event = ++added % kMostAtOnce == 0,
                                     .time = seconds(recorded(i).duration) * change_.host});
  }

  /// `later` is ready `lag` after `earlier` has ended.
  void order(OperationIndex earlier, OperationIndex later, Seconds lag) {
    if (lag > Seconds{}) {
      const OperationIndex delay = builder_.add({.kind = OperationKind::kDelay, .time = lag});
      builder_.order(earlier, delay);
      earlier = delay;
    }
    builder_.order(earlier, later);
  }

  /// Less the gap, which is in the kernel's own time.
  Seconds lag(const Dependency& dependency) const {
    return seconds(std::max<Nanoseconds>(run_.lag(dependency) - run_.kernel_gap, 0));
  }

  /// By how much later than when it is ready the operation begins.
  Seconds delay(std::size_t operation) const {
    const auto delayed = delays_.find(operation);
    return delayed == delays_.end() ? Seconds{} : delayed->second;
  }

  void add_dependencies(OperationIndex begin) {
    std::vector<bool> waits(run_.operations.size());
    for (const Dependency& dependency : run_.dependencies) {
      waits[at(dependency.later)] = true;
      const OperationIndex earlier = compiled_[at(dependency.earlier)], later = compiled_[at(dependency.later)];
      if (dependency.reason != Dependency::Reason::kStream)
        order(earlier, later, lag(dependency) + delay(at(dependency.later)));
    }
    for (std::size_t i = 0; i < run_.operations.size(); ++i)
      if (!waits[i] || is_on_gpu(recorded(i))) order(begin, compiled_[i], delay(i));
  }

  /// A rank comes to a collective when that could start on its stream.
  void add_meeting(OperationIndex begin, int index) {
    const RecordedCollective& collective = run_.collectives[at(index)];
    const OperationIndex arrival = builder_.add({.kind = OperationKind::kDelay, .is_event = true});
    const OperationIndex meeting = kinds_[at(index)] ? builder_.add({.kind = OperationKind::kCollective,
                                                                     .collective = *kinds_[at(index)],
                                                                     .label = index,
                                                                     .bytes = Bytes{collective.bytes}})
                                                     : add_gate(arrival, index);
    for (const Dependency& dependency : run_.waits_of(collective.operation))
      order(compiled_[at(dependency.earlier)], arrival, lag(dependency));
    builder_.order(begin, arrival);
    builder_.order(arrival, meeting);
    builder_.order(meeting, compiled_[at(collective.operation)]);
  }

  /// Passes when the arrivals of all ranks of the group have come.
  OperationIndex add_gate(OperationIndex arrival, int index) {
    Operation& comes = builder_.program().operations[at(arrival)];
    comes.signal_scope = CounterScope::kTeam;
    comes.signals = job_.meeting_of[rank_][at(index)];
    return builder_.add({.kind = OperationKind::kGate,
                         .scope = CounterScope::kTeam,
                         .resource = job_.meeting_of[rank_][at(index)],
                         .each = meeting(index).members});
  }

  const RecordedJob& job_;
  const RecordedRun& run_;
  std::size_t rank_;
  const RecordedChange& change_;
  ProgramBuilder builder_;
  std::vector<OperationIndex> compiled_;              // [recorded operations]
  std::vector<std::optional<CollectiveKind>> kinds_;  // [collectives] of those that are simulated
  std::map<std::size_t, Seconds> delays_;             // of recorded operations
};

}  // namespace

std::optional<CollectiveKind> exchanged_kind(const RecordedCollective& collective) {
  if (collective.work == CollectiveWork::kAllReduce) return CollectiveKind::kAllReduce;
  if (collective.work == CollectiveWork::kReduceScatter) return CollectiveKind::kReduceScatter;
  return {};
}

std::optional<CollectiveKind> simulated_kind(const RecordedCollective& collective) {
  return collective.bytes > 0 ? exchanged_kind(collective) : std::nullopt;
}

RecordedProgram compile_recorded(const RecordedJob& job, std::size_t rank, const RecordedChange& change,
                                 bool simulates_collectives) {
  return RecordedCompiler{job, rank, change, simulates_collectives}.compile();
}

}  // namespace rehearse
