// Training in which each worker goes on by itself from step to step, as its program (program.hpp) and the gate of steps
// (step_gate.hpp) let it: with parameter servers, or averaging models in pairs.
//
// Synchronous workers share a step: who takes part in it is known when the first of them begins it. A worker that ends
// a step which all but the backup workers have already left behind is late: its gradients were dropped, and it goes on
// with the step that the others are at. Workers may join, synchronous ones with the next step and others with the one
// that the slowest is in, and leave between two of their steps.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "sim/job/paced_worker.hpp"
#include "sim/job/program_session.hpp"
#include "sim/training/cluster_step.hpp"

namespace rehearse {

namespace {

using paced::PacedWorker;
using paced::Round;
using paced::Sent;
using paced::Team;

/// Of steps that are looked for: workers that end at the same date come in an order that rotates. What is kept of them
/// is bounded.
std::size_t longest_cycle(std::size_t workers) {
  constexpr std::size_t kKept = 250'000;
  return std::min(2 * workers, kKept / std::max<std::size_t>(1, workers));
}

class PacedTraining final : public ProgramSession {
 public:
  PacedTraining(const SessionParts& parts, TrainingProgress done)
      : ProgramSession{parts, done, longest_cycle(parts.workers.size())},
        servers_strategy_{scenario_.training.strategy.kind->servers()},
        is_synchronous_{scenario_.training.strategy.is_synchronous()},
        runs_ahead_{servers_strategy_ != nullptr &&
                    (servers_strategy_->pushes_back_each_variable ||
                     scenario_.training.strategy.exchange.overlap == Overlap::kForward)},
        shares_updates_{runs_ahead_ && is_synchronous_},
        changes_members_{may_leave_full_cluster(scenario_)},
        servers_{cluster_.site.servers},
        steps_{servers_strategy_ != nullptr && !shares_updates_ ? servers_strategy_->staleness_bound : std::nullopt,
               backup_workers(scenario_), done.updates},
        executor_{cluster_, clock_, *this, done.updates, &steps_},
        first_step_{done.updates},
        started_steps_{done.updates},
        started_samples_{done.samples} {
    create_workers();
  }

  ~PacedTraining() override {
    clock_.retire();
    for (const auto& paced : all_) {
      paced->running->clock().retire();
      if (paced->is_training && shares_updates_ && next_step(*paced) < done_.updates) log_.cut_used_step(paced->worker);
      forget_sent(*paced);
    }
    log_.lose_samples(samples_of_update_);
    for (const auto& [number, round] : rounds_) log_.lose_samples(round.ended);
  }

  void begin() override {
    std::vector<PacedWorker*> first;
    for (const auto& paced : all_) {
      if (!workers_.is_there(paced->worker.gpu.machine)) continue;
      paced->left_out = done_.updates - paced->worker.steps;
      paced->is_present = true;
      steps_.enter(done_.updates);
      present_.push_back(paced.get());
      first.push_back(paced.get());
    }
    for (PacedWorker* paced : first)
      paced->running->clock().schedule(std::max(clock_.now(), workers_.starts_at(paced->worker)), [this, paced] {
        log_.record_start(paced->worker);
        go_on(*paced);
      });
  }

  void join(MachineIndex machine) override {
    for (const auto& paced : all_)
      if (paced->worker.gpu.machine == machine && !paced->is_present) arrive(*paced);
  }

  /// A synchronous step, or one that servers miss, is lost for all. Without servers the last worker takes the model
  /// with it.
  bool lose(MachineIndex machine) override {
    if (cluster_.site.machine(machine).servers > 0) return false;
    std::vector<PacedWorker*> lost;
    for (PacedWorker* paced : present_)
      if (paced->worker.gpu.machine == machine) lost.push_back(paced);
    if (is_synchronous_ && !lost.empty()) return false;
    if (servers_strategy_ == nullptr && !lost.empty() && lost.size() == present_.size()) return false;
    for (PacedWorker* paced : lost) lose(*paced);
    for (const PacedWorker* paced : lost) executor_.cut_fetches_from(*paced->running);
    const auto gone_from =
        std::stable_partition(arrived_.begin(), arrived_.end(),
                              [machine](const PacedWorker* waiting) { return waiting->worker.gpu.machine != machine; });
    const std::vector<PacedWorker*> gone{gone_from, arrived_.end()};
    arrived_.erase(gone_from, arrived_.end());
    for (const PacedWorker* waiting : gone) withdraw(*waiting);  // which may bring about an update
    call_idle();
    return true;
  }

