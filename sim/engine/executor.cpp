#include "sim/engine/executor.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace rehearse {

namespace {
constexpr int kSlotBits = 2;

int tag_of(int slot, OperationIndex operation) { return (operation << kSlotBits) | slot; }
int slot_of(int tag) { return static_cast<int>(tag & ((1 << kSlotBits) - 1)); }
OperationIndex operation_of(int tag) { return static_cast<OperationIndex>(tag >> kSlotBits); }

std::size_t at(OperationIndex index) { return static_cast<std::size_t>(index); }
}  // namespace

Rank::Rank(Executor& executor, const Place& place, int index) : executor_{executor}, place_{place}, index_{index} {
  Cluster& cluster = executor.cluster_;
  to_gpu_.emplace(executor.clock_, cluster.network, executor.traffic_, cluster.recorder,
                  std::vector{cluster.network.path(place.host, place.gpu)}, place.copies_are_alone,
                  [this](const Connection::Message& message, Seconds when) {
                    executor_.end(*this, slot_of(message.tag), operation_of(message.tag), when);
                    executor_.tell_update();
                  });
}

Seconds Rank::compute_end() const {
  Seconds end{};
  for (const Stream& stream : streams_) end = std::max(end, stream.gpu);
  return end;
}

Rank& Executor::add_rank(const Rank::Place& place) {
  return all_.emplace_back(*this, place, static_cast<int>(all_.size()));
}

void Executor::begin_step(Rank& rank, const Program& program, const std::vector<CollectiveGroup*>& groups,
                          std::int64_t number) {
  rank.slot_ = (rank.slot_ + 1) % static_cast<int>(rank.steps_.size());
  Rank::StepState& step = rank.steps_[at(rank.slot_)];
  if (step.left > 0) throw std::logic_error{"a step begins before the one three before it has ended"};
  step.program = &program;
  step.groups = &groups;
  step.index = rank.begun_++;
  step.number = number;
  step.left = static_cast<OperationIndex>(program.operations.size());
  step.pending.resize(program.operations.size());
  for (std::size_t i = 0; i < program.operations.size(); ++i) step.pending[i] = program.operations[i].needs;
  step.ready.assign(program.operations.size(), clock_.now());
  rank.streams_.resize(std::max(rank.streams_.size(), program.streams.size()));
  for (std::size_t s = 0; s < program.streams.size(); ++s) {
    Rank::Stream& stream = rank.streams_[s];
    stream.stretch = 0;
    stream.repeats = 0;
    stream.next = program.streams[s].empty() ? 0 : program.streams[s].front().begin;
  }
  rank.counters_.resize(std::max(rank.counters_.size(), static_cast<std::size_t>(program.counters)));
  rank.stalled_ = {};
  for (const OperationIndex first : program.first) issue(rank, rank.slot_, first);
  tell_update();
}

void Executor::issue(Rank& rank, int slot, OperationIndex index) {
  Rank::StepState& step = rank.steps_[at(slot)];
  const Operation& operation = step.program->operations[at(index)];
  const Seconds ready = step.ready[at(index)];
  switch (operation.kind) {
    case OperationKind::kDelay:
      return end(rank, slot, index, ready + operation.time);
    case OperationKind::kCopy:
      return rank.to_gpu_->copy(ready, operation.label, operation.bytes, operation.priority, tag_of(slot, index));
    case OperationKind::kBegin:
      rank.slowdown_ = client_.begin_kernels(rank, ready);
      rank.kernel_time_ = step.program->kernel_time * rank.slowdown_;
      for (Rank::Stream& stream : rank.streams_) {
        stream.host = std::max(stream.host, ready);
        stream.gpu = std::max(stream.gpu, ready);
      }
      return end(rank, slot, index, ready);
    case OperationKind::kCompute:
      return advance(rank, slot, static_cast<std::size_t>(operation.resource));
    case OperationKind::kCollective:
      return clock_.schedule(ready, [rank = &rank, tag = tag_of(slot, index)] {
        Rank::StepState& at_step = rank->steps_[at(slot_of(tag))];
        const auto group = static_cast<std::size_t>(at_step.program->operations[at(operation_of(tag))].resource);
        (*at_step.groups)[group]->come(*rank, slot_of(tag), operation_of(tag));
      });
    case OperationKind::kGate: {
      Rank::Counter& counter = rank.counters_[static_cast<std::size_t>(operation.resource)];
      if (counter.count >= step.index) return end(rank, slot, index, std::max(ready, counter.date));
      counter.waiting.push_back({slot, index});
      return;
    }
    case OperationKind::kUpdate:
      if (++updated_ == ranks_) {
        updated_ = 0;
        is_updated_ = true;
      }
      return end(rank, slot, index, ready);
    case OperationKind::kFence:
      end(rank, slot, index, ready);
      return client_.know_end(rank, ready);
  }
}

void Executor::end(Rank& rank, int slot, OperationIndex index, Seconds when) {
  Rank::StepState& step = rank.steps_[at(slot)];
  const Program& program = *step.program;
  const Operation& operation = program.operations[at(index)];
  --step.left;
  if (operation.signals >= 0) advance_counter(rank, operation.signals, when);
  for (OperationIndex e = operation.first_after; e < operation.last_after; ++e) {
    const OperationIndex later = program.after[at(e)];
    step.ready[at(later)] = std::max(step.ready[at(later)], when);
    if (--step.pending[at(later)] == 0) issue(rank, slot, later);
  }
}

