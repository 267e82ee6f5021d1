// Training in steps of all workers together, each of which runs a program (program.hpp): who takes part in a step,
// where it ends, and how many alike ones follow.
//
// Membership changes between two steps: who has to leave does not begin another one. Those that join are sent the model
// by the first of those that stay, which begin their step meanwhile; when all have it they begin theirs. With forward
// overlap, where a step begins before the one before is reduced, who takes part in it is known when the first begins
// it.
//
// Stages of pipelines are workers, too, each with a program of its own; they end a step together, with the last of
// them, unless their updates are validated afterwards.
//
// Reductions, all exact within the domain that reductions.cpp checks, and off in an exact run:
//   collectives timed    one solution of the sharing instead of 2 (p - 1) rounds of flows: collective.hpp
//   workers folded       one worker of each group runs, for all of them: they do the same at the same time; where the GPUs of a
//                        machine share the way to its host, those of one machine. Of alike pipelines those of the first
//                        machines run, and what they send to other machines comes back to them, as the same comes from
//                        others: Network::fold(). Of workers that hold each layer together one runs for all, if they have
//                        links of their own
//   kernels fused        program.hpp
//   steady state         once two steps are alike those until the next change of membership are not run: the next
//                        begins as many steps later. The length is kept for each membership, for when it comes back.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/collective/collective.hpp"
#include "sim/job/fold_network.hpp"
#include "sim/job/program_session.hpp"
#include "sim/program/connection.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "sim/training/cluster_step.hpp"

namespace rehearse {

namespace {

class LockstepTraining final : public ProgramSession {
 public:
  LockstepTraining(const SessionParts& parts, TrainingProgress done)
      : ProgramSession{parts, done, 1},
        exchange_{scenario_.training.strategy.exchange},
        overlaps_{scenario_.training.strategy.overlaps_steps()},
        grid_{rank_grid(scenario_)},
        has_stages_{grid_.degree(Axis::kPipeline) > 1},
        changes_members_{scenario_.has_changing_membership() || scenario_.has_revocations()},
        executor_{cluster_, clock_, *this} {
    create_members();
    members_ = members_now();
    formation_ = &formation_of(members_);
  }
  ~LockstepTraining() override {
    clock_.retire();
    settle();
    for (const auto& member : all_)
      if (member->is_training && number_of(*member) < done_.updates) log_.cut_used_step(member->worker);
    for (const auto& [number, step] : steps_) log_.lose_samples(step.ended);
  }

  void begin() override {
    for (Member* member : formation_->members) {
      member->missed_steps = done_.updates - member->worker.steps;
      clock_.schedule(std::max(clock_.now(), workers_.starts_at(member->worker)), [this, member] {
        log_.record_start(member->worker);
        begin_step(*member);
      });
    }
  }

  /// It is seen between two steps.
  void join(MachineIndex) override {}

  void stop_after_step() override { stops_ = true; }

  /// The step under way fails if the machine takes part in it, or awaits the model to do so in the next one.
  bool lose(MachineIndex machine) override {
    const auto is_its = [machine](const Member* member) {
      return std::find(member->machines.begin(), member->machines.end(), machine) != member->machines.end();
    };
    const auto takes_part = [&](const Formation& formation) {
      return std::any_of(formation.members.begin(), formation.members.end(), is_its);
    };
    return !takes_part(*formation_) && std::none_of(leaving_.begin(), leaving_.end(), is_its) &&
           std::none_of(steps_.begin(), steps_.end(),
                        [&](const auto& step) { return takes_part(*step.second.formation); });
  }

  Seconds last_update() const override { return end_; }

  void settle() const override {
    settle(*formation_);
    for (const auto& [number, step] : steps_)
      if (step.formation != formation_) settle(*step.formation);
  }

  void describe(RunRecord& record) const override {
    record.unit_names = compiler_.labels();
    record.unit_names.emplace_back("model");
  }