  /// The variables of another step come to the workers after the last update.
  Seconds last_update() const override {
    Seconds end = end_;
    if (runs_ahead_ && done_.samples == all_samples_)
      for (const auto& paced : all_) end = std::max(end, paced->running->latest());
    return end;
  }

  std::string deadlock() const override {
    std::string waiting;
    for (const auto& paced : all_) {
      if (!paced->is_training) continue;
      if (!waiting.empty()) waiting += "; ";
      waiting += cluster_.site.machine(paced->worker.gpu.machine).name + " in its step " +
                 std::to_string(paced->worker.steps + 1) + " waits for " +
                 (paced->running->waits_in_kernels() ? "variables" : "its updates to be applied");
    }
    return waiting.empty() ? "nobody trains" : waiting;
  }

  void describe(RunRecord& record) const override {
    record.unit_names = compiler_.labels();
    for (const GradientUnit& unit : compiler_.strategy().placed_units()) {
      const auto m = static_cast<std::size_t>(servers_[static_cast<std::size_t>(unit.server)]);
      record.placed_variables[m] += static_cast<int>(unit.variables.size());
      record.placed_bytes[m] += unit.stored_bytes;
    }
  }

 private:
  void create_workers() {
    const ClusterStep step = compiler_.step();
    for (Worker& worker : workers_) {
      all_.push_back(std::make_unique<PacedWorker>(worker, scenario_.seed));
      PacedWorker& paced = *all_.back();
      paced.next = step.workers[static_cast<std::size_t>(worker.index)];
      for (const int group : paced.next.groups) paced.meets.push_back(step.groups[static_cast<std::size_t>(group)]);
      paced.is_first_of_team = compiler_.strategy().team(worker.index).front() == worker.index;
      if (paced.is_first_of_team) teams_.push_back(std::make_unique<Team>());
      teams_.back()->members.push_back(&paced);
      paced.team = teams_.back().get();
    }
    for (const auto& team : teams_) {
      const OwnedClock clock{cluster_.clock, cluster_.clock.new_owner()};
      for (PacedWorker* member : team->members) add_running(*member, clock);
    }
  }

  void add_running(PacedWorker& paced, OwnedClock clock) {
    const Worker& worker = paced.worker;
    RunningWorker::Place at{.host = worker.host, .gpu = worker.gpu, .other_gpus = worker.other_gpus};
    at.copies_are_alone = compiler_.strategy().copies_are_alone(worker.index);
    at.connections = compiler_.paths(worker.index, cluster_.network);
    paced.running = &executor_.add_worker(at, clock, paced.team->counters);
    form_groups(paced);
  }

  /// Of its own GPUs.
  void form_groups(PacedWorker& paced) {
    paced.groups.clear();
    paced.own_groups.clear();
    const OwnedClock clock = paced.running->clock();
    for (const WorkerGroup& group : paced.meets) {
      paced.own_groups.push_back(std::make_unique<CollectiveGroup>(
          executor_, clock, 1, CollectiveGroup::Rule{},
          std::make_unique<Communicator>(cluster_, clock, cluster_.site.gpus_of(group.workers),
                                         CollectiveEvents::kMessages)));
      paced.groups.push_back(paced.own_groups.back().get());
    }
  }

  /// The number, from 0, of the step that the worker is in, or will begin next; counts those that it left out.
  static std::int64_t next_step(const PacedWorker& paced) { return paced.worker.steps + paced.left_out; }

  /// Whether no samples are left for a step that begins now. Of synchronous steps whose update is under way as many are
  /// counted as they expect; should they be fewer in the end, call_idle() goes on.
  bool is_over(const PacedWorker& paced) const {
    if (!is_synchronous_) return started_samples_ >= all_samples_;
    std::int64_t under_way = 0;
    if (shares_updates_)
      for (auto round = rounds_.begin(); round != rounds_.lower_bound(next_step(paced)); ++round)
        under_way += round->second.samples;
    else
      under_way = std::max<std::int64_t>(0, next_step(paced) - done_.updates) * samples_expected_;
    return done_.samples + under_way >= all_samples_;
  }