void Executor::advance_counter(Rank& rank, int index, Seconds when) {
  Rank::Counter& counter = rank.counters_[static_cast<std::size_t>(index)];
  ++counter.count;
  counter.date = when;
  for (const Rank::Waiting waiting : std::exchange(counter.waiting, {})) {
    Rank::StepState& step = rank.steps_[at(waiting.slot)];
    step.ready[at(waiting.operation)] = std::max(step.ready[at(waiting.operation)], when);
    issue(rank, waiting.slot, waiting.operation);
  }
}

void Executor::advance(Rank& rank, int slot, std::size_t s) {
  Rank::Stream& stream = rank.streams_[s];
  if (stream.is_advancing) return;  // called by an operation that it has just ended
  stream.is_advancing = true;
  Rank::StepState& step = rank.steps_[at(slot)];
  const std::vector<Stretch>& stretches = step.program->streams[s];
  while (stream.stretch < stretches.size()) {
    const Stretch& stretch = stretches[stream.stretch];
    const Operation& operation = step.program->operations[at(stream.next)];
    if (step.pending[at(stream.next)] > 0) break;
    Seconds ready = stream.host;
    if (step.ready[at(stream.next)] > ready) {
      ready = step.ready[at(stream.next)];
      const Seconds stall = ready + operation.host - std::max(stream.gpu, stream.host + operation.host);
      if (stall > Seconds{}) rank.stalled_ += stall;
    }
    stream.host = ready + operation.host;
    if (operation.is_chain) {
      stream.gpu = std::max(stream.gpu + operation.time, ready + operation.critical);
    } else {
      const Seconds start = std::max(stream.gpu, stream.host);
      stream.gpu = start + operation.time * rank.slowdown_;
      cluster_.recorder.add(KernelSpan{rank.place_.gpu.machine,
                                       rank.place_.gpu.gpu,
                                       operation.label,
                                       {start, stream.gpu},
                                       operation.memory * rank.slowdown_});
    }
    const OperationIndex ended = stream.next;
    const bool is_last_time = stream.repeats + 1 == stretch.repeat;
    if (++stream.next == stretch.end) {
      if (++stream.repeats < stretch.repeat) {
        stream.next = stretch.begin;
      } else {
        stream.repeats = 0;
        if (++stream.stretch < stretches.size()) stream.next = stretches[stream.stretch].begin;
      }
    }
    if (is_last_time) end(rank, slot, ended, stream.gpu);
  }
  stream.is_advancing = false;
}

void Executor::tell_update() {
  if (std::exchange(is_updated_, false)) client_.update();
}

void CollectiveGroup::come(Rank& rank, int slot, OperationIndex operation) {
  const Rank::StepState& step = rank.steps_[at(slot)];
  const auto label = static_cast<std::size_t>(step.program->operations[at(operation)].label);
  if (collectives_.size() <= label) collectives_.resize(label + 1);
  Collective& collective = collectives_[label];
  collective.arrivals.push_back({&rank, slot, operation});
  collective.ranks += rank.ranks();
  if (collective.ranks < ranks_) return;
  waiting_.push_back(static_cast<int>(label));
  launch();
}

const Operation& CollectiveGroup::operation_of(int label) const {
  const Arrival& first = collectives_[static_cast<std::size_t>(label)].arrivals.front();
  return first.rank->steps_[at(first.slot)].program->operations[at(first.operation)];
}

void CollectiveGroup::launch() {
  if (is_busy_ || waiting_.empty()) return;
  if (!rule_.cycle_time) return start({take_next()});
  if (cycle_is_scheduled_) return;
  cycle_is_scheduled_ = true;
  const double cycles = std::ceil(clock_.now() / *rule_.cycle_time * (1 - 1e-12));
  clock_.schedule(std::max(clock_.now(), *rule_.cycle_time * cycles), [this] {
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

/// At least one, and as many as may be fused.
std::vector<int> CollectiveGroup::take_fused() {
  std::vector<int> fused;
  Bytes size{};
  while (!waiting_.empty()) {
    const int label = take_next();
    const Bytes bytes = operation_of(label).bytes;
    if (!fused.empty() && rule_.largest && size + bytes > *rule_.largest) {
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
  const std::int64_t number = first.rank->steps_[at(first.slot)].number;
  communicator_->start(operation_of(label).collective, label, number, payload, [this, labels = std::move(labels)] {
    is_busy_ = false;
    for (const int done : labels) {
      Collective& collective = collectives_[static_cast<std::size_t>(done)];
      collective.ranks = 0;
      for (const Arrival& arrival : std::exchange(collective.arrivals, {}))
        executor_.end(*arrival.rank, arrival.slot, arrival.operation, clock_.now());
    }
    executor_.tell_update();
    launch();
  });
}

std::string CollectiveGroup::waits_for(const std::function<std::string(int)>& name) const {
  for (std::size_t label = 0; label < collectives_.size(); ++label)
    if (const std::int64_t ranks = collectives_[label].ranks; ranks > 0 && ranks < ranks_)
      return name(static_cast<int>(label)) + " is ready at " + std::to_string(ranks) + " of " + std::to_string(ranks_) +
             " workers";
  return "";
}

}  // namespace rehearse
