// Stochastic gradient descent with parameter servers. A worker's step, L being the one-way latency to a server:
//
//   host      step_overhead
//   pull      request (L); per unit: a core of the server reads it, the connection carries it (+ L), PCIe copies it to
//             the GPU
//   compute   kernels run as their variables arrive (compute_stream.hpp)
//   push      per unit, as its gradients are ready: PCIe, connection (+ L), a core of the server applies it
//   done      every server acknowledges its last update (L); the worker's next step begins when the synchronization
//             allows it
//
// So a step contains two round trips. Connections are per worker and server; one message is on the wire at a time, in
// each direction. Batch-normalisation moving averages are not pulled in training, but their updates are pushed.
//
// Synchronization is one rule: a worker may begin its step k (counted from 0) when all but `backup_workers` of the
// workers have completed k - staleness_bound steps. With bound 0 that is a barrier, without a bound nobody waits.
// A worker that completes a step which all but the backup workers have already left behind is late: its gradients were
// dropped, and it goes on with the step that the others are at. Workers may join, synchronous ones with the next step
// and others with the one that the slowest is in, and leave between two of their steps.
//
// Pushing back each variable (MXNet's dist_sync, BytePS) has no pull and no acknowledgement: when the gradients of all
// workers for a unit are in, a core applies them and the unit goes to all workers; a worker's next step begins with its
// own last kernel, and waits for variables only where its kernels need them.
//
// Aggregation: the workers of a machine can be one team towards the servers. A unit is pulled once for all of them,
// when the last has begun its step, and pushed once, when all of their gradients for it have been added up. That
// happens in host memory, with which each GPU exchanges by PCIe; or on one of the GPUs, each variable on another one,
// with which the others exchange directly, and it alone with the host (MXNet's kvstore dist_device_sync). Without
// aggregation each worker is a team of its own.
//
// Servers that share a machine with workers: between processes a variable is a message, without a NIC; in the workers'
// process (`variables`) it is only copied over PCIe, and cores spend the arithmetic's time on it: all of them on a
// large one, once for each gradient that is added up and once for the update. Variables that live on the GPUs are
// exchanged between those alone, each being updated where it lives; the time of that does not hold up the GPU's
// kernels.

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/engine/compute_stream.hpp"
#include "sim/engine/connection.hpp"
#include "sim/engine/copy_engine.hpp"
#include "sim/engine/gradient_units.hpp"
#include "sim/engine/placement.hpp"
#include "sim/engine/run_monitor.hpp"
#include "sim/engine/strategy.hpp"

namespace rehearse {

namespace {

class ParameterServers final : public Session {
 public:
  ParameterServers(Cluster& cluster, RunMonitor& monitor, TrainingProgress done)
      : cluster_{cluster},
        scenario_{cluster.scenario},
        strategy_{std::get<ParameterServerStrategy>(cluster.scenario.training.strategy.kind)},
        exchange_{cluster.scenario.training.strategy.exchange},
        clock_{cluster.clock, cluster.clock.new_owner()},
        monitor_{monitor},
        all_samples_{cluster.scenario.training.samples},
        is_synchronous_{cluster.scenario.training.strategy.is_synchronous()},
        changes_members_{may_leave_full_cluster(cluster.scenario)},
        first_step_{done.updates},
        started_steps_{done.updates},
        started_samples_{done.samples},
        done_{done} {
    create_servers();
    create_trainers();
    create_teams();
  }

  ~ParameterServers() override {
    clock_.retire();
    for (const auto& team : teams_) team->clock.retire();
    monitor_.lose_samples(samples_of_update_);
  }

  void begin() override {
    for (const auto& trainer : trainers_) {
      if (!monitor_.is_there(trainer->worker.gpu.machine)) continue;
      ++present_;
      trainer->is_present = true;
      trainer->left_out = first_step_ - trainer->worker.steps;
    }
    for (const auto& trainer : trainers_) {
      if (!trainer->is_present) continue;
      const Seconds start = std::max(clock_.now(), monitor_.starts_at(trainer->worker));
      trainer->team->clock.schedule(start, [this, &trainer = *trainer] {
        monitor_.record_start(trainer.worker);
        begin_step(trainer);
      });
    }
  }

  void join(MachineIndex machine) override {
    for (const auto& trainer : trainers_)
      if (trainer->worker.gpu.machine == machine && !trainer->is_present) arrive(*trainer);
  }

  /// A synchronous step, or one that servers miss, is lost for all.
  bool lose(MachineIndex machine) override {
    if (cluster_.machines[static_cast<std::size_t>(machine)].servers > 0) return false;
    for (const auto& trainer : trainers_)
      if (trainer->worker.gpu.machine == machine && trainer->is_present) {
        if (is_synchronous_) return false;
        lose(*trainer);
      }
    std::erase_if(arrived_, [machine](const Trainer* waiting) { return waiting->worker.gpu.machine == machine; });
    call_idle();
    return true;
  }

  TrainingProgress progress() const override { return done_; }
  Seconds last_update() const override { return end_; }

 private:
  struct Server {
    MachineIndex machine = 0;
    std::vector<int> pulled;  // units with trainable variables, in creation order
    int pushed = 0;           // units that workers push
  };

  /// A team and one server.
  struct Link {
    std::unique_ptr<Connection> down;  // server to team
    std::unique_ptr<Connection> up;
    int updates_left = 0;    // of the current step
    Seconds last_update{};   // when the latest of them is applied
    Seconds last_arrived{};  // when it came to the server
    int last_unit = 0;
  };

  struct Trainer;

