// Synchronous data-parallel training by collectives. A worker's step:
//
//   host      step_overhead, the samples go to the GPU
//   compute   forward and backward; a unit of gradients (gradient_units.hpp) is ready at a worker when the last of its
//             gradients is, and ready for exchange when it is at all workers
//   exchange  one all-reduce at a time, in the order in which units become ready, or by priority; with a cycle time,
//             what is ready at the end of a cycle is fused
//   update    the optimizer, when every unit is reduced; then the next step begins
//
// With forward overlap a worker begins its next step as soon as its own kernels have run, and each kernel waits for the
// variables that it reads.
//
// Membership changes between two steps: who has to leave does not begin another one. Those that join are sent the model
// by the first of those that stay, which begin their step meanwhile; when all have it they begin theirs.
//
// Reductions, all exact within the domain that reductions.cpp checks, and off in an exact run:
//   collectives timed    one solution of the sharing instead of 2 (p - 1) rounds of flows: collective.hpp
//   workers folded       one worker of each group runs, for all of them: they do the same at the same time
//   kernels fused        compute_stream.hpp
//   steady state         once two steps are alike those until the next change of membership are not run: the next
//   begins
//                        as many steps later. The length is kept for each membership, for when it comes back.

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "sim/base/errors.hpp"
#include "sim/engine/collective.hpp"
#include "sim/engine/compute_stream.hpp"
#include "sim/engine/connection.hpp"
#include "sim/engine/copy_engine.hpp"
#include "sim/engine/gradient_units.hpp"
#include "sim/engine/reductions.hpp"
#include "sim/engine/run_monitor.hpp"
#include "sim/engine/strategy.hpp"