  std::string deadlock() const override {
    for (const auto& group : formation_->groups)
      if (std::string waiting =
              group->waits_for([this](int label) { return compiler_.labels()[static_cast<std::size_t>(label)]; });
          !waiting.empty())
        return waiting;
    return "no worker has a gradient ready";
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  /// A worker that runs, for itself and for those that do the same at the same time.
  struct Member {
    Member(Worker& worker_, RunningWorker& running_)
        : worker{worker_}, running{running_}, machines{worker_.gpu.machine} {}
    Worker& worker;
    RunningWorker& running;
    std::vector<MachineIndex> machines;  // of the workers for which it stands
    Seconds end{};                       // of the current step, once it is known
    Seconds for_others{};                // before it: from the worker's own update to that of its pipeline's last stage
    double latency_share = 0;            // of the exchange of the latest step
    Seconds pause{};                     // after the current step
    std::int64_t leaves_at = kNever;     // the first step that it does not begin
    bool is_training = false;
    std::int64_t missed_steps = 0;  // of the cluster, before it joined
  };

  struct SteadyStep {
    double length = 0;
    std::vector<double> ends;  // [workers] of their steps, from the end of the last all-reduce
    Use use;
  };

  /// What a member does in a step: as the worker's own program, and with the samples of all for which it stands.
  struct Part {
    WorkerStep step;
    const Program* program = nullptr;
    std::vector<CollectiveGroup*> groups{};
  };

  /// The workers of a step, and what they keep for all steps in this membership.
  struct Formation {
    std::vector<Member*> members;
    std::map<const Member*, Part> parts;
    std::int64_t samples = 0;  // of a step
    std::vector<std::unique_ptr<CollectiveGroup>> groups;
    std::optional<SteadyStep> steady;
  };

  /// Those that begin with a step once all of them have the model.
  struct Newcomers {
    const Member* source = nullptr;
    std::vector<Member*> members;
    std::set<MachineIndex> awaiting;  // machines
  };

  /// A step that is under way: its update is not complete.
  struct Step {
    Formation* formation = nullptr;
    std::int64_t ended = 0;  // samples of workers that have ended it
  };

  /// The training's, from 0, that the member is in or will begin next.
  static std::int64_t number_of(const Member& member) { return member.missed_steps + member.worker.steps; }

  /// [machines] whose workers take part in a step that begins now.
  std::vector<bool> members_now() {
    std::vector<bool> members(cluster_.site.machines.size());
    for (const Worker& worker : workers_)
      members[static_cast<std::size_t>(worker.gpu.machine)] = workers_.stays(worker);
    return members;
  }

  Formation& formation_of(const std::vector<bool>& members) {
    const auto [entry, is_new] = formations_.try_emplace(members);
    Formation& formation = entry->second;
    if (!is_new) return formation;
    for (const auto& member : all_)
      if (members[static_cast<std::size_t>(member->worker.gpu.machine)]) formation.members.push_back(member.get());
    std::vector<int> sharing;
    for (const Worker& worker : workers_)
      if (members[static_cast<std::size_t>(worker.gpu.machine)]) sharing.push_back(worker.index);
    if (sharing.empty()) return formation;
    const ClusterStep step = compiler_.step(sharing);
    formation.samples = step.samples;
    for (const WorkerStep& worker : step.workers) {
      Part& part = formation.parts[member_of_[static_cast<std::size_t>(worker.worker)]];
      const std::int64_t others = part.step.samples;
      part.step = worker;
      part.step.samples += others;
      part.program = &compiler_.program(worker);
    }
    const std::vector<bool> are_timed = groups_that_are_timed(step);
    for (std::size_t g = 0; g < step.groups.size(); ++g) {
      const CollectiveEvents events = are_timed[g]               ? CollectiveEvents::kAll
                                      : reductions_.joins_rounds ? CollectiveEvents::kRounds
                                                                 : CollectiveEvents::kMessages;
      add_group(formation, step.groups[g].workers, events);
    }
    return formation;
  }

  std::vector<bool> groups_that_are_timed(const ClusterStep& step) {
    return reductions_.times_collectives ? compiler_.groups_with_own_links(step, cluster_.network)
                                         : std::vector<bool>(step.groups.size());
  }

  /// Whether the first machine of each group runs for all of its machines, which then have nothing to do with one another but timed
  /// collectives.
  bool folds_machines() {
    return reductions_.folds_machines &&
           std::ranges::all_of(groups_that_are_timed(workers_.step_of_all()), std::identity{});
  }

  static void settle(const Formation& formation) {
    for (const auto& group : formation.groups) group->communicator().settle();
  }

  /// Adds the collectives of `workers`, unless those that stand for them meet in another group.
  void add_group(Formation& formation, const std::vector<int>& workers, CollectiveEvents events) {
    std::vector<const Member*> members;
    std::int64_t standing_for = 0;
    for (const int worker : workers) {
      const Member* member = member_of_[static_cast<std::size_t>(worker)];
      if (member->worker.index != worker) continue;
      members.push_back(member);
      standing_for += member->running.workers();
    }
    if (members.empty()) return;
    formation.groups.push_back(std::make_unique<CollectiveGroup>(
        executor_, clock_, standing_for,
        CollectiveGroup::Rule{exchange_.order, exchange_.cycle_time, exchange_.bucket_size},
        std::make_unique<Communicator>(cluster_, clock_, cluster_.site.gpus_of(workers), events)));
    for (const Member* member : members) formation.parts.at(member).groups.push_back(formation.groups.back().get());
  }

  /// One for each worker, or one that runs for several.
  void create_members() {
    if (cluster_.network.fold()) cluster_.network.fold({});  // by an earlier session
    const bool has_one_machine = folds_machines(), has_one_of_group = reductions_.folds_workers || has_one_machine;
    const MachineFold fold = has_one_of_group ? MachineFold{} : fold_network(reductions_, workers_, cluster_);
    const bool has_one_of_split = fold.alike > 1, folds = has_one_of_group || fold;
    std::vector<int> first_of_group(scenario_.groups.size(), -1);  // worker
    const auto standing_for = [&](const Worker& worker) {
      const Machine& machine = cluster_.site.machines[static_cast<std::size_t>(worker.gpu.machine)];
      if (has_one_of_group) {
        int& first = first_of_group[static_cast<std::size_t>(machine.group)];
        if (first < 0) first = worker.index;
        if (!has_one_machine) return first;
        const Worker& of_machine = workers_[first];
        return worker.index - (worker.gpu.machine - of_machine.gpu.machine) * machine.workers;
      }
      const int like = worker.index + (fold.standing_for(worker.gpu.machine) - worker.gpu.machine) * machine.workers;
      if (fold.joins_gpus) return like - worker.gpu.gpu;
      return has_one_of_split ? grid_.moved(like, Axis::kTensor, 0) : like;
    };
    std::map<int, std::shared_ptr<Counters>> team_counters;  // by the first of the team
    std::vector<MachineIndex> recorded_by(cluster_.site.machines.size(), -1);
    for (Worker& worker : workers_) {
      const auto m = static_cast<std::size_t>(worker.gpu.machine);
      if (const int like = standing_for(worker); like != worker.index) {
        Member* first = member_of_[static_cast<std::size_t>(like)];
        first->running.stand_for_another();
        if (first->machines.back() != worker.gpu.machine) first->machines.push_back(worker.gpu.machine);
        recorded_by[m] = first->worker.gpu.machine;
        member_of_.push_back(first);
        continue;
      }
      if (folds) recorded_by[m] = worker.gpu.machine;
      RunningWorker::Place place{.host = worker.host,
                                 .gpu = worker.gpu,
                                 .other_gpus = worker.other_gpus,
                                 .copies_are_alone = reductions_.copies_are_alone};
      place.connections = compiler_.paths(worker.index, cluster_.network);
      const std::vector<int> team = compiler_.strategy().team(worker.index);
      const auto [counters, is_first] = team_counters.try_emplace(team.front());
      if (is_first && team.size() > 1) counters->second = std::make_shared<Counters>();
      all_.push_back(std::make_unique<Member>(worker, executor_.add_worker(place, clock_, counters->second)));
      member_of_.push_back(all_.back().get());
    }
    if (!folds) return;
    const auto from_the_start = std::count_if(all_.begin(), all_.end(), [this](const auto& member) {
      return workers_.is_there_from_the_start(member->worker);
    });
    std::vector<int> stands_for(recorded_by.size());
    for (const auto& member : all_)
      stands_for[static_cast<std::size_t>(member->worker.gpu.machine)] = static_cast<int>(member->running.workers());
    log_.fold(static_cast<std::size_t>(from_the_start), std::move(recorded_by), std::move(stands_for));
  }

  void begin_step(Member& member) {
    const std::int64_t number = number_of(member);
    if (done_.samples + (number - done_.updates) * formation_->samples >= all_samples_) {
      settle();
      window_.close();
      return;
    }
    Formation& formation = *step(number).formation;
    if (number >= member.leaves_at) return leave(member);
    const Part& part = formation.parts.at(&member);
    member.is_training = true;
    member.worker.step = {.span = {clock_.now(), {}}};
    member.worker.step.samples = part.step.samples;
    member.worker.plan = part.step.plan;
    member.worker.passes = part.step.passes;
    executor_.expect(number, static_cast<std::int64_t>(formation.members.size()));
    executor_.begin_step(member.running, *part.program, part.groups, number);
  }

  /// Where steps overlap who takes part in it is looked up when the first begins it.
  Step& step(std::int64_t number) {
    const auto known = steps_.find(number);
    if (known != steps_.end()) return known->second;
    if (overlaps_ && changes_members_ && members_now() != members_) change_members(number);
    return steps_.try_emplace(number, Step{formation_, 0}).first->second;
  }

  double begin_kernels(RunningWorker& running, Seconds when) override {
    Member& member = *all_[static_cast<std::size_t>(running.index())];
    member.worker.step.last_pull = when;
    StepTimes& times = member.worker.step.times;
    times.load = running.waited_for_samples();
    times.input = when - member.worker.step.span.start - member.worker.plan->step_overhead - times.load;
    return workers_.slowdown(member.worker);
  }

  /// With forward overlap the step ends with its kernels, and where updates are validated afterwards with its own one; else with
  /// the update to which all members come together.
  void know_end(RunningWorker& running, Seconds end) override {
    Member& member = *all_[static_cast<std::size_t>(running.index())];
    member.end = end;
    if (overlaps_) clock_.schedule(end, [this, &member] { end_step(member); });
  }

  /// All gradients of a step are reduced.
  void update() override {
    const Formation& formation = *steps_.extract(done_.updates).mapped().formation;
    settle(formation);  // which settle() may not see any more
    log_.count_update(done_, formation.samples);
    end_ = clock_.now();
    std::map<const CollectiveGroup*, double> latency_shares;
    for (const auto& group : formation.groups) latency_shares[group.get()] = group->communicator().take_latency_share();
    for (Member* member : formation.members)
      member->latency_share = latency_shares.at(formation.parts.at(member).groups.front());
    if (overlaps_) {
      if (has_stages_)
        for (const Member* member : formation.members) end_ = std::max(end_, member->end);
      for (Member* left : std::exchange(left_, {})) record_leave(*left);
      send_models();
      job_.updated(done_);
      tell_end_of_step();
      return;
    }
    std::vector<double> ends;
    for (const Member* member : formation.members) end_ = std::max(end_, member->end);
    for (Member* member : formation.members) {
      member->for_others = has_stages_ ? end_ - member->end : Seconds{};
      // Some that share states end before the update of others.
      member->end = has_stages_ ? end_ : std::max(member->end, clock_.now());
      ends.push_back((member->end - clock_.now()).value());
      ends.push_back(member->running.until_samples().value());
      clock_.schedule(member->end, [this, member] { end_step(*member); });
    }
    job_.updated(done_);
    if (changes_members_ && done_.samples < all_samples_ && members_now() != members_)
      change_members(done_.updates);
    else if (!stops_ && reductions_.skips_steady_state && !cluster_.recorder.is_recording(clock_.now()))
      look_for_steady_state(ends);
    tell_end_of_step();
  }

  /// After what happens at that date, with the next step just begun, to which nothing is done yet.
  void tell_end_of_step() {
    if (std::exchange(stops_, false)) cluster_.clock.schedule(end_, [&job = job_] { job.step_ended(); });
  }

  /// From step `number` on: those that stay begin it as if nothing had happened.
  void change_members(std::int64_t number) {
    settle();
    const Formation& before = *formation_;
    members_ = members_now();
    formation_ = &formation_of(members_);
    steady_state_.forget();
    const auto is_in = [](const Formation& formation, const Member* member) {
      return std::find(formation.members.begin(), formation.members.end(), member) != formation.members.end();
    };
    const Member* source = before.members.front();
    for (Member* member : before.members) {
      if (is_in(*formation_, member)) {
        if (source->leaves_at != kNever) source = member;
        continue;
      }
      member->leaves_at = number;
      leaving_.push_back(member);
    }
    Newcomers newcomers{source, {}, {}};
    for (Member* member : formation_->members)
      if (!is_in(before, member)) newcomers.members.push_back(member);
    if (!newcomers.members.empty()) newcomers_[number] = std::move(newcomers);
    if (number == done_.updates) send_models();
  }

  /// To those that begin with the step that is next.
  void send_models() {
    const auto newcomers = newcomers_.find(done_.updates);
    if (newcomers == newcomers_.end()) return;
    for (Member* member : newcomers->second.members) {
      member->leaves_at = kNever;
      member->missed_steps = done_.updates - member->worker.steps;
      for (const MachineIndex machine : member->machines)
        if (newcomers->second.awaiting.insert(machine).second)
          send_model(newcomers->second.source->worker.host, machine, newcomers->first);
    }
  }

  /// Newcomers begin together, as after a broadcast.
  void send_model(Endpoint from, MachineIndex machine, std::int64_t number) {
    std::unique_ptr<Connection>& connection = models_[machine];
    connection = std::make_unique<Connection>(clock_, cluster_, cluster_.network.path(from, {machine, Endpoint::kHost}),
                                              [this, machine, number](const Connection::Message&) {
                                                Newcomers& newcomers = newcomers_.at(number);
                                                newcomers.awaiting.erase(machine);
                                                if (!newcomers.awaiting.empty()) return;
                                                const auto all = newcomers_.extract(number);
                                                for (Member* member : all.mapped().members) {
                                                  log_.record_start(member->worker);
                                                  begin_step(*member);
                                                }
                                              });
    connection->send(
        {static_cast<int>(compiler_.labels().size()), done_.updates, scenario_.workload.variable_bytes(), 0});
  }

  /// The worker has waited for reduced gradients in its kernels, with forward overlap, or from their end to its update.
  void record_times(Member& member) {
    StepTimes& times = member.worker.step.times;
    times.kernels = member.running.kernel_time();
    times.stalled = member.running.stalled();
    const Seconds after =
        std::max(Seconds{}, clock_.now() - member.running.compute_end() - member.worker.plan->all_update());
    const Waits& stalls = member.running.stalls();
    const ComputePlan& plan = *member.worker.plan;
    const bool is_offloaded = plan.host_update.share > 0 || !plan.offloaded.empty();
    const Seconds copied = is_offloaded ? member.running.waits_before_end(after - member.for_others).copies : Seconds{};
    if (!has_stages_) {
      times.copies = is_offloaded ? stalls.copies + copied : Seconds{};
      const Seconds waited = times.stalled + after - times.copies;
      times.latency = waited * member.latency_share;
      times.network = waited - times.latency;
      return;
    }
    const Seconds reducing = after - member.for_others - copied;
    times.latency = stalls.latency + reducing * member.latency_share;
    times.network = stalls.network + reducing - reducing * member.latency_share;
    times.copies = stalls.copies + copied;
    times.bubble = stalls.other + member.for_others;
  }

  void end_step(Member& member) {
    member.worker.step.compute_end = member.running.compute_end();
    record_times(member);
    member.is_training = false;
    const std::int64_t completed = number_of(member) + 1;
    if (const auto step = steps_.find(completed - 1); step != steps_.end())
      step->second.ended += member.worker.step.samples;
    settle();
    log_.end_step(member.worker, completed);
    if (completed >= member.leaves_at) return leave(member);
    const Seconds pause =
        std::exchange(member.pause, Seconds{}) + log_.checkpoint_pause(member.worker, {completed, done_.samples});
    if (pause == Seconds{})
      begin_step(member);
    else
      clock_.schedule_in(pause, [this, &member] { begin_step(member); });
  }

  /// Once what it has computed is reduced.
  void leave(Member& member) {
    if (number_of(member) > done_.updates)
      left_.push_back(&member);
    else
      record_leave(member);
  }
  void record_leave(Member& member) {
    std::erase(leaving_, &member);
    log_.record_leave(member.worker);
    if (leaving_.empty() && formation_->members.empty())
      cluster_.clock.schedule_in({}, [&job = job_] { job.deserted(); });
  }

  /// Called when a step is reduced and the ends of all workers' steps are known: `ends` [workers], with those of what
  /// loads their next samples, from now. What follows depends on nothing else, so if they are what they were a step
  /// before, all others will be as long as this one; and if they are what they were in a steady state of the same
  /// membership, as long as that. Leaves the last step, and the one in which membership changes, to be run.
  void look_for_steady_state(const std::vector<double>& ends) {
    const bool repeats_last = steady_state_.end_step(clock_.now(), ends) == 1;
    settle();
    Use use = window_.use_so_far();
    std::optional<SteadyStep>& steady = formation_->steady;
    if (!steady && repeats_last) {
      steady = {steady_state_.length(1).value(), ends, use};
      steady->use -= use_before_;
    }
    use_before_ = std::move(use);
    if (!steady || !SteadyState::is_same(ends, steady->ends, steady->length) ||
        done_.updates - 1 <= scenario_.training.warmup_steps)
      return;
    const std::int64_t count = cycles_left(1, Seconds{steady->length}, formation_->samples);
    if (count < 1) return;
    const Seconds skipped{steady->length * static_cast<double>(count)};
    skip(count, steady->use, formation_->samples, skipped);
    for (Member* member : formation_->members) {
      member->worker.step.repeats = count + 1;
      member->worker.step.period = Seconds{steady->length};
      member->pause = skipped;
      member->running.delay_samples(skipped);
    }
  }

  const GradientExchange& exchange_;
  bool overlaps_;  // its steps: Strategy::overlaps_steps()
  RankGrid grid_;
  bool has_stages_;
  bool changes_members_;
  Executor executor_;
  std::vector<std::unique_ptr<Member>> all_;           // in the order of the executor's workers
  std::vector<Member*> member_of_;                     // [workers]
  std::map<std::vector<bool>, Formation> formations_;  // by members, [machines]
  std::vector<bool> members_;
  Formation* formation_ = nullptr;                              // of the next step
  bool stops_ = false;                                          // after the current one
  std::map<std::int64_t, Step> steps_;                          // by number
  std::map<std::int64_t, Newcomers> newcomers_;                 // by the step with which they begin
  std::vector<Member*> leaving_;                                // with the end of their step
  std::vector<Member*> left_;                                   // of them: have ended it, before it was reduced
  std::map<MachineIndex, std::unique_ptr<Connection>> models_;  // on their way to them
};

}  // namespace

std::unique_ptr<Session> train_in_lockstep(const SessionParts& parts, TrainingProgress done) {
  return std::make_unique<LockstepTraining>(parts, done);
}

}  // namespace rehearse
