#include "sim/program/executor.hpp"

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

/// Of one machine, or one NVLink domain.
bool is_between_gpus(const Network& network, PathIndex path) {
  const Endpoint from = network.source(path), to = network.destination(path);
  return !network.topology().crosses_network(from, to) && from.gpu != Endpoint::kHost && to.gpu != Endpoint::kHost;
}
}  // namespace

RunningWorker::RunningWorker(Executor& executor, Place place, int index, OwnedClock clock)
    : executor_{executor},
      place_{std::move(place)},
      index_{index},
      clock_{clock},
      own_counters_{std::make_shared<Counters>()},
      connections_(place_.connections.size()) {}

CopyEngine& RunningWorker::copies(int direction) {
  std::optional<CopyEngine>& engine = copies_[at(direction)];
  if (engine) return *engine;
  Cluster& cluster = executor_.cluster_;
  std::vector<PathIndex> paths;
  const auto add = [&](Endpoint gpu) {
    paths.push_back(direction == 0 ? cluster.network.path(place_.host, gpu) : cluster.network.path(gpu, place_.host));
  };
  add(place_.gpu);
  for (const Endpoint gpu : place_.other_gpus) add(gpu);
  return engine.emplace(clock_, cluster, paths, place_.copies_are_alone,
                        [this](const Connection::Message& message, Seconds when) {
                          executor_.end(*this, slot_of(message.tag), operation_of(message.tag), when);
                          executor_.tell_update();
                        });
}

Connection& RunningWorker::connection(int index) {
  std::unique_ptr<Connection>& connection = connections_[at(index)];
  if (connection != nullptr) return *connection;
  connection = std::make_unique<Connection>(
      clock_, executor_.cluster_, place_.connections[at(index)],
      [this](const Connection::Message& message) { executor_.arrive(*this, message.tag); });
  return *connection;
}

Seconds RunningWorker::compute_end() const {
  Seconds end{};
  for (const Stream& stream : streams_) end = std::max(end, stream.gpu);
  return end;
}

Seconds RunningWorker::has_variables_at() const {
  const StepState& step = steps_[at(slot_)];
  const OperationIndex has_variables = step.program->has_variables;
  return has_variables == kNone ? Seconds{} : step.ready[at(has_variables)].date;
}

bool RunningWorker::waits_in_kernels() const {
  const StepState& step = steps_[at(slot_)];
  for (std::size_t s = 0; s < step.program->streams.size(); ++s)
    if (streams_[s].stretch < step.program->streams[s].size()) return true;
  return false;
}

RunningWorker& Executor::add_worker(const RunningWorker::Place& place, OwnedClock clock,
                                    std::shared_ptr<Counters> team) {
  RunningWorker& worker = all_.emplace_back(*this, place, static_cast<int>(all_.size()), clock);
  worker.team_counters_ = std::move(team);
  return worker;
}

void Executor::expect(std::int64_t number, std::int64_t workers) {
  Round& round = rounds_[at(number) % rounds_.size()];
  if (round.number == number) return;
  round.number = number;
  round.expected = workers;
  round.updated = 0;
  round.completed = 0;
  std::fill(round.applied.begin(), round.applied.end(), 0);
}

void Executor::withdraw(std::int64_t number) {
  Round* round = find_round(number);
  if (round == nullptr) return;
  --round->expected;
  for (std::size_t i = 0; i < round->applied.size(); ++i)
    if (round->applied[i] == round->expected)
      complete(number, static_cast<int>(i), {nullptr, 0, RunningWorker::kNone}, clock_.now());
  if (round->updated == round->expected) is_updated_ = true;
  tell_update();
}