  /// Samples are left after all.
  void call_idle() {
    for (PacedWorker* idle : std::exchange(idle_, {})) {
      if (idle->is_present)
        go_on(*idle);
      else if (workers_.is_there(idle->worker.gpu.machine))
        join(*idle);
    }
  }

  /// Synchronous: the workers that will take part in a step, the first of which begins it now, and what each does.
  void share_step(std::int64_t step) {
    if (step <= shared_step_) return;
    shared_step_ = step;
    std::vector<PacedWorker*> sharing;
    std::int64_t teams = 0;
    for (const auto& paced : all_) {
      const bool arrives =  // with the end of the step before
          step > first_step_ && std::find(arrived_.begin(), arrived_.end(), paced.get()) != arrived_.end();
      if ((!paced->is_present && !arrives) || workers_.has_to_leave(paced->worker)) continue;
      sharing.push_back(paced.get());
      paced->counted_in = step;
      if (paced->is_first_of_team) ++teams;
    }
    executor_.expect(step, shares_updates_ ? needed_teams(teams) : teams);
    if (changes_members_ || samples_expected_ == 0) share_samples(sharing);
    if (!shares_updates_) return;
    Round& round = rounds_[step];
    for (const PacedWorker* paced : sharing) round.workers.push_back(paced->worker.index);
    round.samples = samples_expected_;
  }

  /// Whose gradients a step waits for.
  std::int64_t needed_teams(std::int64_t teams) const {
    return needed_workers(teams, backup_workers(scenario_) / static_cast<int>(all_.front()->team->members.size()));
  }

  void share_samples(const std::vector<PacedWorker*>& sharing) {
    std::vector<int> workers;
    for (const PacedWorker* paced : sharing) workers.push_back(paced->worker.index);
    ClusterStep step = compiler_.step(workers);
    samples_expected_ = step.samples;
    for (std::size_t i = 0; i < sharing.size(); ++i) sharing[i]->next = std::move(step.workers[i]);
  }

  /// Synchronous: somebody has begun the step that is updated next.
  bool is_step_begun() const { return shared_step_ >= done_.updates; }

  /// The time at which the worker joins has come. Of a step that has begun it has no part.
  void arrive(PacedWorker& paced) {
    if (is_synchronous_ && !present_.empty() && is_step_begun())
      arrived_.push_back(&paced);
    else
      join(paced);
  }

  void join(PacedWorker& paced) {
    std::int64_t slowest = is_synchronous_ ? done_.updates : started_steps_;
    if (!is_synchronous_)
      for (const PacedWorker* other : present_) slowest = std::min(slowest, next_step(*other));
    paced.left_out = slowest - paced.worker.steps;
    if (is_over(paced)) {
      idle_.push_back(&paced);
      return;
    }
    forget_sent(paced);
    paced.is_present = true;
    paced.first = FirstVariables::kPulled;
    if (paced.is_first_of_team) paced.team->counters = std::make_shared<Counters>();
    executor_.reset(*paced.running, paced.team->counters);
    form_groups(paced);
    present_.push_back(&paced);
    steps_.enter(next_step(paced));
    log_.record_start(paced.worker);
    go_on(paced);
  }

  void leave(PacedWorker& paced) {
    paced.is_present = false;
    paced.ready_since.reset();
    std::erase(present_, &paced);
    steps_.leave(next_step(paced));
    withdraw(paced);
    log_.record_leave(paced.worker);
    // The others may have waited for it alone.
    if (is_synchronous_ && !shares_updates_ && !present_.empty() && steps_.have_ended(done_.updates + 1)) {
      if (count_update(std::exchange(samples_of_update_, 0))) job_.updated(done_);
      return release();
    }
    executor_.release();
    if (!present_.empty()) return;
    if (servers_strategy_ == nullptr) cluster_.clock.schedule_in({}, [&job = job_] { job.deserted(); });
    admit_arrived();
  }

