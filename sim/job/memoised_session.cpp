#include "sim/job/memoised_session.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <variant>

#include "sim/base/errors.hpp"
#include "sim/training/collective_time.hpp"

namespace rehearse {

namespace {

constexpr double kRounding = 1e-6;  // of an update: dates are sums of many terms

/// Updates at speed_of the machines that are there; what changes the speed:
///   checkpoint   without the chief while it writes; not at all for synchronous strategies, or if all pause
///   join         all-reduce stands still while newcomers are sent the model: bytes / slower NIC, one after another; unless
///                Recovery::change has the job stop for them
///   progress     TrainingSpeed::until
///   loss         the step under way of a synchronous strategy; with bounded staleness a stop for Recovery::timeout
/// An update counts when it is complete.
class MemoisedSession final : public Session {
 public:
  /// Adds what it draws to `above_rest_j`.
  MemoisedSession(JobState& state, const SpeedOf& speed_of, SessionOwner& job, TrainingProgress done,
                  double& above_rest_j)
      : site_{state.site},
        state_{state},
        speed_of_{speed_of},
        job_{job},
        above_rest_j_{above_rest_j},
        strategy_{site_.scenario.training.strategy},
        is_synchronous_{strategy_.is_synchronous()},
        clock_{state.clock, state.clock.new_owner()},
        next_{state.clock, state.clock.new_owner()},
        trains_(site_.machines.size()),
        counts_(site_.scenario.groups.size()),
        all_samples_{static_cast<double>(site_.scenario.training.samples)},
        updates_{static_cast<double>(done.updates)},
        samples_{static_cast<double>(done.samples)},
        since_{state.clock.now()} {}

  ~MemoisedSession() override {
    if (speed_.updates_per_s > 0) above_rest_j_ += speed_.above_rest_w * (clock_.now() - since_).value();
    clock_.retire();
    next_.retire();
  }

  void begin() override {
    trains_ = state_.membership.workers() & state_.membership.staying();
    counts_ = state_.membership.by_group(trains_);
    count_added_servers();
    change();
  }

  void join(MachineIndex machine) override {
    if (site_.machine(machine).workers == 0) {
      count_added_servers();
      return change();
    }
    set_training(static_cast<std::size_t>(machine), true);
    if (strategy_.kind->is_in_lockstep()) stand_still(transfer_time(machine));
    change();
  }

  bool lose(MachineIndex machine) override {
    const auto m = static_cast<std::size_t>(machine);
    if (site_.machines[m].servers > 0) return false;
    if (!trains_[m]) return true;
    if (is_synchronous_) return false;
    set_training(m, false);
    if (site_.servers.empty() && !has_worker()) return false;  // with the variables
    if (strategy_.server_rules().staleness_bound) stand_still(site_.scenario.training.recovery.timeout);
    change();
    return true;
  }

  void reconsider() override {
    const bool has_left = record_leaves();
    if (has_left && !has_worker() && site_.servers.empty())
      return state_.clock.schedule_in({}, [&job = job_] { job.deserted(); });
    change();
  }

  void stop_after_step() override {
    const Seconds now = clock_.now();
    const Seconds end = speed_.updates_per_s > 0 ? end_of_step(now) : std::max({now, stands_until_, writes_until_});
    clock_.schedule(end, [this] {
      change();
      record_leaves();
      if (has_worker())
        state_.clock.schedule_in({}, [&job = job_] { job.step_ended(); });
      else
        state_.clock.schedule_in({}, [&job = job_] { job.deserted(); });
    });
  }

  /// In updates that are complete.
  TrainingProgress progress() const override {
    const double done = std::floor(updates_at(clock_.now()) + kRounding);
    return {static_cast<std::int64_t>(done), std::llround(std::clamp(samples_at(done), 0.0, all_samples_))};
  }
  Seconds last_update() const override {
    if (end_ > Seconds{}) return end_;
    const double ended = std::floor(updates_at(clock_.now()) + kRounding);
    return speed_.updates_per_s > 0 ? since_ + Seconds{(ended - updates_) / speed_.updates_per_s} : since_;
  }
  std::string deadlock() const override { return "nobody trains"; }
  void describe(RunRecord&) const override {}

 private:
  void count_added_servers() {
    added_servers_ = state_.membership.by_group(state_.membership.added_servers() & state_.membership.there());
  }

  void set_training(std::size_t machine, bool trains) {
    if (trains_[machine] == trains) return;
    trains_[machine] = trains;
    counts_[static_cast<std::size_t>(site_.machines[machine].group)] += trains ? 1 : -1;
  }

  /// Whether any has left that had to.
  bool record_leaves() {
    const MachineSet left = trains_ & state_.membership.leaving();
    for (std::size_t m = left.find_first(); m != MachineSet::npos; m = left.find_next(m)) {
      set_training(m, false);
      record(static_cast<MachineIndex>(m), "leave", clock_.now());
    }
    return left.any();
  }

  bool has_worker() const { return trains_.any(); }