  /// When a unit was where, in the current step of a team.
  struct UnitDates {
    Seconds asked{};    // the server knows that the team needs it
    Seconds served{};   // a core has read it, or applied the last gradient
    Seconds on_host{};  // of the team
    Seconds pushed{};   // its gradient is handed to the connection
  };

  /// Workers that exchange with the servers as one: those of a machine, or a single one.
  struct Team {
    Team(ParameterServers& session_, OwnedClock clock_) : session{session_}, clock{clock_} {}
    ParameterServers& session;  // with it two pointers say what an event does, and std::function allocates nothing
    OwnedClock clock;
    std::vector<Trainer*> members;
    std::vector<Link> links;          // [servers]
    std::vector<UnitDates> dates;     // [units]
    std::vector<std::size_t> added;   // [units] members whose gradients of this step are added up
    std::vector<Trainer*> adder_of;   // [units] on whose GPU they are; empty: in host memory
    std::size_t waiting_to_pull = 0;  // members
    int servers_left = 0;
  };

  /// A worker and what it needs to train with servers.
  struct Trainer {
    explicit Trainer(Worker& worker_) : worker{worker_} {}
    Worker& worker;
    Team* team = nullptr;
    std::map<const Trainer*, std::unique_ptr<Connection>> to_other;  // GPUs of the team, where gradients are added up
    std::optional<CopyEngine> to_gpu, from_gpu;
    std::optional<ComputeStream> compute;
    std::vector<int> gradients_left;                  // [units] variables without gradient in this step
    std::vector<int> pieces_left;                     // [variables] units that have not arrived in this step
    std::vector<Seconds> arrived;                     // [variables] latest arrival of a unit
    std::vector<int> held_back;                       // units, until the backward pass has ended
    std::vector<int> on_host;                         // units that wait for the others: see copies_at_once()
    Seconds last_on_host{};                           // when the latest of them arrived
    std::vector<std::pair<int, Seconds>> came_early;  // variables of the next step
    std::int64_t updates_at_pull = 0;
    int variables_left = 0;
    std::optional<Seconds> held_since;  // by the synchronization
    std::int64_t left_out = 0;          // steps in which it was late, or that were begun before it joined
    bool is_present = false;
    bool is_training = false;
    bool is_computed = false;  // every kernel of the step is dispatched
    // Of the step that it is in, or will begin next:
    const ComputePlan* next_plan = nullptr;
    int next_passes = 1;
    std::int64_t next_samples = 0;
  };

  void create_servers() {
    for (std::size_t m = 0; m < cluster_.machines.size(); ++m)
      for (int i = 0; i < cluster_.machines[m].servers; ++i) servers_.push_back({static_cast<MachineIndex>(m), {}, 0});
    units_ = plan_gradient_units(scenario_, static_cast<int>(servers_.size()));
    for (std::size_t u = 0; u < units_.units.size(); ++u) {
      Server& server = servers_[static_cast<std::size_t>(units_.units[u].server)];
      if (units_.units[u].value_bytes > Bytes{}) {
        server.pulled.push_back(static_cast<int>(u));
        ++pulled_units_;
      }
      ++server.pushed;
    }
    for (const Variable& variable : scenario_.workload.variables) trainable_ += variable.is_trainable ? 1 : 0;
    arrived_gradients_.resize(units_.units.size());
  }

  void create_trainers() {
    const std::size_t variables = scenario_.workload.variables.size();
    for (Worker& worker : monitor_.workers()) {
      trainers_.push_back(std::make_unique<Trainer>(worker));
      Trainer& trainer = *trainers_.back();
      trainer.gradients_left.resize(units_.units.size());
      trainer.pieces_left.resize(variables);
      trainer.arrived.resize(variables);
      trainer.next_plan = worker.plan;
      trainer.next_passes = worker.passes;
      trainer.next_samples = worker.samples;
    }
  }

  /// What a worker needs to exchange with its host and compute; nothing of what it had before is under way any more.
  void equip(Trainer& trainer) {
    const Worker& worker = trainer.worker;
    plan_compute_of(trainer);
    Network& network = cluster_.network;
    std::vector<PathIndex> to_gpus{network.path(worker.host, worker.gpu)};
    std::vector<PathIndex> from_gpus{network.path(worker.gpu, worker.host)};
    for (const Endpoint gpu : worker.other_gpus) {
      to_gpus.push_back(network.path(worker.host, gpu));
      from_gpus.push_back(network.path(gpu, worker.host));
    }
    const OwnedClock clock = trainer.team->clock;
    const bool is_alone = strategy_.aggregation != Aggregation::kGpu || trainer.team->members.size() == 1;
    trainer.to_gpu.emplace(
        clock, network, monitor_.traffic(), cluster_.recorder, to_gpus, is_alone,
        [this, &trainer](const Connection::Message& copy, Seconds when) { copied_to_gpu(trainer, copy.unit, when); });
    trainer.from_gpu.emplace(clock, network, monitor_.traffic(), cluster_.recorder, from_gpus, is_alone,
                             [this, &trainer](const Connection::Message& copy, Seconds when) {
                               gradient_on_host(trainer, copy.unit, when);
                             });
  }

  void plan_compute_of(Trainer& trainer) {
    const Worker& worker = trainer.worker;
    trainer.compute.emplace(*worker.plan, scenario_.workload.variables.size(), worker.passes, cluster_.recorder,
                            worker.gpu,
                            [this, &trainer](int variable, Seconds ready) { gradient(trainer, variable, ready); });
  }