void Executor::begin_step(RunningWorker& worker, const Program& program, const std::vector<CollectiveGroup*>& groups,
                          std::int64_t number) {
  if (std::exchange(worker.stands_at_, RunningWorker::kNone) != RunningWorker::kNone)
    --worker.steps_[at(worker.slot_)].left;
  if (worker.steps_[at(worker.slot_)].left > 0)
    worker.slot_ = (worker.slot_ + 1) % static_cast<int>(worker.steps_.size());
  RunningWorker::StepState& step = worker.steps_[at(worker.slot_)];
  if (step.left > 0) throw std::logic_error{"a step begins before the one three before it has ended"};
  const std::size_t size = program.operations.size();
  step.program = &program;
  step.groups = &groups;
  step.index = worker.begun_++;
  step.number = number;
  step.left = static_cast<OperationIndex>(size);
  step.ready.resize(size);
  for (std::size_t i = 0; i < size; ++i) step.ready[i] = {.date = clock_.now(), .pending = program.operations[i].needs};
  worker.streams_.resize(std::max(worker.streams_.size(), program.streams.size()));
  for (std::size_t s = 0; s < program.streams.size(); ++s) {
    RunningWorker::Stream& stream = worker.streams_[s];
    stream.stretch = 0;
    stream.repeats = 0;
    stream.next = program.streams[s].empty() ? 0 : program.streams[s].front().begin;
  }
  if (Round* round = find_round(number)) round->counters = program.common_counters;
  worker.stalled_ = {};
  worker.stalls_ = {};
  for (const OperationIndex first : program.first) issue(worker, worker.slot_, first);
  tell_update();
}

void Executor::go_on(RunningWorker& worker, std::int64_t next) {
  worker.next_number_ = next;
  if (worker.stands_at_ != RunningWorker::kNone) {
    const OperationIndex stands_at = std::exchange(worker.stands_at_, RunningWorker::kNone);
    const bool is_gate =
        worker.steps_[at(worker.slot_)].program->operations[at(stands_at)].kind == OperationKind::kGate;
    return is_gate ? issue(worker, worker.slot_, stands_at) : end(worker, worker.slot_, stands_at, clock_.now());
  }
  if (steps_ != nullptr && !steps_->may_begin(next))
    held_.push_back(&worker);
  else
    client_.begin_next(worker);
}

void Executor::release() {
  for (RunningWorker* worker : std::exchange(held_, {})) client_.reconsider(*worker);
}

void Executor::reset(RunningWorker& worker, std::shared_ptr<Counters> team) {
  worker.clock_.retire();
  worker.clock_ = clock_.for_new_owner();
  worker.team_counters_ = std::move(team);
  worker.own_counters_ = std::make_shared<Counters>();
  worker.begun_ = 0;
  worker.stands_at_ = RunningWorker::kNone;
  for (RunningWorker::StepState& step : worker.steps_) step.left = 0;
  worker.streams_.clear();
  for (std::optional<CopyEngine>& copies : worker.copies_) copies.reset();
  for (std::unique_ptr<Connection>& connection : worker.connections_) connection.reset();
  worker.collected_.clear();
  worker.fused_.clear();
  worker.fetch_.reset();
  worker.fetches_from_ = nullptr;
  std::erase(held_, &worker);
}

void Executor::cut_fetches_from(const RunningWorker& from) {
  for (RunningWorker& worker : all_) {
    if (worker.fetches_from_ != &from) continue;
    worker.fetch_.reset();
    worker.fetches_from_ = nullptr;
    end_at(worker, worker.slot_, worker.fetched_, clock_.now());
  }
}

void Executor::issue(RunningWorker& worker, int slot, OperationIndex index) {
  RunningWorker::StepState& step = worker.steps_[at(slot)];
  const Operation& operation = step.program->operations[at(index)];
  const Seconds ready = step.ready[at(index)].date;
  switch (operation.kind) {
    case OperationKind::kDelay:
    case OperationKind::kNotify: {
      const Seconds date =
          ready +
          (operation.kind == OperationKind::kDelay ? operation.time : worker.connection(operation.resource).latency());
      return operation.is_event ? end_at(worker, slot, index, date) : end(worker, slot, index, date);
    }
    case OperationKind::kCopy:
      return worker.copies(operation.resource)
          .copy(ready, operation.label, operation.bytes, operation.priority, tag_of(slot, index));
    case OperationKind::kBegin:
      worker.slowdown_ = client_.begin_kernels(worker, ready);
      worker.kernel_time_ = step.program->kernel_time * worker.slowdown_;
      for (RunningWorker::Stream& stream : worker.streams_) {
        stream.host = std::max(stream.host, ready);
        stream.gpu = std::max(stream.gpu, ready);
      }
      return end(worker, slot, index, ready);
    case OperationKind::kCompute:
      return advance(worker, slot, at(operation.resource));
    case OperationKind::kSend:
    case OperationKind::kServerWork:
      return ready > clock_.now() ? start_at(worker, slot, index, ready) : start(worker, slot, index);
    case OperationKind::kFetch:
      return fetch(worker, slot, index);
    case OperationKind::kCollective:
      return start_at(worker, slot, index, ready);
    case OperationKind::kGate: {
      if (operation.scope == CounterScope::kSteps) {
        if (steps_->may_begin(worker.next_number_)) return end(worker, slot, index, clock_.now());
        worker.stands_at_ = index;
        held_.push_back(&worker);
        return;
      }
      Counters& counters = this->counters(worker, operation.scope);
      const Counters::Counter& counter = counters.at(operation.resource);
      if (has_come(step, operation, counter.count)) return end(worker, slot, index, std::max(ready, counter.date));
      return counters.wait(operation.resource, {&worker, slot, index});
    }
    case OperationKind::kUpdate:
      if (Round* round = find_round(step.number); round == nullptr) {
        end(worker, slot, index, ready);
        return client_.update_of(worker, step.number);
      } else if (++round->updated == round->expected) {
        is_updated_ = true;
      }
      return end(worker, slot, index, ready);
    case OperationKind::kFence:
      worker.stands_at_ = index;
      record_wait(worker, slot, step.ready[at(index)].latest, ready, ready - worker.compute_end());
      return client_.know_end(worker, ready);
    case OperationKind::kNext:
      end(worker, slot, index, ready);
      return client_.begin_next(worker);
  }
}

