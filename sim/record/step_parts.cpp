#include "sim/record/step_parts.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

using WorkerId = std::pair<MachineIndex, int>;

/// How long a worker of a synchronous step would wait for the slowest one, and how much of that because of a
/// checkpoint.
struct Lag {
  Seconds time{}, by_checkpoint{};
};

/// [steps of the record] from the date at which a worker would have computed its gradients, had it had all variables at
/// once, to that of the slowest worker that counts.
std::vector<Lag> lags(const Scenario& scenario, const RunRecord& record) {
  struct Ready {
    Seconds date, pause;  // before the step
    std::size_t step;     // of the record
    std::int64_t workers;
  };
  const std::vector<StepSpan>& steps = record.recorder.steps;
  std::map<std::int64_t, std::vector<Ready>> by_step;
  std::map<WorkerId, Seconds> pauses;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepSpan& step = steps[i];
    Seconds& pause = pauses[{step.machine, step.gpu}];
    by_step[step.global_step].push_back(
        {step.compute_end - step.times.stalled, pause, i, record.stands_for[static_cast<std::size_t>(step.machine)]});
    pause = step.times.pause;
  }
  const std::int64_t needed = needed_workers(scenario.count(Role::kWorker), backup_workers(scenario));
  std::vector<Lag> result(steps.size());
  for (auto& [number, ready] : by_step) {
    std::stable_sort(ready.begin(), ready.end(), [](const Ready& a, const Ready& b) { return a.date < b.date; });
    std::int64_t before = 0;
    auto slowest = ready.begin();
    for (auto it = ready.begin(); it != ready.end() && before < needed; before += it->workers, ++it) slowest = it;
    for (const Ready& one : ready) {
      const Seconds lag = std::max(Seconds{}, slowest->date - one.date);
      result[one.step] = {lag, std::min(lag, slowest->pause)};
    }
  }
  return result;
}

class Mean {
 public:
  Mean(const Scenario& scenario, const RunRecord& record) : scenario_{scenario}, record_{record} {
    const Strategy& strategy = scenario.training.strategy;
    waits_after_ = strategy.kind->is_in_lockstep() && strategy.exchange.overlap != Overlap::kForward;
    const ServerRules* servers = strategy.kind->servers();
    waits_at_barrier_ = servers != nullptr && !servers->pushes_back_each_variable;
    updates_itself_ = updates_itself(scenario);
    fetches_models_ = strategy.kind->exchanges_models();
  }

  StepParts take() {
    const bool has_lags = record_.is_synchronous && workers_per_model(scenario_) == 1;
    const std::vector<Lag> lags_of =
        has_lags ? lags(scenario_, record_) : std::vector<Lag>(record_.recorder.steps.size());
    std::map<WorkerId, Lag> last;
    for (std::size_t i = 0; i < record_.recorder.steps.size(); ++i) {
      const StepSpan& step = record_.recorder.steps[i];
      Lag& before = last[{step.machine, step.gpu}];
      if (const std::int64_t count = steps_in_window(step, record_); count > 0)
        add(step, count, waits_after_ ? lags_of[i] : before);
      before = lags_of[i];
    }
    share_held();
    add_stops();
    if (sum_.steps > 0)
      for (Seconds* part :
           {&sum_.kernels, &sum_.launch, &sum_.update, &sum_.host_update, &sum_.update_dispatch, &sum_.host,
            &sum_.overhead, &sum_.host_copies, &sum_.beside_fetch, &sum_.load, &sum_.input, &sum_.server, &sum_.network,
            &sum_.latency, &sum_.copies, &sum_.bubble, &sum_.others, &sum_.checkpoint, &sum_.stopped})
        *part = *part / sum_.steps;
    drop_rounding();
    return sum_;
  }

