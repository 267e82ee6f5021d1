// Stochastic gradient descent with parameter servers. A worker's step, L being the one-way latency to a server:
//
//   host      step_overhead
//   pull      request (L); per unit: a core of the server reads it, the connection carries it (+ L), PCIe copies it to
//             the GPU
//   compute   kernels run as their variables arrive
//   push      per unit, as its gradients are ready: PCIe, connection (+ L), a core of the server applies it
//   done      every server acknowledges its last update (L); the worker's next step begins when the gate of steps
//             (step_gate.hpp) lets it
//
// So a step contains two round trips. Connections are per worker and server. Batch-normalisation moving averages are
// not pulled in training, but their updates are pushed.
//
// Pushing back each variable (MXNet's dist_sync, BytePS) has no pull and no acknowledgement: when the gradients of all
// workers for a unit are in, a core applies them and the unit goes to all workers; a worker's next step begins with its
// own last kernel, and waits for variables only where its kernels need them.
//
// With forward overlap a worker's next step begins with its own last kernel, too, and as soon as a server has
// acknowledged a gradient the worker asks for that unit: the server answers, in synchronous training, once the
// gradients of all workers for it are in. The gate of steps holds a worker until the gradients of others are applied on
// which its bound on staleness depends.
//
// With a cycle time gradients that are in a worker's memory at the end of a cycle go to their server as one message;
// each is applied by itself.
//
// Aggregation: the workers of a machine can be one team towards the servers, in the program of its first member. A unit
// is pulled once for all of them, when the last has begun its step, and pushed once, when all of their gradients for it
// have been added up. That happens in host memory, with which each GPU exchanges by PCIe; or on one of the GPUs, each
// variable on another one, with which the others exchange directly, and it alone with the host (MXNet's kvstore
// dist_device_sync). Without aggregation each worker is a team of its own.
//
// Servers that share a machine with workers: between processes a variable is a message, without a NIC; in the workers'
// process (`variables`) it is only copied over PCIe, and cores spend the arithmetic's time on it: all of them on a
// large one, once for each gradient that is added up and once for the update. Variables that live on the GPUs are
// exchanged between those alone, each being updated where it lives; the time of that does not hold up the GPU's
// kernels.

#include <algorithm>
#include <compare>
#include <map>
#include <numeric>
#include <utility>

#include "sim/scenario/placement.hpp"
#include "sim/training/strategy_compiler.hpp"

namespace rehearse {

namespace {

/// Where a worker stands among those that exchange with the servers as one: its team.
struct TeamPlace {
  int member = 0, members = 1;
  int gpus = 1;                        // of the worker
  int cores = 1;                       // of its machine
  std::vector<bool> shares_machine{};  // [servers] with the team, where that changes what they do
  std::vector<int> adder{};            // [units] member on whose GPU gradients are added up; empty: in host memory

  auto operator<=>(const TeamPlace&) const = default;
};

/// Connections are, for each server s, 2 s to it and 2 s + 1 from it, and then those from the GPU to that of each member.
class Compiler {
 public:
  Compiler(const Scenario& scenario, const ComputePlan& plan, int passes, const GradientUnits& units,
           const TeamPlace& place, FirstVariables first)
      : scenario_{scenario},
        strategy_{scenario.training.strategy.server_rules()},
        exchange_{scenario.training.strategy.exchange},
        costs_{scenario.profile.servers},
        plan_{plan},
        units_{units.units},
        units_of_{units.of_variable},
        place_{place},
        passes_{passes},
        servers_{place.shares_machine.size()},
        pushes_back_{strategy_.pushes_back_each_variable},
        runs_ahead_{pushes_back_ || exchange_.overlap == Overlap::kForward},
        shares_updates_{runs_ahead_ && strategy_.synchronization == Synchronization::kSynchronous},
        pulls_{!runs_ahead_ || first == FirstVariables::kPulled},
        lives_on_gpus_{strategy_.variables == VariableHome::kGpus},
        variables_(units_.size(), kNone),
        pushed_(units_.size(), kNone),
        applied_(servers_) {
    for (const GradientUnit& unit : units_) builder_.program().labels.push_back(unit.name);
    builder_.program().counters = static_cast<int>(units_.size());  // of values that came for the next step
    if (exchange_.cycle_time) builder_.program().cycle = {*exchange_.cycle_time, exchange_.bucket_size};
  }