namespace rehearse {

namespace {

/// Carries out one all-reduce at a time.
class Communicator {
 public:
  /// `is_timed`: without flows. No other flow may then cross the links of the plans while a collective is under way.
  Communicator(Cluster& cluster, OwnedClock clock, Traffic& traffic, std::vector<CollectiveMethod> methods,
               bool is_timed)
      : cluster_{cluster},
        clock_{clock},
        traffic_{traffic},
        collective_{std::move(methods), cluster.network,
                    is_timed ? cluster.recorder.recorded_links() : std::vector<int>{}},
        is_timed_{is_timed} {
    for (std::size_t m = 0; m < collective_.methods().size(); ++m) {
      unsettled_.emplace_back(collective_.methods()[m].plan.size());
      latency_.push_back(collective_.duration(m, Bytes{}));
    }
  }
  /// Cuts what is under way.
  ~Communicator() {
    if (is_timed_ && on_done_) cluster_.recorder.cut_rates(clock_.now());
    for (const Message& message : under_way_) {
      const PathIndex edge = message.edge;
      if (message.state == Message::kHasLeft)
        traffic_.lost(cluster_.network.source(edge), cluster_.network.destination(edge), message.size);
      if (message.state != Message::kIsLeaving) continue;
      cluster_.network.cancel(message.flow);
      cluster_.network.count(edge, Bytes{} - message.size);
    }
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  void all_reduce(int unit, std::int64_t step, Bytes payload, std::function<void()> on_done) {
    unit_ = unit;
    step_ = step;
    method_ = collective_.choose(payload);
    const CollectiveMethod& method = collective_.methods()[method_];
    on_wire_ = method.on_wire(payload);
    on_done_ = std::move(on_done);
    const Seconds start = clock_.now(), alone = collective_.duration(method_, payload);
    time_alone_ += alone;
    latency_alone_ += std::min(alone, latency_[method_]);
    if (is_timed_) {
      if (cluster_.recorder.keeps_activity) record(start + method.protocol.launch);
      clock_.schedule(start + alone, [this] {
        for (std::size_t p = 0; p < plan().size(); ++p)
          unsettled_[method_][p] += message_size(plan()[p], on_wire_) * plan()[p].repeat;
        std::exchange(on_done_, {})();
      });
      return;
    }
    phase_ = 0;
    round_ = 0;
    copy_time_ = method.copy_time(payload);
    if (method.protocol.launch == Seconds{} || plan().empty())
      next_round();
    else
      clock_.schedule_in(method.protocol.launch, [this] { next_round(); });
  }

  /// Part of the time since the last call, in which nothing else used the network, that does not depend on how many
  /// bytes there were.
  double take_latency_share() {
    const Seconds time = std::exchange(time_alone_, {}), latency = std::exchange(latency_alone_, {});
    return time > Seconds{} ? latency / time : 0;
  }

  /// Counts the traffic of timed collectives that have ended; to be called before it is asked for.
  void settle() {
    for (std::size_t m = 0; m < unsettled_.size(); ++m)
      for (std::size_t p = 0; p < unsettled_[m].size(); ++p) {
        const Bytes size = std::exchange(unsettled_[m][p], {});
        if (size == Bytes{}) continue;
        for (const PathIndex edge : collective_.methods()[m].plan[p].edges) {
          const Endpoint from = cluster_.network.source(edge), to = cluster_.network.destination(edge);
          traffic_.sent(from, to, size);
          traffic_.received(from, to, size);
          cluster_.network.count(edge, size);
        }
      }
  }

 private:
  const CollectivePlan& plan() const { return collective_.methods()[method_].plan; }

  /// Of a message after its last byte has left: the way, and the software of those that pass it on.
  Seconds latency(const CollectivePhase& phase, PathIndex edge) const {
    return cluster_.network.latency(edge) * phase.hops + phase.steps.time(collective_.methods()[method_].protocol);
  }

  /// As if the messages of an edge were one, and the rates with which each of them crosses links.
  void record(Seconds start) {
    const CollectiveTimer& timer = collective_.timer(method_);
    for (std::size_t p = 0; p < plan().size(); ++p) {
      const CollectivePhase& phase = plan()[p];
      const Bytes each = message_size(phase, on_wire_);
      const auto repeat = static_cast<double>(phase.repeat);
      timer.rates(p, on_wire_, start, [this](int link, const RatePulses& rate) {
        cluster_.recorder.add_rate(*cluster_.recorder.find_link(link), rate);
      });
      for (std::size_t e = 0; e < phase.edges.size(); ++e) {
        const Seconds on_wire{timer.seconds_per_byte(p)[e] * as_double(each) * repeat};
        const Seconds latency = this->latency(phase, phase.edges[e]) * repeat;
        cluster_.recorder.add(MessageSpan{cluster_.network.source(phase.edges[e]),
                                          cluster_.network.destination(phase.edges[e]),
                                          unit_,
                                          step_,
                                          {start, start + on_wire},
                                          start + on_wire + latency,
                                          each * phase.repeat});
      }
      start += timer.round(p, on_wire_) * repeat;
    }
  }

  /// Round by round, message by message.
  void next_round() {
    while (phase_ < plan().size() && round_ == plan()[phase_].repeat) {
      ++phase_;
      round_ = 0;
    }
    if (phase_ == plan().size()) {
      if (copy_time_ == Seconds{} || plan().empty())
        std::exchange(on_done_, {})();
      else
        clock_.schedule_in(copy_time_, [this] { std::exchange(on_done_, {})(); });
      return;
    }
    ++round_;
    const CollectivePhase& phase = plan()[phase_];
    const Bytes size = message_size(phase, on_wire_);
    messages_left_ = phase.edges.size();
    under_way_.clear();
    for (const PathIndex edge : phase.edges) under_way_.push_back({.edge = edge, .size = size});
    for (std::size_t e = 0; e < phase.edges.size(); ++e) {
      const PathIndex edge = phase.edges[e];
      const Seconds start = clock_.now();
      const Endpoint from = cluster_.network.source(edge), to = cluster_.network.destination(edge);
      const Seconds latency = this->latency(phase, edge);
      under_way_[e].flow = cluster_.network.start_flow(edge, size, [this, start, e, from, to, size, latency] {
        const Seconds now = clock_.now();
        traffic_.sent(from, to, size);
        under_way_[e].state = Message::kHasLeft;
        cluster_.recorder.add(MessageSpan{from, to, unit_, step_, {start, now}, now + latency, size});
        clock_.schedule_in(latency, [this, e, from, to, size] {
          traffic_.received(from, to, size);
          under_way_[e].state = Message::kHasArrived;
          if (--messages_left_ == 0) next_round();
        });
      });
    }
  }

  struct Message {
    enum State { kIsLeaving, kHasLeft, kHasArrived };
    PathIndex edge = 0;
    Bytes size{};
    FlowId flow = 0;
    State state = kIsLeaving;
  };

  Cluster& cluster_;
  OwnedClock clock_;
  Traffic& traffic_;
  std::vector<Message> under_way_;  // of the current round
  FastestCollective collective_;
  bool is_timed_;
  std::vector<std::vector<Bytes>> unsettled_;  // [methods][phases] over each edge, not counted yet
  std::vector<Seconds> latency_;               // [methods] of an all-reduce of nothing
  Seconds time_alone_{}, latency_alone_{};     // of the all-reduces of this step, by the formula
  int unit_ = 0;
  std::int64_t step_ = 0;
  std::size_t method_ = 0;
  Bytes on_wire_{};
  Seconds copy_time_{};
  std::function<void()> on_done_;
  std::size_t phase_ = 0;
  std::int64_t round_ = 0;
  std::size_t messages_left_ = 0;
};

class AllReduceTraining final : public Session {
 public:
  AllReduceTraining(Cluster& cluster, RunMonitor& monitor, TrainingProgress done)
      : cluster_{cluster},
        scenario_{cluster.scenario},
        exchange_{cluster.scenario.training.strategy.exchange},
        clock_{cluster.clock, cluster.clock.new_owner()},
        reductions_{plan_reductions(cluster.scenario, cluster.is_exact, cluster.recorder.keeps_activity)},
        monitor_{monitor},
        units_{plan_gradient_units(cluster.scenario, 0)},
        all_samples_{cluster.scenario.training.samples},
        changes_members_{cluster.scenario.has_changing_membership() || cluster.scenario.has_revocations()},
        done_{done},
        last_reduced_{cluster.clock.now()} {
    create_ranks();
    members_ = members_now();
    formation_ = &formation_of(members_);
    ready_workers_.resize(units_.units.size());
    begin_exchange();
  }
  ~AllReduceTraining() override {
    clock_.retire();
    settle();
    for (const auto& rank : ranks_)
      if (rank->is_reduced) monitor_.cut_used_step(rank->worker);
  }