  void create_teams() {
    for (const auto& trainer : trainers_) {
      const bool joins_last = strategy_.aggregation != Aggregation::kNone && !teams_.empty() &&
                              teams_.back()->members.front()->worker.host == trainer->worker.host;
      if (!joins_last)
        teams_.push_back(std::make_unique<Team>(*this, OwnedClock{cluster_.clock, cluster_.clock.new_owner()}));
      trainer->team = teams_.back().get();
      trainer->team->members.push_back(trainer.get());
    }
    for (const auto& trainer : trainers_) equip(*trainer);
    for (const auto& team : teams_) {
      team->added.resize(units_.units.size());
      team->dates.resize(units_.units.size());
      create_links(*team);
      if (strategy_.aggregation == Aggregation::kGpu) choose_adders(*team);
    }
  }

  void create_links(Team& team) {
    Network& network = cluster_.network;
    const Endpoint host = team.members.front()->worker.host;
    team.links.resize(servers_.size());
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      Link& link = team.links[s];
      const Endpoint server{servers_[s].machine, Endpoint::kHost};
      link.down = std::make_unique<Connection>(
          team.clock, network, monitor_.traffic(), cluster_.recorder, network.path(server, host),
          [this, &team](const Connection::Message& message) { value_arrived(team, message); });
      link.up = std::make_unique<Connection>(
          team.clock, network, monitor_.traffic(), cluster_.recorder, network.path(host, server),
          [this, &team, s](const Connection::Message& message) { update_arrived(team, s, message); });
    }
  }

  /// The variables in order of size, the largest first, each to the GPU that has the fewest bytes so far.
  /// Source: MXNet, src/kvstore/comm.h, CommDevice::InitMergeBuffer.
  void choose_adders(Team& team) const {
    const std::vector<Variable>& variables = scenario_.workload.variables;
    std::vector<std::size_t> order(variables.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return variables[a].bytes > variables[b].bytes; });
    std::vector<Bytes> sizes;
    for (const std::size_t v : order) sizes.push_back(variables[v].bytes);
    const std::vector<int> placed =
        place_on_servers(sizes, static_cast<int>(team.members.size()), Placement::kGreedyByBytes);
    std::vector<Trainer*> adder_of_variable(variables.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      adder_of_variable[order[i]] = team.members[static_cast<std::size_t>(placed[i])];
    for (const GradientUnit& whole : units_.units)
      team.adder_of.push_back(adder_of_variable[static_cast<std::size_t>(whole.variables.front())]);
  }

  /// Between two GPUs of a team; what arrives at the adder is a gradient, what it sends a value.
  Connection& between(Trainer& from, Trainer& to) {
    std::unique_ptr<Connection>& connection = from.to_other[&to];
    if (connection == nullptr)
      connection = std::make_unique<Connection>(
          from.team->clock, cluster_.network, monitor_.traffic(), cluster_.recorder,
          cluster_.network.path(from.worker.gpu, to.worker.gpu), [this, &to](const Connection::Message& message) {
            if (to.team->adder_of[static_cast<std::size_t>(message.unit)] == &to)
              gradient_added(*to.team, message.unit);
            else
              unit_on_gpu(to, message.unit, clock_.now());
          });
    return *connection;
  }

  const GradientUnit& unit(int index) const { return units_.units[static_cast<std::size_t>(index)]; }
  int priority(int index) const { return exchange_.order == Order::kPriority ? unit(index).first_use : 0; }
  Trainer* adder(const Team& team, int index) const {  // nullptr: host memory
    return team.adder_of.empty() ? nullptr : team.adder_of[static_cast<std::size_t>(index)];
  }
  /// Of a unit and step, gradients that its server waits for.
  int needed_gradients() const {
    return strategy_.aggregation == Aggregation::kNone ? present_ : static_cast<int>(teams_.size());
  }
  int needed_workers() const { return present_ - strategy_.backup_workers; }

  /// Workers that have completed at least `steps` steps; late ones count for the steps that they left out.
  std::int64_t& reached(std::int64_t steps) {
    const auto index = static_cast<std::size_t>(steps - first_step_);
    if (reached_.size() <= index) reached_.resize(index + 1);
    return reached_[index];
  }

  bool may_begin(const Trainer& trainer) {
    if (!strategy_.staleness_bound || strategy_.pushes_back_each_variable) return true;
    const std::int64_t behind = next_step(trainer) - *strategy_.staleness_bound;
    return behind <= first_step_ || reached(behind) >= needed_workers();
  }

  /// Synchronous: the number, from 0, of the step that the worker would begin; counts steps that it left out.
  static std::int64_t next_step(const Trainer& trainer) { return trainer.worker.steps + trainer.left_out; }

  /// Whether no samples are left for a step that begins now. Those of synchronous steps whose update is under way are
  /// taken as those of the current one; should they be fewer in the end, call_idle() goes on.
  bool is_over(const Trainer& trainer) const {
    if (!is_synchronous_) return started_samples_ >= all_samples_;
    const std::int64_t not_counted = std::max<std::int64_t>(0, next_step(trainer) - done_.updates);
    return done_.samples + not_counted * samples_expected_ >= all_samples_;
  }

  /// Samples are left after all.
  void call_idle() {
    for (Trainer* idle : std::exchange(idle_, {})) {
      if (idle->is_present)
        begin_step(*idle);
      else if (monitor_.is_there(idle->worker.gpu.machine))
        join(*idle);
    }
  }

