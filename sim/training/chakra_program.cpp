#include "sim/training/chakra_program.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include "sim/base/errors.hpp"
#include "workloads/traces/kernel_class.hpp"

namespace rehearse {

namespace {

/// Streams of what is not on one of the program's: what shares one comes in its order.
constexpr std::int64_t kCopyStream = 1000;     // and the direction
constexpr std::int64_t kGroupStream = 2000;    // and the group
constexpr std::int64_t kSendStream = 100'000;  // and the other rank
constexpr std::int64_t kReceiveStream = 1'000'000;

Nanoseconds nanoseconds(Seconds time) { return std::llround(time.value() * 1e9); }

bool is_message(const Operation& operation) {
  return operation.kind == OperationKind::kSend || operation.kind == OperationKind::kNotify;
}

/// The words of what a node is called: "send conv1".
std::string_view word_of(const Operation& operation) {
  static constexpr std::array<std::string_view, 13> kWords{"host work", "copy",  "begin",    "compute",    "send",
                                                           "notify",    "work",  "fetch",    "collective", "gate",
                                                           "update",    "fence", "next step"};
  if (operation.kind == OperationKind::kServerWork)
    return operation.work == ServerWorkKind::kRead    ? "read"
           : operation.work == ServerWorkKind::kApply ? "apply"
                                                      : "add up";
  if (operation.kind == OperationKind::kCollective) return to_text(operation.collective);
  return kWords[at(static_cast<int>(operation.kind))];
}

std::int64_t comm_type(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return static_cast<std::int64_t>(CollectiveWork::kAllReduce);
    case CollectiveKind::kReduceScatter:
      return static_cast<std::int64_t>(CollectiveWork::kReduceScatter);
    case CollectiveKind::kAllGather:
      return static_cast<std::int64_t>(CollectiveWork::kAllGather);
    case CollectiveKind::kAllToAll:
      return static_cast<std::int64_t>(CollectiveWork::kAllToAll);
    case CollectiveKind::kBroadcast:
      return static_cast<std::int64_t>(CollectiveWork::kBroadcast);
  }
  throw std::logic_error{"unknown kind of collective"};
}

/// The values of an operation that are not those of a new one.
std::vector<ChakraAttribute> values_of(const Operation& operation) {
  std::vector<ChakraAttribute> own;
  const Operation otherwise;
  const auto whole = [&](std::string_view key, auto Operation::*member) {
    if (operation.*member != otherwise.*member)
      own.push_back(own_attribute(key, static_cast<std::int64_t>(operation.*member)));
  };
  const auto time = [&](std::string_view key, Seconds Operation::*member) {
    if (operation.*member != Seconds{}) own.push_back(own_attribute(key, (operation.*member).value()));
  };
  own.push_back(own_attribute("kind", static_cast<std::int64_t>(operation.kind)));
  whole("collective", &Operation::collective);
  whole("work", &Operation::work);
  whole("scope", &Operation::scope);
  whole("signal_scope", &Operation::signal_scope);
  whole("is_collected", &Operation::is_collected);
  whole("is_event", &Operation::is_event);
  whole("resource", &Operation::resource);
  whole("label", &Operation::label);
  whole("priority", &Operation::priority);
  whole("signals", &Operation::signals);
  whole("lag", &Operation::lag);
  whole("each", &Operation::each);
  whole("parts", &Operation::parts);
  time("host_s", &Operation::host);
  time("time_s", &Operation::time);
  time("critical_s", &Operation::critical);
  time("first_host_s", &Operation::first_host);
  time("memory_s", &Operation::memory);
  if (operation.bytes != Bytes{}) own.push_back(own_attribute("bytes", operation.bytes.value()));
  return own;
}

/// [operations] what it waits for: the operation, and its place among what waits for that.
std::vector<std::vector<std::pair<OperationIndex, std::int64_t>>> needs_of(const Program& program) {
  std::vector<std::vector<std::pair<OperationIndex, std::int64_t>>> needs(program.operations.size());
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& operation = program.operations[i];
    for (OperationIndex e = operation.first_after; e < operation.last_after; ++e)
      needs[at(program.after[at(e)])].emplace_back(static_cast<OperationIndex>(i), e - operation.first_after);
  }
  return needs;
}