  Program compile() {
    host_ = builder_.add(Delay{.time = plan_.step_overhead});
    const OperationIndex begin = then(add_samples(builder_, plan_, passes_, host_, -1), BeginKernels{});
    if (pulls_)
      pull();
    else
      for (std::size_t u = 0; u < units_.size(); ++u)
        if (is_pulled(u)) variables_[u] = await_pushed(begin, u);
    const OperationIndex all = join(begin);
    for (const OperationIndex arrival : variables_)
      if (arrival != kNone) builder_.order(arrival, all);
    builder_.program().has_variables = all;
    const CompiledKernels kernels = compile_kernels(builder_, plan_, passes_, 0);
    if (!kernels.first.empty()) builder_.order(begin, kernels.first.front());
    last_ = kernels.last.empty() ? begin : kernels.last.back();
    await_variables(kernels);
    push(kernels);
    if (runs_ahead_) receive_next();
    end_step();
    if (shares_updates_) builder_.program().common_counters = static_cast<int>(units_.size());
    return builder_.finish();
  }

 private:
  static constexpr OperationIndex kNone = -1;

  /// Counters of the team: members that have asked, acknowledgements; and of each unit the gradients that are added up
  /// on a GPU, those in host memory, and when its value, pulled or pushed, has come to the host and to each GPU.
  static constexpr int kAsked = 0, kAcknowledged = 1;
  int of_unit(std::size_t u, int which) const { return 2 + static_cast<int>(u) * (4 + 2 * place_.members) + which; }
  int added_on_gpu(std::size_t u) const { return of_unit(u, 0); }
  int added_on_host(std::size_t u) const { return of_unit(u, 1); }
  int on_host(std::size_t u, bool is_pushed) const { return of_unit(u, is_pushed ? 2 : 3); }
  int on_gpu(std::size_t u, int member, bool is_pushed) const {
    return of_unit(u, 4 + 2 * member + (is_pushed ? 1 : 0));
  }

  std::size_t server_of(std::size_t u) const { return static_cast<std::size_t>(units_[u].server); }
  bool is_pulled(std::size_t u) const { return units_[u].value_bytes > Bytes{}; }
  int priority(std::size_t u) const { return exchange_.order == Order::kPriority ? units_[u].first_use : 0; }
  bool is_shared() const { return place_.members > 1; }
  bool is_leader() const { return place_.member == 0; }
  bool adds_on_gpus() const { return !place_.adder.empty(); }
  /// Whether this GPU exchanges the unit with the host, for all of the team if gradients are added up on GPUs.
  bool is_exchanged_here(std::size_t u) const { return !adds_on_gpus() || place_.adder[u] == place_.member; }
  bool is_in_process(std::size_t server) const {
    return strategy_.variables == VariableHome::kWorkerProcess && place_.shares_machine[server];
  }
  static int to_server(std::size_t s) { return static_cast<int>(2 * s); }
  static int from_server(std::size_t s) { return static_cast<int>(2 * s) + 1; }
  int to_member(int member) const { return static_cast<int>(2 * servers_) + member; }

  OperationIndex then(OperationIndex before, const Operation& operation) {
    const OperationIndex added = builder_.add(operation);
    builder_.order(before, added);
    return added;
  }
  OperationIndex join(OperationIndex after) { return then(after, Delay{}); }
  OperationIndex gate(OperationIndex after, CounterScope scope, int counter, int each, int lag = 0) {
    return then(after, Gate{.scope = scope, .counter = counter, .lag = lag, .each = each});
  }
  /// Returns what advances the counter: the operation, or where that advances another one what follows it.
  OperationIndex signal(OperationIndex operation, CounterScope scope, int counter) {
    if (builder_.program().nodes[at(operation)].signal) operation = join(operation);
    builder_.signal(operation, {scope, counter});
    return operation;
  }
  OperationIndex send(OperationIndex after, std::size_t u, int connection, Bytes size, bool is_collected = false) {
    return then(after, Send{.connection = connection,
                            .label = static_cast<int>(u),
                            .priority = priority(u),
                            .is_collected = is_collected,
                            .bytes = size});
  }
  OperationIndex copy(OperationIndex after, std::size_t u, CopyDirection direction, Bytes size) {
    return then(after,
                Copy{.direction = direction, .label = static_cast<int>(u), .priority = priority(u), .bytes = size});
  }

