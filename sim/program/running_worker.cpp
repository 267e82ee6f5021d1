#include "sim/program/running_worker.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sim/base/overloaded.hpp"
#include "sim/program/executor.hpp"

namespace rehearse {

namespace {

/// Messages are tagged with the operation that they are.
constexpr int kSlotBits = 2;

int tag_of(StepOperation operation) { return (operation.index << kSlotBits) | operation.slot; }
StepOperation operation_of(int tag) {
  return {tag & ((1 << kSlotBits) - 1), static_cast<OperationIndex>(tag >> kSlotBits)};
}

/// Of one machine, or one NVLink domain.
bool is_between_gpus(const Network& network, PathIndex path) {
  const Endpoint from = network.source(path), to = network.destination(path);
  return !network.topology().crosses_network(from, to) && from.gpu != Endpoint::kHost && to.gpu != Endpoint::kHost;
}

/// On so many cores at once, on each of them for `time`: what ends last.
CorePool::Slot run(CorePool& cores, Seconds now, int parts, Seconds time) {
  CorePool::Slot last;
  for (int part = 0; part < parts; ++part)
    if (const CorePool::Slot taken = cores.run(now, time); taken.end >= last.end) last = taken;
  return last;
}

}  // namespace

RunningWorker::RunningWorker(Executor& executor, Place place, int index, OwnedClock clock,
                             std::shared_ptr<Counters> team)
    : executor_{executor},
      place_{std::move(place)},
      index_{index},
      clock_{clock},
      own_counters_{std::make_shared<Counters>()},
      team_counters_{std::move(team)},
      connections_(place_.connections.size()) {}

CopyEngine& RunningWorker::copies(CopyDirection direction) {
  std::optional<CopyEngine>& engine = copies_[at(direction)];
  if (engine) return *engine;
  Cluster& cluster = executor_.cluster();
  std::vector<PathIndex> paths;
  const auto add = [&](Endpoint gpu) {
    paths.push_back(direction == CopyDirection::kToGpu ? cluster.network.path(place_.host, gpu)
                                                       : cluster.network.path(gpu, place_.host));
  };
  add(place_.gpu);
  for (const Endpoint gpu : place_.other_gpus) add(gpu);
  return engine.emplace(clock_, cluster, paths, place_.copies_are_alone,
                        [this](const Connection::Message& message, Seconds when) {
                          end(operation_of(message.tag), when);
                          executor_.tell_update();
                        });
}

Connection& RunningWorker::connection(int index) {
  std::unique_ptr<Connection>& connection = connections_[at(index)];
  if (connection == nullptr)
    connection = std::make_unique<Connection>(clock_, executor_.cluster(), place_.connections[at(index)],
                                              [this](const Connection::Message& message) { arrive(message.tag); });
  return *connection;
}

Counters& RunningWorker::counters(CounterScope scope) const {
  return scope == CounterScope::kWorker ? *own_counters_
         : scope == CounterScope::kTeam ? *team_counters_
                                        : executor_.common_counters();
}

Seconds RunningWorker::compute_end() const {
  Seconds end{};
  for (const Stream& stream : streams_) end = std::max(end, stream.gpu);
  return end;
}

Seconds RunningWorker::has_variables_at() const {
  const OperationIndex has_variables = steps_[at(slot_)].program->has_variables;
  return has_variables == kNone ? Seconds{} : ready_at(has_variables);
}

Seconds RunningWorker::waited_for_samples() const {
  const Program& program = *steps_[at(slot_)].program;
  if (program.awaits_samples == kNone) return {};
  return ready_at(program.copies_samples) - ready_at(program.awaits_samples);
}

const Gate* RunningWorker::gate_of_samples() const {
  const Program* program = steps_[at(slot_)].program;
  if (program == nullptr || program->awaits_samples == kNone) return nullptr;
  return std::get_if<Gate>(&program->operation(program->awaits_samples));
}

Seconds RunningWorker::until_samples() const {
  const Gate* gate = gate_of_samples();
  return gate == nullptr ? Seconds{} : std::max(Seconds{}, own_counters_->counter(gate->counter).date - clock_.now());
}

void RunningWorker::delay_samples(Seconds by) {
  if (const Gate* gate = gate_of_samples()) own_counters_->delay(gate->counter, by);
}

bool RunningWorker::waits_in_kernels() const {
  const std::vector<std::vector<Stretch>>& streams = steps_[at(slot_)].program->streams;
  for (std::size_t s = 0; s < streams.size(); ++s)
    if (streams_[s].stretch < streams[s].size()) return true;
  return false;
}

void RunningWorker::begin_step(const Program& program, const std::vector<CollectiveGroup*>& groups,
                               std::int64_t number) {
  if (std::exchange(stands_at_, kNone) != kNone) --steps_[at(slot_)].left;
  if (steps_[at(slot_)].left > 0) slot_ = (slot_ + 1) % static_cast<int>(steps_.size());
  StepState& step = steps_[at(slot_)];
  if (step.left > 0) throw std::logic_error{"a step begins before the one three before it has ended"};
  const std::size_t size = program.nodes.size();
  step.program = &program;
  step.groups = &groups;
  step.index = begun_++;
  step.number = number;
  step.left = static_cast<OperationIndex>(size);
  step.ready.resize(size);
  for (std::size_t i = 0; i < size; ++i) step.ready[i] = {.date = clock_.now(), .pending = program.nodes[i].needs};
  streams_.resize(std::max(streams_.size(), program.streams.size()));
  for (std::size_t s = 0; s < program.streams.size(); ++s) {
    streams_[s].stretch = 0;
    streams_[s].repeats = 0;
    streams_[s].next = program.streams[s].empty() ? 0 : program.streams[s].front().begin;
  }
  stalled_ = {};
  stalls_ = {};
  for (const OperationIndex first : program.first) issue({slot_, first});
}

bool RunningWorker::go_on(std::int64_t next) {
  next_number_ = next;
  if (stands_at_ == kNone) return false;
  const StepOperation standing{slot_, std::exchange(stands_at_, kNone)};
  if (std::holds_alternative<StepsGate>(node(standing).operation))
    issue(standing);
  else
    end(standing, clock_.now());
  return true;
}

void RunningWorker::reset(OwnedClock clock, std::shared_ptr<Counters> team) {
  clock_.retire();
  clock_ = clock;
  team_counters_ = std::move(team);
  own_counters_ = std::make_shared<Counters>();
  begun_ = 0;
  stands_at_ = kNone;
  for (StepState& step : steps_) step.left = 0;
  streams_.clear();
  for (std::optional<CopyEngine>& copies : copies_) copies.reset();
  for (std::unique_ptr<Connection>& connection : connections_) connection.reset();
  collected_.clear();
  fused_.clear();
  fetch_ = {};
}

void RunningWorker::cut_fetch_from(const RunningWorker& other) {
  if (fetch_.from != &other) return;
  const StepOperation fetch = std::exchange(fetch_, {}).operation;
  end_at(fetch, clock_.now());
}

void RunningWorker::issue(StepOperation operation) {
  const Seconds ready = ready_at(operation);
  const auto end_then = [&](Seconds date, bool is_event) {
    return is_event ? end_at(operation, date) : end(operation, date);
  };
  match(
      node(operation).operation, [&](const Delay& delay) { end_then(ready + delay.time, delay.is_event); },
      [&](const Notify& notify) { end_then(ready + connection(notify.connection).latency(), notify.is_event); },
      [&](const Copy& copy) {
        copies(copy.direction).copy(ready, copy.label, copy.bytes, copy.priority, tag_of(operation));
      },
      [&](const BeginKernels&) {
        slowdown_ = executor_.client().begin_kernels(*this, ready);
        kernel_time_ = steps_[at(operation.slot)].program->kernel_time * slowdown_;
        for (Stream& stream : streams_) {
          stream.host = std::max(stream.host, ready);
          stream.gpu = std::max(stream.gpu, ready);
        }
        end(operation, ready);
      },
      [&](const OneOf<Compute, Chain> auto& kernels) { advance(operation.slot, kernels.stream); },
      [&]<OneOf<Send, ReadVariable, ApplyGradient, AddGradient> Kind>(const Kind& does) {
        return ready > clock_.now() ? start_at<Kind>(operation, ready) : start(operation, does);
      },
      [&](const Collective&) { start_at<Collective>(operation, ready); },
      [&](const Fetch& fetch) { start(operation, fetch); },
      [&](const Gate& gate) {
        Counters& awaited = counters(gate.scope);
        if (!pass(operation, awaited.counter(gate.counter))) awaited.wait(gate.counter, {this, operation});
      },
      [&](const StepsGate&) {
        if (executor_.may_begin(next_number_)) return end(operation, clock_.now());
        stands_at_ = operation.index;
        executor_.hold(*this);
      },
      [&](const Update&) {
        const std::int64_t number = number_of(operation);
        const bool is_shared = executor_.come_to_update(number);
        end(operation, ready);
        if (!is_shared) executor_.client().update_of(*this, number);
      },
      [&](const Fence&) {
        stands_at_ = operation.index;
        record_wait({operation.slot, readiness(operation).latest}, ready, ready - compute_end());
        executor_.client().know_end(*this, ready);
      },
      [&](const NextStep&) {
        end(operation, ready);
        executor_.client().begin_next(*this);
      });
}

void RunningWorker::end(StepOperation operation, Seconds when) {
  StepState& step = steps_[at(operation.slot)];
  const Program& program = *step.program;
  const Node& ended = program.nodes[at(operation.index)];
  --step.left;
  latest_ = std::max(latest_, when);
  executor_.tell_watcher(*this, operation, when);
  if (const std::optional<Signal>& signal = ended.signal) {
    if (signal->scope == CounterScope::kAll)
      executor_.complete(step.number, signal->counter, {this, operation}, when);
    else
      counters(signal->scope).advance(signal->counter, {this, operation}, when);
  }
  for (OperationIndex e = ended.first_after; e < ended.last_after; ++e) {
    Readiness& later = step.ready[at(program.after[at(e)])];
    if (when > later.date || later.latest == kNone) {
      later.date = std::max(later.date, when);
      later.latest = operation.index;
    }
    if (--later.pending == 0) issue({operation.slot, program.after[at(e)]});
  }
}

void RunningWorker::end_at(StepOperation operation, Seconds when) {
  clock_.schedule(when, [this, operation] {
    end(operation, clock_.now());
    executor_.tell_update();
  });
}

bool RunningWorker::pass(StepOperation operation, const Counters::Counter& counter) {
  const StepState& step = steps_[at(operation.slot)];
  const Gate& gate = get<Gate>(operation);
  const std::int64_t before = gate.scope == CounterScope::kAll ? step.number - executor_.first_step() : step.index;
  if (counter.count < gate.each * (before + 1 - gate.lag)) return false;
  end(operation, std::max(ready_at(operation), counter.date));
  return true;
}

template <class Kind>
void RunningWorker::start_at(StepOperation operation, Seconds when) {
  clock_.schedule(when, [this, operation] {
    start(operation, get<Kind>(operation));
    executor_.tell_update();
  });
}

void RunningWorker::start(StepOperation operation, const Send& send) {
  if (!send.is_collected)
    return connection(send.connection)
        .send({send.label, number_of(operation), send.bytes, send.priority, tag_of(operation)});
  collected_.push_back(operation);
  if (collected_.size() > 1) return;
  const Cycle& cycle = *steps_[at(operation.slot)].program->cycle;
  clock_.schedule(end_of_cycle(clock_.now(), cycle.time), [this, &cycle] { send_collected(cycle); });
}

/// What is ready at the end of a cycle.
void RunningWorker::send_collected(const Cycle& cycle) {
  std::vector<StepOperation> ready = std::exchange(collected_, {});
  std::ranges::stable_sort(ready, {}, [this](StepOperation operation) { return get<Send>(operation).priority; });
  std::map<int, Connection::Message> open;  // by connection
  for (const StepOperation operation : ready) {
    const Send& added = get<Send>(operation);
    const auto [entry, is_new] = open.try_emplace(added.connection);
    Connection::Message& message = entry->second;
    if (!is_new && (!cycle.largest || message.size + added.bytes <= *cycle.largest)) {
      message.size += added.bytes;
      fused_[message.tag].push_back(operation);
      continue;
    }
    if (!is_new) connection(added.connection).send(message);
    message = {added.label, number_of(operation), added.bytes, added.priority, tag_of(operation)};
  }
  for (const auto& [index, message] : open) connection(index).send(message);
}

/// A message, with what was fused with it.
void RunningWorker::arrive(int tag) {
  std::vector<StepOperation> fused;
  if (!fused_.empty())
    if (auto known = fused_.extract(tag)) fused = std::move(known.mapped());
  end(operation_of(tag), clock_.now());
  for (const StepOperation other : fused) end(other, clock_.now());
  executor_.tell_update();
}

/// Work of a server on the span's unit. Returns when it is done.
Seconds RunningWorker::serve(int server, bool is_message, ServerSpan span, int parts, Seconds time) {
  Cluster& cluster = executor_.cluster();
  span.machine = cluster.site.servers[at(server)];
  Cluster::Serving* const serving = is_message && !cluster.serving.empty() ? &cluster.serving[at(server)] : nullptr;
  const CorePool::Slot last =
      run(serving != nullptr ? serving->threads : cluster.cores[at(span.machine)], clock_.now(), parts, time);
  span.core = last.core + (serving != nullptr ? serving->first_lane : 0);
  span.span = {last.start, last.end};
  cluster.recorder.add(span);
  return last.end;
}

void RunningWorker::start(StepOperation operation, const ReadVariable& read) {
  end(operation, serve(read.server, true, {.unit = read.label}, 1, read.time));
}

void RunningWorker::start(StepOperation operation, const ApplyGradient& apply) {
  const bool is_last = apply.counter >= 0 && executor_.count_gradient(number_of(operation), apply.counter);
  const Seconds done = serve(apply.server, apply.is_message, {.unit = apply.label, .is_update = true}, apply.parts,
                             is_last ? apply.time + apply.update : apply.time);
  if (is_last && apply.is_event)
    executor_.clock().schedule(done, [this, operation] {
      executor_.complete(number_of(operation), get<ApplyGradient>(operation).counter, {this, operation}, clock_.now());
      executor_.tell_update();
    });
  end(operation, done);
}

void RunningWorker::start(StepOperation operation, const AddGradient& add) {
  end(operation, run(executor_.cluster().cores[at(place_.host.machine)], clock_.now(), add.parts, add.time).end);
}

void RunningWorker::start(StepOperation operation, const Collective& collective) {
  (*steps_[at(operation.slot)].groups)[at(collective.group)]->come({this, operation}, collective);
}

/// Asks for it, over the latency, and then receives it over a connection of its own.
void RunningWorker::start(StepOperation operation, const Fetch&) {
  const Seconds ready = ready_at(operation);
  const RunningWorker* partner = executor_.client().choose_partner(*this);
  if (partner == nullptr) return end(operation, ready);
  Cluster& cluster = executor_.cluster();
  fetch_ = {
      .connection = std::make_unique<Connection>(clock_, cluster, cluster.network.path(partner->place_.gpu, place_.gpu),
                                                 [this](const Connection::Message& message) {
                                                   fetch_.from = nullptr;
                                                   end(operation_of(message.tag), clock_.now());
                                                 }),
      .from = partner,
      .operation = operation};
  fetch_.connection->clock().schedule(ready + fetch_.connection->latency(), [this, operation] {
    const Fetch& fetch = get<Fetch>(operation);
    fetch_.connection->send({fetch.label, number_of(operation), fetch.bytes, 0, tag_of(operation)});
  });
}

/// Kernels of the stream end, as far as it is known when.
void RunningWorker::advance(int slot, int index) {
  Stream& stream = streams_[at(index)];
  if (stream.is_advancing) return;  // called by an operation that it has just ended
  stream.is_advancing = true;
  StepState& step = steps_[at(slot)];
  const std::vector<Stretch>& stretches = step.program->streams[at(index)];
  while (stream.stretch < stretches.size()) {
    const Stretch& stretch = stretches[stream.stretch];
    const StepOperation operation{slot, stream.next};
    if (readiness(operation).pending > 0) break;
    const auto* kernel = std::get_if<Compute>(&node(operation).operation);
    const Chain chain = chain_of(node(operation).operation);
    const Seconds ready = ready_at(operation), dispatched = stream.host;
    const Seconds begin = chain.is_dispatched_ahead ? dispatched : std::max(dispatched, ready);
    if (ready > dispatched) {
      const Seconds starts = chain.is_dispatched_ahead ? ready : ready + chain.first_host;
      const Seconds stall = starts - std::max(stream.gpu, dispatched + chain.first_host);
      if (stall > Seconds{} && step.program->counts_waits) count_stall(operation, stall);
    }
    if (chain.is_dispatched_ahead) stream.gpu = std::max(stream.gpu, ready);
    stream.host = begin + chain.host;
    if (kernel == nullptr) {
      stream.gpu = std::max(stream.gpu + chain.time, begin + chain.critical);
    } else {
      const Seconds start = std::max(stream.gpu, stream.host);
      stream.gpu = start + kernel->time * slowdown_;
      executor_.cluster().recorder.add(KernelSpan{place_.gpu.machine,
                                                  place_.gpu.gpu,
                                                  kernel->label,
                                                  {start, stream.gpu},
                                                  kernel->memory * slowdown_,
                                                  start - stream.host,
                                                  kernel->host});
    }
    const bool is_last_time = stream.repeats + 1 == stretch.repeat;
    if (++stream.next == stretch.end) {
      if (++stream.repeats < stretch.repeat) {
        stream.next = stretch.begin;
      } else {
        stream.repeats = 0;
        if (++stream.stretch < stretches.size()) stream.next = stretches[stream.stretch].begin;
      }
    }
    if (is_last_time)
      end(operation, stream.gpu);
    else
      executor_.tell_watcher(*this, operation, stream.gpu);
  }
  stream.is_advancing = false;
}

/// Kernels could have started so much earlier if they waited for nothing.
void RunningWorker::count_stall(StepOperation kernels, Seconds length) {
  const StepOperation latest{kernels.slot, readiness(kernels).latest};
  record_wait(latest, ready_at(kernels), length);
  const Waits waited = waits(latest, ready_at(kernels), length);
  stalled_ += length;
  stalls_.latency += waited.latency;
  stalls_.network += waited.network;
  stalls_.server += waited.server;
  stalls_.copies += waited.copies;
  stalls_.other += waited.other;
}

Waits RunningWorker::waits_before_end(Seconds length) const {
  StepOperation fence{slot_, 0};
  while (!std::holds_alternative<Fence>(node(fence).operation)) ++fence.index;
  return waits({slot_, readiness(fence).latest}, ready_at(fence), length);
}

/// What the `length` before `date`, when the operation ended, was spent on.
Waits RunningWorker::waits(StepOperation operation, Seconds date, Seconds length) const {
  Waits waits;
  Seconds left = std::max(Seconds{}, length);
  const auto was = [&left](Seconds& part, Seconds time) {
    const Seconds taken = std::min(left, std::max(Seconds{}, time));
    part += taken;
    left -= taken;
  };
  const RunningWorker* worker = this;
  while (left > Seconds{} && operation.index != kNone) {
    const RunningWorker& its = *worker;
    Readiness before = its.readiness(operation);
    match(
        its.node(operation).operation,  //
        [](const OneOf<Delay, StepsGate, Update> auto&) {}, [&](const Copy&) { was(waits.copies, date - before.date); },
        [&](const Send& send) {
          if (is_between_gpus(executor_.cluster().network, its.place_.connections[at(send.connection)]))
            return was(waits.copies, date - before.date);
          const Seconds latency = its.connections_[at(send.connection)]->latency();
          was(waits.latency, latency);
          was(waits.network, date - before.date - latency);
        },
        [&](const Notify&) { was(waits.latency, date - before.date); },
        [&](const OneOf<ReadVariable, ApplyGradient, AddGradient> auto&) { was(waits.server, date - before.date); },
        [&](const Fetch&) {
          if (its.fetch_.connection) was(waits.latency, its.fetch_.connection->latency() * 2);
          was(waits.network, left);
        },
        [&](const Gate& gate) {
          const Counters::Counter counter = its.counters(gate.scope).counter(gate.counter);
          const auto& [by, opened_by] = counter.latest;
          if (by == nullptr || counter.date < before.date || by->step_of(opened_by) != counter.step) return;
          if (gate.scope != CounterScope::kAll) {
            worker = by;
            operation.slot = opened_by.slot;
            before = {date, opened_by.index};
            return;
          }  // the last gradient of all; before it, one's own
          was(waits.server, date - by->ready_at(opened_by));
          before = {by->ready_at(opened_by), its.readiness({operation.slot, before.latest}).latest};
        },
        [&](const Collective& collective) {  // before it had begun, for those that meet in it
          const CollectiveGroup& group = *(*its.steps_[at(operation.slot)].groups)[at(collective.group)];
          was(waits.network, date - group.begun(collective.label));
          before.latest = kNone;
        },
        [&](const OneOf<BeginKernels, Compute, Chain, Fence, NextStep> auto&) { before.latest = kNone; });
    date = before.date;
    operation.index = before.latest;
  }
  waits.other = left;
  return waits;
}

/// Records that the worker waits for the operation, which ends at `date`, in the `length` before it, but for delays of
/// its own.
void RunningWorker::record_wait(StepOperation operation, Seconds date, Seconds length) const {
  Recorder& recorder = executor_.cluster().recorder;
  if (!recorder.keeps_activity) return;
  const auto is_own = [this](StepOperation its) {
    return std::holds_alternative<Delay>(node(its).operation) || std::holds_alternative<Update>(node(its).operation);
  };
  while (operation.index != kNone && is_own(operation)) {
    length -= date - ready_at(operation);
    date = ready_at(operation);
    operation.index = readiness(operation).latest;
  }
  if (!(length > Seconds{}) || operation.index == kNone) return;
  Waits waited = waits(operation, date, length);
  if (const auto* collective = std::get_if<Collective>(&node(operation).operation)) {
    const CollectiveGroup& group = *(*steps_[at(operation.slot)].groups)[at(collective->group)];
    waited.network = std::clamp(date - group.begun(collective->label), Seconds{}, length);
    waited.other = length - waited.network;
  }
  Seconds start = date - length;
  const auto add = [&](WaitFor what, Seconds time) {
    recorder.add(WaitSpan{place_.gpu.machine, place_.gpu.gpu, what, number_of(operation), {start, start + time}});
    start += time;
  };
  add(WaitFor::kPeer, waited.other);
  add(WaitFor::kServer, waited.server);
  add(WaitFor::kNetwork, waited.network);
  add(WaitFor::kLatency, waited.latency);
  add(WaitFor::kCopies, waited.copies);
}

}  // namespace rehearse
