#include "sim/training/chakra_program.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/overloaded.hpp"
#include "workloads/traces/kernel_class.hpp"

namespace rehearse {

namespace {

/// Streams of what is not on one of the program's: what shares one comes in its order.
constexpr std::int64_t kCopyStream = 1000;     // and the direction
constexpr std::int64_t kGroupStream = 2000;    // and the group
constexpr std::int64_t kSendStream = 100'000;  // and the other rank
constexpr std::int64_t kReceiveStream = 1'000'000;

Nanoseconds nanoseconds(Seconds time) { return std::llround(time.value() * 1e9); }

/// Of a message; none for what is not one.
std::optional<int> connection_of(const Operation& operation) {
  if (const auto* send = std::get_if<Send>(&operation)) return send->connection;
  if (const auto* notify = std::get_if<Notify>(&operation)) return notify->connection;
  return {};
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
    case CollectiveKind::kShift:
      break;  // which is refused
  }
  throw std::logic_error{"unknown kind of collective"};
}

/// What a node of a trace is: all work of a server is of one kind, and so are all gates.
struct NodeRole {
  std::string_view word;  // of what it is called: "send conv1"
  int kind = 0;
  int resource = 0;  // of its kind; -1: the own machine
  int work = 0, scope = 0;
};

struct NodeRoleOf {
  NodeRole operator()(const Delay&) const { return {"host work", 0}; }
  NodeRole operator()(const Copy& copy) const { return {"copy", 1, static_cast<int>(copy.direction)}; }
  NodeRole operator()(const BeginKernels&) const { return {"begin", 2}; }
  NodeRole operator()(const OneOf<Compute, Chain> auto& kernels) const { return {"compute", 3, kernels.stream}; }
  NodeRole operator()(const Send& send) const { return {"send", 4, send.connection}; }
  NodeRole operator()(const Notify& notify) const { return {"notify", 5, notify.connection}; }
  NodeRole operator()(const ReadVariable& read) const { return {"read", 6, read.server, 0}; }
  NodeRole operator()(const ApplyGradient& apply) const { return {"apply", 6, apply.server, 1}; }
  NodeRole operator()(const AddGradient&) const { return {"add up", 6, -1, 2}; }
  NodeRole operator()(const Fetch&) const { return {"fetch", 7}; }
  NodeRole operator()(const Collective& collective) const { return {to_text(collective.kind), 8, collective.group}; }
  NodeRole operator()(const Gate& gate) const { return {"gate", 9, gate.counter, 0, static_cast<int>(gate.scope)}; }
  NodeRole operator()(const StepsGate&) const { return {"gate", 9, 0, 0, 3}; }
  NodeRole operator()(const Update&) const { return {"update", 10}; }
  NodeRole operator()(const Fence&) const { return {"fence", 11}; }
  NodeRole operator()(const NextStep&) const { return {"next step", 12}; }
};
NodeRole role_of(const Operation& operation) { return std::visit(NodeRoleOf{}, operation); }

/// Of an operation that has one.
std::optional<int> label_of(const Operation& operation) {
  return std::visit(
      [](const auto& does) -> std::optional<int> {
        if constexpr (requires { does.label; }) return does.label;
        return {};
      },
      operation);
}
Bytes size_of(const Operation& message) {
  const auto* send = std::get_if<Send>(&message);
  return send == nullptr ? Bytes{} : send->bytes;
}

/// What the node's role and fields are, but for those that have the value of most.
std::vector<ChakraAttribute> attributes_of(const Node& node) {
  std::vector<ChakraAttribute> own;
  const auto whole = [&](std::string_view key, auto value, std::int64_t in_most = 0) {
    if (const auto number = static_cast<std::int64_t>(value); number != in_most)
      own.push_back(own_attribute(key, number));
  };
  const auto time = [&](std::string_view key, Seconds value) {
    if (value != Seconds{}) own.push_back(own_attribute(key, value.value()));
  };
  const auto* apply = std::get_if<ApplyGradient>(&node.operation);
  const auto* collective = std::get_if<Collective>(&node.operation);
  const bool counts = apply != nullptr && apply->counter >= 0;
  const Signal signal = node.signal.value_or(counts ? Signal{CounterScope::kAll, apply->counter} : Signal{{}, -1});
  const NodeRole role = role_of(node.operation);
  whole("kind", role.kind, -1);
  if (collective != nullptr) whole("collective", collective->kind);
  whole("work", role.work);
  whole("scope", role.scope);
  whole("signal_scope", signal.scope);
  std::visit(
      [&](const auto& does) {
        if constexpr (requires { does.is_collected; }) whole("is_collected", does.is_collected);
        if constexpr (requires { does.is_dispatched_ahead; }) whole("is_dispatched_ahead", does.is_dispatched_ahead);
        if constexpr (requires { does.is_event; }) whole("is_event", does.is_event);
        whole("resource", role.resource);
        if constexpr (requires { does.label; }) whole("label", does.label);
        if constexpr (requires { does.priority; }) whole("priority", does.priority);
        whole("signals", signal.counter, -1);
        if constexpr (requires { does.lag; }) whole("lag", does.lag);
        if constexpr (requires { does.each; }) whole("each", does.each, 1);
        if constexpr (requires { does.parts; }) whole("parts", does.parts, 1);
        if constexpr (requires { does.host; }) time("host_s", does.host);
        if constexpr (requires { does.update; }) time("host_s", does.update);
        if constexpr (requires { does.time; }) time("time_s", does.time);
        if (is_kernels(node.operation)) time("critical_s", chain_of(node.operation).critical);
        if constexpr (requires { does.memory; }) time("memory_s", does.memory);
        if constexpr (requires { does.bytes; }) whole("bytes", does.bytes.value());
      },
      node.operation);
  return own;
}

/// [operations] what it waits for: the operation, and its place among what waits for that.
std::vector<std::vector<std::pair<OperationIndex, std::int64_t>>> needs_of(const Program& program) {
  std::vector<std::vector<std::pair<OperationIndex, std::int64_t>>> needs(program.nodes.size());
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    for (OperationIndex e = node.first_after; e < node.last_after; ++e)
      needs[at(program.after[at(e)])].emplace_back(static_cast<OperationIndex>(i), e - node.first_after);
  }
  return needs;
}