  void begin() override {
    for (Rank* rank : formation_->ranks) {
      rank->missed_steps = done_.updates - rank->worker.steps;
      clock_.schedule(std::max(clock_.now(), monitor_.starts_at(rank->worker)), [this, rank] {
        monitor_.record_start(rank->worker);
        begin_step(*rank);
      });
    }
  }

  /// It is seen between two steps.
  void join(MachineIndex) override {}

  /// The step under way fails if the machine takes part in it, or awaits the model to do so in the next one.
  bool lose(MachineIndex machine) override {
    const auto is_its = [machine](const Rank* rank) {
      return std::find(rank->machines.begin(), rank->machines.end(), machine) != rank->machines.end();
    };
    return std::none_of(formation_->ranks.begin(), formation_->ranks.end(), is_its) &&
           std::none_of(leaving_.begin(), leaving_.end(), is_its);
  }

  TrainingProgress progress() const override { return done_; }
  Seconds last_update() const override { return end_; }

  void settle() const override {
    if (formation_->communicator) formation_->communicator->settle();
  }

  void describe(RunRecord& record) const override {
    for (const GradientUnit& unit : units_.units) record.unit_names.push_back(unit.name);
    record.unit_names.push_back("model");
  }

  std::string deadlock() const override {
    for (std::size_t u = 0; u < ready_workers_.size(); ++u)
      if (ready_workers_[u] > 0)
        return units_.units[u].name + " is ready at " + std::to_string(ready_workers_[u]) + " of " +
               std::to_string(formation_->workers) + " workers";
    return "no worker has a gradient ready";
  }

