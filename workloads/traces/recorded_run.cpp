#include "workloads/traces/recorded_run.hpp"

#include <algorithm>
#include <limits>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "workloads/traces/detail/circle.hpp"
#include "workloads/traces/detail/run_builder.hpp"

namespace rehearse {

RunBuilder::RunBuilder(const KinetoTrace& trace) : trace_{trace} {
  run_.file_name = trace.file_name;
  run_.rank = trace.rank;
  run_.world_size = trace.world_size;
  run_.gpu = trace.gpu;
  run_.names = trace.names;
  run_.threads = trace.threads;
  run_.streams = trace.streams;
  run_.remarks = trace.remarks;
  calls_.resize(trace.threads.size());
  launches_.resize(trace.threads.size());
  inputs_.resize(trace.threads.size());
  busy_.resize(trace.threads.size());
  reached_.resize(trace.threads.size());
  with_bytes_.resize(trace.threads.size());
}

RecordedRun RunBuilder::build() {
  find_gpu_work();
  find_threads();
  find_steps();
  if (run_.steps.empty() && empty_steps_ == 0) find_period_of_launches();
  measure_latencies();
  measure_queue();
  add_host_work();
  add_gpu_work();
  add_stream_waits();
  add_full_gpu();
  add_syncs();
  add_gradients();
  put_in_order();
  remark();
  return std::move(run_);
}

void RunBuilder::put_in_order() {
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
  for (RecordedGradient& gradient : run_.gradients) gradient.after = place[at(gradient.after)];
  if (run_.end_of_steps >= 0) run_.end_of_steps = place[at(run_.end_of_steps)];
}

void RunBuilder::refuse_circle(const std::vector<int>& waits) const {
  std::string text;
  for (const OperationIndex i : circle_of(run_.dependencies, waits)) {
    const RecordedOperation& operation = run_.operations[at(i)];
    text += (text.empty() ? "" : " waits for ") +
            in_quotes(operation.name < 0 ? std::string{"host work"} : run_.names[at(operation.name)]) + " at " +
            std::to_string(operation.recorded_start / 1000) + " us";
  }
  throw InputError{trace_.file_name + ": events wait for each other in a circle: " + text};
}

void RunBuilder::remark() {
  const auto say = [&](std::int64_t count, const std::string& text) {
    if (count > 0) run_.remarks.push_back(std::to_string(count) + ' ' + text);
  };
  say(trace_.without_duration, "events have no start or no duration: left out");
  say(without_launch_, "of " + std::to_string(gpu_.size()) + " kernels and copies were launched by no recorded call");
  say(inferred_waits_,
      "waits of a stream do not say for which event: taken as for the latest to end on another stream, of what was "
      "launched before");
  say(full_, "kernels were ready while one of another stream filled the GPU: they wait for its end");
  say(empty_steps_, "marked steps end at the date at which they begin: left out");
  say(unused_waits_, "waits of a stream for an event have no work on both sides");
  say(inputs_waited_for_, "silences of a thread before it copies to the GPU count as waits for samples");
  if (run_.steps.empty())
    run_.remarks.emplace_back("no step is marked and nothing repeats: the whole recording counts as one");
  if (run_.world_size > 1)
    run_.remarks.push_back("rank " + std::to_string(run_.rank) + " of " + std::to_string(run_.world_size));
}
Nanoseconds RecordedRun::recorded_start() const {
  Nanoseconds start = operations.front().recorded_start;
  for (const RecordedOperation& operation : operations) start = std::min(start, operation.recorded_start);
  return start;
}

std::span<const Dependency> RecordedRun::waits_of(std::int32_t operation) const {
  const auto later = [](const Dependency& dependency, std::int32_t than) { return dependency.later < than; };
  const auto first = std::lower_bound(dependencies.begin(), dependencies.end(), operation, later);
  return {first, std::lower_bound(first, dependencies.end(), operation + 1, later)};
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
  if (!run.has_dates) return {};
  const auto operation_at = [&](std::int32_t i) -> const RecordedOperation& {
    return run.operations[static_cast<std::size_t>(i)];
  };
  const auto latest = std::ranges::max_element(run.operations, {}, &RecordedOperation::recorded_end);
  std::int32_t here =
      run.end_of_steps >= 0 ? run.end_of_steps : static_cast<std::int32_t>(latest - run.operations.begin());
  const Nanoseconds from = run.steps.empty() ? run.recorded_start() : run.steps.front().recorded_start;
  UnexplainedTime unexplained{.of = operation_at(here).recorded_end - from};
  const auto add = [&](std::int32_t before, Nanoseconds time) {
    if (time <= 0) return;
    unexplained.total = std::min(unexplained.total + time, unexplained.of);  // they do not overlap
    unexplained.gaps.push_back({before, time});
  };
  while (here >= 0 && operation_at(here).recorded_end > from) {
    const RecordedOperation& operation = operation_at(here);
    std::int32_t before = -1;
    Nanoseconds ready = 0;
    for (const Dependency& dependency : run.waits_of(here)) {
      const Nanoseconds date = operation_at(dependency.earlier).recorded_end + run.lag(dependency);
      if (before < 0 || date > ready) {
        before = dependency.earlier;
        ready = date;
      }
    }
    if (operation.is_idle)
      add(here, operation.duration);
    else if (before >= 0 && operation.kind == RecordedOperation::Kind::kGpu)
      add(here, operation.recorded_start - ready - kClearlyApart);
    here = before;
  }
  std::ranges::stable_sort(unexplained.gaps, std::ranges::greater{}, &UnexplainedTime::Gap::time);
  return unexplained;
}

namespace {

constexpr double kFallsBehind = 0.05;  // of the time

}  // namespace

GpuSteps gpu_steps(const RecordedRun& run) {
  if (!run.has_dates || run.steps.empty()) return {};
  const std::size_t count = run.steps.size();
  const auto mark = [&](std::size_t s) {
    return s < count ? run.steps[s].recorded_start : run.steps.back().recorded_end;
  };
  std::vector<Nanoseconds> marks;
  for (std::size_t s = 0; s <= count; ++s) marks.push_back(mark(s));
  constexpr Nanoseconds kNone = std::numeric_limits<Nanoseconds>::min();
  std::vector<std::int32_t> first(count + 1, -1), last(count + 1, -1);  // of what was launched in each, and afterwards
  std::vector<Nanoseconds> done(count + 1, kNone);  // by the GPU, of what was launched before a mark
  const auto operation_at = [&](std::int32_t i) -> const RecordedOperation& {
    return run.operations[static_cast<std::size_t>(i)];
  };
  for (const Dependency& launch : run.dependencies) {
    if (launch.reason != Dependency::Reason::kLaunch) continue;
    const Nanoseconds called = operation_at(launch.earlier).recorded_end;
    const RecordedOperation& work = operation_at(launch.later);
    const auto step = static_cast<std::size_t>(std::ranges::upper_bound(marks, called) - marks.begin());
    if (step <= count) done[step] = std::max(done[step], work.recorded_end);
    if (step == 0) continue;
    std::int32_t& earliest = first[step - 1];
    if (earliest < 0 || work.recorded_start < operation_at(earliest).recorded_start) earliest = launch.later;
    std::int32_t& latest = last[step - 1];
    if (latest < 0 || work.recorded_end > operation_at(latest).recorded_end) latest = launch.later;
  }
  for (std::size_t s = 1; s <= count; ++s) done[s] = std::max(done[s], done[s - 1]);
  const auto behind = [&](std::size_t s) { return std::max<Nanoseconds>(done[s] == kNone ? 0 : done[s] - mark(s), 0); };
  const std::size_t from = count > 2 ? 1 : 0;  // what was launched before the recording is not in it
  const auto most = static_cast<Nanoseconds>(kFallsBehind * static_cast<double>(mark(count) - mark(from)));
  if (behind(count) - behind(from) <= std::max(most, kClearlyApart)) return {};
  GpuSteps steps{.first = first, .ends_with_last = first[count] < 0};
  if (steps.ends_with_last) steps.first[count] = last[count - 1];
  if (std::ranges::find(steps.first, -1) != steps.first.end()) return {};
  for (std::size_t s = 0; s < count; ++s)
    if (recorded_length(run, steps, s) <= 0) return {};
  return steps;
}

Nanoseconds recorded_length(const RecordedRun& run, const GpuSteps& gpu, std::size_t step) {
  if (gpu.first.empty()) return run.steps[step].recorded_end - run.steps[step].recorded_start;
  const RecordedOperation& first = run.operations[static_cast<std::size_t>(gpu.first[step])];
  const RecordedOperation& next = run.operations[static_cast<std::size_t>(gpu.first[step + 1])];
  const bool to_its_end = gpu.ends_with_last && step + 1 == run.steps.size();
  return (to_its_end ? next.recorded_end : next.recorded_start) - first.recorded_start;
}

RecordedRun recorded_run(const KinetoTrace& trace) { return RunBuilder{trace}.build(); }

std::int32_t first_collective(const RecordedRun& run, const RecordedStep& step) {
  std::int32_t first = -1;
  const auto start = [&](std::int32_t i) { return run.operations[static_cast<std::size_t>(i)].recorded_start; };
  for (const RecordedCollective& collective : run.collectives) {
    const std::int32_t i = collective.operation;
    const bool is_in_step = start(i) >= step.recorded_start && start(i) < step.recorded_end;
    if (is_in_step && (first < 0 || start(i) < start(first))) first = i;
  }
  return first;
}

}  // namespace rehearse