/// The operation advances a counter of the team, from one rank to another.
struct Told {
  OperationIndex operation = 0;
  int counter = 0;
  bool is_message = false;  // that goes there anyway
};

/// The counter of the team for which the operation waits within the step, if it is such a gate.
std::optional<int> awaited_of_team(const Operation& operation) {
  const auto* gate = std::get_if<Gate>(&operation);
  if (gate == nullptr || gate->scope != CounterScope::kTeam || gate->lag != 0) return {};
  return gate->counter;
}

/// By which `from` advances counters of the team for `to`, in their order: messages, and what gates of this step await.
std::vector<Told> signals(ExportedStep& step, int from, int to) {
  const Program& receiver = step.program(to);
  std::set<int> awaited;
  for (const Node& node : receiver.nodes)
    if (const std::optional<int> counter = awaited_of_team(node.operation)) awaited.insert(*counter);
  const std::vector<Wire> connections = step.compiler.strategy().wires(from);
  const Program& sender = step.program(from);
  std::vector<Told> found;
  for (std::size_t i = 0; i < sender.nodes.size(); ++i) {
    const Node& node = sender.nodes[i];
    if (!node.signal || node.signal->scope != CounterScope::kTeam) continue;
    const std::optional<int> connection = connection_of(node.operation);
    const int receiver_of = connection ? connections[at(*connection)].to : from;
    const Told told{static_cast<OperationIndex>(i), node.signal->counter, receiver_of == to};
    if (receiver_of == to || (receiver_of == from && awaited.contains(told.counter))) found.push_back(told);
  }
  return found;
}

class TraceBuilder {
 public:
  TraceBuilder(ExportedStep& step, int rank) : step_{step}, rank_{rank} {
    trace_.file_name = "rank " + std::to_string(rank);
    for (std::size_t group = 0; group < step.process_groups.size(); ++group)
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
    const std::vector<std::string>& labels = is_kernels(operation) ? kernels : program.labels;
    const std::optional<int> label = label_of(operation);
    std::string text{is_received && std::holds_alternative<Send>(operation) ? "receive" : role_of(operation).word};
    if (label && *label >= 0 && at(*label) < labels.size()) text += ' ' + labels[at(*label)];
    if (label == Copy::kSamples) text += " samples";
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
    add_file_attribute("scenario", step_.compiler.scenario().name);
    add_file_attribute("rank", std::int64_t{rank_});
    add_file_attribute("world_size", std::int64_t{step_.compiler.ranks()});
    std::ranges::sort(trace_.nodes, {}, &ChakraNode::id);
    return std::move(trace_);
  }