 private:
  /// A worker that runs, for itself and for those that do the same at the same time.
  struct Rank {
    explicit Rank(Worker& worker_) : worker{worker_} {}
    Worker& worker;
    std::int64_t workers = 1;
    std::vector<MachineIndex> machines;  // of these workers
    std::optional<CopyEngine> to_gpu;
    std::optional<ComputeStream> compute;
    FusedPlan fused;
    std::vector<int> gradients_left;  // [units]
    std::vector<int> held_back;       // units, until the backward pass has ended
    std::vector<int> came_early;      // variables of the next step
    Seconds pause{};                  // after the current step
    bool leaves = false;              // after the current step
    bool is_reduced = false;          // the current step, whose update is under way
    std::int64_t missed_steps = 0;    // of the cluster, before it joined
  };

  struct SteadyStep {
    double length = 0;
    std::vector<double> ends;  // [ranks] of their steps, from the end of the last all-reduce
    Use use;
  };

  /// What a rank does in a step, and all workers for which it stands.
  struct Part {
    const ComputePlan* plan = nullptr;
    int passes = 1;
    std::int64_t samples = 0;
  };

  /// The workers of a step, and what they keep for all steps in this membership.
  struct Formation {
    std::vector<Rank*> ranks;
    std::map<const Rank*, Part> parts;
    std::int64_t workers = 0;
    std::int64_t samples = 0;  // of a step
    std::optional<Communicator> communicator;
    std::optional<SteadyStep> steady;
  };

  /// [machines] whose workers take part in a step that begins now.
  std::vector<bool> members_now() {
    std::vector<bool> members(cluster_.machines.size());
    for (const Worker& worker : monitor_.workers())
      members[static_cast<std::size_t>(worker.gpu.machine)] =
          monitor_.is_there(worker.gpu.machine) && !monitor_.has_to_leave(worker);
    return members;
  }

  Formation& formation_of(const std::vector<bool>& members) {
    const auto [entry, is_new] = formations_.try_emplace(members);
    Formation& formation = entry->second;
    if (!is_new) return formation;
    std::vector<Endpoint> gpus;
    for (const Worker& worker : monitor_.workers())
      if (members[static_cast<std::size_t>(worker.gpu.machine)]) gpus.push_back(worker.gpu);
    for (const auto& rank : ranks_)
      if (members[static_cast<std::size_t>(rank->worker.gpu.machine)]) formation.ranks.push_back(rank.get());
    formation.workers = static_cast<std::int64_t>(gpus.size());
    if (gpus.empty()) return formation;
    share_step(members, formation);
    formation.communicator.emplace(cluster_, clock_, monitor_.traffic(),
                                   collective_methods(scenario_, gpus, cluster_.machines, cluster_.network),
                                   reductions_.times_collectives);
    return formation;
  }

  void share_step(const std::vector<bool>& members, Formation& formation) {
    WorkerCounts counts(scenario_.groups.size());
    std::vector<std::int64_t> weights;
    std::vector<const Worker*> sharing;
    for (const Worker& worker : monitor_.workers()) {
      const auto m = static_cast<std::size_t>(worker.gpu.machine);
      if (!members[m]) continue;
      const auto g = static_cast<std::size_t>(cluster_.machines[m].group);
      ++counts[g];
      sharing.push_back(&worker);
      weights.push_back(worker.samples);
    }
    const std::vector<StepShare> shares = step_shares(scenario_, counts);
    formation.samples = static_cast<std::int64_t>(samples_per_update(scenario_, counts));
    const std::vector<std::int64_t> samples = split_samples(formation.samples, weights);
    for (std::size_t w = 0; w < sharing.size(); ++w) {
      const MachineIndex machine = sharing[w]->gpu.machine;
      const int group = cluster_.machines[static_cast<std::size_t>(machine)].group;
      const StepShare& share = shares[static_cast<std::size_t>(group)];
      Part& part = formation.parts[rank_of_[static_cast<std::size_t>(sharing[w]->index)]];
      part.plan = &monitor_.plan_of(machine, share, formation.workers);
      part.passes = share.passes;
      part.samples += samples[w];
    }
  }