  /// The steps in which it was counted and that it does not begin go on without it. One that nobody is left to begin is
  /// shared anew by those who come.
  void withdraw(const PacedWorker& paced) {
    for (std::int64_t step = std::max(done_.updates, paced.latest_step + 1); step <= paced.counted_in; ++step) {
      const auto found = rounds_.find(step);
      if (found == rounds_.end()) continue;
      Round& round = found->second;
      std::erase(round.workers, paced.worker.index);
      if (round.workers.empty()) {
        rounds_.erase(found);
        executor_.forget(step);
        shared_step_ = std::min(shared_step_, step - 1);
        continue;
      }
      round.samples = compiler_.step(round.workers).samples;
      const auto teams = std::ranges::count_if(
          round.workers, [this](int worker) { return all_[static_cast<std::size_t>(worker)]->is_first_of_team; });
      executor_.expect_fewer(step, needed_teams(teams));
    }
  }

  /// Its machine is gone. With bounded staleness the others wait for it until they notice.
  void lose(PacedWorker& paced) {
    paced.is_present = false;
    std::erase(present_, &paced);
    const std::int64_t applied = next_step(paced) - forget_sent(paced);
    if (std::exchange(paced.is_training, false)) {
      --started_steps_;
      started_samples_ -= paced.worker.step.samples;
    }
    paced.ready_since.reset();
    executor_.reset(*paced.running, std::make_shared<Counters>());
    form_groups(paced);
    const auto forget = [this, ended = applied] {
      steps_.leave(ended);
      executor_.release();
    };
    if (servers_strategy_ != nullptr && servers_strategy_->staleness_bound)
      clock_.schedule_in(scenario_.training.recovery.timeout, forget);
    else
      forget();
  }

  /// Gradients on their way are lost. Returns how many ended steps they are of. A step that is applied and has not
  /// ended counts as one that has.
  std::int64_t forget_sent(PacedWorker& paced) {
    std::int64_t ended = 0;
    bool is_applied = runs_ahead_ && !shares_updates_ && paced.is_training;
    for (const Sent& sent : std::exchange(paced.sent, {})) {
      if (paced.is_training && sent.number == next_step(paced)) {
        is_applied = false;
        continue;
      }
      ++ended;
      --started_steps_;
      started_samples_ -= sent.samples;
      log_.lose_samples(sent.samples);
    }
    if (!is_applied) return ended;
    log_.cut_used_step(paced.worker);
    paced.is_training = false;
    return ended - 1;
  }

  /// They have part in the step that begins next, or in the current one if they were counted in. What they have pushed
  /// before is applied.
  void admit_arrived() {
    const bool is_begun = is_step_begun();
    for (PacedWorker* waiting : std::exchange(arrived_, {})) {
      const bool is_in_step = !is_begun || waiting->counted_in == done_.updates;
      const bool waits = !present_.empty() && !workers_.has_to_leave(waiting->worker) &&
                         (!is_in_step || waiting->latest_step >= done_.updates);
      if (waits)
        arrived_.push_back(waiting);
      else
        join(*waiting);
    }
  }

  /// Those of a team leave together: after a step that all of them have ended and none has begun.
  bool leaves(const PacedWorker& paced) const {
    return workers_.has_to_leave(paced.worker) &&
           std::none_of(paced.team->members.begin(), paced.team->members.end(), [&](const PacedWorker* other) {
             return other->is_training && next_step(*other) == next_step(paced);
           });
  }

  /// The worker is ready for its next step, if there is one for it.
  void go_on(PacedWorker& paced) {
    if (shares_updates_) paced.left_out += std::max<std::int64_t>(0, done_.updates - next_step(paced));  // it was late
    if (is_over(paced)) {
      window_.close();
      paced.ready_since.reset();
      idle_.push_back(&paced);
      return;
    }
    if (leaves(paced)) return leave(paced);
    if (!paced.ready_since) paced.ready_since = clock_.now();
    executor_.go_on(*paced.running, next_step(paced));
  }
  void reconsider(RunningWorker& running) override { go_on(worker_of(running)); }

  PacedWorker& worker_of(const RunningWorker& running) { return *all_[static_cast<std::size_t>(running.index())]; }