  /// Without overlap a worker of several GPUs copies to them when all variables are there, and sends gradients when all
  /// have been added up: 2 S / B + 2 g S / B_pcie, one after another (Shang et al., spotDNN, IWQoS 2023, equation 7).
  bool copies_at_once() const { return exchange_.overlap == Overlap::kNone && place_.gpus > 1 && !pushes_back_; }

  /// Of a core of the server, for a message from or to the team.
  Seconds message_time(std::size_t server, Bytes size) const {
    if (costs_.between_processes && place_.shares_machine[server]) return costs_.between_processes->time(size);
    return LocalExchange{costs_.time_per_variable, costs_.time_per_byte}.time(size);
  }

  /// Arithmetic on one gradient in the memory of a host.
  AddGradient addition(std::size_t u) const {
    const Bytes size = units_[u].gradient_bytes;
    const int parts = size > costs_.split_update_threshold ? std::max(1, place_.cores) : 1;
    const LocalExchange arithmetic = costs_.in_process.value_or(LocalExchange{});
    return {.label = static_cast<int>(u),
            .parts = parts,
            .time = arithmetic.time_per_variable + arithmetic.time_per_byte * (as_double(size) / parts)};
  }

  /// Of the kernels that add up the gradients, two at a time, and update the variable: each reads and writes memory.
  Seconds time_on_gpu(std::size_t u) const {
    const GpuParameters& costs = scenario_.profile.gpu;
    const Accelerator& gpu = *scenario_.first_workers().accelerator;
    const auto additions = static_cast<double>(place_.members - 1);
    const auto stated = costs.update_accesses.find(to_text(scenario_.optimizer));
    const double update =
        stated != costs.update_accesses.end() ? stated->second : 3 + 2 * optimizer_slots(scenario_.optimizer);
    return costs.kernel_overhead * (additions + 1) +
           units_[u].gradient_bytes / (gpu.memory_bandwidth * costs.memory_efficiency) * (3 * additions + update);
  }

  /// Variables come to the hosts, for all members once the last of them asks, and from there to the GPUs.
  void pull() {
    OperationIndex asked = host_;
    if (is_shared()) {
      signal(host_, CounterScope::kTeam, kAsked);
      if (is_leader() || lives_on_gpus_) asked = gate(host_, CounterScope::kTeam, kAsked, place_.members);
    }
    if (lives_on_gpus_) {
      for (std::size_t u = 0; u < units_.size(); ++u)
        if (is_pulled(u)) variables_[u] = is_exchanged_here(u) ? share(asked, u, false) : await_share(u);
      return;
    }
    std::vector<OperationIndex> on_host(units_.size(), kNone);
    if (is_leader())
      for (std::size_t s = 0; s < servers_; ++s) {
        OperationIndex request = kNone;
        for (std::size_t u = 0; u < units_.size(); ++u) {
          if (server_of(u) != s || !is_pulled(u)) continue;
          if (request == kNone) request = then(asked, Notify{.connection = to_server(s), .is_event = true});
          on_host[u] = send_value(is_in_process(s) ? request : then(request, read(u)), u, false);
        }
      }
    variables_ = receive(std::move(on_host), false);
  }

  /// Of a unit, by its server.
  ReadVariable read(std::size_t u) const {
    return {.server = units_[u].server,
            .label = static_cast<int>(u),
            .time = message_time(server_of(u), units_[u].value_bytes)};
  }

