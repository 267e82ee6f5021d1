#include "sim/training/compile_recorded.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace rehearse {

namespace {

/// The executor ends operations within one another where dates are known: so many at most.
constexpr std::size_t kMostAtOnce = 256;
constexpr std::int64_t kLargestPayload = std::int64_t{1} << 50;  // bytes: no GPU holds more

class RecordedCompiler {
 public:
  RecordedCompiler(const RecordedJob& job, std::size_t rank, const RecordedChange& change,
                   const SimulatedCollectives& simulated)
      : job_{job}, run_{job.ranks[rank]}, rank_{rank}, change_{change}, compiled_(run_.operations.size(), -1) {
    if (simulated.empty())
      simulated_.resize(run_.collectives.size());
    else
      simulated_ = simulated[rank];
  }

  RecordedProgram compile() {
    add_gpu_work();
    const OperationIndex begin = add_begin();
    add_host_work();
    add_dependencies(begin);
    for (std::size_t i = 0; i < run_.collectives.size(); ++i)
      if (simulated_[i] || !job_.meetings.empty()) add_meeting(begin, static_cast<int>(i));
    builder_.program().counts_waits = false;
    add_labels();
    const OperationIndex fence = builder_.add(Fence{});
    for (const OperationIndex operation : compiled_) builder_.order(operation, fence);
    return {builder_.finish(), std::move(compiled_), seconds(run_.kernel_gap)};
  }

 private:
  const RecordedOperation& recorded(std::size_t operation) const { return run_.operations[operation]; }
  static bool is_on_gpu(const RecordedOperation& operation) { return operation.kind == RecordedOperation::Kind::kGpu; }

  Seconds gpu_time(const RecordedOperation& work) const {
    Nanoseconds time = work.duration;
    if (work.collective >= 0 && simulated_[at(work.collective)]) return seconds(run_.kernel_gap);
    if (work.collective >= 0 && !job_.meetings.empty()) time = meeting(work.collective).transfer;
    return seconds(run_.kernel_gap) + seconds(time) * change_.kernels[at(work.kernel)];
  }

  /// Of the rank's i-th collective.
  const RecordedMeeting& meeting(int index) const { return job_.meetings[at(job_.meeting_of[rank_][at(index)])]; }

  /// Of the rank's i-th collective.
  std::int32_t label(std::size_t index) const {
    return job_.meetings.empty() ? static_cast<std::int32_t>(index) : job_.meeting_of[rank_][index];
  }

  void add_labels() {
    std::vector<std::string>& labels = builder_.program().labels;
    labels.resize(std::max(run_.collectives.size(), job_.meetings.size()));
    for (std::size_t i = 0; i < run_.collectives.size(); ++i)
      labels[at(label(i))] = run_.names[at(run_.operations[at(run_.collectives[i].operation)].name)];
  }

  void add_gpu_work() {
    std::vector<std::vector<std::size_t>> streams(run_.streams.size());
    for (std::size_t i = 0; i < run_.operations.size(); ++i)
      if (is_on_gpu(recorded(i))) streams[at(recorded(i).lane)].push_back(i);
    for (std::size_t stream = 0; stream < streams.size(); ++stream) {
      if (streams[stream].empty()) continue;
      std::ranges::stable_sort(streams[stream], {}, [&](std::size_t i) { return recorded(i).recorded_start; });
      const OperationIndex first = builder_.next();
      for (const std::size_t i : streams[stream])
        compiled_[i] = builder_.add(
            Compute{.stream = static_cast<int>(stream), .label = static_cast<int>(i), .time = gpu_time(recorded(i))});
      builder_.add_stretch(static_cast<int>(stream), first);
      for (const RecordedChange::Delay& delay : change_.delays)
        if (delay.stream == run_.streams[stream]) delays_[streams[stream].front()] += delay.time;
    }
  }

  /// Of the rank's clock: recordings of ranks do not begin together.
  OperationIndex add_begin() {
    const Nanoseconds later = run_.recorded_start() + job_.clock_offset[rank_] - job_.recorded_start();
    const OperationIndex wait = builder_.add(Delay{.time = seconds(later)});
    const OperationIndex begin = builder_.add(BeginKernels{});
    builder_.order(wait, begin);
    return begin;
  }

  void add_host_work() {
    std::size_t added = 0;
    for (std::size_t i = 0; i < run_.operations.size(); ++i)
      if (!is_on_gpu(recorded(i)))
        compiled_[i] = builder_.add(
            Delay{.is_event = ++added % kMostAtOnce == 0, .time = seconds(recorded(i).duration) * change_.host});
  }