  void begin_next(RunningWorker& running) override {
    PacedWorker& paced = worker_of(running);
    Worker& worker = paced.worker;
    const std::int64_t number = next_step(paced);
    ++started_steps_;
    paced.is_training = true;
    paced.updates_at_start = done_.updates;
    worker.step = {.span = {*std::exchange(paced.ready_since, {}), {}}};
    worker.step.times.held = clock_.now() - worker.step.span.start;
    cluster_.recorder.add(
        WaitSpan{worker.gpu.machine, worker.gpu.gpu, WaitFor::kPeer, number, {worker.step.span.start, clock_.now()}});
    if (is_synchronous_) share_step(number);
    if (repeats_left_ > 0) {
      worker.step.repeats = skips_ + 1;
      worker.step.period = steady_state_.next_length(cycle_);
    }
    worker.step.samples = paced.next.samples;
    worker.plan = paced.next.plan;
    worker.passes = paced.next.passes;
    started_samples_ += worker.step.samples;
    paced.latest_step = number;
    if (runs_ahead_ && !shares_updates_) paced.sent.push_back({number, worker.step.samples});
    if (shares_updates_) rounds_[number].begun += worker.step.samples;
    const Program& program = compiler_.program(paced.next, std::exchange(paced.first, FirstVariables::kPushed));
    executor_.begin_step(running, program, paced.groups, number);
  }

  /// Of those that are present, any but itself.
  const RunningWorker* choose_partner(RunningWorker& running) override {
    PacedWorker& paced = worker_of(running);
    if (present_.size() < 2) return nullptr;
    const auto mine = std::find(present_.begin(), present_.end(), &paced);
    auto other = present_.begin() + static_cast<std::ptrdiff_t>(paced.choice.below(present_.size() - 1));
    if (other >= mine) ++other;
    return (*other)->running;
  }

  double begin_kernels(RunningWorker& running, Seconds when) override {
    Worker& worker = worker_of(running).worker;
    StepTimes& times = worker.step.times;
    times.load = running.waited_for_samples();
    times.input = when - worker.step.span.start - times.held - worker.plan->step_overhead - times.load;
    return workers_.slowdown(worker);
  }

  void know_end(RunningWorker& running, Seconds end) override {
    running.clock().schedule(std::max(clock_.now(), end), [this, paced = &worker_of(running)] { end_step(*paced); });
  }

  /// All units of a step are applied, and pushed back.
  void update() override {
    const auto extracted = rounds_.extract(done_.updates);
    const Round round = extracted.empty() ? Round{} : extracted.mapped();
    const std::int64_t used = std::min(round.samples, round.begun);
    log_.drop(round.begun - used);
    if (count_update(used)) job_.updated(done_);
    if (done_.samples == all_samples_) return;
    admit_arrived();
    call_idle();
  }

  void update_of(RunningWorker& running, std::int64_t number) override {
    PacedWorker& paced = worker_of(running);
    const auto sent = std::find_if(paced.sent.begin(), paced.sent.end(),
                                   [number](const Sent& step) { return step.number == number; });
    const std::int64_t samples = sent->samples;
    paced.sent.erase(sent);
    const bool releases = steps_.end(number + 1);
    if (count_update(samples)) job_.updated(done_);
    if (releases) executor_.release();
  }

  /// An asynchronous step that ends when all samples are done began when more were left.
  bool count_update(std::int64_t samples) {
    if (!log_.count_update(done_, samples)) return false;
    end_ = clock_.now();
    return true;
  }

  void end_step(PacedWorker& paced) {
    paced.is_training = false;
    record_times(paced, clock_.now(), servers_strategy_, runs_ahead_);
    Worker& worker = paced.worker;
    const std::int64_t completed = next_step(paced) + 1;
    bool releases = false;
    if (shares_updates_) {
      if (const auto round = rounds_.find(completed - 1); round != rounds_.end())
        round->second.ended += worker.step.samples;
      log_.end_step(worker, completed);
    } else if (runs_ahead_) {
      worker.step.staleness = done_.updates - paced.updates_at_start;  // so far
      log_.end_step(worker, done_.updates);
    } else {
      releases = steps_.end(completed);
      const bool is_late = is_synchronous_ && completed <= done_.updates;
      if (is_late)
        log_.drop(worker.step.samples);
      else
        samples_of_update_ += worker.step.samples;
      if (!is_synchronous_ || releases) {
        if (count_update(std::exchange(samples_of_update_, 0))) job_.updated(done_);
      }
      worker.step.staleness =
          is_synchronous_ ? 0 : std::max<std::int64_t>(0, done_.updates - 1 - paced.updates_at_start);
      log_.end_step(worker, is_synchronous_ ? completed : done_.updates);
      if (is_late) paced.left_out += done_.updates - completed;
    }
    if (reductions_.skips_steady_state) order_.push_back(worker.index);
    if (const Seconds skipped = releases ? pass_barrier() : Seconds{}; skipped > Seconds{}) {
      clock_.schedule_in(skipped, [this, &paced] {
        go_on(paced);
        release();
      });
      return;
    }
    const Seconds pause = log_.checkpoint_pause(worker, done_);
    if (pause == Seconds{})
      go_on(paced);
    else
      paced.running->clock().schedule_in(pause, [this, &paced] { go_on(paced); });
    if (releases) release();
  }