  /// Synchronous: the workers that will take part in a step, the first of which begins it now, and what each does.
  void share_step(std::int64_t step) {
    if (step <= shared_step_) return;
    shared_step_ = step;
    if (!changes_members_ && samples_expected_ > 0) return;
    WorkerCounts counts(scenario_.groups.size());
    std::vector<Trainer*> sharing;
    std::vector<std::int64_t> weights;
    for (const auto& trainer : trainers_) {
      const bool arrives = std::find(arrived_.begin(), arrived_.end(), trainer.get()) != arrived_.end();
      if ((!trainer->is_present && !arrives) || monitor_.has_to_leave(trainer->worker)) continue;
      ++counts[static_cast<std::size_t>(group_of(*trainer))];
      sharing.push_back(trainer.get());
      weights.push_back(trainer->worker.samples);
    }
    samples_expected_ = static_cast<std::int64_t>(samples_per_update(scenario_, counts));
    const std::vector<StepShare> shares = step_shares(scenario_, counts);
    const std::int64_t all = strategy_.backup_workers > 0
                                 ? std::accumulate(weights.begin(), weights.end(), std::int64_t{})
                                 : samples_expected_;
    const std::vector<std::int64_t> samples = split_samples(all, weights);
    const auto workers = static_cast<std::int64_t>(sharing.size());
    for (std::size_t i = 0; i < sharing.size(); ++i) {
      const StepShare& share = shares[static_cast<std::size_t>(group_of(*sharing[i]))];
      sharing[i]->next_plan = &monitor_.plan_of(sharing[i]->worker.gpu.machine, share, workers);
      sharing[i]->next_passes = share.passes;
      sharing[i]->next_samples = samples[i];
    }
  }

  void take_part(Trainer& trainer) {
    trainer.worker.step.samples = trainer.next_samples;
    if (trainer.worker.plan == trainer.next_plan && trainer.worker.passes == trainer.next_passes) return;
    trainer.worker.plan = trainer.next_plan;
    trainer.worker.passes = trainer.next_passes;
    plan_compute_of(trainer);
  }

  int group_of(const Trainer& trainer) const {
    return cluster_.machines[static_cast<std::size_t>(trainer.worker.gpu.machine)].group;
  }

  /// The time at which the worker joins has come.
  void arrive(Trainer& trainer) {
    if (is_synchronous_ && present_ > 0)
      arrived_.push_back(&trainer);
    else
      join(trainer);
  }

  void join(Trainer& trainer) {
    std::int64_t slowest = is_synchronous_ ? done_.updates : started_steps_;
    for (const auto& other : trainers_)
      if (other->is_present) slowest = std::min(slowest, next_step(*other));
    trainer.left_out = slowest - trainer.worker.steps;
    if (is_over(trainer)) {
      idle_.push_back(&trainer);
      return;
    }
    trainer.is_present = true;
    ++present_;
    count_as_reached(next_step(trainer), 1);
    monitor_.record_start(trainer.worker);
    begin_step(trainer);
  }

  void leave(Trainer& trainer) {
    trainer.is_present = false;
    --present_;
    count_as_reached(next_step(trainer), -1);
    for (int& arrived : arrived_gradients_) arrived -= arrived > 0 ? 1 : 0;  // its own, of a step that others are in
    monitor_.record_leave(trainer.worker);
    release_held();
    if (present_ == 0) admit_arrived();
  }

  /// Its machine is gone. With bounded staleness the others wait for it until they notice.
  void lose(Trainer& trainer) {
    trainer.is_present = false;
    if (std::exchange(trainer.is_training, false)) {
      --started_steps_;
      started_samples_ -= trainer.worker.step.samples;
    }
    trainer.held_since.reset();
    std::erase(held_, &trainer);
    Team& team = *trainer.team;
    team.clock.retire();
    team.clock = OwnedClock{cluster_.clock, cluster_.clock.new_owner()};
    team.waiting_to_pull = 0;
    trainer.on_host.clear();
    trainer.held_back.clear();
    equip(trainer);
    create_links(team);
    const auto forget = [this, reached = next_step(trainer)] {
      --present_;
      count_as_reached(reached, -1);
      release_held();
    };
    if (strategy_.staleness_bound)
      clock_.schedule_in(scenario_.training.recovery.timeout, forget);
    else
      forget();
  }

  void count_as_reached(std::int64_t steps, int change) {
    if (strategy_.staleness_bound)
      for (std::int64_t step = first_step_ + 1; step <= steps; ++step) reached(step) += change;
  }

  void release_held() {
    for (Trainer* held : std::exchange(held_, {})) begin_step(*held);  // those that still must not are held again
  }

  void admit_arrived() {
    for (Trainer* waiting : std::exchange(arrived_, {})) join(*waiting);
  }

  void begin_step(Trainer& trainer) {
    if (is_over(trainer)) {
      monitor_.close_window();
      idle_.push_back(&trainer);
      return;
    }
    if (monitor_.has_to_leave(trainer.worker)) return leave(trainer);
    if (!may_begin(trainer)) {
      if (!trainer.held_since) trainer.held_since = clock_.now();
      held_.push_back(&trainer);
      return;
    }
    ++started_steps_;
    trainer.is_training = true;
    trainer.updates_at_pull = done_.updates;
    trainer.worker.step = {.span = {std::exchange(trainer.held_since, {}).value_or(clock_.now()), {}}};
    trainer.worker.step.times.held = clock_.now() - trainer.worker.step.span.start;
    if (is_synchronous_) share_step(next_step(trainer));
    take_part(trainer);
    started_samples_ += trainer.worker.step.samples;
    for (std::size_t u = 0; u < units_.units.size(); ++u)
      trainer.gradients_left[u] = static_cast<int>(units_.units[u].variables.size());
    for (std::size_t v = 0; v < trainer.pieces_left.size(); ++v) {
      trainer.pieces_left[v] = static_cast<int>(units_.of_variable[v].size());
      trainer.arrived[v] = {};
    }
    trainer.variables_left = trainable_;
    trainer.is_computed = false;
    const Seconds requested = clock_.now() + trainer.worker.plan->step_overhead;
    trainer.to_gpu->copy(requested, kInput, trainer.worker.plan->input, -1);
    if (!strategy_.pushes_back_each_variable) request_variables(*trainer.team, requested);
  }