void Executor::start_at(RunningWorker& worker, int slot, OperationIndex operation, Seconds when) {
  worker.clock_.schedule(when, [worker = &worker, tag = tag_of(slot, operation)] {
    worker->executor_.start(*worker, slot_of(tag), operation_of(tag));
    worker->executor_.tell_update();
  });
}

void Executor::start(RunningWorker& worker, int slot, OperationIndex index) {
  const RunningWorker::StepState& step = worker.steps_[at(slot)];
  const Operation& operation = step.program->operations[at(index)];
  if (operation.is_collected)
    collect(worker, slot, index);
  else if (operation.kind == OperationKind::kSend)
    worker.connection(operation.resource)
        .send({operation.label, step.number, operation.bytes, operation.priority, tag_of(slot, index)});
  else if (operation.kind == OperationKind::kServerWork)
    work(worker, slot, index);
  else
    (*step.groups)[at(operation.resource)]->come(worker, slot, index);
}

void Executor::collect(RunningWorker& worker, int slot, OperationIndex operation) {
  worker.collected_.push_back(tag_of(slot, operation));
  if (worker.collected_.size() > 1) return;
  const Seconds cycle = *cluster_.site.scenario.training.strategy.exchange.cycle_time;
  worker.clock_.schedule(end_of_cycle(clock_.now(), cycle),
                         [worker = &worker] { worker->executor_.send_collected(*worker); });
}

/// What is ready at the end of a cycle: for each connection as one message, or in several of up to the bucket's size.
void Executor::send_collected(RunningWorker& worker) {
  const GradientExchange& exchange = cluster_.site.scenario.training.strategy.exchange;
  const auto operation_at = [&worker](int tag) -> const Operation& {
    return worker.steps_[at(slot_of(tag))].program->operations[at(operation_of(tag))];
  };
  std::vector<int> ready = std::exchange(worker.collected_, {});
  std::stable_sort(ready.begin(), ready.end(),
                   [&](int a, int b) { return operation_at(a).priority < operation_at(b).priority; });
  std::map<int, Connection::Message> open;  // by connection
  const auto send = [&](int connection, const Connection::Message& message) {
    worker.connection(connection).send(message);
  };
  for (const int tag : ready) {
    const Operation& operation = operation_at(tag);
    const auto [entry, is_new] = open.try_emplace(operation.resource);
    Connection::Message& message = entry->second;
    if (!is_new && (!exchange.bucket_size || message.size + operation.bytes <= *exchange.bucket_size)) {
      message.size += operation.bytes;
      worker.fused_[message.tag].push_back(tag);
      continue;
    }
    if (!is_new) send(operation.resource, message);
    message = {operation.label, worker.steps_[at(slot_of(tag))].number, operation.bytes, operation.priority, tag};
  }
  for (const auto& [connection, message] : open) send(connection, message);
}

/// A message, with what was fused with it.
void Executor::arrive(RunningWorker& worker, int tag) {
  std::vector<int> fused;
  if (!worker.fused_.empty())
    if (auto known = worker.fused_.extract(tag)) fused = std::move(known.mapped());
  end(worker, slot_of(tag), operation_of(tag), clock_.now());
  for (const int other : fused) end(worker, slot_of(other), operation_of(other), clock_.now());
  tell_update();
}