  /// To the machine, from one that has the model.
  Seconds transfer_time(MachineIndex machine) const {
    BytesPerSecond rate = site_.machine(machine).nic;
    std::size_t source = trains_.find_first();
    if (source == static_cast<std::size_t>(machine)) source = trains_.find_next(source);
    if (source != MachineSet::npos) rate = std::min(rate, site_.machines[source].nic);
    return site_.scenario.workload.variable_bytes() / rate;
  }

  void stand_still(Seconds duration) { stands_until_ = std::max(stands_until_, clock_.now()) + duration; }

  void record(MachineIndex machine, const char* kind, Seconds end) {
    state_.events.push_back({machine, kind, {clock_.now(), end}, ""});
  }

  double updates_at(Seconds date) const { return updates_ + speed_.updates_per_s * (date - since_).value(); }
  double samples_at(double updates) const { return samples_ + (updates - updates_) * speed_.samples_per_update; }

  TrainingSpeed current_speed() {
    TrainingSpeed stands = speed_;
    stands.updates_per_s = 0;
    const Seconds now = clock_.now();
    const bool is_writing = now < writes_until_;
    if (now < stands_until_ || (is_writing && (is_synchronous_ || site_.scenario.training.checkpoint->pauses_all)))
      return stands;
    MachineCounts counts = counts_;
    if (is_writing && writer_ >= 0 && trains_[static_cast<std::size_t>(writer_)])
      --counts[static_cast<std::size_t>(site_.machine(writer_).group)];
    if (std::ranges::none_of(counts, [](int count) { return count > 0; })) return stands;
    for (std::size_t g = 0; g < counts.size(); ++g) counts[g] += added_servers_[g];
    return speed_of_(counts, samples_ / all_samples_);
  }

  MachineIndex chief() const {
    const MachineIndex chief = state_.checkpoints.chief;
    return chief >= 0 && trains_[static_cast<std::size_t>(chief)] ? chief : -1;
  }

  /// Counts what has been done at the speed until now, and goes on at that of now.
  void change() {
    const Seconds now = clock_.now();
    const double updates = updates_at(now);
    samples_ = samples_at(updates);
    updates_ = updates;
    if (speed_.updates_per_s > 0) above_rest_j_ += speed_.above_rest_w * (now - since_).value();
    since_ = now;
    if (is_done()) {
      speed_ = {};
      updates_ = std::ceil(updates_ - kRounding);
      samples_ = all_samples_;
      end_ = now;
      return job_.updated(progress());
    }
    write_checkpoint_if_due();
    speed_ = current_speed();
    if (speed_.updates_per_s > 0) job_.batch_chosen(speed_.batch);
    schedule_next();
  }

  /// A synchronous update counts when it is complete, however few samples are left for the last one.
  bool is_done() const {
    const double done = is_synchronous_ ? std::floor(updates_ + kRounding) : updates_;
    return samples_at(done) + kRounding * speed_.samples_per_update >= all_samples_;
  }

  /// Updates when all samples are done.
  double last_of_updates() const {
    const double last = updates_ + (all_samples_ - samples_) / speed_.samples_per_update;
    return is_synchronous_ ? std::ceil(last - kRounding) : last;
  }

  void write_checkpoint_if_due() {
    const Seconds now = clock_.now();
    const MachineIndex writer = chief();
    if (writer < 0 || now < writes_until_ || !state_.checkpoints.is_due(progress().updates, now)) return;
    writer_ = writer;
    writes_until_ = state_.checkpoints.begin(progress(), now);
    record(writer, "checkpoint", writes_until_);
    // Synchronous: the step under way had not begun.
    if (!is_synchronous_) return;
    const double done = std::floor(updates_ + kRounding);
    samples_ = samples_at(done);
    updates_ = done;
  }

  /// The end of the training, of a pause, or the next checkpoint.
  void schedule_next() {
    next_.retire();
    next_ = OwnedClock{state_.clock, state_.clock.new_owner()};
    const Seconds now = clock_.now();
    const auto when = [&](double updates) {
      return speed_.updates_per_s > 0 ? now + Seconds{std::max(0.0, updates - updates_) / speed_.updates_per_s}
                                      : kNever;
    };
    Seconds next = speed_.updates_per_s > 0 ? when(last_of_updates()) : kNever;
    if (speed_.until < 1)
      next = std::min(next, when(updates_ + (speed_.until * all_samples_ - samples_) / speed_.samples_per_update));
    for (const Seconds pause : {stands_until_, writes_until_})
      if (pause > now) next = std::min(next, pause);
    if (now >= writes_until_ && chief() >= 0 && speed_.updates_per_s > 0) {
      for (const CheckpointSeries& series : state_.checkpoints.series()) {
        Seconds date = series.next_date();
        if (const std::int64_t due = series.next_updates(); due < std::numeric_limits<std::int64_t>::max()) {
          const Seconds at = when(static_cast<double>(due));
          if (at >= series.written_until())
            next = std::min(next, at);
          else
            date = std::min(date, series.written_until());
        }
        if (date < kNever)
          next = std::min(next, is_synchronous_ ? end_of_step(std::max(date, now)) : std::max(date, now));
      }
    }
    if (next < kNever) next_.schedule(next, [this] { change(); });
  }