  /// For all members, when the last of them asks.
  void request_variables(Team& team, Seconds requested) {
    if (++team.waiting_to_pull < team.members.size()) return;
    team.waiting_to_pull = 0;
    team.servers_left = 0;
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      Link& link = team.links[s];
      link.updates_left = servers_[s].pushed;
      link.last_update = {};
      if (servers_[s].pushed == 0) continue;  // more servers than units
      ++team.servers_left;
      if (live_on_gpus()) {
        team.clock.schedule(requested, [&team, server = static_cast<int>(s)] { team.session.share(team, server); });
        continue;
      }
      team.clock.schedule(requested + link.up->latency(),
                          [&team, server = static_cast<int>(s)] { team.session.serve_pull(team, server); });
    }
  }

  /// The input is on the GPU: kernels may start.
  void begin_compute(Trainer& trainer, Seconds when) {
    const double slowdown = monitor_.slowdown(trainer.worker);
    StepSpan& step = trainer.worker.step;
    step.times.input = when - step.span.start - step.times.held - trainer.worker.plan->step_overhead;
    if (strategy_.pushes_back_each_variable && trainer.worker.steps == 0) {
      trainer.worker.step.last_pull = when;
      trainer.compute->begin_step_with_all_variables(when, slowdown);  // as initialised
    } else {
      trainer.compute->begin_step(when, slowdown);
      for (const auto& [early_unit, date] : std::exchange(trainer.came_early, {}))
        unit_on_gpu(trainer, early_unit, date);
    }
    check_computed(trainer);
  }

  bool live_on_gpus() const { return strategy_.variables == VariableHome::kGpus; }
  bool is_on_machine_of(const Team& team, const Server& server) const {
    return team.members.front()->worker.host.machine == server.machine;
  }
  bool is_in_process(const Team& team, const Server& server) const {
    return strategy_.variables == VariableHome::kWorkerProcess && is_on_machine_of(team, server);
  }

  /// Of a core of the server, for a message from or to the team.
  Seconds message_time(const Team& team, const Server& server, Bytes size) const {
    const ServerParameters& costs = scenario_.profile.servers;
    if (costs.between_processes && is_on_machine_of(team, server)) return costs.between_processes->time(size);
    return LocalExchange{costs.time_per_variable, costs.time_per_byte}.time(size);
  }

  /// Arithmetic on one gradient in the memory of a host; what it returns ends when all is done.
  CorePool::Slot compute_in_memory(MachineIndex machine, Bytes size) const {
    const ServerParameters& costs = scenario_.profile.servers;
    CorePool& cores = monitor_.cores(machine);
    const int parts = size > costs.split_update_threshold ? cores.cores() : 1;
    const LocalExchange arithmetic = costs.in_process.value_or(LocalExchange{});
    const Seconds part = arithmetic.time_per_variable + arithmetic.time_per_byte * (as_double(size) / parts);
    CorePool::Slot last;
    for (int i = 0; i < parts; ++i)
      if (const CorePool::Slot slot = cores.run(clock_.now(), part); slot.end >= last.end) last = slot;
    return last;
  }

  void serve_pull(Team& team, int s) {
    const Server& server = servers_[static_cast<std::size_t>(s)];
    OwnedClock clock = team.links[static_cast<std::size_t>(s)].down->clock();
    for (const int pulled : server.pulled) {
      team.dates[static_cast<std::size_t>(pulled)].asked = clock_.now();
      if (is_in_process(team, server)) {
        send_value(team, pulled);
        continue;
      }
      const Seconds duration = message_time(team, server, unit(pulled).value_bytes);
      const CorePool::Slot slot = monitor_.cores(server.machine).run(clock_.now(), duration);
      record(server, slot, pulled, false);
      clock.schedule(slot.end, [&team, pulled] { team.session.send_value(team, pulled); });
    }
  }

  /// Variables that live on the GPUs.
  void share(Team& team, int s) {
    for (const int pulled : servers_[static_cast<std::size_t>(s)].pulled)
      copied_to_gpu(*adder(team, pulled), pulled, clock_.now());
  }

  void send_value(Team& team, int index) {
    Link& link = team.links[static_cast<std::size_t>(unit(index).server)];
    team.dates[static_cast<std::size_t>(index)].served = clock_.now();
    link.down->send({index, team.members.front()->worker.steps, unit(index).value_bytes, priority(index)});
  }

  void value_arrived(Team& team, const Connection::Message& message) {
    Trainer* only = adder(team, message.unit);
    team.dates[static_cast<std::size_t>(message.unit)].on_host = clock_.now();
    for (Trainer* member : team.members)
      if (only == nullptr || only == member) copy_to_gpus(*member, message);
  }

  /// Without overlap a worker of several GPUs copies to them when all variables are there, and sends gradients when all
  /// have been added up: 2 S / B + 2 g S / B_pcie, one after another (Shang et al., spotDNN, IWQoS 2023, equation 7).
  bool copies_at_once(const Trainer& trainer) const {
    return exchange_.overlap == Overlap::kNone && !trainer.worker.other_gpus.empty() &&
           !strategy_.pushes_back_each_variable;
  }

  void copy_to_gpus(Trainer& trainer, const Connection::Message& message) {
    if (!copies_at_once(trainer))
      return trainer.to_gpu->copy(clock_.now(), message.unit, message.size, priority(message.unit));
    trainer.on_host.push_back(message.unit);
    if (trainer.on_host.size() < pulled_units_) return;
    for (const int index : std::exchange(trainer.on_host, {}))
      trainer.to_gpu->copy(clock_.now(), index, unit(index).value_bytes, priority(index));
  }