  void create_ranks() {
    const bool folds = reductions_.folds_workers;
    std::vector<Rank*> of_group(scenario_.groups.size());
    std::vector<MachineIndex> recorded_by(cluster_.machines.size(), -1);
    for (Worker& worker : monitor_.workers()) {
      const auto m = static_cast<std::size_t>(worker.gpu.machine);
      Rank*& first = of_group[static_cast<std::size_t>(cluster_.machines[m].group)];
      if (folds && first != nullptr) {
        ++first->workers;
        if (first->machines.back() != worker.gpu.machine) first->machines.push_back(worker.gpu.machine);
        recorded_by[m] = first->worker.gpu.machine;
        rank_of_.push_back(first);
        continue;
      }
      ranks_.push_back(std::make_unique<Rank>(worker));
      first = ranks_.back().get();
      rank_of_.push_back(first);
      first->machines = {worker.gpu.machine};
      if (folds) recorded_by[m] = worker.gpu.machine;
      create_rank(*first);
    }
    if (!folds) return;
    const auto from_the_start = std::count_if(ranks_.begin(), ranks_.end(), [this](const auto& rank) {
      return monitor_.is_there_from_the_start(rank->worker);
    });
    monitor_.fold(static_cast<std::size_t>(from_the_start), std::move(recorded_by));
  }

  void create_rank(Rank& rank) {
    rank.gradients_left.resize(units_.units.size());
    plan_compute_of(rank);
    rank.to_gpu.emplace(clock_, cluster_.network, monitor_.traffic(), cluster_.recorder,
                        std::vector{cluster_.network.path(rank.worker.host, rank.worker.gpu)},
                        reductions_.copies_are_alone, [this, &rank](int, Seconds when) { begin_compute(rank, when); });
  }

  void plan_compute_of(Rank& rank) {
    if (!cluster_.is_exact) rank.fused = fuse(*rank.worker.plan, rank.worker.passes);
    rank.compute.emplace(*rank.worker.plan, scenario_.workload.variables.size(), rank.worker.passes, cluster_.recorder,
                         rank.worker.gpu,
                         [this, &rank](int variable, Seconds ready) { gradient(rank, variable, ready); });
  }

  void take_part(Rank& rank) {
    const Part& part = formation_->parts.at(&rank);
    rank.worker.step.samples = part.samples;
    if (rank.worker.plan == part.plan && rank.worker.passes == part.passes) return;
    rank.worker.plan = part.plan;
    rank.worker.passes = part.passes;
    plan_compute_of(rank);
  }

  void begin_exchange() {
    units_left_ = units_.units.size();
    pieces_left_.clear();
    for (const auto& units : units_.of_variable) pieces_left_.push_back(static_cast<int>(units.size()));
  }

  void begin_step(Rank& rank) {
    const std::int64_t not_counted = rank.missed_steps + rank.worker.steps - done_.updates;  // of its steps
    if (done_.samples + not_counted * formation_->samples >= all_samples_) {
      settle();
      monitor_.close_window();
      return;
    }
    rank.worker.step = {.span = {clock_.now(), {}}};
    take_part(rank);
    for (std::size_t u = 0; u < units_.units.size(); ++u)
      rank.gradients_left[u] = static_cast<int>(units_.units[u].variables.size());
    rank.to_gpu->copy(clock_.now() + rank.worker.plan->step_overhead, 0, rank.worker.plan->input, 0);
  }

  void begin_compute(Rank& rank, Seconds when) {
    const double slowdown = monitor_.slowdown(rank.worker);
    rank.worker.step.last_pull = when;
    rank.worker.step.times.input = when - rank.worker.step.span.start - rank.worker.plan->step_overhead;
    if (exchange_.overlap != Overlap::kForward || rank.worker.steps == 0) {
      rank.compute->begin_step_with_all_variables(when, slowdown, cluster_.is_exact ? nullptr : &rank.fused);
    } else {
      rank.compute->begin_step(when, slowdown);
      for (const int variable : std::exchange(rank.came_early, {})) rank.compute->variable_arrived(variable, when);
    }
    check_computed(rank);
  }