void Executor::work(RunningWorker& worker, int slot, OperationIndex index) {
  const RunningWorker::StepState& step = worker.steps_[at(slot)];
  const Operation& operation = step.program->operations[at(index)];
  const bool is_own = operation.resource < 0;
  const MachineIndex machine = is_own ? worker.place_.host.machine : cluster_.site.servers[at(operation.resource)];
  Cluster::Serving* const serving =
      operation.is_message && !cluster_.serving.empty() ? &cluster_.serving[at(operation.resource)] : nullptr;
  CorePool& cores = serving != nullptr ? serving->threads : cluster_.cores[at(machine)];
  Seconds time = operation.time;
  bool completes = false;
  if (operation.work == ServerWorkKind::kApply && operation.signals >= 0)
    if (Round* round = find_round(step.number)) {
      if (round->applied.size() <= at(operation.signals)) round->applied.resize(at(operation.signals) + 1);
      completes = ++round->applied[at(operation.signals)] == round->expected;
      if (completes) time += operation.host;
    }
  CorePool::Slot last;
  for (int part = 0; part < operation.parts; ++part)
    if (const CorePool::Slot taken = cores.run(clock_.now(), time); taken.end >= last.end) last = taken;
  if (!is_own)
    cluster_.recorder.add(ServerSpan{machine,
                                     last.core + (serving != nullptr ? serving->first_lane : 0),
                                     operation.label,
                                     operation.work == ServerWorkKind::kApply,
                                     {last.start, last.end}});
  if (completes && operation.is_event)
    clock_.schedule(last.end, [worker = &worker, tag = tag_of(slot, index)] {
      const RunningWorker::StepState& its = worker->steps_[at(slot_of(tag))];
      Executor& executor = worker->executor_;
      executor.complete(its.number, its.program->operations[at(operation_of(tag))].signals,
                        {worker, slot_of(tag), operation_of(tag)}, executor.clock_.now());
      executor.tell_update();
    });
  end(worker, slot, index, last.end);
}

/// Asks for it, over the latency, and then receives it over a connection of its own.
void Executor::fetch(RunningWorker& worker, int slot, OperationIndex index) {
  const RunningWorker::StepState& step = worker.steps_[at(slot)];
  const Seconds ready = step.ready[at(index)].date;
  const RunningWorker* partner = client_.choose_partner(worker);
  if (partner == nullptr) return end(worker, slot, index, ready);
  worker.fetches_from_ = partner;
  worker.fetched_ = index;
  worker.fetch_ = std::make_unique<Connection>(worker.clock_, cluster_,
                                               cluster_.network.path(partner->place_.gpu, worker.place_.gpu),
                                               [this, worker = &worker](const Connection::Message& m) {
                                                 worker->fetches_from_ = nullptr;
                                                 end(*worker, slot_of(m.tag), operation_of(m.tag), clock_.now());
                                               });
  worker.fetch_->clock().schedule(ready + worker.fetch_->latency(), [worker = &worker, tag = tag_of(slot, index)] {
    const RunningWorker::StepState& at_step = worker->steps_[at(slot_of(tag))];
    const Operation& operation = at_step.program->operations[at(operation_of(tag))];
    worker->fetch_->send({operation.label, at_step.number, operation.bytes, 0, tag});
  });
}

void Executor::end_at(RunningWorker& worker, int slot, OperationIndex operation, Seconds when) {
  worker.clock_.schedule(when, [worker = &worker, tag = tag_of(slot, operation)] {
    worker->executor_.end(*worker, slot_of(tag), operation_of(tag), worker->clock_.now());
    worker->executor_.tell_update();
  });
}

void Executor::end(RunningWorker& worker, int slot, OperationIndex index, Seconds when) {
  RunningWorker::StepState& step = worker.steps_[at(slot)];
  const Program& program = *step.program;
  const Operation& operation = program.operations[at(index)];
  --step.left;
  worker.latest_ = std::max(worker.latest_, when);
  if (operation.signals >= 0 && operation.work != ServerWorkKind::kApply) {
    if (operation.signal_scope == CounterScope::kAll)
      complete(step.number, operation.signals, {&worker, slot, index}, when);
    else
      advance_counter(counters(worker, operation.signal_scope), operation.signals, {&worker, slot, index}, when);
  }
  for (OperationIndex e = operation.first_after; e < operation.last_after; ++e) {
    const OperationIndex later = program.after[at(e)];
    RunningWorker::Readiness& ready = step.ready[at(later)];
    if (when > ready.date || ready.latest == RunningWorker::kNone) {
      ready.date = std::max(ready.date, when);
      ready.latest = index;
    }
    if (--ready.pending == 0) issue(worker, slot, later);
  }
}

