#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "sim/base/errors.hpp"
#include "workloads/traces/detail/run_builder.hpp"

namespace rehearse {

namespace {

constexpr float kFullMultiprocessor = 64;  // warps: CUDA programming guide, compute capabilities 7.0, 8.0, 9.0
constexpr double kTail = 0.05;  // of a kernel that fills the GPU: its last threads leave room; of a call that waits
constexpr Nanoseconds kAnyDate = std::int64_t{1} << 62;
constexpr int kFullQueue = 1000;              // launches under way that are no coincidence
constexpr std::int64_t kStagedCopy = 65'536;  // bytes: larger copies from pageable memory keep the host waiting

Nanoseconds median(std::vector<Nanoseconds>& values, Nanoseconds otherwise) {
  if (values.empty()) return otherwise;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void RunBuilder::find_gpu_work() {
  for (EventIndex i = 0; i < trace_.events.size(); ++i) {
    if (event(i).kind == Kind::kSync && event(i).waits_for >= 0) stated_waits_.emplace(event(i).correlation, i);
    if (!event(i).is_on_gpu()) continue;
    gpu_.push_back(i);
    if (event(i).correlation >= 0) of_correlation_[event(i).correlation].work.push_back(i);
  }
  if (gpu_.empty()) throw InputError{trace_.file_name + ": has no kernel or copy on a GPU"};
}

std::unordered_set<RunBuilder::EventIndex> RunBuilder::waiting_for_events() const {
  std::unordered_set<EventIndex> waiting;
  for (const std::vector<EventIndex>& calls : calls_) {
    bool is_told = false;
    std::set<std::int32_t> told;  // streams, where that is stated
    for (const EventIndex i : calls) {
      if (is_stream_wait(name(i))) {
        const auto stated = stated_waits_.find(event(i).correlation);
        if (stated == stated_waits_.end())
          is_told = true;
        else
          told.insert(event(stated->second).lane);
      }
      const std::span<const EventIndex> started = started_by(i);
      if (started.empty()) continue;
      const bool waits = told.erase(event(started.front()).lane) > 0 || is_told;
      if (waits) waiting.insert(started.front());
      is_told = false;
    }
  }
  return waiting;
}

void RunBuilder::measure_latencies() {
  const std::unordered_set<EventIndex> waiting = waiting_for_events();
  std::vector<Nanoseconds> alone, latencies, gaps;  // alone: nothing else is on the GPU
  std::map<std::int32_t, Nanoseconds> free;         // [streams]
  std::optional<Nanoseconds> all_free;
  for (const EventIndex i : gpu_) {
    const auto launch = launch_.find(i);
    const auto before = free.find(event(i).lane);
    if (launch != launch_.end() && !waiting.contains(i)) {
      const Nanoseconds called = event(launch->second).start;
      const Nanoseconds latency = std::max<Nanoseconds>(event(i).start - called, 0);
      if (before == free.end() || called > before->second + kClearlyApart) {
        latencies.push_back(latency);
        if (!all_free || called > *all_free + kClearlyApart) alone.push_back(latency);
      } else if (called < before->second - kClearlyApart) {
        gaps.push_back(std::max<Nanoseconds>(event(i).start - before->second, 0));
      }
    }
    free[event(i).lane] = before == free.end() ? event(i).end() : std::max(before->second, event(i).end());
    all_free = all_free ? std::max(*all_free, event(i).end()) : event(i).end();
  }
  run_.launch_latency = median(alone.empty() ? latencies : alone, 10'000);
  run_.kernel_gap = std::min(median(gaps, 1'000), run_.launch_latency);
}

void RunBuilder::measure_queue() {
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

bool RunBuilder::is_staged(std::span<const EventIndex> started) const {
  return std::ranges::any_of(started, [&](EventIndex gpu) {
    return has(name(gpu), "Pageable") && (has(name(gpu), "DtoH") || event(gpu).bytes > kStagedCopy);
  });
}

bool RunBuilder::lasts_until_end(EventIndex call) const {
  const std::span<const EventIndex> started = started_by(call);
  if (started.empty()) return false;
  const KinetoEvent& last = event(started.back());
  const bool blocks = has(name(call), "Memcpy") && !has(name(call), "Async");
  if (event(call).end() + kClockError < last.end() || event(call).end() > last.end() + kLongestSilence) return false;
  if (last.kind == Kind::kCopy && has(name(started.back()), "DtoD") && !blocks) return false;
  if (last.kind == Kind::kCopy && has(name(started.back()), "Pinned") && !blocks) return false;
  if (blocks) return true;
  const bool is_short =
      last.kind == Kind::kCopy ? last.end() < event(call).start + kClearlyApart : last.duration < kClearlyApart;
  const auto rest = static_cast<Nanoseconds>(kTail * static_cast<double>(event(call).duration));
  return !is_short && event(call).end() <= last.end() + std::max(rest, kClearlyApart);
}

bool RunBuilder::may_wait(EventIndex call) const {
  if (frees_memory(name(call))) return event(call).duration > kClearlyApart;
  return is_sync(name(call)) || is_staged(started_by(call)) || lasts_until_end(call);
}

void RunBuilder::add_gpu_work() {
  std::map<std::int32_t, OperationIndex> latest;        // [streams]
  std::unordered_map<std::int32_t, KernelClass> kinds;  // [names]
  for (const EventIndex i : gpu_) {
    const KinetoEvent& work = event(i);
    KernelClass kernel = KernelClass::kCopy;
    if (work.kind == Kind::kKernel) {
      const auto [kind, is_new] = kinds.try_emplace(work.name);
      if (is_new) kind->second = kernel_class(name(i));
      kernel = kind->second;
    }
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
      run_.collectives.push_back(collective(i, added));
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
    if (launch != launch_.end()) on_stream_[work.lane].launched.push_back({event(launch->second).start, added});
  }
  for (auto& [number, stream] : on_stream_) {
    std::ranges::stable_sort(stream.launched, {}, &Launched::when);
    std::vector<Nanoseconds> ends;
    for (const Launched& launched : stream.launched)
      ends.push_back(run_.operations[at(launched.operation)].recorded_end);
    stream.ends = LowestDates{ends};
  }
}

std::size_t RunBuilder::Stream::launched_by(Nanoseconds when) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(launched, when, {}, &Launched::when) - launched.begin());
}

RunBuilder::OperationIndex RunBuilder::latest_on(std::int32_t stream, Nanoseconds when, Nanoseconds ended) const {
  const auto found = on_stream_.find(stream);
  if (found == on_stream_.end()) return -1;
  const auto place = found->second.ends.last_by(ended, found->second.launched_by(when));
  return place ? found->second.launched[*place].operation : -1;
}

void RunBuilder::add_stream_waits() {
  std::map<std::int64_t, Nanoseconds> records;
  for (const KinetoEvent& call : trace_.events)
    if (call.kind == Kind::kCall && !stated_waits_.empty()) records.emplace(call.correlation, call.start);
  std::vector<std::vector<InferredWait>> inferred;  // [threads]
  std::vector<InferredWait*> all;
  for (const std::vector<EventIndex>& calls : calls_) inferred.push_back(inferred_waits(calls));
  for (std::vector<InferredWait>& waits : inferred)
    for (InferredWait& wait : waits) all.push_back(&wait);
  find_latest(std::move(all));
  for (std::size_t thread = 0; thread < calls_.size(); ++thread) {
    auto next = inferred[thread].begin();
    for (const EventIndex i : calls_[thread]) {
      if (const auto stated = stated_waits_.find(event(i).correlation);
          is_stream_wait(name(i)) && stated != stated_waits_.end())
        add_stated_wait(i, event(stated->second), records);
      for (; next != inferred[thread].end() && next->launch == i; ++next) {
        if (next->latest < 0) {
          ++unused_waits_;
          continue;
        }
        wait(next->latest, operation_.at(started_by(i).front()), Reason::kEvent);
        ++inferred_waits_;
      }
    }
  }
}

void RunBuilder::add_stated_wait(EventIndex call, const KinetoEvent& sync,
                                 const std::map<std::int64_t, Nanoseconds>& records) {
  const auto record = records.find(sync.waits_for);
  const auto stream = on_stream_.find(sync.lane);
  if (record == records.end() || stream == on_stream_.end()) return;
  const OperationIndex earlier = latest_on(sync.on_stream, record->second, kAnyDate);
  const std::size_t later = stream->second.launched_by(event(call).start);
  if (earlier >= 0 && later < stream->second.launched.size())
    wait(earlier, stream->second.launched[later].operation, Reason::kEvent);
}

std::vector<RunBuilder::InferredWait> RunBuilder::inferred_waits(const std::vector<EventIndex>& calls) {
  std::vector<InferredWait> waits;
  std::size_t complete = 0;  // so many of them have a launch
  for (const EventIndex i : calls) {
    if (is_stream_wait(name(i))) {
      if (!stated_waits_.contains(event(i).correlation)) waits.push_back({.call = i});
    } else if (!started_by(i).empty()) {
      for (; complete < waits.size(); ++complete) waits[complete].launch = i;
    }
  }
  unused_waits_ += static_cast<std::int64_t>(waits.size() - complete);
  waits.resize(complete);
  return waits;
}

void RunBuilder::find_latest(std::vector<InferredWait*> waits) const {
  std::vector<LatestOfOthers::Work> ends;  // in the order of their launches
  for (const EventIndex i : launched_) ends.push_back({event(i).end(), event(i).lane});
  LatestOfOthers ended{ends};
  std::ranges::stable_sort(waits, {}, [&](const InferredWait* wait) { return event(wait->call).start; });
  std::size_t seen = 0;
  for (InferredWait* wait : waits) {
    while (seen < launched_.size() && event(launch_.at(launched_[seen])).start <= event(wait->call).start)
      ended.add(seen++);
    const KinetoEvent& waiting = event(started_by(wait->launch).front());
    if (const auto latest = ended.latest(waiting.start + kClockError, waiting.lane))
      wait->latest = operation_.at(launched_[*latest]);
  }
}

void RunBuilder::add_full_gpu() {
  std::vector<Nanoseconds> ready(run_.operations.size(), begin_);
  for (const Dependency& dependency : run_.dependencies)
    ready[at(dependency.later)] = std::max(ready[at(dependency.later)],
                                           run_.operations[at(dependency.earlier)].recorded_end + run_.lag(dependency));
  OpenWindows filling;  // dates at which what another kernel leaves free may begin
  for (std::size_t place = 0; place < gpu_.size(); ++place) {
    const KinetoEvent& work = event(gpu_[place]);
    const OperationIndex operation = operation_.at(gpu_[place]);
    filling.go_to(work.start);
    if (work.kind == Kind::kKernel && work.start > ready[at(operation)] + kClearlyApart) {
      if (const auto first = filling.first_of_other(work.lane)) {
        wait(operation_.at(gpu_[*first]), operation, Reason::kFullGpu);
        ++full_;
      }
    }
    if (work.kind != Kind::kKernel || work.warps < kFullMultiprocessor) continue;
    const auto tail = static_cast<Nanoseconds>(kTail * static_cast<double>(work.duration));
    filling.add({work.end() - std::max(tail, kClearlyApart), work.end() + kClearlyApart, place, work.lane});
  }
}

std::vector<RunBuilder::OperationIndex> RunBuilder::ended_on_all(const KinetoEvent& call, Unawaited& unawaited,
                                                                 bool is_free, WaitBudget& budget) const {
  for (; unawaited.launched < launched_.size(); ++unawaited.launched) {
    const EventIndex gpu = launched_[unawaited.launched];
    if (event(launch_.at(gpu)).start > call.start) break;
    budget.take_one();
    unawaited.streams.insert(event(gpu).lane);
  }
  const Nanoseconds ended = call.end() + kClockError;
  while (!unawaited.later.empty() && unawaited.later.begin()->first <= ended)
    unawaited.streams.insert(unawaited.later.extract(unawaited.later.begin()).value().second);
  if (is_free && !unawaited.later.empty()) return {};  // something has not ended: it did not wait
  std::vector<OperationIndex> earlier;
  std::vector<std::pair<Nanoseconds, std::int32_t>> later;
  std::set<std::int32_t> again;  // of what has ended after the call, as clocks differ, the next call knows nothing
  for (const std::int32_t number : unawaited.streams) {
    budget.take_one();
    const Stream& stream = on_stream_.at(number);
    const std::size_t launched = stream.launched_by(call.start);
    const auto place = stream.ends.last_by(ended, launched);
    const std::size_t next = place ? *place + 1 : 0;
    earlier.push_back(place ? stream.launched[*place].operation : -1);
    if (next < launched) later.emplace_back(stream.ends.lowest(next, launched), number);
    if (is_free && !later.empty()) return {};
    if (place && run_.operations[at(earlier.back())].recorded_end > call.end()) again.insert(number);
  }
  unawaited.streams = std::move(again);
  unawaited.later.insert(later.begin(), later.end());
  return earlier;
}

void RunBuilder::add_syncs() {
  std::unordered_map<std::int32_t, Unawaited> unawaited;  // [threads]
  WaitBudget budget{run_.file_name, run_.operations.size()};
  for (const Waiting& waiting : waiting_) {
    const KinetoEvent& call = event(waiting.call);
    const std::span<const EventIndex> started = started_by(waiting.call);
    std::vector<OperationIndex> earlier;
    if (lasts_until_end(waiting.call)) {
      earlier.push_back(operation_.at(started.back()));
    } else if (!started.empty() && is_staged(started)) {
      earlier.push_back(staged(call, started.front()));
    } else if (may_wait(waiting.call)) {
      const std::string& name_of_call = name(waiting.call);
      if (waits_for_all(name_of_call)) {
        earlier = ended_on_all(call, unawaited[call.lane], frees_memory(name_of_call), budget);
      } else {
        earlier.push_back(latest_on(stream_of_sync(waiting.call), call.start, call.end() + kClockError));
      }
    }
    for (const OperationIndex operation : earlier) returns_after(waiting.operation, operation, Reason::kSync);
    if (run_.queue_depth > 0 && !started.empty()) {
      const auto place = std::ranges::lower_bound(launched_, call.start, {},
                                                  [&](EventIndex gpu) { return event(launch_.at(gpu)).start; });
      const auto before = place - launched_.begin() - run_.queue_depth + 1;
      if (before >= 0) returns_after(waiting.operation, operation_.at(launched_[at(before)]), Reason::kQueue);
    }
  }
}

void RunBuilder::returns_after(OperationIndex call, OperationIndex earlier, Reason reason) {
  if (earlier < 0) return;
  wait(earlier, call, reason);
  RecordedOperation& rest = run_.operations[at(call)];
  const Nanoseconds ended = run_.operations[at(earlier)].recorded_end;
  rest.duration = std::clamp<Nanoseconds>(rest.recorded_end - ended, 0, rest.duration);
}

void RunBuilder::add_gradients() {
  if (gradients_.empty()) return;
  std::vector<std::vector<EventIndex>> launches(launches_.size());  // [threads] but of collectives
  for (std::size_t thread = 0; thread < launches_.size(); ++thread)
    std::ranges::copy_if(launches_[thread], std::back_inserter(launches[thread]), [&](EventIndex call) {
      return run_.operations[at(operation_.at(started_by(call).back()))].collective < 0;
    });
  for (const EventIndex i : gradients_) {
    const std::vector<EventIndex>& calls = launches[at(event(i).lane)];
    const auto next = std::ranges::lower_bound(calls, event(i).end(), {}, [&](EventIndex c) { return event(c).start; });
    if (next == calls.begin()) continue;  // of work before the recording
    run_.gradients.push_back({operation_.at(started_by(*std::prev(next)).back()), event(i).start, event(i).bytes});
    run_.backward_thread = event(i).lane;
  }
}

RunBuilder::OperationIndex RunBuilder::staged(const KinetoEvent& call, EventIndex copy) const {
  const OperationIndex operation = operation_.at(copy);
  if (event(copy).end() <= call.end()) return operation;
  const auto before = before_on_stream_.find(operation);
  return before == before_on_stream_.end() ? -1 : before->second;
}

RecordedCollective RunBuilder::collective(EventIndex kernel, OperationIndex operation) const {
  RecordedCollective found{operation};
  const auto take = [&](EventIndex from) {
    const KinetoEvent& stating = event(from);
    if (found.bytes < 0) found.bytes = stating.bytes;
    if (found.ranks == 0) found.ranks = stating.ranks;
    if (found.work == CollectiveWork::kOther) found.work = stating.work;
    if (found.work == CollectiveWork::kOther) found.work = collective_work(name(from));
  };
  take(kernel);
  const auto launch = launch_.find(kernel);
  if (launch == launch_.end()) return found;
  const KinetoEvent& call = event(launch->second);
  const std::vector<EventIndex>& stating = with_bytes_[at(call.lane)];
  auto before = std::ranges::lower_bound(stating, launch->second);
  for (int tried = 0; tried < 64 && before != stating.begin(); ++tried) {
    if (event(*--before).end() < call.end()) continue;
    take(*before);
    break;
  }
  return found;
}

}  // namespace rehearse
