// How workers come together to collectives (CollectiveGroup in executor.hpp), and which of those that are ready go first.

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/program/executor.hpp"

namespace rehearse {

Seconds end_of_cycle(Seconds now, Seconds cycle) { return std::max(now, cycle * std::ceil(now / cycle * (1 - 1e-12))); }

void CollectiveGroup::come(RunningWorker& worker, int slot, OperationIndex operation) {
  const RunningWorker::StepState& step = worker.steps_[at(slot)];
  const auto label = static_cast<std::size_t>(step.program->operations[at(operation)].label);
  if (collectives_.size() <= label) collectives_.resize(label + 1);
  Collective& collective = collectives_[label];
  collective.arrivals.push_back({&worker, slot, operation});
  collective.workers += worker.workers();
  if (collective.workers < workers_) return;
  collective.ready = clock_.now();
  waiting_.push_back(static_cast<int>(label));
  launch();
}

const Operation& CollectiveGroup::operation_of(int label) const {
  const Arrival& first = collectives_[static_cast<std::size_t>(label)].arrivals.front();
  return first.worker->steps_[at(first.slot)].program->operations[at(first.operation)];
}

void CollectiveGroup::launch() {
  if (is_busy_ || waiting_.empty()) return;
  if (!rule_.cycle_time) return start({take_next()});
  if (cycle_is_scheduled_) return;
  cycle_is_scheduled_ = true;
  clock_.schedule(end_of_cycle(clock_.now(), *rule_.cycle_time), [this] {
    cycle_is_scheduled_ = false;
    start(take_fused());
  });
}

int CollectiveGroup::take_next() {
  auto next = waiting_.begin();
  if (rule_.order == Order::kPriority)
    next = std::min_element(waiting_.begin(), waiting_.end(),
                            [this](int a, int b) { return operation_of(a).priority < operation_of(b).priority; });
  const int label = *next;
  waiting_.erase(next);
  return label;
}

/// At least one, and as many of its kind as may be fused.
std::vector<int> CollectiveGroup::take_fused() {
  std::vector<int> fused;
  Bytes size{};
  while (!waiting_.empty()) {
    const int label = take_next();
    const Bytes bytes = operation_of(label).bytes;
    const bool is_too_large = rule_.largest && size + bytes > *rule_.largest;
    if (!fused.empty() && (is_too_large || operation_of(label).collective != operation_of(fused.front()).collective)) {
      waiting_.push_front(label);
      break;
    }
    fused.push_back(label);
    size += bytes;
  }
  return fused;
}

void CollectiveGroup::start(std::vector<int> labels) {
  is_busy_ = true;
  Bytes payload{};
  for (const int label : labels) payload += operation_of(label).bytes;
  const int label = labels.front();
  const Arrival& first = collectives_[static_cast<std::size_t>(label)].arrivals.front();
  const std::int64_t number = first.worker->steps_[at(first.slot)].number;
  Seconds since = begun_;  // of the one before, which had been prepared until then
  for (const int each : labels) since = std::max(since, collectives_[static_cast<std::size_t>(each)].ready);
  begun_ = clock_.now();
  for (const int each : labels) collectives_[static_cast<std::size_t>(each)].begun = begun_;
  communicator_->start(operation_of(label).collective, label, number, payload, since,
                       [this, labels = std::move(labels), payload] {
                         is_busy_ = false;
                         record(labels, payload, begun_);
                         for (const int done : labels) {
                           Collective& collective = collectives_[static_cast<std::size_t>(done)];
                           collective.workers = 0;
                           for (const Arrival& arrival : std::exchange(collective.arrivals, {}))
                             executor_.end(*arrival.worker, arrival.slot, arrival.operation, clock_.now());
                         }
                         executor_.tell_update();
                         launch();
                       });
}

/// Of each worker, from its coming with the last of them.
void CollectiveGroup::record(const std::vector<int>& labels, Bytes payload, Seconds began) {
  Recorder& recorder = executor_.cluster_.recorder;
  if (!recorder.keeps_activity) return;
  std::map<int, Seconds> came;  // by worker
  for (const int label : labels)
    for (const Arrival& arrival : collectives_[static_cast<std::size_t>(label)].arrivals) {
      Seconds& latest = came[arrival.worker->index()];
      latest = std::max(latest, arrival.worker->steps_[at(arrival.slot)].ready[at(arrival.operation)].date);
    }
  for (const Arrival& arrival : collectives_[static_cast<std::size_t>(labels.front())].arrivals) {
    const RunningWorker::StepState& step = arrival.worker->steps_[at(arrival.slot)];
    const Endpoint gpu = arrival.worker->place_.gpu;
    recorder.add(CollectiveSpan{gpu.machine,
                                gpu.gpu,
                                step.program->operations[at(arrival.operation)].collective,
                                labels.front(),
                                step.number,
                                workers_,
                                {came[arrival.worker->index()], clock_.now()},
                                began,
                                payload});
  }
}

std::string CollectiveGroup::waits_for(const std::function<std::string(int)>& name) const {
  for (std::size_t label = 0; label < collectives_.size(); ++label)
    if (const std::int64_t workers = collectives_[label].workers; workers > 0 && workers < workers_)
      return name(static_cast<int>(label)) + " is ready at " + std::to_string(workers) + " of " +
             std::to_string(workers_) + " workers";
  return "";
}

}  // namespace rehearse