  /// From its server to the team.
  OperationIndex send_value(OperationIndex after, std::size_t u, bool is_pushed) {
    const OperationIndex sent = send(after, u, from_server(server_of(u)), units_[u].value_bytes);
    return is_shared() ? signal(sent, CounterScope::kTeam, on_host(u, is_pushed)) : sent;
  }

  /// Copies units from the host, to which they come by the leader's operations `arrivals`, which the others wait for.
  /// Returns when each is on this GPU, but for those that another member pushes to it. Both: [units].
  std::vector<OperationIndex> receive(std::vector<OperationIndex> arrivals, bool is_pushed) {
    const auto is_copied = [this](std::size_t u) { return is_pulled(u) && is_exchanged_here(u); };
    const OperationIndex all = copies_at_once() ? join(host_) : kNone;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (!is_copied(u)) continue;
      if (!is_leader()) arrivals[u] = gate(host_, CounterScope::kTeam, on_host(u, is_pushed), 1);
      if (all != kNone) builder_.order(std::exchange(arrivals[u], all), all);
    }
    std::vector<OperationIndex> on_this_gpu(units_.size(), kNone);
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (is_copied(u))
        on_this_gpu[u] = share(copy(arrivals[u], u, CopyDirection::kToGpu, units_[u].value_bytes), u, is_pushed);
      else if (is_pulled(u) && !is_pushed)
        on_this_gpu[u] = await_share(u);
    return on_this_gpu;
  }

  /// A unit is on this GPU, from which the others of the team get it if gradients are added up on GPUs.
  OperationIndex share(OperationIndex on_this_gpu, std::size_t u, bool is_pushed) {
    if (adds_on_gpus())
      for (int member = 0; member < place_.members; ++member)
        if (member != place_.member)
          signal(send(on_this_gpu, u, to_member(member), units_[u].value_bytes), CounterScope::kTeam,
                 on_gpu(u, member, is_pushed));
    return on_this_gpu;
  }
  OperationIndex await_share(std::size_t u) {
    return gate(host_, CounterScope::kTeam, on_gpu(u, place_.member, false), 1);
  }
  /// The step before has brought it here, or another member of the team.
  OperationIndex await_pushed(OperationIndex begin, std::size_t u) {
    return is_exchanged_here(u) ? gate(begin, CounterScope::kWorker, static_cast<int>(u), 1, 1)
                                : gate(begin, CounterScope::kTeam, on_gpu(u, place_.member, true), 1, 1);
  }

  /// Kernels wait for the variables that they read; without overlap for all.
  void await_variables(const CompiledKernels& kernels) {
    std::vector<bool> is_awaited(units_.size());
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k)
      for (const int variable : plan_.kernels[k].waits_for) {
        if (exchange_.overlap == Overlap::kNone)
          return builder_.order(builder_.program().has_variables, kernels.first[k]);
        for (const int index : units_of_[static_cast<std::size_t>(variable)]) {
          const auto u = static_cast<std::size_t>(index);
          if (variables_[u] != kNone && !is_awaited[u]) builder_.order(variables_[u], kernels.first[k]);
          is_awaited[u] = true;
        }
      }
  }