  /// The first end of a step from `date` on, which is not in the past; never the one that has just ended. One that ended within
  /// the rounding before now ends now.
  Seconds end_of_step(Seconds date) const {
    const double end = std::max(std::ceil(updates_at(date) - kRounding), std::floor(updates_ + kRounding) + 1);
    return std::max(clock_.now(), since_ + Seconds{(end - updates_) / speed_.updates_per_s});
  }

  const Site& site_;
  JobState& state_;
  const SpeedOf& speed_of_;
  SessionOwner& job_;
  double& above_rest_j_;
  const Strategy& strategy_;
  bool is_synchronous_;
  OwnedClock clock_, next_;
  MachineSet trains_;
  MachineCounts counts_;  // of them, [groups]
  MachineCounts added_servers_;
  double all_samples_;
  double updates_, samples_;  // at since_
  Seconds since_;
  TrainingSpeed speed_;
  Seconds stands_until_{}, writes_until_{};
  MachineIndex writer_ = -1;
  Seconds end_{};
};

class TimedBroadcast final : public ModelBroadcast {
 public:
  TimedBroadcast(Seconds time, Clock& clock, std::function<void()> on_done) : clock_{clock, clock.new_owner()} {
    clock_.schedule_in(time, std::move(on_done));
  }
  ~TimedBroadcast() override { clock_.retire(); }

 private:
  OwnedClock clock_;
};

}  // namespace

Trajectories::Trajectories(const Site& site, const SpeedOf& speed_of, const ControlRules& rules)
    : site_{site},
      speed_of_{speed_of},
      rules_{rules},
      are_alike_{std::holds_alternative<Star>(site.scenario.fabric) &&
                 std::ranges::none_of(site.topology.machines(),
                                      [](const TopologyMachine& machine) { return machine.nvlink_domain >= 0; })} {}

/// Of the model on an idle network, in closed form (broadcast_time()). Machines of a group are alike where one switch joins them: what
/// was computed for as many others of the same groups is taken again.
Seconds Trajectories::broadcast_to(const Membership& membership, MachineIndex source, const MachineSet& receivers) {
  std::vector<int> key;
  if (are_alike_) {
    key = membership.by_group(receivers);
    key.push_back(source < 0 ? -1 : site_.machine(source).group);
  } else {
    key.push_back(source);
    for (std::size_t m = receivers.find_first(); m != MachineSet::npos; m = receivers.find_next(m))
      key.push_back(static_cast<int>(m));
  }
  const auto [known, is_new] = broadcasts_.try_emplace(std::move(key));
  if (is_new)
    known->second = broadcast_time(site_, broadcast_gpus(site_, source, receivers), checkpoint_bytes(site_.scenario));
  return known->second;
}

Trajectory Trajectories::run(std::uint64_t seed, Seconds gives_up_after, bool keeps_events) {
  Trajectory trajectory;
  Clock clock;
  std::vector<EventSpan> unwanted;
  JobState state{site_, seed, clock, keeps_events ? trajectory.events : unwanted};
  Job job{state,
          {.begin_session =
               [&](SessionOwner& owner, TrainingProgress done) {
                 return std::make_unique<MemoisedSession>(state, speed_of_, owner, done, trajectory.above_rest_j);
               },
           .run =
               [&] {
                 while (!clock.is_empty() && clock.next_date() <= gives_up_after) {
                   clock.advance_to(clock.next_date());
                   unwanted.clear();
                 }
                 if (!clock.is_empty()) clock.advance_to(gives_up_after);  // what is rented is paid for until then
               },
           .on_update = {},
           .on_loss = {},
           .on_stop = {},
           .broadcast =
               [&](MachineIndex source, const MachineSet& receivers, std::function<void()> on_done) {
                 return std::make_unique<TimedBroadcast>(broadcast_to(state.membership, source, receivers), clock,
                                                         std::move(on_done));
               }},
          {rules_, [&](const std::vector<int>& machines) {
             double sum = 0;
             for (std::size_t g = 0; g < machines.size(); ++g) {
               if (machines[g] == 0) continue;
               MachineCounts alone(machines.size());
               alone[g] = 1;
               sum += machines[g] * speed_of_(alone, 0).updates_per_s;
             }
             return sum;
           }}};
  trajectory.job = job.run_until_given_up();
  trajectory.is_finished = trajectory.job.done.samples == site_.scenario.training.samples;
  return trajectory;
}

Trajectory run_trajectory(const Site& site, std::uint64_t seed, const SpeedOf& speed_of, Seconds gives_up_after,
                          bool keeps_events, const ControlRules& rules) {
  return Trajectories{site, speed_of, rules}.run(seed, gives_up_after, keeps_events);
}

}  // namespace rehearse