/// Advances a counter of the team, from one rank to another.
struct Signal {
  OperationIndex operation = 0;
  bool is_message = false;  // that goes there anyway
};

/// Gates that wait within the step.
bool is_gate(const Operation& operation, CounterScope scope, int counter) {
  return operation.kind == OperationKind::kGate && operation.scope == scope && operation.resource == counter &&
         operation.lag == 0;
}

/// By which `from` advances counters of the team for `to`, in their order: messages, and what gates of this step await.
std::vector<Signal> signals(StepPrograms& programs, int from, int to) {
  const Program& receiver = programs.program(to);
  std::set<int> awaited;
  for (const Operation& operation : receiver.operations)
    if (operation.kind == OperationKind::kGate && operation.scope == CounterScope::kTeam && operation.lag == 0)
      awaited.insert(operation.resource);
  const std::vector<StepPrograms::Connection> connections = programs.connections(from);
  const Program& sender = programs.program(from);
  std::vector<Signal> found;
  for (std::size_t i = 0; i < sender.operations.size(); ++i) {
    const Operation& operation = sender.operations[i];
    if (operation.signals < 0 || operation.signal_scope != CounterScope::kTeam) continue;
    const int receiver_of = is_message(operation) ? connections[at(operation.resource)].to : from;
    if (receiver_of == to) found.push_back({static_cast<OperationIndex>(i), true});
    if (receiver_of == from && awaited.contains(operation.signals))
      found.push_back({static_cast<OperationIndex>(i), false});
  }
  return found;
}

class TraceBuilder {
 public:
  TraceBuilder(StepPrograms& programs, int rank) : programs_{programs}, rank_{rank} {
    trace_.file_name = "rank " + std::to_string(rank);
    for (std::size_t group = 0; group < programs.process_groups().size(); ++group)
      trace_.groups.push_back(std::to_string(group + 1));
  }

 protected:
  std::int32_t name(std::string text) {
    const auto [entry, is_new] = names_.try_emplace(text, static_cast<std::int32_t>(trace_.names.size()));
    if (is_new) trace_.names.push_back(std::move(text));
    return entry->second;
  }
  std::int32_t name_of(const Program& program, const Operation& operation, const std::vector<std::string>& kernels,
                       bool is_received = false) {
    const std::vector<std::string>& labels = operation.kind == OperationKind::kCompute ? kernels : program.labels;
    const bool has_label = operation.kind == OperationKind::kCompute || operation.kind == OperationKind::kCopy ||
                           operation.kind == OperationKind::kSend || operation.kind == OperationKind::kServerWork ||
                           operation.kind == OperationKind::kFetch || operation.kind == OperationKind::kCollective;
    std::string text{operation.kind == OperationKind::kSend && is_received ? "receive" : word_of(operation)};
    if (has_label && operation.label >= 0 && at(operation.label) < labels.size())
      text += ' ' + labels[at(operation.label)];
    if (operation.kind == OperationKind::kCopy && operation.label < 0) text += " samples";
    return name(std::move(text));
  }
  /// A message that goes, or comes.
  ChakraNode message(std::int32_t named, bool is_sent, int other, std::int64_t tag, Bytes size) const {
    return {.name = named,
            .type = is_sent ? ChakraType::kSend : ChakraType::kReceive,
            .stream = (is_sent ? kSendStream : kReceiveStream) + other,
            .bytes = size.value(),
            .source = is_sent ? rank_ : other,
            .destination = is_sent ? other : rank_,
            .tag = tag};
  }
  /// Adds a node that is no operation of the program.
  std::uint64_t add(ChakraNode node) {
    node.id = next_id_++;
    trace_.nodes.push_back(std::move(node));
    return trace_.nodes.back().id;
  }
  void add_file_attribute(std::string_view key, ChakraAttribute::Value value) {
    trace_.own.push_back(own_attribute(key, std::move(value)));
  }
  ChakraTrace finish() {
    if (trace_.nodes.empty()) add({.name = name("nothing"), .type = ChakraType::kMetadata});
    add_file_attribute("content", std::string{"program"});
    add_file_attribute("scenario", programs_.scenario().name);
    add_file_attribute("rank", std::int64_t{rank_});
    add_file_attribute("world_size", std::int64_t{programs_.ranks()});
    std::ranges::sort(trace_.nodes, {}, &ChakraNode::id);
    return std::move(trace_);
  }