  void gradient(Rank& rank, int variable, Seconds ready) {
    for (const int unit : units_.of_variable[static_cast<std::size_t>(variable)]) {
      if (--rank.gradients_left[static_cast<std::size_t>(unit)] > 0) continue;
      if (exchange_.overlap == Overlap::kNone)
        rank.held_back.push_back(unit);
      else
        schedule_ready(rank, unit, ready);
    }
  }

  void schedule_ready(Rank& rank, int unit, Seconds when) {
    clock_.schedule(when, [this, unit, workers = rank.workers] {
      std::int64_t& ready = ready_workers_[static_cast<std::size_t>(unit)];
      ready += workers;
      if (ready < formation_->workers) return;
      ready = 0;
      waiting_.push_back(unit);
      launch();
    });
  }

  /// Once every kernel of the step is dispatched, the date of its end is known.
  void check_computed(Rank& rank) {
    if (!rank.compute->is_done()) return;
    const Seconds end = rank.compute->end();
    for (const int unit : std::exchange(rank.held_back, {})) schedule_ready(rank, unit, end);
    if (exchange_.overlap == Overlap::kForward) clock_.schedule(end, [this, &rank] { end_step(rank); });
  }

  void launch() {
    if (is_busy_ || waiting_.empty()) return;
    if (!exchange_.cycle_time) {
      start_collective({take_next()});
      return;
    }
    if (cycle_is_scheduled_) return;
    cycle_is_scheduled_ = true;
    const double cycles = std::ceil(clock_.now() / *exchange_.cycle_time * (1 - 1e-12));
    clock_.schedule(std::max(clock_.now(), *exchange_.cycle_time * cycles), [this] {
      cycle_is_scheduled_ = false;
      start_collective(take_fused());
    });
  }

  int take_next() {
    auto next = waiting_.begin();
    if (exchange_.order == Order::kPriority)
      next = std::min_element(waiting_.begin(), waiting_.end(), [this](int a, int b) {
        return units_.units[static_cast<std::size_t>(a)].first_use <
               units_.units[static_cast<std::size_t>(b)].first_use;
      });
    const int unit = *next;
    waiting_.erase(next);
    return unit;
  }

  /// At least one, and as many as fit into a bucket.
  std::vector<int> take_fused() {
    std::vector<int> fused;
    Bytes size{};
    while (!waiting_.empty()) {
      const int unit = take_next();
      const Bytes bytes = units_.units[static_cast<std::size_t>(unit)].gradient_bytes;
      if (!fused.empty() && exchange_.bucket_size && size + bytes > *exchange_.bucket_size) {
        waiting_.push_front(unit);
        break;
      }
      fused.push_back(unit);
      size += bytes;
    }
    return fused;
  }

  void start_collective(std::vector<int> units) {
    is_busy_ = true;
    Bytes payload{};
    for (const int unit : units) payload += units_.units[static_cast<std::size_t>(unit)].gradient_bytes;
    const int first = units.front();
    formation_->communicator->all_reduce(first, done_.updates, payload, [this, done = std::move(units)] {
      is_busy_ = false;
      for (const int unit : done) unit_reduced(unit);
      launch();
    });
  }

  void unit_reduced(int unit) {
    for (const int variable : units_.units[static_cast<std::size_t>(unit)].variables)
      if (--pieces_left_[static_cast<std::size_t>(variable)] == 0) variable_reduced(variable);
    if (--units_left_ == 0) step_reduced();
  }

  void variable_reduced(int variable) {
    if (exchange_.overlap != Overlap::kForward) return;
    for (Rank* rank : formation_->ranks) {
      if (rank->compute->is_done()) {  // of the step before: its kernels are all dispatched
        rank->came_early.push_back(variable);
      } else {
        rank->compute->variable_arrived(variable, clock_.now());
        check_computed(*rank);
      }
    }
  }