  void gradient_on_host(Trainer& trainer, int index, Seconds when) {
    if (!copies_at_once(trainer)) return copied_to_host(trainer, index, when);
    trainer.on_host.push_back(index);
    trainer.last_on_host = std::max(trainer.last_on_host, when);
    if (trainer.on_host.size() < units_.units.size()) return;
    for (const int sent : std::exchange(trainer.on_host, {})) copied_to_host(trainer, sent, trainer.last_on_host);
  }

  void copied_to_gpu(Trainer& trainer, int index, Seconds when) {
    unit_on_gpu(trainer, index, when);
    if (index == kInput || trainer.team->adder_of.empty() || trainer.team->members.size() == 1) return;
    clock_.schedule(when, [this, &trainer, index] {
      for (Trainer* other : trainer.team->members)
        if (other != &trainer)
          between(trainer, *other).send({index, trainer.worker.steps, unit(index).value_bytes, priority(index)});
    });
  }

  void unit_on_gpu(Trainer& trainer, int index, Seconds when) {
    if (index == kInput) {
      begin_compute(trainer, when);
      return;
    }
    // Only when variables are pushed back do they come while the step before is under way. Its kernels are all
    // dispatched then: one that waits would keep back gradients without which no server sends anything.
    if (trainer.compute->is_done()) {
      trainer.came_early.emplace_back(index, when);
      if (done_.samples == all_samples_) end_ = std::max(end_, when);
      return;
    }
    for (const int variable : unit(index).variables) {
      const auto v = static_cast<std::size_t>(variable);
      if (!scenario_.workload.variables[v].is_trainable) continue;
      trainer.arrived[v] = std::max(trainer.arrived[v], when);
      if (--trainer.pieces_left[v] > 0) continue;
      trainer.worker.step.last_pull = std::max(trainer.worker.step.last_pull, trainer.arrived[v]);
      --trainer.variables_left;
      if (exchange_.overlap != Overlap::kNone) trainer.compute->variable_arrived(variable, trainer.arrived[v]);
    }
    if (exchange_.overlap == Overlap::kNone && trainer.variables_left == 0)
      for (std::size_t v = 0; v < trainer.arrived.size(); ++v)
        if (scenario_.workload.variables[v].is_trainable)
          trainer.compute->variable_arrived(static_cast<int>(v), trainer.worker.step.last_pull);
    check_computed(trainer);
  }

  void gradient(Trainer& trainer, int variable, Seconds ready) {
    for (const int index : units_.of_variable[static_cast<std::size_t>(variable)]) {
      if (--trainer.gradients_left[static_cast<std::size_t>(index)] > 0) continue;
      if (exchange_.overlap == Overlap::kNone)
        trainer.held_back.push_back(index);
      else
        hand_over(trainer, index, ready);
    }
  }

  /// To where the gradients of the team are added up.
  void hand_over(Trainer& trainer, int index, Seconds ready) {
    const Bytes size = unit(index).gradient_bytes;
    Trainer* to = adder(*trainer.team, index);
    if (to == nullptr)
      trainer.from_gpu->copy(ready, index, size, priority(index));
    else
      trainer.team->clock.schedule(ready, [this, &trainer, to, index, size] {
        if (to == &trainer)
          gradient_added(*trainer.team, index);
        else
          between(trainer, *to).send({index, trainer.worker.steps, size, priority(index)});
      });
  }

  void copied_to_host(Trainer& trainer, int index, Seconds when) {
    Team& team = *trainer.team;
    team.clock.schedule(when, [&team, index] {
      ParameterServers& session = team.session;
      const MachineIndex machine = team.members.front()->worker.host.machine;
      if (session.adder(team, index) != nullptr)
        session.push(team, index);
      else if (team.members.size() > 1 && session.cluster_.machines[static_cast<std::size_t>(machine)].cores > 0)
        team.clock.schedule(session.compute_in_memory(machine, session.unit(index).gradient_bytes).end,
                            [&team, index] { team.session.gradient_added(team, index); });
      else
        session.gradient_added(team, index);
    });
  }

  void gradient_added(Team& team, int index) {
    std::size_t& added = team.added[static_cast<std::size_t>(index)];
    if (++added < team.members.size()) return;
    added = 0;
    Trainer* on = adder(team, index);
    if (on == nullptr)
      push(team, index);
    else if (live_on_gpus())
      team.clock.schedule_in(time_on_gpu(team, index), [&team, index] { team.session.updated_on_gpu(team, index); });
    else
      on->from_gpu->copy(clock_.now(), index, unit(index).gradient_bytes, priority(index));
  }

  /// Of the kernels that add up the gradients, two at a time, and update the variable: each reads and writes memory.
  Seconds time_on_gpu(const Team& team, int index) const {
    const GpuParameters& costs = scenario_.profile.gpu;
    const MachineIndex machine = team.members.front()->worker.gpu.machine;
    const Machine& on = cluster_.machines[static_cast<std::size_t>(machine)];
    const Accelerator& gpu = *scenario_.groups[static_cast<std::size_t>(on.group)].accelerator;
    const auto additions = static_cast<double>(team.members.size() - 1);
    const auto stated = costs.update_accesses.find(to_text(scenario_.optimizer));
    const double update =
        stated != costs.update_accesses.end() ? stated->second : 3 + 2 * optimizer_slots(scenario_.optimizer);
    const Bytes bytes = unit(index).gradient_bytes;
    return costs.kernel_overhead * (additions + 1) +
           bytes / (gpu.memory_bandwidth * costs.memory_efficiency) * (3 * additions + update);
  }