Counters& Executor::counters(RunningWorker& worker, CounterScope scope) {
  return scope == CounterScope::kWorker ? *worker.own_counters_
         : scope == CounterScope::kTeam ? *worker.team_counters_
                                        : common_;
}

bool Executor::has_come(const RunningWorker::StepState& step, const Operation& gate, std::int64_t count) const {
  const std::int64_t steps = (gate.scope == CounterScope::kAll ? step.number - first_ : step.index) + 1 - gate.lag;
  return count >= gate.each * steps;
}

void Executor::advance_counter(Counters& counters, int index, const Counters::Place& by, Seconds when) {
  Counters::Counter& counter = counters.at(index);
  ++counter.count;
  if (when >= counter.date) {
    counter.date = when;
    counter.latest = by;
    counter.index = by.worker != nullptr ? by.worker->steps_[at(by.slot)].index : 0;
  }
  for (int left = counter.waiting; left > 0 && counters.at(index).waiting > 0; --left) {
    const Counters::Place waiting = counters.take(index);
    const RunningWorker::StepState& step = waiting.worker->steps_[at(waiting.slot)];
    if (has_come(step, step.program->operations[at(waiting.operation)], counters.at(index).count))
      end(*waiting.worker, waiting.slot, waiting.operation,
          std::max(step.ready[at(waiting.operation)].date, counters.at(index).date));
    else
      counters.wait(index, waiting);
  }
}

/// A common counter advances once in each step of all, which is updated when all of them have.
void Executor::complete(std::int64_t number, int counter, const Counters::Place& by, Seconds when) {
  advance_counter(common_, counter, by, when);
  if (Round* round = find_round(number); round != nullptr && ++round->completed == round->counters) is_updated_ = true;
}

Waits RunningWorker::waits_before_end(Seconds length) const {
  const StepState& step = steps_[at(slot_)];
  OperationIndex fence = 0;
  while (step.program->operations[at(fence)].kind != OperationKind::kFence) ++fence;
  return executor_.waits(*this, slot_, step.ready[at(fence)].latest, step.ready[at(fence)].date, length);
}

/// What the `length` before `date`, when the operation ended, was spent on.
Waits Executor::waits(const RunningWorker& of, int slot, OperationIndex index, Seconds date, Seconds length) const {
  Waits waits;
  Seconds left = std::max(Seconds{}, length);
  const auto was = [&left](Seconds& part, Seconds time) {
    const Seconds taken = std::min(left, std::max(Seconds{}, time));
    part += taken;
    left -= taken;
  };
  const RunningWorker* worker = &of;
  while (left > Seconds{} && index != RunningWorker::kNone) {
    const RunningWorker::StepState& step = worker->steps_[at(slot)];
    const Operation& operation = step.program->operations[at(index)];
    Seconds ready = step.ready[at(index)].date;
    OperationIndex before = step.ready[at(index)].latest;
    switch (operation.kind) {
      case OperationKind::kSend:
        if (!is_between_gpus(cluster_.network, worker->place_.connections[at(operation.resource)])) {
          const Seconds latency = worker->connections_[at(operation.resource)]->latency();
          was(waits.latency, latency);
          was(waits.network, date - ready - latency);
        } else {
          was(waits.copies, date - ready);
        }
        break;
      case OperationKind::kFetch:
        if (worker->fetch_) was(waits.latency, worker->fetch_->latency() * 2);
        was(waits.network, left);
        break;
      case OperationKind::kNotify:
        was(waits.latency, date - ready);
        break;
      case OperationKind::kServerWork:
        was(waits.server, date - ready);
        break;
      case OperationKind::kCopy:
        was(waits.copies, date - ready);
        break;
      case OperationKind::kGate: {
        const Counters* counters = operation.scope == CounterScope::kWorker ? worker->own_counters_.get()
                                   : operation.scope == CounterScope::kTeam ? worker->team_counters_.get()
                                                                            : &common_;
        const Counters::Counter& counter = counters->counters_[at(operation.resource)];
        const Counters::Place& by = counter.latest;
        if (by.worker == nullptr || counter.date < ready || by.worker->steps_[at(by.slot)].index != counter.index)
          break;
        const RunningWorker::StepState& its = by.worker->steps_[at(by.slot)];
        if (operation.scope == CounterScope::kAll) {  // the last gradient of all; before it, one's own
          was(waits.server, date - its.ready[at(by.operation)].date);
          ready = its.ready[at(by.operation)].date;
          before = step.ready[at(before)].latest;
        } else {
          worker = by.worker;
          slot = by.slot;
          index = by.operation;
          continue;
        }
        break;
      }
      case OperationKind::kDelay:
        break;
      default:
        before = RunningWorker::kNone;
    }
    date = ready;
    index = before;
  }
  waits.other = left;
  return waits;
}