  /// All gradients of a step are reduced.
  void step_reduced() {
    monitor_.count_update(done_, formation_->samples);
    end_ = clock_.now();
    latency_share_ = formation_->communicator->take_latency_share();
    begin_exchange();
    if (exchange_.overlap == Overlap::kForward) {
      if (cluster_.on_update) cluster_.on_update(done_);
      return;
    }
    std::vector<double> ends;
    for (Rank* rank : formation_->ranks) {
      const Seconds end = std::max(clock_.now(), rank->compute->end()) + rank->worker.plan->update;
      ends.push_back((end - clock_.now()).value());
      end_ = std::max(end_, end);
      rank->is_reduced = true;
      clock_.schedule(end, [this, rank] { end_step(*rank); });
    }
    if (changes_members_ && done_.samples < all_samples_ && members_now() != members_)
      change_members();
    else if (reductions_.skips_steady_state && !cluster_.recorder.is_recording(clock_.now()))
      look_for_steady_state(std::move(ends));
    if (cluster_.on_update) cluster_.on_update(done_);
  }

  /// Between two steps: those that stay begin the next one as if nothing had happened.
  void change_members() {
    settle();
    const Formation& before = *formation_;
    members_ = members_now();
    formation_ = &formation_of(members_);
    last_ends_.clear();
    const auto is_in = [](const Formation& formation, const Rank* rank) {
      return std::find(formation.ranks.begin(), formation.ranks.end(), rank) != formation.ranks.end();
    };
    Rank* source = before.ranks.front();
    for (Rank* rank : before.ranks) {
      rank->leaves = !is_in(*formation_, rank);
      if (rank->leaves) leaving_.push_back(rank);
      if (source->leaves && !rank->leaves) source = rank;
    }
    if (formation_->ranks.empty()) return;
    for (Rank* rank : formation_->ranks) {
      if (is_in(before, rank)) continue;
      rank->missed_steps = done_.updates - rank->worker.steps;
      joining_.push_back(rank);
      for (const MachineIndex machine : rank->machines)
        if (awaiting_model_.insert(machine).second) send_model(source->worker.host, machine);
    }
  }

  /// Newcomers begin together, as after a broadcast.
  void send_model(Endpoint from, MachineIndex machine) {
    std::unique_ptr<Connection>& connection = models_[machine];
    connection = std::make_unique<Connection>(clock_, cluster_.network, monitor_.traffic(), cluster_.recorder,
                                              cluster_.network.path(from, {machine, Endpoint::kHost}),
                                              [this, machine](const Connection::Message&) {
                                                awaiting_model_.erase(machine);
                                                if (!awaiting_model_.empty()) return;
                                                for (Rank* rank : std::exchange(joining_, {})) {
                                                  monitor_.record_start(rank->worker);
                                                  begin_step(*rank);
                                                }
                                              });
    connection->send({static_cast<int>(units_.units.size()), done_.updates, scenario_.workload.variable_bytes(), 0});
  }

  /// The worker has waited for reduced gradients in its kernels, with forward overlap, or from their end to its update.
  void record_times(Rank& rank) {
    StepTimes& times = rank.worker.step.times;
    times.kernels = rank.compute->kernel_time();
    for (const ComputeStream::Stall& stall : rank.compute->stalls()) times.stalled += stall.time;
    const Seconds after = clock_.now() - rank.compute->end() - rank.worker.plan->update;
    const Seconds waited = times.stalled + std::max(Seconds{}, after);
    times.latency = waited * latency_share_;
    times.network = waited - times.latency;
  }

  void end_step(Rank& rank) {
    rank.worker.step.compute_end = rank.compute->end();
    record_times(rank);
    rank.is_reduced = false;
    const std::int64_t completed = rank.missed_steps + rank.worker.steps + 1;
    settle();
    monitor_.end_step(rank.worker, completed);
    if (std::exchange(rank.leaves, false)) {
      std::erase(leaving_, &rank);
      monitor_.record_leave(rank.worker);
      if (leaving_.empty() && formation_->ranks.empty()) cluster_.clock.schedule_in({}, cluster_.on_deserted);
      return;
    }
    const Seconds pause =
        std::exchange(rank.pause, Seconds{}) + monitor_.checkpoint_pause(rank.worker, {completed, done_.samples});
    if (pause == Seconds{})
      begin_step(rank);
    else
      clock_.schedule_in(pause, [this, &rank] { begin_step(rank); });
  }