  StepPrograms& programs_;
  int rank_;
  ChakraTrace trace_;
  std::map<std::string, std::int32_t> names_;
  std::uint64_t next_id_ = 0;
};

class WorkerTrace : TraceBuilder {
 public:
  WorkerTrace(StepPrograms& programs, int worker)
      : TraceBuilder{programs, worker},
        program_{programs.program(worker)},
        kernels_{programs.kernels(worker)},
        connections_{programs.connections(worker)},
        groups_{programs.groups(worker)},
        needs_{needs_of(program_)} {
    next_id_ = program_.operations.size();
  }

  ChakraTrace build() {
    for (std::size_t i = 0; i < program_.operations.size(); ++i)
      if (program_.operations[i].kind != OperationKind::kCompute) add_operation(static_cast<OperationIndex>(i));
    for (std::size_t stream = 0; stream < program_.streams.size(); ++stream) add_stream(static_cast<int>(stream));
    for (const int other : programs_.team(rank_)) {
      if (other == rank_) continue;
      add_signals_to(other);
      add_signals_from(other);
    }
    add_file_attributes();
    return finish();
  }

 private:
  const Operation& operation(OperationIndex index) const { return program_.operations[at(index)]; }

  /// A node of the program: its id is the operation's index.
  ChakraNode node_of(OperationIndex index) {
    ChakraNode node{.id = static_cast<std::uint64_t>(index),
                    .name = name_of(program_, operation(index), kernels_),
                    .type = ChakraType::kMetadata,
                    .own = values_of(operation(index))};
    add_needs(index, node);
    return node;
  }
  void add_needs(OperationIndex index, ChakraNode& node) const {
    std::vector<std::int64_t> places;
    for (const auto& [earlier, place] : needs_[at(index)]) {
      node.data_deps.push_back(static_cast<std::uint64_t>(earlier));
      places.push_back(place);
    }
    if (!places.empty()) node.own.push_back(own_attribute("places", std::move(places)));
  }

  void add_operation(OperationIndex index) {
    const Operation& does = operation(index);
    ChakraNode node = node_of(index);
    switch (does.kind) {
      case OperationKind::kDelay:
        set_host_work(node, does.time);
        break;
      case OperationKind::kServerWork:
        if (does.resource < 0) set_host_work(node, does.time);
        break;
      case OperationKind::kCopy:
        node.type = does.resource == 0 ? ChakraType::kLoad : ChakraType::kStore;
        node.stream = kCopyStream + does.resource;
        node.bytes = does.bytes.value();
        break;
      case OperationKind::kSend:
      case OperationKind::kNotify:
        set_message(index, node);
        break;
      case OperationKind::kCollective:
        node.type = ChakraType::kCollective;
        node.stream = kGroupStream + does.resource;
        node.comm_type = comm_type(does.collective);
        node.bytes = put_in(does);
        node.group = process_group(does.resource);
        break;
      default:
        break;
    }
    if (does.kind == OperationKind::kGate) add_own_signals(does, node);
    trace_.nodes.push_back(std::move(node));
  }

  static void set_host_work(ChakraNode& node, Seconds time) {
    node.type = ChakraType::kCompute;
    node.is_on_cpu = true;
    node.duration = nanoseconds(time);
  }

  void set_message(OperationIndex index, ChakraNode& node) {
    const StepPrograms::Connection connection = connections_[at(operation(index).resource)];
    if (connection.from == connection.to) return;  // within the worker
    const bool is_sent = connection.from == rank_;
    if (!is_sent) node.name = name_of(program_, operation(index), kernels_, true);
    ChakraNode sent =
        message(node.name, is_sent, is_sent ? connection.to : connection.from, index, operation(index).bytes);
    sent.id = node.id;
    sent.data_deps = std::move(node.data_deps);
    sent.own = std::move(node.own);
    node = std::move(sent);
  }