  void updated_on_gpu(Team& team, int index) {
    if (strategy_.pushes_back_each_variable)
      push_back(index);
    else
      acknowledge(team, static_cast<std::size_t>(unit(index).server), index, clock_.now(), Seconds{});
  }

  /// Once every kernel of the step is dispatched, the date of its end is known.
  void check_computed(Trainer& trainer) {
    if (!trainer.compute->is_done() || trainer.is_computed) return;
    trainer.is_computed = true;
    record_stalls(trainer);
    for (const int index : std::exchange(trainer.held_back, {})) hand_over(trainer, index, trainer.compute->end());
    if (strategy_.pushes_back_each_variable)
      trainer.team->clock.schedule(std::max(clock_.now(), trainer.compute->end()),
                                   [this, &trainer] { end_step(trainer); });
  }

  /// Divides a wait among what came one after another, counted from its end: `times` are filled from the last on, as
  /// far as the wait reaches back.
  class Wait {
   public:
    explicit Wait(Seconds length) : left_{length} {}
    void was(Seconds& part, Seconds length) {
      const Seconds taken = std::min(left_, std::max(Seconds{}, length));
      part += taken;
      left_ -= taken;
    }
    void was_else(Seconds& part) { part += std::exchange(left_, Seconds{}); }

   private:
    Seconds left_;
  };

  /// What kept variables for which kernels waited: by the unit that came last.
  void record_stalls(Trainer& trainer) {
    StepTimes& times = trainer.worker.step.times;
    const Team& team = *trainer.team;
    for (const ComputeStream::Stall& stall : trainer.compute->stalls()) {
      times.stalled += stall.time;
      if (live_on_gpus()) {
        times.copies += stall.time;
        continue;
      }
      const auto v = static_cast<std::size_t>(stall.variable);
      const bool needs_all = exchange_.overlap == Overlap::kNone;
      const Seconds arrived = needs_all ? trainer.worker.step.last_pull : trainer.arrived[v];
      int last = units_.of_variable[v].front();
      const auto consider = [&](int index) {
        if (team.dates[static_cast<std::size_t>(index)].on_host > team.dates[static_cast<std::size_t>(last)].on_host)
          last = index;
      };
      if (needs_all)
        for (int index = 0; index < static_cast<int>(units_.units.size()); ++index) consider(index);
      else
        for (const int index : units_.of_variable[v]) consider(index);
      const UnitDates& dates = team.dates[static_cast<std::size_t>(last)];
      const Link& link = team.links[static_cast<std::size_t>(unit(last).server)];
      const Seconds down = link.down->latency(), up = link.up->latency();
      Wait wait{stall.time};
      wait.was(times.copies, arrived - dates.on_host);
      wait.was(times.latency, down);
      wait.was(times.network, dates.on_host - dates.served - down);
      wait.was(times.server, dates.served - dates.asked);
      wait.was(times.latency, up);
      if (strategy_.pushes_back_each_variable) {
        wait.was(times.network, dates.asked - dates.pushed - up);
        wait.was_else(times.copies);
      } else {
        wait.was_else(times.held);  // until the last of the team asked
      }
    }
  }

  /// What kept the last acknowledgement, after the kernels.
  void record_push(Trainer& trainer, const Link& link) {
    StepTimes& times = trainer.worker.step.times;
    if (live_on_gpus()) {
      times.copies += std::max(Seconds{}, clock_.now() - trainer.compute->end());
      return;
    }
    const Seconds pushed = trainer.team->dates[static_cast<std::size_t>(link.last_unit)].pushed;
    Wait wait{std::max(Seconds{}, clock_.now() - trainer.compute->end())};
    wait.was(times.latency, link.down->latency());
    wait.was(times.server, link.last_update - link.last_arrived);
    wait.was(times.latency, link.up->latency());
    wait.was(times.network, link.last_arrived - pushed - link.up->latency());
    wait.was_else(times.copies);
  }

  void push(Team& team, int index) {
    team.dates[static_cast<std::size_t>(index)].pushed = clock_.now();
    team.links[static_cast<std::size_t>(unit(index).server)].up->send(
        {index, team.members.front()->worker.steps, unit(index).gradient_bytes, priority(index)});
  }

  void update_arrived(Team& team, std::size_t s, const Connection::Message& message) {
    const Server& server = servers_[s];
    Seconds duration = message_time(team, server, message.size);
    if (message.size > scenario_.profile.servers.split_update_threshold)
      duration += scenario_.profile.servers.time_per_split_update;
    int& arrived = arrived_gradients_[static_cast<std::size_t>(message.unit)];
    const bool completes_unit = is_synchronous_ && strategy_.backup_workers == 0 && ++arrived == needed_gradients();
    if (completes_unit) {
      arrived = 0;
      duration += scenario_.profile.servers.time_per_update;
    }
    const CorePool::Slot slot = is_in_process(team, server)
                                    ? compute_in_memory(server.machine, message.size)
                                    : monitor_.cores(server.machine).run(clock_.now(), duration);
    record(server, slot, message.unit, true);
    if (strategy_.pushes_back_each_variable) {
      if (!completes_unit) return;
      for (const auto& each : teams_) each->dates[static_cast<std::size_t>(message.unit)].asked = clock_.now();
      clock_.schedule(slot.end, [this, index = message.unit] { push_back(index); });
      return;
    }
    acknowledge(team, s, message.unit, slot.end, team.links[s].down->latency());
  }