  /// `later` is ready `lag` after `earlier` has ended.
  void order(OperationIndex earlier, OperationIndex later, Seconds lag) {
    if (lag > Seconds{}) {
      const OperationIndex delay = builder_.add(Delay{.time = lag});
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
    const OperationIndex arrival = builder_.add(Delay{.is_event = true});
    const std::optional<SimulatedCollective>& simulated = simulated_[at(index)];
    const OperationIndex meeting =
        simulated
            ? builder_.add(Collective{.kind = simulated->kind, .label = label(at(index)), .bytes = simulated->payload})
            : add_gate(arrival, index);
    for (const Dependency& dependency : run_.waits_of(collective.operation))
      order(compiled_[at(dependency.earlier)], arrival, lag(dependency));
    builder_.order(begin, arrival);
    builder_.order(arrival, meeting);
    builder_.order(meeting, compiled_[at(collective.operation)]);
  }

  /// Passes when the arrivals of all ranks of the group have come.
  OperationIndex add_gate(OperationIndex arrival, int index) {
    const int counter = job_.meeting_of[rank_][at(index)];
    builder_.signal(arrival, {CounterScope::kTeam, counter});
    return builder_.add(Gate{.scope = CounterScope::kTeam, .counter = counter, .each = meeting(index).members});
  }

  const RecordedJob& job_;
  const RecordedRun& run_;
  std::size_t rank_;
  const RecordedChange& change_;
  ProgramBuilder builder_;
  std::vector<OperationIndex> compiled_;                       // [recorded operations]
  std::vector<std::optional<SimulatedCollective>> simulated_;  // [collectives]
  std::map<std::size_t, Seconds> delays_;                      // of recorded operations
};

std::optional<CollectiveKind> kind_of(CollectiveWork work) {
  switch (work) {
    case CollectiveWork::kAllReduce:
      return CollectiveKind::kAllReduce;
    case CollectiveWork::kReduceScatter:
      return CollectiveKind::kReduceScatter;
    case CollectiveWork::kAllGather:
      return CollectiveKind::kAllGather;
    case CollectiveWork::kAllToAll:
      return CollectiveKind::kAllToAll;
    case CollectiveWork::kBroadcast:
      return CollectiveKind::kBroadcast;
    default:
      return {};
  }
}

/// By what the rank puts in.
std::optional<SimulatedCollective> simulated_collective(const RecordedRun& run, const RecordedCollective& collective) {
  const std::optional<CollectiveKind> kind = kind_of(collective.work);
  if (!kind || collective.bytes <= 0 || collective.bytes > kLargestPayload) return {};
  if (*kind != CollectiveKind::kAllGather) return SimulatedCollective{*kind, Bytes{collective.bytes}};
  const std::int64_t ranks = collective.ranks > 0 ? collective.ranks : run.world_size;
  if (ranks == 0 || collective.bytes > kLargestPayload / ranks) return {};
  return SimulatedCollective{*kind, Bytes{collective.bytes * ranks}};
}

/// Of collectives, not of messages.
std::size_t count_of_groups(const RecordedRun& run) {
  std::set<std::int32_t> groups;
  for (const RecordedCollective& collective : run.collectives)
    if (collective.work != CollectiveWork::kMessage) groups.insert(collective.group);
  return groups.size();
}

}  // namespace

bool exchanges_gradients(const RecordedCollective& collective) {
  return collective.work == CollectiveWork::kAllReduce || collective.work == CollectiveWork::kReduceScatter;
}

SimulatedCollectives simulated_collectives(const RecordedJob& job) {
  SimulatedCollectives simulated;
  for (const RecordedRun& run : job.ranks) {
    const bool has_one_group = count_of_groups(run) <= 1;
    std::vector<std::optional<SimulatedCollective>>& of_rank = simulated.emplace_back();
    for (const RecordedCollective& collective : run.collectives) {
      const bool is_of_all = collective.ranks > 0 && run.world_size > 0 ? collective.ranks == run.world_size
                                                                        : collective.group < 0 || has_one_group;
      of_rank.push_back(is_of_all || !job.meetings.empty() ? simulated_collective(run, collective) : std::nullopt);
    }
  }
  if (job.meetings.empty()) return simulated;
  std::vector<std::optional<SimulatedCollective>> largest(job.meetings.size());
  for (std::size_t r = 0; r < job.ranks.size(); ++r)
    for (std::size_t k = 0; k < simulated[r].size(); ++k) {
      std::optional<SimulatedCollective>& meeting = largest[at(job.meeting_of[r][k])];
      if (simulated[r][k] && (!meeting || meeting->payload < simulated[r][k]->payload)) meeting = simulated[r][k];
    }
  for (std::size_t m = 0; m < largest.size(); ++m)
    if (job.meetings[m].members < static_cast<int>(job.ranks.size())) largest[m].reset();
  for (std::size_t r = 0; r < job.ranks.size(); ++r)
    for (std::size_t k = 0; k < simulated[r].size(); ++k) simulated[r][k] = largest[at(job.meeting_of[r][k])];
  return simulated;
}

RecordedProgram compile_recorded(const RecordedJob& job, std::size_t rank, const RecordedChange& change,
                                 const SimulatedCollectives& simulated) {
  return RecordedCompiler{job, rank, change, simulated}.compile();
}

}  // namespace rehearse
