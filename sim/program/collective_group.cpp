#include "sim/program/collective_group.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/program/executor.hpp"

namespace rehearse {

Seconds end_of_cycle(Seconds now, Seconds cycle) { return std::max(now, cycle * std::ceil(now / cycle * (1 - 1e-12))); }

void CollectiveGroup::come(const Counters::Place& place, const Collective& collective) {
  if (meetings_.size() <= at(collective.label)) meetings_.resize(at(collective.label) + 1);
  Meeting& meeting = meetings_[at(collective.label)];
  if (meeting.arrivals.empty()) meeting.collective = &collective;
  meeting.arrivals.push_back(place);
  if (collective.of != PayloadOf::kAll) meeting.payloads.push_back(collective.bytes);
  meeting.workers += place.worker->workers();
  if (meeting.workers < workers_) return;
  meeting.ready = clock_.now();
  waiting_.push_back(collective.label);
  launch();
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
                            [this](int a, int b) { return collective(a).priority < collective(b).priority; });
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
    const Bytes bytes = collective(label).bytes;
    const bool is_too_large = rule_.largest && size + bytes > *rule_.largest;
    if (!fused.empty() && (is_too_large || collective(label).kind != collective(fused.front()).kind)) {
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
  Seconds since = begun_;  // of the one before, which had been prepared until then
  begun_ = clock_.now();
  for (const int label : labels) {
    Meeting& meeting = meetings_[at(label)];
    payload += meeting.collective->bytes;
    since = std::max(since, meeting.ready);
    meeting.begun = begun_;
  }
  const int label = labels.front();
  const Counters::Place first = meetings_[at(label)].arrivals.front();
  const bool is_equal = collective(label).of == PayloadOf::kAll;
  communicator_->start(collective(label).kind, label, first.worker->number_of(first.operation),
                       is_equal ? Payload{payload} : take_payloads(label), since,
                       [this, labels = std::move(labels), payload] { end(labels, payload); });
}

Payload CollectiveGroup::take_payloads(int label) {
  const std::vector<Endpoint>& gpus = communicator_->gpus();
  Meeting& meeting = meetings_[at(label)];
  Payload unequal{collective(label).of, gpus.size()};
  const std::size_t each = gpus.size() / meeting.arrivals.size();  // GPUs of a worker
  for (std::size_t i = 0; i < meeting.arrivals.size(); ++i) {
    const auto first = std::ranges::find(gpus, meeting.arrivals[i].worker->gpu()) - gpus.begin();
    std::fill_n(unequal.of_ranks.begin() + first, each, meeting.payloads[i]);
  }
  meeting.payloads.clear();
  return unequal;
}

void CollectiveGroup::end(const std::vector<int>& labels, Bytes payload) {
  is_busy_ = false;
  record(labels, payload);
  for (const int label : labels) {
    meetings_[at(label)].workers = 0;
    for (const Counters::Place& place : std::exchange(meetings_[at(label)].arrivals, {}))
      place.worker->end(place.operation, clock_.now());
  }
  executor_.tell_update();
  launch();
}

/// Of each worker, from its coming with the last of them.
void CollectiveGroup::record(const std::vector<int>& labels, Bytes payload) const {
  Recorder& recorder = executor_.cluster().recorder;
  if (!recorder.keeps_activity) return;
  std::map<int, Seconds> came;  // by worker
  for (const int label : labels)
    for (const Counters::Place& place : meetings_[at(label)].arrivals) {
      Seconds& latest = came[place.worker->index()];
      latest = std::max(latest, place.worker->ready_at(place.operation));
    }
  for (const Counters::Place& place : meetings_[at(labels.front())].arrivals)
    recorder.add(CollectiveSpan{place.worker->gpu().machine,
                                place.worker->gpu().gpu,
                                collective(labels.front()).kind,
                                labels.front(),
                                place.worker->number_of(place.operation),
                                workers_,
                                {came[place.worker->index()], clock_.now()},
                                begun_,
                                payload});
}

std::string CollectiveGroup::waits_for(const std::function<std::string(int)>& name) const {
  for (std::size_t label = 0; label < meetings_.size(); ++label)
    if (const std::int64_t workers = meetings_[label].workers; workers > 0 && workers < workers_)
      return name(static_cast<int>(label)) + " is ready at " + std::to_string(workers) + " of " +
             std::to_string(workers_) + " workers";
  return "";
}

}  // namespace rehearse