  /// Gradients go to where those of the team are added up, and from there to the servers, which apply them.
  void push(const CompiledKernels& kernels) {
    std::vector<std::size_t> gradients_left;
    for (const GradientUnit& unit : units_) gradients_left.push_back(unit.variables.size());
    std::vector<std::pair<std::size_t, OperationIndex>> copied;  // units, in the order in which they become ready
    std::vector<std::size_t> ready;
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k)
      for (const int variable : plan_.kernels[k].completes)
        for (const int index : units_of_[static_cast<std::size_t>(variable)]) {
          const auto u = static_cast<std::size_t>(index);
          if (--gradients_left[u] > 0) continue;
          ready.push_back(u);
          const OperationIndex added = add_on_gpus(exchange_.overlap == Overlap::kNone ? last_ : kernels.last[k], u);
          if (added != kNone) copied.emplace_back(u, copy(added, u, CopyDirection::kFromGpu, units_[u].gradient_bytes));
        }
    if (copies_at_once()) {
      const OperationIndex all = join(last_);
      for (auto& [u, copy] : copied) builder_.order(std::exchange(copy, all), all);
    }
    std::vector<bool> is_applied(units_.size());
    for (const auto& [u, copy] : copied) is_applied[u] = add_on_host(copy, u);
    if (!is_leader() || lives_on_gpus_) return;
    for (const std::size_t u : ready)
      if (!is_applied[u])
        apply(gate(host_, CounterScope::kTeam, added_on_host(u), adds_on_gpus() ? 1 : place_.members), u);
  }

  /// Returns what the GPU copies the team's gradient to the host after; kNone if it does not.
  OperationIndex add_on_gpus(OperationIndex gradient, std::size_t u) {
    if (!adds_on_gpus()) return gradient;
    if (!is_exchanged_here(u)) {
      signal(send(gradient, u, to_member(place_.adder[u]), units_[u].gradient_bytes), CounterScope::kTeam,
             added_on_gpu(u));
      return kNone;
    }
    if (is_shared()) {
      gradient = signal(join(gradient), CounterScope::kTeam, added_on_gpu(u));
      gradient = gate(gradient, CounterScope::kTeam, added_on_gpu(u), place_.members);
    }
    if (!lives_on_gpus_) return gradient;
    const OperationIndex updated = then(gradient, Delay{.is_event = true, .time = time_on_gpu(u)});
    if (runs_ahead_) {
      signal(updated, CounterScope::kAll, static_cast<int>(u));
      pushed_[u] = share(updated, u, true);
    } else if (is_shared()) {
      signal(updated, CounterScope::kTeam, kAcknowledged);
    } else {
      ends_.push_back(updated);
    }
    return kNone;
  }

  /// A gradient is in host memory: the team's, if it was added up on GPUs. False if the leader has to wait for more.
  bool add_on_host(OperationIndex copied, std::size_t u) {
    if (!is_shared() || (adds_on_gpus() && is_leader())) {
      apply(copied, u);
      return true;
    }
    const bool takes_time = !adds_on_gpus() && place_.cores > 0;
    signal(takes_time ? then(copied, addition(u)) : copied, CounterScope::kTeam, added_on_host(u));
    return false;
  }

  /// The team's gradient goes to the server.
  void apply(OperationIndex ready, std::size_t u) {
    const std::size_t s = server_of(u);
    const Bytes size = units_[u].gradient_bytes;
    const bool is_counted =
        shares_updates_ || (!runs_ahead_ && strategy_.staleness_bound == 0 && strategy_.backup_workers == 0);
    ApplyGradient work{.server = static_cast<int>(s),
                       .label = static_cast<int>(u),
                       .counter = is_counted ? static_cast<int>(u) : -1,
                       .is_message = !is_in_process(s),
                       .is_event = shares_updates_};
    if (work.is_message) {
      work.time = message_time(s, size);
      if (size > costs_.split_update_threshold) work.time += costs_.time_per_split_update;
      work.update = costs_.time_per_update;
    } else {
      const AddGradient arithmetic = addition(u);
      work.parts = arithmetic.parts;
      work.time = arithmetic.time;
    }
    const OperationIndex sent = send(ready, u, to_server(s), size, exchange_.cycle_time.has_value());
    const OperationIndex applied = then(sent, work);
    if (!shares_updates_) applied_[s].push_back(applied);
    if (runs_ahead_) bring_next(applied, u);
  }

  /// The unit's value for the next step: it comes by itself, or is asked for once its gradient is acknowledged.
  void bring_next(OperationIndex applied, std::size_t u) {
    const std::size_t s = server_of(u);
    OperationIndex ready = applied;
    if (!pushes_back_) ready = then(ready, Notify{.connection = from_server(s)});
    if (!is_pulled(u)) {
      if (!pushes_back_) signal(ready, CounterScope::kWorker, static_cast<int>(u));
      return;
    }
    if (!pushes_back_) ready = then(ready, Notify{.connection = to_server(s)});
    if (shares_updates_) ready = gate(ready, CounterScope::kAll, static_cast<int>(u), 1);
    if (!pushes_back_ && !is_in_process(s)) ready = then(ready, read(u));
    pushed_[u] = send_value(ready, u, true);
  }

  /// The next step's kernels wait until the values of this one are on the GPU.
  void receive_next() {
    if (!lives_on_gpus_) pushed_ = receive(std::move(pushed_), true);
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (!is_pulled(u) || !is_exchanged_here(u)) continue;
      signal(pushed_[u], CounterScope::kWorker, static_cast<int>(u));
    }
  }

  /// When all servers have acknowledged; or with the last kernel, if the next step's variables come meanwhile.
  void end_step() {
    for (std::size_t s = 0; s < servers_; ++s) {
      if (applied_[s].empty()) continue;
      ends_.push_back(builder_.add(Notify{.connection = from_server(s)}));
      for (const OperationIndex applied : applied_[s]) builder_.order(applied, ends_.back());
    }
    if (runs_ahead_) {
      if (!shares_updates_) update();
      ends_ = {last_};
      if (!pushes_back_) end_with_latest();
    } else if (is_shared()) {
      if (is_leader() && !lives_on_gpus_) {
        const OperationIndex all = join(last_);
        for (const OperationIndex end : ends_) builder_.order(end, all);
        signal(all, CounterScope::kTeam, kAcknowledged);
      }
      ends_ = {gate(last_, CounterScope::kTeam, kAcknowledged, lives_on_gpus_ ? static_cast<int>(units_.size()) : 1)};
    }
    OperationIndex end = builder_.add(Fence{});
    for (const OperationIndex before : ends_) builder_.order(before, end);
    if (!shares_updates_ && strategy_.staleness_bound)
      end = then(end, StepsGate{.lag = static_cast<int>(*strategy_.staleness_bound)});
    then(end, NextStep{});
  }

  /// Asynchronous: all servers have acknowledged.
  void update() {
    const OperationIndex all = builder_.add(Delay{.is_event = true});
    builder_.order(last_, all);
    for (const OperationIndex acknowledged : ends_) builder_.order(acknowledged, all);
    then(all, Update{});
  }

  /// What the step before has exchanged is there when a step ends, also what no kernel waits for.
  void end_with_latest() {
    ends_.push_back(builder_.program().has_variables);
    if (pulls_ || !is_leader() || lives_on_gpus_) return;
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (!is_pulled(u)) ends_.push_back(gate(host_, CounterScope::kWorker, static_cast<int>(u), 1, 1));
  }

  const Scenario& scenario_;
  const ServerRules& strategy_;
  const GradientExchange& exchange_;
  const ServerParameters& costs_;
  const ComputePlan& plan_;
  const std::vector<GradientUnit>& units_;
  const std::vector<std::vector<int>>& units_of_;  // [variables]
  const TeamPlace& place_;
  int passes_;
  std::size_t servers_;
  bool pushes_back_, runs_ahead_;  // its next step begins with its last kernel
  bool shares_updates_;            // then, with all workers
  bool pulls_, lives_on_gpus_;
  ProgramBuilder builder_;
  OperationIndex host_ = kNone, last_ = kNone;        // before the step, its last kernel
  std::vector<OperationIndex> variables_;             // [units] of the step: when they are on this GPU
  std::vector<OperationIndex> pushed_;                // [units] those of the next one
  std::vector<std::vector<OperationIndex>> applied_;  // [servers] what its acknowledgement waits for
  std::vector<OperationIndex> ends_;                  // what the end of the step waits for
};

