#include <algorithm>
#include <limits>
#include <optional>

#include "workloads/traces/detail/run_builder.hpp"
#include "workloads/traces/period.hpp"

namespace rehearse {

namespace {

constexpr Nanoseconds kHandOverSilence = 30'000;  // a thread that is silent for less goes on by itself

bool is_empty(const RecordedStep& step) { return step.recorded_end <= step.recorded_start; }

}  // namespace

void RunBuilder::find_threads() {
  std::vector<std::vector<Interval>> busy(trace_.threads.size());
  std::vector<bool> takes_part(trace_.threads.size());
  std::vector<Nanoseconds> call_end(trace_.threads.size(), std::numeric_limits<Nanoseconds>::min());
  for (EventIndex i = 0; i < trace_.events.size(); ++i) {
    const KinetoEvent& event = trace_.events[i];
    if (event.kind == Kind::kAnnotation && has(name(i), "DataLoader")) {
      std::vector<Interval>& inputs = inputs_[at(event.lane)];
      inputs.push_back({event.start, inputs.empty() ? event.end() : std::max(event.end(), inputs.back().end)});
    }
    if ((event.kind == Kind::kAnnotation || event.kind == Kind::kOperator) && event.bytes >= 0)
      with_bytes_[at(event.lane)].push_back(i);
    if (event.kind == Kind::kOperator && name(i) == "torch::autograd::AccumulateGrad") gradients_.push_back(i);
    if (event.kind != Kind::kOperator && event.kind != Kind::kCall) continue;
    std::vector<Interval>& intervals = busy[at(event.lane)];
    if (!intervals.empty() && event.start <= intervals.back().end)
      intervals.back().end = std::max(intervals.back().end, event.end());
    else
      intervals.push_back({event.start, event.end()});
    const auto started = of_correlation_.find(event.correlation);
    const bool is_launch = started != of_correlation_.end() && started->second.call == kNoCall;
    const bool matters = event.kind == Kind::kCall && (is_launch || is_sync(name(i)) || is_stream_wait(name(i)));
    if (event.kind == Kind::kOperator || matters) takes_part[at(event.lane)] = true;
    if (!matters || event.start < call_end[at(event.lane)]) continue;  // a call inside of one that matters
    call_end[at(event.lane)] = event.end();
    calls_[at(event.lane)].push_back(i);
    if (!is_launch) continue;
    launches_[at(event.lane)].push_back(i);
    started->second.call = i;
    for (const EventIndex gpu : started->second.work) launch_.emplace(gpu, i);
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

void RunBuilder::find_steps() {
  for (EventIndex i = 0; i < trace_.events.size(); ++i) {
    if (event(i).kind != Kind::kAnnotation || !name(i).starts_with("ProfilerStep#")) continue;
    if (run_.steps.empty()) loop_thread_ = event(i).lane;
    if (event(i).lane != loop_thread_) continue;
    if (!run_.steps.empty() && event(i).start == run_.steps.back().recorded_start) {
      ++empty_steps_;  // of two that begin together the longer one comes first
      continue;
    }
    if (!run_.steps.empty()) run_.steps.back().recorded_end = event(i).start;
    run_.steps.push_back({name(i), event(i).start, event(i).end()});
    begin_ = std::min(begin_, event(i).start);
  }
  if (run_.steps.empty() || !is_empty(run_.steps.back())) return;
  run_.steps.pop_back();
  ++empty_steps_;
}

void RunBuilder::find_period_of_launches() {
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
    if (!run_.steps.empty() && is_empty(run_.steps.back())) continue;  // launches of one date are of one step
    step_of_launch_.emplace(launch_.at(launched_[i]), run_.steps.size());
    run_.steps.push_back({"step " + std::to_string(run_.steps.size() + 1), called(i), called(i)});
  }
  run_.steps.pop_back();  // that may have no end
  if (run_.steps.empty()) {
    step_of_launch_.clear();
    return;
  }
  run_.remarks.push_back("no step is marked: " + std::to_string(period->length) +
                         " kernels and copies that repeat count as one, from launch to launch");
}

std::vector<RunBuilder::Point> RunBuilder::points() const {
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

RunBuilder::OperationIndex RunBuilder::add_until(std::int32_t thread, Nanoseconds when) {
  Reached& reached = reached_[at(thread)];
  const Nanoseconds start = reached.last < 0 ? begin_ : std::min(reached.when, when);
  const OperationIndex added =
      add({.lane = thread, .duration = when - start, .recorded_start = start, .recorded_end = when});
  if (reached.last >= 0) wait(reached.last, added, Reason::kThread);
  reached.last = added;
  reached.when = when;
  return added;
}

const std::pair<Nanoseconds, RunBuilder::OperationIndex>* RunBuilder::waker(std::int32_t thread) const {
  if (idle_.empty()) return nullptr;
  const std::pair<Nanoseconds, OperationIndex>& latest = reached_[at(-idle_.rbegin()->second)].sleep;
  return reached_[at(thread)].last >= 0 && latest.first <= reached_[at(thread)].when ? nullptr : &latest;
}

void RunBuilder::add_wake(std::int32_t thread, Nanoseconds when) {
  idle_.erase({reached_[at(thread)].sleep.first, -thread});
  const auto* by = waker(thread);
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

bool RunBuilder::is_input(std::int32_t thread, Nanoseconds start, Nanoseconds end) const {
  const std::vector<Interval>& inputs = inputs_[at(thread)];
  const auto later = std::ranges::upper_bound(inputs, start + kClockError, {}, &Interval::start);
  return later != inputs.begin() && std::prev(later)->end >= end - kClockError;
}

bool RunBuilder::copies_samples_after(std::int32_t thread, Nanoseconds when) const {
  const std::vector<EventIndex>& calls = launches_[at(thread)];
  const auto call = std::ranges::lower_bound(calls, when, {}, [&](EventIndex i) { return event(i).start; });
  return call != calls.end() && has(name(started_by(*call).front()), "HtoD");
}

void RunBuilder::add_host_work() {
  for (const Point& point : points()) {
    Reached& reached = reached_[at(point.thread)];
    switch (point.kind) {
      case Point::Kind::kWake:
        add_wake(point.thread, point.when);
        break;
      case Point::Kind::kSleep:
        reached.sleep = {point.when, add_until(point.thread, point.when)};
        idle_.emplace(point.when, -point.thread);
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

void RunBuilder::begin_step(std::size_t step, OperationIndex mark) {
  if (step < run_.steps.size())
    run_.operations[at(mark)].step = static_cast<std::int32_t>(step);
  else
    run_.end_of_steps = mark;
}

void RunBuilder::add_call(const Point& point) {
  const KinetoEvent& call = event(point.event);
  const OperationIndex before = add_until(point.thread, call.start);
  run_.operations[at(before)].name = call.name;
  began_.emplace(point.event, before);
  if (const auto step = step_of_launch_.find(point.event); step != step_of_launch_.end())
    begin_step(step->second, before);
  const std::span<const EventIndex> started = started_by(point.event);
  if (!may_wait(point.event) && (started.empty() || run_.queue_depth == 0)) return;
  const OperationIndex rest = add_until(point.thread, std::max(call.end(), call.start));
  run_.operations[at(rest)].name = call.name;
  waiting_.push_back({rest, point.event});
}

}  // namespace rehearse