  /// What each rank puts in, which is what traces of Chakra state: of an all-gather its part.
  std::int64_t put_in(const Operation& collective) const {
    const std::int64_t bytes = collective.bytes.value();
    if (collective.collective != CollectiveKind::kAllGather) return bytes;
    const auto ranks = static_cast<std::int64_t>(groups_[at(collective.resource)].size());
    return (bytes + ranks - 1) / ranks;
  }

  std::int32_t process_group(int group) const {
    const std::vector<std::vector<int>>& all = programs_.process_groups();
    const auto found = std::ranges::find(all, groups_[at(group)]);
    return found == all.end() ? -1 : static_cast<std::int32_t>(found - all.begin());
  }

  /// The gate waits for what the program itself does, too.
  void add_own_signals(const Operation& gate, ChakraNode& node) const {
    if (gate.lag != 0 || (gate.scope != CounterScope::kTeam && gate.scope != CounterScope::kWorker)) return;
    for (std::size_t i = 0; i < program_.operations.size(); ++i) {
      const Operation& signals = program_.operations[i];
      if (signals.signals == gate.resource && signals.signal_scope == gate.scope &&
          signals.kind != OperationKind::kGate && !leaves(signals))
        node.ctrl_deps.push_back(i);
    }
  }
  /// A message to another worker does not advance the own gate.
  bool leaves(const Operation& does) const {
    return is_message(does) && connections_[at(does.resource)].from == rank_ &&
           connections_[at(does.resource)].to != rank_ && connections_[at(does.resource)].to < programs_.workers();
  }

  /// Kernels in their order: each is dispatched after the one before, and runs after it.
  void add_stream(int stream) {
    constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t dispatched = kNone, ran = kNone;
    for (const Stretch& stretch : program_.streams[at(stream)]) {
      for (std::int64_t repeat = 0; repeat < stretch.repeat; ++repeat) {
        for (OperationIndex index = stretch.begin; index < stretch.end; ++index) {
          ChakraNode kernel =
              repeat == 0 ? node_of(index) : ChakraNode{.name = name_of(program_, operation(index), kernels_)};
          kernel.type = ChakraType::kCompute;
          kernel.duration = nanoseconds(operation(index).time);
          kernel.stream = stream;
          if (ran != kNone) kernel.ctrl_deps.push_back(ran);
          if (operation(index).host > Seconds{}) {
            ChakraNode dispatch{.name = name("dispatch"), .is_on_cpu = true, .thread = stream};
            dispatch.type = ChakraType::kCompute;
            dispatch.duration = nanoseconds(operation(index).host);
            dispatch.data_deps = std::exchange(kernel.data_deps, {});
            if (dispatched != kNone) dispatch.ctrl_deps.push_back(dispatched);
            dispatched = add(std::move(dispatch));
            kernel.data_deps.push_back(dispatched);
          }
          if (repeat > 0) {
            ran = add(std::move(kernel));
          } else {
            ran = kernel.id;
            trace_.nodes.push_back(std::move(kernel));
          }
        }
      }
    }
  }

  /// What is in memory that others share is told to them by empty messages.
  void add_signals_to(int other) {
    for (const Signal& signal : signals(programs_, rank_, other)) {
      if (signal.is_message) continue;
      ChakraNode told = message(name("tell"), true, other, signal.operation, Bytes{});
      told.data_deps.push_back(static_cast<std::uint64_t>(signal.operation));
      add(std::move(told));
    }
  }
  void add_signals_from(int other) {
    const Program& sender = programs_.program(other);
    std::map<int, std::vector<std::uint64_t>> arrivals;  // by counter
    for (const Signal& signal : signals(programs_, other, rank_)) {
      const Operation& by = sender.operations[at(signal.operation)];
      const Bytes size = signal.is_message ? by.bytes : Bytes{};
      const std::int32_t named = signal.is_message ? name_of(sender, by, kernels_, true) : name("tell");
      arrivals[by.signals].push_back(add(message(named, false, other, signal.operation, size)));
    }
    for (ChakraNode& node : trace_.nodes) {
      if (node.id >= program_.operations.size()) continue;
      const Operation& gate = operation(static_cast<OperationIndex>(node.id));
      if (!is_gate(gate, CounterScope::kTeam, gate.resource)) continue;
      if (const auto found = arrivals.find(gate.resource); found != arrivals.end())
        node.ctrl_deps.insert(node.ctrl_deps.end(), found->second.begin(), found->second.end());
    }
  }