/// The variables in order of size, the largest first, each to the GPU that has the fewest bytes so far: [units].
/// Source: MXNet, src/kvstore/comm.h, CommDevice::InitMergeBuffer.
std::vector<int> choose_adders(const std::vector<Variable>& variables, const GradientUnits& units, int members) {
  std::vector<std::size_t> order(variables.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return variables[a].bytes > variables[b].bytes; });
  std::vector<Bytes> sizes;
  for (const std::size_t v : order) sizes.push_back(variables[v].bytes);
  const std::vector<int> placed = place_on_servers(sizes, members, Placement::kGreedyByBytes);
  std::vector<int> of_variable(variables.size());
  for (std::size_t i = 0; i < order.size(); ++i) of_variable[order[i]] = placed[i];
  std::vector<int> adders;
  for (const GradientUnit& unit : units.units)
    adders.push_back(of_variable[static_cast<std::size_t>(unit.variables.front())]);
  return adders;
}

/// Of the first worker of the machine.
TeamPlace team_place(const Site& site, MachineIndex machine, const GradientUnits& units) {
  const Scenario& scenario = site.scenario;
  const Machine& at = site.machine(machine);
  const ServerRules& strategy = scenario.training.strategy.server_rules();
  const Aggregation aggregation = strategy.aggregation;
  TeamPlace place{
      .members = aggregation == Aggregation::kNone ? 1 : at.workers, .gpus = at.gpus / at.workers, .cores = at.cores};
  const bool is_told_apart =
      scenario.profile.servers.between_processes.has_value() || strategy.variables == VariableHome::kWorkerProcess;
  for (const MachineIndex server : site.servers) place.shares_machine.push_back(is_told_apart && server == machine);
  if (aggregation == Aggregation::kGpu) place.adder = choose_adders(scenario.workload.variables, units, place.members);
  return place;
}