  /// An update is applied at `when`; the server's last one is acknowledged.
  void acknowledge(Team& team, std::size_t s, int last_unit, Seconds when, Seconds latency) {
    Link& link = team.links[s];
    if (when >= link.last_update) {
      link.last_update = when;
      link.last_arrived = clock_.now();
      link.last_unit = last_unit;
    }
    if (--link.updates_left > 0) return;
    team.clock.schedule(link.last_update + latency, [&team, &link] {
      if (--team.servers_left > 0) return;
      for (Trainer* member : team.members) {
        team.session.record_push(*member, link);
        team.session.end_step(*member);
      }
    });
  }

  /// The gradients of all workers for a unit are applied.
  void push_back(int index) {
    if (unit(index).value_bytes > Bytes{})
      for (const auto& team : teams_) {
        if (live_on_gpus())
          copied_to_gpu(*adder(*team, index), index, clock_.now());
        else
          send_value(*team, index);
      }
    if (++applied_units_ < static_cast<std::int64_t>(units_.units.size())) return;
    applied_units_ = 0;
    count_update(samples_expected_);
  }

  /// An asynchronous step that ends when all samples are done began when more were left.
  void count_update(std::int64_t samples) {
    if (!monitor_.count_update(done_, samples)) return;
    end_ = clock_.now();
    if (cluster_.on_update) cluster_.on_update(done_);
  }

  void end_step(Trainer& trainer) {
    trainer.is_training = false;
    trainer.worker.step.compute_end = trainer.compute->end();
    trainer.worker.step.times.kernels = trainer.compute->kernel_time();
    const std::int64_t completed = next_step(trainer) + 1;
    bool releases = false;
    if (strategy_.pushes_back_each_variable) {
      monitor_.end_step(trainer.worker, completed);
    } else {
      releases = ++reached(completed) == needed_workers();
      const bool is_late = is_synchronous_ && completed <= done_.updates;
      if (is_late)
        monitor_.drop(trainer.worker.step.samples);
      else
        samples_of_update_ += trainer.worker.step.samples;
      if (!is_synchronous_ || releases) count_update(std::exchange(samples_of_update_, 0));
      trainer.worker.step.staleness =
          is_synchronous_ ? 0 : std::max<std::int64_t>(0, done_.updates - 1 - trainer.updates_at_pull);
      monitor_.end_step(trainer.worker, is_synchronous_ ? completed : done_.updates);
      if (is_late) trainer.left_out += done_.updates - completed;
    }
    const Seconds pause = monitor_.checkpoint_pause(trainer.worker, done_);
    if (pause == Seconds{})
      begin_step(trainer);
    else
      trainer.team->clock.schedule_in(pause, [this, &trainer] { begin_step(trainer); });
    if (!releases) return;
    release_held();
    admit_arrived();
    if (done_.samples < all_samples_) call_idle();
  }

  void record(const Server& server, const CorePool::Slot& slot, int index, bool is_update) {
    cluster_.recorder.add(ServerSpan{server.machine, slot.core, index, is_update, {slot.start, slot.end}});
  }

  std::string deadlock() const override {
    std::string waiting;
    for (const auto& trainer : trainers_) {
      if (!trainer->is_training) continue;
      if (!waiting.empty()) waiting += "; ";
      waiting += cluster_.machines[static_cast<std::size_t>(trainer->worker.gpu.machine)].name + " in its step " +
                 std::to_string(trainer->worker.steps + 1);
      const int variable = trainer->compute->waits_for();
      waiting += variable >= 0
                     ? " waits for variable " + scenario_.workload.variables[static_cast<std::size_t>(variable)].name
                     : " waits for its updates to be applied";
    }
    return waiting;
  }

  void describe(RunRecord& record) const override {
    for (const GradientUnit& known : units_.units) {
      record.unit_names.push_back(known.name);
      const auto m = static_cast<std::size_t>(servers_[static_cast<std::size_t>(known.server)].machine);
      record.placed_variables[m] += static_cast<int>(known.variables.size());
      record.placed_bytes[m] += known.stored_bytes;
    }
  }

  static constexpr int kInput = -1;  // in place of a unit: the step's samples

  Cluster& cluster_;
  const Scenario& scenario_;
  const ParameterServerStrategy& strategy_;
  const GradientExchange& exchange_;
  OwnedClock clock_;
  RunMonitor& monitor_;
  std::int64_t all_samples_;
  bool is_synchronous_;
  bool changes_members_;
  std::vector<Server> servers_;
  GradientUnits units_;
  std::vector<std::unique_ptr<Trainer>> trainers_;
  std::vector<std::unique_ptr<Team>> teams_;
  int trainable_ = 0;
  std::size_t pulled_units_ = 0;  // of all servers
  std::int64_t first_step_;       // from 0; whoever is there has completed those before
  std::int64_t started_steps_;
  std::int64_t started_samples_;  // of the workers' own steps; asynchronous
  TrainingProgress done_;
  std::int64_t shared_step_ = -1;       // synchronous: the latest step whose workers are known
  std::int64_t samples_expected_ = 0;   // of its update
  std::int64_t samples_of_update_ = 0;  // of steps that have ended, for the next update
  Seconds end_{};
  std::vector<std::int64_t> reached_;   // [steps] workers that have completed so many, from first_step_ on
  int present_ = 0;                     // workers, those among them whose loss is not noticed yet
  std::vector<Trainer*> idle_;          // found no step left to begin
  std::vector<Trainer*> arrived_;       // synchronous: will join with the next step
  std::vector<Trainer*> held_;          // by the synchronization, in the order in which they came
  std::vector<int> arrived_gradients_;  // [units] of the current step
  std::int64_t applied_units_ = 0;      // of the current step
};

}  // namespace

std::unique_ptr<Session> train_with_parameter_servers(Cluster& cluster, RunMonitor& monitor, TrainingProgress done) {
  return std::make_unique<ParameterServers>(cluster, monitor, done);
}

}  // namespace rehearse