  ExportedStep& step_;
  int rank_;
  ChakraTrace trace_;
  std::map<std::string, std::int32_t> names_;
  std::uint64_t next_id_ = 0;
};

class WorkerTrace : TraceBuilder {
 public:
  WorkerTrace(ExportedStep& step, int worker)
      : TraceBuilder{step, worker},
        program_{step.program(worker)},
        kernels_{step.compiler.kernels(worker)},
        connections_{step.compiler.strategy().wires(worker)},
        needs_{needs_of(program_)} {
    next_id_ = program_.nodes.size();
  }

  ChakraTrace build() {
    for (std::size_t i = 0; i < program_.nodes.size(); ++i)
      if (!is_kernels(program_.nodes[i].operation)) add_operation(static_cast<OperationIndex>(i));
    for (std::size_t stream = 0; stream < program_.streams.size(); ++stream) add_stream(static_cast<int>(stream));
    for (const int other : step_.compiler.strategy().team(rank_)) {
      if (other == rank_) continue;
      add_signals_to(other);
      add_signals_from(other);
    }
    add_file_attributes();
    return finish();
  }

 private:
  const Operation& operation(OperationIndex index) const { return program_.operation(index); }

  /// A node of the program: its id is the operation's index.
  ChakraNode node_of(OperationIndex index) {
    ChakraNode node{.id = static_cast<std::uint64_t>(index),
                    .name = name_of(program_, operation(index), kernels_),
                    .type = ChakraType::kMetadata,
                    .own = attributes_of(program_.nodes[at(index)])};
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
    ChakraNode node = node_of(index);
    match(
        operation(index), [&](const OneOf<Delay, AddGradient> auto& work) { set_host_work(node, work.time); },
        [&](const Copy& copy) {
          const bool goes = copy.direction == CopyDirection::kToGpu;
          node.type = goes ? ChakraType::kLoad : ChakraType::kStore;
          node.stream = kCopyStream + static_cast<int>(copy.direction);
          node.bytes = copy.bytes.value();
        },
        [&](const OneOf<Send, Notify> auto& message) { set_message(index, message.connection, node); },
        [&](const Collective& collective) {
          node.type = ChakraType::kCollective;
          node.stream = kGroupStream + collective.group;
          node.comm_type = comm_type(collective.kind);
          node.bytes = put_in(collective);
          node.group = process_group(collective.group);
        },
        [&](const Gate& gate) { add_own_signals(gate, node); },
        [](const OneOf<BeginKernels, Compute, Chain, ReadVariable, ApplyGradient, Fetch, StepsGate, Update, Fence,
                       NextStep> auto&) {});
    trace_.nodes.push_back(std::move(node));
  }

  static void set_host_work(ChakraNode& node, Seconds time) {
    node.type = ChakraType::kCompute;
    node.is_on_cpu = true;
    node.duration = nanoseconds(time);
  }

  void set_message(OperationIndex index, int its_connection, ChakraNode& node) {
    const Wire& connection = connections_[at(its_connection)];
    if (connection.from == connection.to) return;  // within the worker
    const bool is_sent = connection.from == rank_;
    if (!is_sent) node.name = name_of(program_, operation(index), kernels_, true);
    ChakraNode sent =
        message(node.name, is_sent, is_sent ? connection.to : connection.from, index, size_of(operation(index)));
    sent.id = node.id;
    sent.data_deps = std::move(node.data_deps);
    sent.own = std::move(node.own);
    node = std::move(sent);
  }

  /// What each rank puts in, which is what traces of Chakra state: of an all-gather its part.
  std::int64_t put_in(const Collective& collective) const {
    const std::int64_t bytes = collective.bytes.value();
    if (collective.kind != CollectiveKind::kAllGather) return bytes;
    const auto ranks = static_cast<std::int64_t>(group(collective.group).workers.size());
    return (bytes + ranks - 1) / ranks;
  }

  /// As the program numbers it.
  const WorkerGroup& group(int index) const {
    return step_.step.groups[at(step_.step.workers[at(rank_)].groups[at(index)])];
  }
  std::int32_t process_group(int index) const {
    const auto found = std::ranges::find(step_.process_groups, group(index).workers);
    return found == step_.process_groups.end() ? -1 : static_cast<std::int32_t>(found - step_.process_groups.begin());
  }