  void add_file_attributes() {
    add_file_attribute("labels", program_.labels);
    add_file_attribute("counters", std::int64_t{program_.counters});
    add_file_attribute("common_counters", std::int64_t{program_.common_counters});
    add_file_attribute("has_variables", std::int64_t{program_.has_variables});
    std::vector<std::int64_t> stretches;
    for (std::size_t stream = 0; stream < program_.streams.size(); ++stream)
      for (const Stretch& stretch : program_.streams[stream])
        stretches.insert(stretches.end(),
                         {static_cast<std::int64_t>(stream), stretch.begin, stretch.end, stretch.repeat});
    add_file_attribute("stretches", std::move(stretches));
  }

  const Program& program_;
  const std::vector<std::string>& kernels_;
  std::vector<StepPrograms::Connection> connections_;
  std::vector<std::vector<int>> groups_;
  std::vector<std::vector<std::pair<OperationIndex, std::int64_t>>> needs_;
};

/// What the workers' programs have a server do.
class ServerTrace : TraceBuilder {
 public:
  ServerTrace(StepPrograms& programs, int rank) : TraceBuilder{programs, rank}, server_{rank - programs.workers()} {}

  ChakraTrace build() {
    for (int worker = 0; worker < programs_.workers(); ++worker) add_work_for(worker);
    for (const auto& [node, counter] : gates_)
      for (const std::uint64_t applied : applied_[counter])
        if (applied != trace_.nodes[node].id) trace_.nodes[node].ctrl_deps.push_back(applied);
    return finish();
  }

 private:
  void add_work_for(int worker) {
    const Program& program = programs_.program(worker);
    const std::vector<StepPrograms::Connection> connections = programs_.connections(worker);
    const auto needs = needs_of(program);
    std::map<OperationIndex, std::uint64_t> here;  // operations that end at the server
    for (std::size_t i = 0; i < program.operations.size(); ++i) {
      const auto index = static_cast<OperationIndex>(i);
      const Operation& does = program.operations[i];
      std::vector<std::uint64_t> after;
      for (const auto& [earlier, place] : needs[i])
        if (const auto found = here.find(earlier); found != here.end()) after.push_back(found->second);
      const bool is_gate_here = does.kind == OperationKind::kGate && does.scope == CounterScope::kAll && !after.empty();
      if (is_message(does)) {
        const StepPrograms::Connection connection = connections[at(does.resource)];
        if (connection.from != rank_ && connection.to != rank_) continue;
        const bool is_sent = connection.from == rank_;
        ChakraNode node = message(name_of(program, does, {}, !is_sent), is_sent, worker, index, does.bytes);
        node.data_deps = std::move(after);
        const std::uint64_t id = add(std::move(node));
        if (connection.to == rank_) here.emplace(index, id);
      } else if ((does.kind == OperationKind::kServerWork && does.resource == server_) || is_gate_here) {
        ChakraNode node{
            .name = name_of(program, does, {}), .type = ChakraType::kMetadata, .data_deps = std::move(after)};
        if (!is_gate_here) {
          node.type = ChakraType::kCompute;
          node.is_on_cpu = true;
          node.duration = nanoseconds(does.time + does.host);
        } else {
          gates_.emplace_back(trace_.nodes.size(), does.resource);
        }
        here.emplace(index, add(std::move(node)));
        if (does.signals >= 0 && does.signal_scope == CounterScope::kAll)
          applied_[does.signals].push_back(here.at(index));
      }
    }
  }

  int server_;
  std::map<int, std::vector<std::uint64_t>> applied_;  // by counter of all
  std::vector<std::pair<std::size_t, int>> gates_;     // node, counter
};

}  // namespace

void require_fixed_partners(const Scenario& scenario) {
  if (scenario.training.strategy.kind->exchanges_models())
    throw InputError{
        scenario.file_name +
        ": /training/strategy/kind: workers that average in pairs draw their partners when they run; a trace of "
        "Chakra is fixed"};
}

ChakraTrace chakra_trace(StepPrograms& programs, int rank) {
  return rank < programs.workers() ? WorkerTrace{programs, rank}.build() : ServerTrace{programs, rank}.build();
}

}  // namespace rehearse