 private:
  void add(const StepSpan& step, std::int64_t count, Lag lag) {
    const auto m = static_cast<std::size_t>(step.machine);
    const auto weight = static_cast<double>(count * record_.stands_for[m]);
    const Seconds length = step.span.end - step.span.start;
    const Seconds update = updates_itself_
                               ? std::clamp(record_.update_per_step[m], Seconds{}, step.span.end - step.compute_end)
                               : Seconds{};
    StepTimes times = step.times;
    const Seconds waits = times.server + times.network + times.latency + times.copies;
    const HostWork& planned = record_.host_work[m];
    const Seconds host_update = std::min(update, planned.update);
    const Seconds update_dispatch = std::min(update - host_update, planned.update_dispatch);
    // A fetch that ends after the kernels began before them.
    const bool is_fetch_longer = fetches_models_ && waits > Seconds{};
    const Seconds beside_fetch = is_fetch_longer ? times.kernels + times.load + times.input : Seconds{};
    if (is_fetch_longer) times.kernels = times.load = times.input = {};
    const Seconds hidden = times.kernels * planned.hidden_share;
    const Seconds kernels = times.kernels - hidden, launch = kernels * planned.launch_share;
    Seconds host = std::max(Seconds{}, length - times.held - times.load - times.input - times.kernels - beside_fetch -
                                           update - waits - times.bubble);
    const Seconds host_copies = std::min(host, planned.copies);
    host += hidden - host_copies;

    // For the slowest worker it waits before anything else: at the barrier, or for what the others contribute to.
    Seconds others = record_.is_synchronous ? Seconds{} : std::exchange(times.held, Seconds{});
    const Seconds at_barrier = std::min(times.held, lag.time);
    times.held -= at_barrier;
    const Seconds within = waits_at_barrier_ ? Seconds{} : std::min(waits, lag.time - at_barrier);
    const double kept = waits > Seconds{} ? 1 - within / waits : 1;
    const Seconds for_checkpoint = std::min(lag.by_checkpoint, at_barrier + within);
    others += at_barrier + within - for_checkpoint;

    sum_.steps += weight;
    sum_.kernels += (kernels - launch) * weight;
    sum_.launch += launch * weight;
    sum_.update += (update - host_update - update_dispatch) * weight;
    sum_.host_update += host_update * weight;
    sum_.update_dispatch += update_dispatch * weight;
    sum_.host += host * weight;
    sum_.overhead += std::min(host, planned.overhead - planned.copies) * weight;
    sum_.load += times.load * weight;
    sum_.input += times.input * weight;
    sum_.server += times.server * kept * weight;
    sum_.network += times.network * kept * weight;
    sum_.latency += times.latency * kept * weight;
    sum_.copies += times.copies * kept * weight;
    sum_.host_copies += host_copies * weight;
    sum_.beside_fetch += beside_fetch * weight;
    sum_.bubble += times.bubble * weight;
    sum_.others += others * weight;
    sum_.checkpoint += (times.pause + for_checkpoint) * weight;
    held_ += times.held * weight;
  }

  /// Differences of dates that are equal.
  void drop_rounding() {
    constexpr double kRounding = 1e-9;
    const Seconds least = sum_.total() * kRounding;
    for (Seconds* part :
         {&sum_.kernels, &sum_.launch, &sum_.update, &sum_.host_update, &sum_.update_dispatch, &sum_.host,
          &sum_.host_copies, &sum_.beside_fetch, &sum_.load, &sum_.input, &sum_.server, &sum_.network, &sum_.latency,
          &sum_.copies, &sum_.bubble, &sum_.others, &sum_.checkpoint, &sum_.stopped})
      if (*part < least) *part = {};
  }

  /// At the barrier for those whose messages came later: for what messages wait for.
  void share_held() {
    const Seconds waits = sum_.server + sum_.network + sum_.latency + sum_.copies;
    if (!(waits > Seconds{})) {
      sum_.others += held_;
      return;
    }
    const double factor = 1 + held_ / waits;
    for (Seconds* part : {&sum_.server, &sum_.network, &sum_.latency, &sum_.copies}) *part = *part * factor;
  }

  /// Whoever trains before and afterwards stands still meanwhile.
  void add_stops() {
    const Span window = record_.window;
    Seconds stopped{};
    for (const Span& stop : record_.stopped)
      stopped += std::max(Seconds{}, std::min(stop.end, window.end) - std::max(stop.start, window.start));
    const Seconds trained = sum_.total();
    const Seconds length = window.end - window.start - stopped;
    if (stopped > Seconds{} && length > Seconds{}) sum_.stopped = trained * (stopped / length);
  }

  const Scenario& scenario_;
  const RunRecord& record_;
  bool waits_after_ = false;       // its kernels, in the same step
  bool waits_at_barrier_ = false;  // before the next step
  bool updates_itself_ = false;
  bool fetches_models_ = false;
  StepParts sum_;
  Seconds held_{};
};

}  // namespace

bool updates_itself(const Scenario& scenario) {
  const Strategy& strategy = scenario.training.strategy;
  return strategy.kind->updates_on_workers() && strategy.exchange.overlap != Overlap::kForward;
}

bool ends_in_window(const StepSpan& step, const RunRecord& record) {
  const Seconds rounding = (record.window.end - record.window.start) * 1e-6;
  return step.span.end >= record.window.start - rounding && step.span.end <= record.window.end + rounding;
}

std::int64_t steps_in_window(const StepSpan& step, const RunRecord& record) {
  if (!ends_in_window(step, record)) return 0;
  const Seconds rounding = (record.window.end - record.window.start) * 1e-6;
  return step.repeats - (step.span.end <= record.window.start + rounding ? 1 : 0);
}

StepParts mean_step(const Scenario& scenario, const RunRecord& record) { return Mean{scenario, record}.take(); }

}  // namespace rehearse
