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
    if (event(i).correlation >= 0) of_correlation_[event(i).correlation].push_back(i);
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
      const std::span<const EventIndex> started = started_by(event(i));
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
  const std::span<const EventIndex> started = started_by(event(call));
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
  return is_sync(name(call)) || is_staged(started_by(event(call))) || lasts_until_end(call);
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
    if (launch != launch_.end()) on_stream_[work.lane].push_back({event(launch->second).start, added});
  }
  for (auto& [stream, list] : on_stream_) std::ranges::stable_sort(list, {}, &Launched::when);
}

RunBuilder::OperationIndex RunBuilder::latest_on(std::int32_t stream, Nanoseconds when, Nanoseconds ended) const {
  const auto list = on_stream_.find(stream);
  if (list == on_stream_.end()) return -1;
  auto next = std::ranges::upper_bound(list->second, when, {}, &Launched::when);
  while (next != list->second.begin()) {
    --next;
    if (run_.operations[at(next->operation)].recorded_end <= ended) return next->operation;
  }
  return -1;
}

void RunBuilder::add_stream_waits() {
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
        const OperationIndex earlier = latest_on(sync.on_stream, record->second, kAnyDate);
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

void RunBuilder::infer_wait(EventIndex call, EventIndex waits) {
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

void RunBuilder::add_full_gpu() {
  std::vector<Nanoseconds> ready(run_.operations.size(), begin_);
  for (const Dependency& dependency : run_.dependencies)
    ready[at(dependency.later)] = std::max(ready[at(dependency.later)],
                                           run_.operations[at(dependency.earlier)].recorded_end + run_.lag(dependency));
  std::vector<EventIndex> filling;  // in the order of their starts, those that may not have ended
  for (const EventIndex i : gpu_) {
    const KinetoEvent& work = event(i);
    const OperationIndex operation = operation_.at(i);
    std::erase_if(filling, [&](EventIndex k) { return event(k).end() + kClearlyApart < work.start; });
    if (work.kind == Kind::kKernel && work.start > ready[at(operation)] + kClearlyApart) {
      for (const EventIndex k : filling) {
        const auto tail = static_cast<Nanoseconds>(kTail * static_cast<double>(event(k).duration));
        if (event(k).lane == work.lane || std::abs(event(k).end() - work.start) > std::max(tail, kClearlyApart))
          continue;
        wait(operation_.at(k), operation, Reason::kFullGpu);
        ++full_;
        break;
      }
    }
    if (work.kind == Kind::kKernel && work.warps >= kFullMultiprocessor) filling.push_back(i);
  }
}

void RunBuilder::add_syncs() {
  for (const Waiting& waiting : waiting_) {
    const KinetoEvent& call = event(waiting.call);
    const std::span<const EventIndex> started = started_by(call);
    std::vector<OperationIndex> earlier;
    if (lasts_until_end(waiting.call)) {
      earlier.push_back(operation_.at(started.back()));
    } else if (!started.empty() && is_staged(started)) {
      earlier.push_back(staged(call, started.front()));
    } else if (may_wait(waiting.call)) {
      bool is_all_done = true;
      for (const auto& [stream, list] : on_stream_) {
        if (!waits_for_all(name(waiting.call)) && stream != stream_of_sync(waiting.call)) continue;
        earlier.push_back(latest_on(stream, call.start, call.end() + kClockError));
        is_all_done = is_all_done && earlier.back() == latest_on(stream, call.start, kAnyDate);
      }
      if (frees_memory(name(waiting.call)) && !is_all_done) earlier.clear();  // it did not wait
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
  for (const EventIndex i : gradients_) {
    const std::vector<EventIndex>& calls = calls_[at(event(i).lane)];
    auto call = std::ranges::lower_bound(calls, event(i).end(), {}, [&](EventIndex c) { return event(c).start; });
    OperationIndex after = -1;
    while (after < 0 && call != calls.begin()) {
      const std::span<const EventIndex> started = started_by(event(*--call));
      if (started.empty()) continue;
      const OperationIndex launched = operation_.at(started.back());
      if (run_.operations[at(launched)].collective < 0) after = launched;
    }
    if (after < 0) continue;  // of work before the recording
    run_.gradients.push_back({after, event(i).start, event(i).bytes});
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