  void release() {
    executor_.release();
    admit_arrived();
    if (done_.samples < all_samples_) call_idle();
  }

  /// Called when all have ended a step. Nothing of it is under way any more but what loads the next samples: what
  /// follows depends on nothing but the dates of that, and the order in which they have come. Where that repeats with a
  /// cycle of steps, each of the next cycle stands for all that are like it, until the next change and but for the last
  /// step. Returns how long those take for which the step that has ended stood.
  Seconds pass_barrier() {
    if (!reductions_.skips_steady_state) return {};
    const Seconds began = steady_state_.last_end(), length = clock_.now() - began;
    for (const PacedWorker* present : present_) order_.push_back(present->running->until_samples().value());
    const std::size_t cycle = steady_state_.end_step(clock_.now(), std::exchange(order_, {}));
    Seconds skipped{};
    if (repeats_left_ > 0) {
      skipped = length * static_cast<double>(skips_);
      Use each = window_.use_so_far();
      each -= use_before_;
      skip(skips_, each, samples_expected_, skipped);
      steps_.skip(skips_);
      for (PacedWorker* held : present_) {
        if (held->ready_since) *held->ready_since += skipped;
        held->running->delay_samples(skipped);
      }
      --repeats_left_;
    } else if (cycle > 0) {
      if (!may_skip()) return {};
      skips_ = cycles_left(static_cast<std::int64_t>(cycle), steady_state_.length(cycle), samples_expected_) - 1;
      if (skips_ <= 0) return {};
      repeats_left_ = cycle_ = cycle;
      use_before_ = window_.use_so_far();
    }
    return skipped;
  }

  /// Once all are warm, while nobody joins and nothing is recorded.
  bool may_skip() const {
    return arrived_.empty() && !cluster_.recorder.is_recording(clock_.now()) &&
           std::all_of(present_.begin(), present_.end(), [this](const PacedWorker* paced) {
             return paced->worker.steps > scenario_.training.warmup_steps;
           });
  }

  const ServerRules* servers_strategy_;  // nullptr: in pairs
  bool is_synchronous_;
  bool runs_ahead_;      // with servers: steps begin before the update of the one before
  bool shares_updates_;  // then, synchronous
  bool changes_members_;
  const std::vector<MachineIndex>& servers_;
  StepGate steps_;
  Executor executor_;
  std::vector<std::unique_ptr<PacedWorker>> all_;  // in the order of the executor's workers
  std::vector<std::unique_ptr<Team>> teams_;
  std::vector<PacedWorker*> present_;  // in the order in which they came
  std::int64_t first_step_, started_steps_;
  std::int64_t started_samples_;          // of the workers' own steps; asynchronous
  std::int64_t shared_step_ = -1;         // synchronous: the latest step whose workers are known
  std::int64_t samples_expected_ = 0;     // of that one's update
  std::int64_t samples_of_update_ = 0;    // of steps that have ended, for the next update
  std::map<std::int64_t, Round> rounds_;  // by step, until its update
  std::vector<double> order_;             // in which workers have ended the current step
  std::int64_t skips_ = 0;                // steps for which the current one stands, besides itself,
  std::size_t repeats_left_ = 0;          // if it is one of so many that do,
  std::size_t cycle_ = 0;                 // of a cycle of so many
  std::vector<PacedWorker*> idle_;        // found no step left to begin
  std::vector<PacedWorker*> arrived_;     // synchronous: will join with the next step
};

}  // namespace

std::unique_ptr<Session> train_at_own_pace(const SessionParts& parts, TrainingProgress done) {
  return std::make_unique<PacedTraining>(parts, done);
}

}  // namespace rehearse