void Executor::advance(RunningWorker& worker, int slot, std::size_t s) {
  RunningWorker::Stream& stream = worker.streams_[s];
  if (stream.is_advancing) return;  // called by an operation that it has just ended
  stream.is_advancing = true;
  RunningWorker::StepState& step = worker.steps_[at(slot)];
  const std::vector<Stretch>& stretches = step.program->streams[s];
  while (stream.stretch < stretches.size()) {
    const Stretch& stretch = stretches[stream.stretch];
    const Operation& operation = step.program->operations[at(stream.next)];
    if (step.ready[at(stream.next)].pending > 0) break;
    Seconds ready = stream.host;
    if (step.ready[at(stream.next)].date > ready) {
      ready = step.ready[at(stream.next)].date;
      const Seconds dispatch = operation.is_chain ? operation.first_host : operation.host;
      const Seconds stall = ready + dispatch - std::max(stream.gpu, stream.host + dispatch);
      if (stall > Seconds{} && step.program->counts_waits) {
        record_wait(worker, slot, step.ready[at(stream.next)].latest, ready, stall);
        worker.stalled_ += stall;
        const Waits waited = waits(worker, slot, step.ready[at(stream.next)].latest, ready, stall);
        worker.stalls_.latency += waited.latency;
        worker.stalls_.network += waited.network;
        worker.stalls_.server += waited.server;
        worker.stalls_.copies += waited.copies;
        worker.stalls_.other += waited.other;
      }
    }
    stream.host = ready + operation.host;
    if (operation.is_chain) {
      stream.gpu = std::max(stream.gpu + operation.time, ready + operation.critical);
    } else {
      const Seconds start = std::max(stream.gpu, stream.host);
      stream.gpu = start + operation.time * worker.slowdown_;
      cluster_.recorder.add(KernelSpan{worker.place_.gpu.machine,
                                       worker.place_.gpu.gpu,
                                       operation.label,
                                       {start, stream.gpu},
                                       operation.memory * worker.slowdown_,
                                       start - stream.host,
                                       operation.host});
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
    if (is_last_time) end(worker, slot, ended, stream.gpu);
  }
  stream.is_advancing = false;
}

void Executor::record_wait(const RunningWorker& worker, int slot, OperationIndex index, Seconds date, Seconds length) {
  if (!cluster_.recorder.keeps_activity) return;
  const RunningWorker::StepState& step = worker.steps_[at(slot)];
  const auto kind = [&] { return step.program->operations[at(index)].kind; };
  while (index != RunningWorker::kNone && (kind() == OperationKind::kDelay || kind() == OperationKind::kUpdate)) {
    length -= date - step.ready[at(index)].date;
    date = step.ready[at(index)].date;
    index = step.ready[at(index)].latest;
  }
  if (!(length > Seconds{}) || index == RunningWorker::kNone) return;
  Waits waited = waits(worker, slot, index, date, length);
  if (kind() == OperationKind::kCollective) {
    const Operation& operation = step.program->operations[at(index)];
    waited.network =
        std::clamp(date - (*step.groups)[at(operation.resource)]->begun(operation.label), Seconds{}, length);
    waited.other = length - waited.network;
  }
  Seconds start = date - length;
  const auto add = [&](WaitFor what, Seconds time) {
    cluster_.recorder.add(
        WaitSpan{worker.place_.gpu.machine, worker.place_.gpu.gpu, what, step.number, {start, start + time}});
    start += time;
  };
  add(WaitFor::kPeer, waited.other);
  add(WaitFor::kServer, waited.server);
  add(WaitFor::kNetwork, waited.network);
  add(WaitFor::kLatency, waited.latency);
  add(WaitFor::kCopies, waited.copies);
}

void Executor::tell_update() {
  if (std::exchange(is_updated_, false)) client_.update();
}

}  // namespace rehearse