class ServerCompiler final : public StrategyCompiler {
 public:
  explicit ServerCompiler(const Site& site)
      : StrategyCompiler{site}, units_{plan_gradient_units(scenario(), static_cast<int>(site.servers.size()))} {
    std::map<TeamPlace, int> known;
    TeamPlace place;
    MachineIndex machine = -1;  // whose it is
    for (const std::vector<Endpoint>& gpus : site.workers) {
      const Endpoint first = gpus.front();
      if (machine != first.machine) place = team_place(site, machine = first.machine, units_);
      place.member = place.members > 1 ? first.gpu : 0;  // the first GPUs of the workers come first
      const auto [entry, is_new] = known.try_emplace(place, static_cast<int>(places_.size()));
      if (is_new) places_.push_back(place);
      place_of_.push_back(entry->second);
    }
  }

  int alike(int worker) const override { return place_of_[at(worker)]; }
  Program compile(const WorkerStep& step, FirstVariables first) const override {
    return Compiler{scenario(), *step.plan, step.passes, units_, place(step.worker), first}.compile();
  }

  std::vector<Wire> wires(int worker) const override {
    std::vector<Wire> wires;
    const Endpoint gpu = gpus(worker).front(), host{gpu.machine, Endpoint::kHost};
    for (std::size_t s = 0; s < site().servers.size(); ++s) {
      const int server = workers() + static_cast<int>(s);
      const Endpoint other{site().servers[s], Endpoint::kHost};
      wires.push_back({worker, server, host, other});
      wires.push_back({server, worker, other, host});
    }
    if (!place(worker).adder.empty())
      for (const int member : team(worker)) wires.push_back({worker, member, gpu, gpus(member).front()});
    return wires;
  }

  std::vector<WorkerGroup> groups() const override { return {}; }
  std::vector<int> team(int worker) const override {
    std::vector<int> team(at(place(worker).members));
    std::iota(team.begin(), team.end(), worker - place(worker).member);
    return team;
  }

  const std::vector<GradientUnit>& placed_units() const override { return units_.units; }
  bool copies_are_alone(int worker) const override { return place(worker).adder.empty() || place(worker).members == 1; }

 private:
  const TeamPlace& place(int worker) const { return places_[at(place_of_[at(worker)])]; }

  GradientUnits units_;
  std::vector<TeamPlace> places_;  // that there are
  std::vector<int> place_of_;      // [workers] one of them
};

}  // namespace

std::unique_ptr<StrategyCompiler> parameter_server_compiler(const Site& site) {
  return std::make_unique<ServerCompiler>(site);
}

}  // namespace rehearse