  /// The gate waits for what the program itself does, too.
  void add_own_signals(const Gate& gate, ChakraNode& node) const {
    if (gate.lag != 0 || gate.scope == CounterScope::kAll) return;
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      const auto& [does, signal, needs, first_after, last_after] = program_.nodes[i];
      if (signal && signal->counter == gate.counter && signal->scope == gate.scope &&
          !std::holds_alternative<Gate>(does) && !leaves(does))
        node.ctrl_deps.push_back(i);
    }
  }
  /// A message to another worker does not advance the own gate.
  bool leaves(const Operation& does) const {
    const std::optional<int> connection = connection_of(does);
    if (!connection) return false;
    const Wire& goes = connections_[at(*connection)];
    return goes.from == rank_ && goes.to != rank_ && goes.to < step_.compiler.workers();
  }

  /// Kernels in their order: each is dispatched after the one before, and runs after it.
  void add_stream(int stream) {
    constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t dispatched = kNone, ran = kNone;
    for (const Stretch& stretch : program_.streams[at(stream)]) {
      for (std::int64_t repeat = 0; repeat < stretch.repeat; ++repeat) {
        for (OperationIndex index = stretch.begin; index < stretch.end; ++index) {
          const Chain does = chain_of(operation(index));
          ChakraNode kernel =
              repeat == 0 ? node_of(index) : ChakraNode{.name = name_of(program_, operation(index), kernels_)};
          kernel.type = ChakraType::kCompute;
          kernel.duration = nanoseconds(does.time);
          kernel.stream = stream;
          if (ran != kNone) kernel.ctrl_deps.push_back(ran);
          if (does.host > Seconds{}) {
            ChakraNode dispatch{.name = name("dispatch"), .is_on_cpu = true, .thread = stream};
            dispatch.type = ChakraType::kCompute;
            dispatch.duration = nanoseconds(does.host);
            if (!does.is_dispatched_ahead) dispatch.data_deps = std::exchange(kernel.data_deps, {});
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
    for (const Told& told : signals(step_, rank_, other)) {
      if (told.is_message) continue;
      ChakraNode node = message(name("tell"), true, other, told.operation, Bytes{});
      node.data_deps.push_back(static_cast<std::uint64_t>(told.operation));
      add(std::move(node));
    }
  }
  void add_signals_from(int other) {
    const Program& sender = step_.program(other);
    std::map<int, std::vector<std::uint64_t>> arrivals;  // by counter
    for (const Told& told : signals(step_, other, rank_)) {
      const Operation& by = sender.operation(told.operation);
      const std::int32_t named = told.is_message ? name_of(sender, by, kernels_, true) : name("tell");
      const Bytes size = told.is_message ? size_of(by) : Bytes{};
      arrivals[told.counter].push_back(add(message(named, false, other, told.operation, size)));
    }
    for (ChakraNode& node : trace_.nodes) {
      if (node.id >= program_.nodes.size()) continue;
      const std::optional<int> counter = awaited_of_team(operation(static_cast<OperationIndex>(node.id)));
      if (const auto found = counter ? arrivals.find(*counter) : arrivals.end(); found != arrivals.end())
        node.ctrl_deps.insert(node.ctrl_deps.end(), found->second.begin(), found->second.end());
    }
  }

  void add_file_attributes() {
    add_file_attribute("labels", program_.labels);
    add_file_attribute("counters", std::int64_t{program_.counters});
    add_file_attribute("common_counters", std::int64_t{program_.common_counters});
    add_file_attribute("has_variables", std::int64_t{program_.has_variables});
    add_file_attribute("awaits_samples", std::int64_t{program_.awaits_samples});
    add_file_attribute("copies_samples", std::int64_t{program_.copies_samples});
    std::vector<std::int64_t> stretches;
    for (std::size_t stream = 0; stream < program_.streams.size(); ++stream)
      for (const Stretch& stretch : program_.streams[stream])
        stretches.insert(stretches.end(),
                         {static_cast<std::int64_t>(stream), stretch.begin, stretch.end, stretch.repeat});
    add_file_attribute("stretches", std::move(stretches));
  }

  const Program& program_;
  const std::vector<std::string>& kernels_;
  std::vector<Wire> connections_;
  std::vector<std::vector<std::pair<OperationIndex, std::int64_t>>> needs_;
};

/// What the workers' programs have a server do.
class ServerTrace : TraceBuilder {
 public:
  ServerTrace(ExportedStep& step, int rank) : TraceBuilder{step, rank}, server_{rank - step.compiler.workers()} {}

  ChakraTrace build() {
    for (int worker = 0; worker < step_.compiler.workers(); ++worker) add_work_for(worker);
    for (const auto& [node, counter] : gates_)
      for (const std::uint64_t applied : applied_[counter])
        if (applied != trace_.nodes[node].id) trace_.nodes[node].ctrl_deps.push_back(applied);
    return finish();
  }

 private:
  void add_work_for(int worker) {
    const Program& program = step_.program(worker);
    const std::vector<Wire> connections = step_.compiler.strategy().wires(worker);
    const auto needs = needs_of(program);
    std::map<OperationIndex, std::uint64_t> here;  // operations that end at the server
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
      const auto index = static_cast<OperationIndex>(i);
      const Operation& does = program.nodes[i].operation;
      std::vector<std::uint64_t> after;
      for (const auto& [earlier, place] : needs[i])
        if (const auto found = here.find(earlier); found != here.end()) after.push_back(found->second);
      if (const std::optional<int> message_over = connection_of(does)) {
        const Wire& connection = connections[at(*message_over)];
        if (connection.from != rank_ && connection.to != rank_) continue;
        const bool is_sent = connection.from == rank_;
        ChakraNode node = message(name_of(program, does, {}, !is_sent), is_sent, worker, index, size_of(does));
        node.data_deps = std::move(after);
        const std::uint64_t id = add(std::move(node));
        if (connection.to == rank_) here.emplace(index, id);
        continue;
      }
      const std::optional<Seconds> time = time_here(does);
      const auto* gate = std::get_if<Gate>(&does);
      const bool is_gate_here = gate != nullptr && gate->scope == CounterScope::kAll && !after.empty();
      if (!time && !is_gate_here) continue;
      ChakraNode node{.name = name_of(program, does, {}), .type = ChakraType::kMetadata, .data_deps = std::move(after)};
      if (time) {
        node.type = ChakraType::kCompute;
        node.is_on_cpu = true;
        node.duration = nanoseconds(*time);
      } else {
        gates_.emplace_back(trace_.nodes.size(), gate->counter);
      }
      here.emplace(index, add(std::move(node)));
      if (const auto* apply = std::get_if<ApplyGradient>(&does); apply != nullptr && apply->counter >= 0)
        applied_[apply->counter].push_back(here.at(index));
    }
  }

  /// Of the server's cores, if it is their work.
  std::optional<Seconds> time_here(const Operation& does) const {
    const auto* read = std::get_if<ReadVariable>(&does);
    if (read != nullptr && read->server == server_) return read->time;
    const auto* apply = std::get_if<ApplyGradient>(&does);
    if (apply != nullptr && apply->server == server_) return apply->time + apply->update;
    return {};
  }

  int server_;
  std::map<int, std::vector<std::uint64_t>> applied_;  // by counter of all
  std::vector<std::pair<std::size_t, int>> gates_;     // node, counter
};

}  // namespace

void require_exportable(const Scenario& scenario) {
  const ContextSplit& context = scenario.model.context;
  if (context.positions > 1 && context.method == ContextSplit::Method::kRing)
    throw InputError{
        scenario.file_name +
        ": /training/strategy/context/method: expected \"all_gather\" or \"all_to_all\"; a ring passes keys and "
        "values on in steps for which Chakra has no collective"};
  if (scenario.model.expert_split.has_own_loads())
    throw InputError{
        scenario.file_name +
        ": /training/strategy/experts/zipf: expected 0, or \"imbalance\"; a collective of Chakra has one size for all"};
  if (scenario.training.strategy.kind->exchanges_models())
    throw InputError{
        scenario.file_name +
        ": /training/strategy/kind: workers that average in pairs draw their partners when they run; a trace of "
        "Chakra is fixed"};
}

ExportedStep::ExportedStep(const Scenario& scenario) : site{scenario}, compiler{site}, step{compiler.step()} {
  std::set<std::vector<int>> known;
  for (const WorkerStep& worker : step.workers)
    for (const int g : worker.groups)
      if (const std::vector<int>& group = step.groups[at(g)].workers;
          static_cast<int>(group.size()) < compiler.ranks() && known.insert(group).second)
        process_groups.push_back(group);
}

ChakraTrace chakra_trace(ExportedStep& step, int rank) {
  return rank < step.compiler.workers() ? WorkerTrace{step, rank}.build() : ServerTrace{step, rank}.build();
}

}  // namespace rehearse