  /// Called when a step is reduced and the ends of all workers' steps are known: `ends` [ranks] from now. What follows
  /// depends on nothing else, so if they are what they were a step before, all others will be as long as this one; and
  /// if they are what they were in a steady state of the same membership, as long as that. Leaves the last step, and
  /// the one in which membership changes, to be run.
  void look_for_steady_state(std::vector<double> ends) {
    const double length = (clock_.now() - std::exchange(last_reduced_, clock_.now())).value();
    const bool repeats_last = is_same(ends, last_ends_) && is_same({length}, {last_length_});
    last_length_ = length;
    settle();
    Use use = monitor_.use_so_far();
    std::optional<SteadyStep>& steady = formation_->steady;
    if (!steady && repeats_last) {
      steady = {length, ends, use};
      steady->use -= use_before_;
    }
    use_before_ = std::move(use);
    last_ends_ = std::move(ends);
    if (!steady || !is_same(last_ends_, steady->ends) || done_.updates - 1 <= scenario_.training.warmup_steps) return;
    const double until_change = (next_change() - clock_.now()).value();
    const std::int64_t steps_left = (all_samples_ - done_.samples + formation_->samples - 1) / formation_->samples;
    const auto left = std::min(static_cast<double>(steps_left - 1), std::ceil(until_change / steady->length) - 1);
    if (left < 1) return;
    const auto count = static_cast<std::int64_t>(left);
    monitor_.skip(count, steady->use);
    done_.updates += count;
    done_.samples += count * formation_->samples;
    const Seconds skipped{steady->length * left};
    for (Rank* rank : formation_->ranks) {
      rank->worker.step.repeats = count + 1;
      rank->pause = skipped;
    }
    last_reduced_ += skipped;
    use_before_ = monitor_.use_so_far();
  }

  static bool is_same(const std::vector<double>& some, const std::vector<double>& others) {
    return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                      [](double a, double b) { return std::abs(a - b) <= kSameLength * std::max(a, b); });
  }

  /// The next date at which membership may change, or from which on activity is recorded; infinity without.
  Seconds next_change() const {
    const Seconds next = monitor_.next_change(), recording = cluster_.recorder.scope.window.start;
    return cluster_.recorder.keeps_activity && recording > clock_.now() ? std::min(next, recording) : next;
  }

  /// Lengths of steps that differ by less are equal but for rounding.
  static constexpr double kSameLength = 1e-11;

  Cluster& cluster_;
  const Scenario& scenario_;
  const GradientExchange& exchange_;
  OwnedClock clock_;
  Reductions reductions_;
  RunMonitor& monitor_;
  GradientUnits units_;
  std::int64_t all_samples_;
  bool changes_members_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Rank*> rank_of_;                         // [workers]
  std::map<std::vector<bool>, Formation> formations_;  // by members, [machines]
  std::vector<bool> members_;
  Formation* formation_ = nullptr;
  std::vector<Rank*> joining_;
  std::vector<Rank*> leaving_;                                  // with the end of their step
  std::set<MachineIndex> awaiting_model_;                       // machines of those that join
  std::map<MachineIndex, std::unique_ptr<Connection>> models_;  // on their way to them
  std::vector<std::int64_t> ready_workers_;                     // [units] of the current step
  std::deque<int> waiting_;                                     // units that are ready at all workers
  bool is_busy_ = false;
  bool cycle_is_scheduled_ = false;
  std::size_t units_left_ = 0;    // to be reduced in this step
  std::vector<int> pieces_left_;  // [variables]
  TrainingProgress done_;
  Seconds end_{};
  Seconds last_reduced_;
  double last_length_ = -1;
  double latency_share_ = 0;  // of the exchange of the latest step
  std::vector<double> last_ends_;
  Use use_before_;
};

}  // namespace

std::unique_ptr<Session> train_by_all_reduce(Cluster& cluster, RunMonitor& monitor, TrainingProgress done) {
  return std::make_unique<AllReduceTraining>(cluster, monitor, done);
}

}  // namespace rehearse
