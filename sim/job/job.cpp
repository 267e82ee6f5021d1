#include "sim/job/job.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {
using Kind = FleetEvent::Kind;

std::string text_of(const TrainingProgress& progress) {
  return "step " + std::to_string(progress.updates) + ", sample " + std::to_string(progress.samples);
}
}  // namespace

JobState::JobState(const Site& site_, std::uint64_t seed, Clock& clock_, std::vector<EventSpan>& events_)
    : site{site_},
      clock{clock_},
      events{events_},
      machine_events{site, seed},
      membership{site, machine_events.running_at_start(), clock},
      checkpoints{site} {}

Job::Job(JobState& state, JobTraining training, JobControl control)
    : site_{state.site},
      state_{state},
      training_{std::move(training)},
      control_{std::move(control)},
      recovery_{site_.scenario.training.recovery},
      provider_{state_.clock, state_.clock.new_owner()},
      resumption_{state_.clock},
      taking_{state_.clock, state_.clock.new_owner()},
      planning_{state_.clock, state_.clock.new_owner()},
      observation_{state_.clock, state_.clock.new_owner()},
      rented_(site_.machines.size()),
      joins_at_(site_.machines.size()),
      starting_(site_.machines.size()),
      requested_(site_.machines.size()),
      noticed_(site_.machines.size()),
      survivors_(site_.machines.size()),
      holds_copies_(site_.machines.size()),
      apart_(site_.machines.size()) {
  result_.rentals.resize(site_.machines.size());
  for (std::size_t m = 0; m < site_.machines.size(); ++m)
    if (state_.membership.is_there(static_cast<MachineIndex>(m))) rented_[m].emplace();
  if (site_.scenario.training.strategy.kind->divides_model())
    needed_workers_ = least_workers_ = site_.scenario.count(Role::kWorker);
}

JobResult Job::run() {
  if (recovery_.give_up_after)
    provider_.schedule(*recovery_.give_up_after, [this] {
      throw RunError{"/training/recovery/give_up_after",
                     "not finished after " + to_text(*recovery_.give_up_after) + ": " + progress_text()};
    });
  JobResult result = run_until_given_up();
  if (!is_done_) fail();
  return result;
}

JobResult Job::run_until_given_up() {
  for (std::size_t m = 0; m < site_.machines.size(); ++m) {
    const Group& group = site_.group(static_cast<MachineIndex>(m));
    if (group.joins_at > Seconds{})
      provider_.schedule(group.joins_at, [this, m] {
        rented_[m] = Rental{.span = {state_.clock.now(), {}}};
        receive(static_cast<MachineIndex>(m));
      });
  }
  for (const Group& group : site_.scenario.groups)
    if (group.leaves_at && recovery_.change != Recovery::Change::kAtOnce)
      provider_.schedule(*group.leaves_at, [this, &group] { leave_on_purpose(group); });
  schedule_next_event();
  if (workers_there() >= least_workers_)
    go_on();
  else
    keeps_updates_ = false;
  training_.run();
  result_.end = is_done_ ? session_->last_update() : state_.clock.now();
  if (session_) {
    result_.done = session_->progress();
    state_.checkpoints.stop(result_.end);
  } else {
    count_stop();
  }
  result_.time_use.trained = state_.checkpoints.trained(result_.end);
  result_.time_use.checkpoints = state_.checkpoints.stalled(result_.end);
  SampleCounts& samples = result_.samples;
  samples.done = result_.done.samples;
  samples.repeated = samples.done + samples.lost - std::max(most_samples_, samples.done);
  result_.interruptions.checkpoints = state_.checkpoints.count();
  for (std::size_t m = 0; m < site_.machines.size(); ++m)
    if (rented_[m]) end_rental(m, result_.end, false);
  return result_;
}

void Job::updated(const TrainingProgress& progress) {
  if (progress.samples >= site_.scenario.training.samples && !std::exchange(is_done_, true)) {
    for (OwnedClock* of : {&provider_, &taking_, &planning_, &observation_}) of->retire();
    state_.membership.set_next_event(kNever);
  }
  if (training_.on_update) training_.on_update(progress);
}

void Job::end_rental(std::size_t machine, Seconds now, bool is_by_provider) {
  Rental rental = *std::exchange(rented_[machine], std::nullopt);
  rental.span.end = now;
  rental.is_ended_by_provider = is_by_provider;
  rental.startup = std::min(rental.startup, now - rental.span.start);
  if (now > rental.span.start) result_.rentals[machine].push_back(rental);
}

void Job::announce_next_change() {
  state_.membership.set_next_event(joining_.empty() ? next_event_ : std::min(next_event_, *joining_.begin()));
}

/// Its framework starts, until `date`; none: it does so no more.
void Job::set_joining(MachineIndex machine, std::optional<Seconds> date) {
  std::optional<Seconds>& known = joins_at_[static_cast<std::size_t>(machine)];
  if (known) joining_.erase(joining_.find(*known));
  if (date) joining_.insert(*date);
  known = date;
  announce_next_change();
}

void Job::schedule_next_event() {
  if (is_controlled()) return schedule_taking();
  const auto event = state_.machine_events.next();
  next_event_ = event ? event->at : kNever;
  announce_next_change();
  if (!event || event->at > Clock::kLatest) return;
  event_ = *event;
  provider_.schedule(std::max(state_.clock.now(), event->at), [this] {  // dates of flows are rounded
    const MachineEvent now = event_;
    schedule_next_event();
    react(now);
  });
}

/// Events are taken at their dates only, as a rule may request machines that come before what would be the next.
void Job::schedule_taking() {
  next_event_ = state_.machine_events.next_date();
  announce_next_change();
  taking_.retire();
  if (next_event_ > Clock::kLatest) return;
  taking_ = OwnedClock{state_.clock, state_.clock.new_owner()};
  taking_.schedule(std::max(state_.clock.now(), next_event_), [this] { take_events(); });
}

void Job::take_events() {
  while (const auto event = state_.machine_events.next_until(state_.clock.now())) {
    react(*event);
    if (is_done_) return;
  }
  schedule_taking();
}

void Job::react(const MachineEvent& event) {
  const MachineIndex machine = event.machine;
  switch (event.kind) {
    case Kind::kRequested:
      requested_[static_cast<std::size_t>(machine)] = true;
      return record(machine, "request", "");
    case Kind::kRunning:
      requested_[static_cast<std::size_t>(machine)] = false;
      return start(machine);
    case Kind::kNotice:
      record(machine, "notice", "");
      ++result_.interruptions.notices;
      noticed_[static_cast<std::size_t>(machine)] = true;
      if (is_worker(machine)) ask_soon();
      if (!recovery_.uses_notice || !state_.membership.is_there(machine)) return;
      // Where the loss costs work, a checkpoint saves it; else the worker leaves between two steps.
      if (!is_worker(machine) || recovery_.lost_worker == Recovery::LostWorker::kRestart)
        state_.checkpoints.ask_for_one();
      else if (recovery_.lost_worker != Recovery::LostWorker::kWait)
        state_.membership.dismiss(machine);
      if (session_ && recovery_.change == Recovery::Change::kRendezvous && state_.membership.has_to_leave(machine))
        return ask_for_rendezvous("a worker leaves");
      if (session_) session_->reconsider();
      return;
    case Kind::kRevoked:
    case Kind::kFailed:
    case Kind::kBroken:
      return revoke(machine, event.kind);
  }
}

/// A machine runs; before it can train, its framework starts.
void Job::start(MachineIndex machine) {
  const auto m = static_cast<std::size_t>(machine);
  record(machine, "running", "");
  const bool is_new = !rented_[m];
  if (is_new) ++result_.interruptions.replacements;
  const auto startup = startup_of(site_.scenario, site_.group(machine));
  const Seconds framework =
      startup ? startup->framework.time(site_.scenario.workload.trainable_tensors(), is_new) : Seconds{};
  if (is_new) rented_[m] = Rental{.span = {state_.clock.now(), {}}, .startup = framework};
  set_joining(machine, state_.clock.now() + framework);
  if (!starting_[m]) starting_[m] = OwnedClock{state_.clock, state_.clock.new_owner()};
  starting_[m]->schedule(*joins_at_[m], [this, machine] { receive(machine); });
}

void Job::receive(MachineIndex machine) {
  const auto m = static_cast<std::size_t>(machine);
  if (is_done_) return;
  set_joining(machine, {});
  state_.membership.arrive(machine);
  if (machine == lost_chief_) {
    lost_chief_ = -1;
    state_.checkpoints.chief = machine;
    if (session_) return interrupt(false, 1, {}, "the chief is back");
  }
  if (state_.checkpoints.chief < 0 && lost_chief_ < 0) choose_chief();
  using Change = Recovery::Change;
  const Change change = is_worker(machine) ? recovery_.change : Change::kAtOnce;
  if ((session_ || broadcast_) && change == Change::kRendezvous) {
    state_.membership.set_apart(machine);
    apart_[m] = true;
    return ask_for_rendezvous("a worker joins");
  }
  if (session_ && change == Change::kRestart)
    return interrupt(false, recovery_.minimum_workers.value_or(1), {}, "a worker joins");
  if (session_ && is_added(machine)) {
    Delay delay{.forming =
                    recovery_.restart_time};  // what the servers hold is saved and read by as many as there are now
    if (const auto series = state_.checkpoints.series(); !series.empty())
      delay.forming += series.front().times().write + series.front().times().read;
    return interrupt(true, 1, delay, "a server is added");
  }
  if (session_) {
    session_->join(machine);
    return observe();
  }
  if (is_resuming_ && has_newcomers() && !counts_rendezvous_) {
    count_stop();
    resumption_.retire();
    is_resuming_ = false;
  }
  try_to_resume();
}

/// When the step under way has ended; without a session when the next one has begun.
void Job::ask_for_rendezvous(const std::string& reason) {
  if (rendezvous_reason_.empty() && session_) session_->stop_after_step();
  rendezvous_reason_ = reason;
}

void Job::step_ended() {
  if (!session_ || is_done_ || rendezvous_reason_.empty()) return;
  const Seconds written = state_.checkpoints.stalls_until();
  if (written > state_.clock.now()) return provider_.schedule(written, [this] { step_ended(); });
  stops_for_rendezvous_ = true;
  interrupt(true, recovery_.minimum_workers.value_or(1), {.forming = recovery_.restart_time},
            std::exchange(rendezvous_reason_, {}));
}

/// The date has come at which the group leaves.
void Job::leave_on_purpose(const Group& group) {
  if (session_ && recovery_.change == Recovery::Change::kRendezvous) return ask_for_rendezvous("workers leave");
  for (std::size_t m = 0; m < site_.machines.size(); ++m) {
    const auto machine = static_cast<MachineIndex>(m);
    if (&site_.group(machine) != &group || !state_.membership.is_there(machine)) continue;
    record(machine, "leave", "");
    state_.membership.vanish(machine);
    if (state_.checkpoints.chief == machine) choose_chief();
  }
  if (session_) interrupt(false, recovery_.minimum_workers.value_or(1), {}, "workers leave");
}

/// The machine is gone, but for one that only fails.
void Job::revoke(MachineIndex machine, Kind kind) {
  const auto m = static_cast<std::size_t>(machine);
  const Seconds now = state_.clock.now();
  const bool is_fault = kind != Kind::kRevoked;
  if (!noticed_[m] && !is_fault && is_worker(machine)) ask_soon();
  noticed_[m] = false;
  record(machine, is_fault ? "fault" : "revoked", kind == Kind::kBroken ? "the machine is repaired" : "");
  ++(is_fault ? result_.interruptions.faults : result_.interruptions.revocations);
  if (kind != Kind::kFailed) {
    if (rented_[m]) end_rental(m, now, !is_fault);
    holds_copies_[m] = false;
    state_.checkpoints.lose_copies(machine, has_pair(machine));
    if (!session_ && !keeps_updates_) fall_back();
  }
  take_away(machine, is_fault);
}

/// From the job, with what it was doing.
void Job::take_away(MachineIndex machine, bool is_fault) {
  const auto m = static_cast<std::size_t>(machine);
  const Seconds now = state_.clock.now();
  if (joins_at_[m]) {  // it was starting
    set_joining(machine, {});
    std::exchange(starting_[m], std::nullopt)->retire();
    return;
  }
  const bool is_awaited = state_.membership.stays(machine);
  state_.membership.vanish(machine);
  if (apart_[m]) {  // it has not trained
    apart_[m] = false;
    return;
  }
  if (training_.on_loss) training_.on_loss(machine);
  state_.checkpoints.cut(now, machine);
  if (state_.checkpoints.chief == machine) {
    if (recovery_.lost_chief == Recovery::LostChief::kRestart) {
      lost_chief_ = machine;
      state_.checkpoints.chief = -1;
    } else {
      choose_chief();
    }
  }
  if (session_) return lose(machine, is_fault);
  survivors_[m] = false;
  const bool has_survivor = survivors_.any();
  if (!is_awaited && has_survivor) return;  // it had left by itself
  count_stop();
  if (is_resuming_) resumption_.retire();
  is_resuming_ = false;
  broadcast_.reset();
  bring_in();
  if (keeps_updates_ && (is_server(machine) || !has_survivor)) roll_back();
  noticed_from_ = now;  // anew
  if (is_fault) delay_.detection = recovery_.timeout;
  try_to_resume();
}

/// Whether another machine has a copy of what this one has in memory: the next one of its group, or the one before.
bool Job::has_pair(MachineIndex machine) const {
  const auto is_alike = [&](MachineIndex other) {
    return other >= 0 && other < static_cast<MachineIndex>(site_.machines.size()) &&
           site_.machine(other).group == site_.machine(machine).group;
  };
  const MachineIndex first = first_of(state_.membership.of_group(site_.machine(machine).group));
  const MachineIndex pair = first + ((machine - first) ^ 1);
  const MachineIndex other = is_alike(pair) ? pair : machine - 1;
  return is_alike(other) && holds_copies_[static_cast<std::size_t>(other)];
}

/// A provider says that it takes a machine; a fault is noticed after the timeout, as any loss by those that would go on.
void Job::lose(MachineIndex machine, bool is_fault) {
  const Delay noticed{.detection = is_fault ? recovery_.timeout : Seconds{}};
  const bool restarts = recovery_.lost_worker == Recovery::LostWorker::kRestart;
  if (is_server(machine)) return interrupt(false, recovery_.minimum_workers.value_or(1), noticed, "a server is lost");
  if (restarts)
    return interrupt(false, recovery_.minimum_workers.value_or(workers_at_begin_), noticed, "a worker is lost");
  if (session_->lose(machine)) return observe();
  const bool waits = recovery_.lost_worker == Recovery::LostWorker::kWait;
  const int needed = recovery_.minimum_workers.value_or(waits ? workers_at_begin_ : 1);
  using Change = Recovery::Change;
  const Change change = recovery_.changes_on_loss ? recovery_.change : Change::kAtOnce;
  stops_for_rendezvous_ = sends_to_all_ = change == Change::kRendezvous;
  const Seconds forming = change == Change::kRendezvous ? recovery_.restart_time : Seconds{};
  interrupt(change != Change::kRestart, needed, {recovery_.timeout, forming}, "a worker is lost");
}

void Job::choose_chief() {
  state_.checkpoints.chief = first_of(state_.membership.workers() & state_.membership.there());
}

int Job::workers_there() const {
  const std::vector<int> machines = state_.membership.staying_by_group();
  int workers = 0;
  for (std::size_t g = 0; g < machines.size(); ++g)
    if (machines[g] > 0)
      workers += machines[g] * site_.machine(first_of(state_.membership.of_group(static_cast<int>(g)))).workers;
  return workers;
}

void Job::deserted() {
  if (!session_ || is_done_) return;
  if (!site_.scenario.has_revocations()) fail();
  interrupt(false, recovery_.minimum_workers.value_or(1), {}, "every worker has left");
}

/// The training stops here; it will go on when so many workers, and all servers, are there, and `delay` has passed.
void Job::interrupt(bool keeps_updates, int needed_workers, Delay delay, const std::string& reason) {
  result_.done = session_->progress();
  const Seconds trained = state_.checkpoints.trained(session_->last_update());
  state_.checkpoints.stop(state_.clock.now());
  if (site_.scenario.training.strategy.is_synchronous())
    result_.time_use.redone += state_.checkpoints.undo_to(trained);  // the step under way
  most_samples_ = std::max(most_samples_, result_.done.samples);
  session_.reset();
  observation_.retire();
  if (training_.on_stop) training_.on_stop();
  rendezvous_reason_.clear();
  is_stopped_for_rendezvous_ = std::exchange(stops_for_rendezvous_, false);
  is_sent_to_all_ = std::exchange(sends_to_all_, false);
  stopped_at_ = noticed_from_ = counted_until_ = state_.clock.now();
  record(-1, "stop", reason + " after " + text_of(result_.done));
  keeps_updates_ = keeps_updates;
  needed_workers_ = std::max(least_workers_, needed_workers);
  delay_ = delay;
  survivors_ = state_.membership.there();
  bring_in();
  if (keeps_updates && survivors_.any())
    ++result_.interruptions.pauses;
  else
    roll_back();
  try_to_resume();
}

/// Those that have waited for the step to end.
void Job::bring_in() {
  for (std::size_t m = apart_.find_first(); m != MachineSet::npos; m = apart_.find_next(m))
    state_.membership.arrive(static_cast<MachineIndex>(m));
  apart_.reset();
}

void Job::roll_back() {
  if (keeps_updates_) delay_ = {};  // nobody is left who would wait
  keeps_updates_ = false;
  ++result_.interruptions.restarts;
  fall_back();
}

/// To what is saved, while the job stands still: again if that is lost before it goes on.
void Job::fall_back() {
  state_.checkpoints.cut(state_.clock.now());
  const auto [saved, trained] = state_.checkpoints.latest(state_.clock.now()).first;
  if (saved.updates >= result_.done.updates) return;
  result_.time_use.redone += state_.checkpoints.undo_to(trained);
  result_.interruptions.lost_updates += result_.done.updates - saved.updates;
  result_.samples.lost += result_.done.samples - saved.samples;
  result_.done = saved;
}

/// Workers that lack what the survivors have.
bool Job::has_newcomers() const {
  if (!keeps_updates_ || recovery_.change != Recovery::Change::kRendezvous) return false;
  MachineSet newcomers = state_.membership.staying();
  newcomers &= state_.membership.workers();
  newcomers -= survivors_;
  return newcomers.any();
}

void Job::try_to_resume() {
  if (is_resuming_ || workers_there() < std::max(1, needed_workers_)) return;
  if (!state_.membership.needed_servers().is_subset_of(state_.membership.there())) return;
  const Seconds now = state_.clock.now();
  Seconds delay = std::max(Seconds{}, noticed_from_ + delay_.detection + delay_.forming - now);
  const bool needs_rendezvous = has_newcomers() && !is_stopped_for_rendezvous_;
  counts_rendezvous_ = needs_rendezvous || is_stopped_for_rendezvous_;
  if (!keeps_updates_) {
    delay += recovery_.restart_time;
    if (result_.done.updates > 0) delay += state_.checkpoints.latest(now).second;
  } else if (needs_rendezvous) {
    delay += recovery_.restart_time;
  }
  count_stop();
  is_resuming_ = true;
  resumption_ = OwnedClock{state_.clock, state_.clock.new_owner()};
  resumption_.schedule_in(delay, [this] {
    if (has_newcomers() || (keeps_updates_ && is_sent_to_all_))
      broadcast();
    else
      resume();
  });
}

std::vector<Endpoint> broadcast_gpus(const Site& site, MachineIndex source, const MachineSet& receivers) {
  std::vector<Endpoint> gpus;
  for (const bool is_of_source : {true, false})
    for (const std::vector<Endpoint>& worker : site.workers)
      if (const MachineIndex m = worker.front().machine;
          (m == source) == is_of_source && (is_of_source || receivers.test(static_cast<std::size_t>(m))))
        gpus.insert(gpus.end(), worker.begin(), worker.end());
  return gpus;
}

/// From a survivor to all that are there.
void Job::broadcast() {
  const MachineSet& workers = state_.membership.workers();
  const MachineSet sources = workers & survivors_, staying = state_.membership.staying();
  const MachineIndex source = first_of((sources & staying).any() ? sources & staying : sources);
  MachineSet receivers = workers & staying;
  if (source >= 0) receivers.reset(static_cast<std::size_t>(source));
  std::size_t gpus = source < 0 ? 0 : static_cast<std::size_t>(site_.machine(source).gpus);  // at least
  if (const MachineIndex other = first_of(receivers); other >= 0)
    gpus += static_cast<std::size_t>(site_.machine(other).gpus) + receivers.count() - 1;
  if (gpus < 2) return resume();
  broadcast_at_ = state_.clock.now();
  broadcast_ = training_.broadcast(source, receivers, [this, source] {
    resumption_.schedule_in({}, [this, source] {
      broadcast_.reset();
      state_.events.push_back(
          {source, "broadcast", {broadcast_at_, state_.clock.now()}, "variables and optimizer state"});
      resume();
    });
  });
}

/// Notes what the time was for since the job stopped, or this was called.
void Job::count_stop() {
  const Seconds now = state_.clock.now(), noticed = noticed_from_ + delay_.detection;
  const Seconds unnoticed = std::clamp(noticed - counted_until_, Seconds{}, now - counted_until_);
  result_.time_use.detection += unnoticed;
  (is_resuming_ ? result_.time_use.restarting : result_.time_use.waiting) += now - counted_until_ - unnoticed;
  counted_until_ = now;
}

/// Those who have the model begin, the others join them.
void Job::resume() {
  count_stop();
  is_resuming_ = false;
  const Seconds now = state_.clock.now();
  record(-1, keeps_updates_ ? "resume" : "restart", "after " + text_of(result_.done));
  result_.stopped.push_back({stopped_at_, now});
  result_.interruptions.stopped += now - stopped_at_;
  go_on();
}

/// [newcomers' machines] that are not there any more.
std::vector<MachineIndex> Job::set_newcomers_apart() {
  std::vector<MachineIndex> newcomers;
  const MachineSet come = state_.membership.there() - survivors_;
  for (std::size_t m = come.find_first(); m != MachineSet::npos; m = come.find_next(m)) {
    newcomers.push_back(static_cast<MachineIndex>(m));
    state_.membership.set_apart(newcomers.back());
  }
  return newcomers;
}

void Job::go_on() {
  state_.checkpoints.resume(result_.done.updates, state_.clock.now(), !keeps_updates_);
  holds_copies_ = state_.membership.there();
  if (state_.checkpoints.chief < 0 && lost_chief_ < 0) choose_chief();
  std::vector<MachineIndex> newcomers;
  if (keeps_updates_ && state_.clock.now() > Seconds{} && recovery_.change != Recovery::Change::kRendezvous)
    newcomers = set_newcomers_apart();
  session_ = training_.begin_session(*this, result_.done);
  session_->begin();
  workers_at_begin_ = std::max(workers_at_begin_, workers_there());
  for (const MachineIndex machine : newcomers) {
    state_.membership.arrive(machine);
    session_->join(machine);
  }
  rendezvous_reason_.clear();
  if (apart_.any()) ask_for_rendezvous("a worker joins");
  observe();
}

void Job::record(MachineIndex machine, const char* kind, const std::string& detail) {
  const Seconds now = state_.clock.now();
  state_.events.push_back({machine, kind, {now, now}, detail});
}

std::string Job::progress_text() const {
  return std::to_string((session_ ? session_->progress() : result_.done).samples) + " of " +
         std::to_string(site_.scenario.training.samples) + " samples";
}

void Job::fail() const {
  const std::string progress = " after " + progress_text();
  if (!session_ && workers_there() > 0)
    throw RunError{"/cluster/groups", "the job waits for machines that never come" + progress};
  bool has_worker = false;
  for (std::size_t m = 0; m < site_.machines.size(); ++m) {
    const auto machine = static_cast<MachineIndex>(m);
    has_worker = has_worker || (is_worker(machine) && state_.membership.stays(machine));
  }
  if (!has_worker) throw RunError{"/cluster/groups", "every worker has left" + progress};
  throw RunError{"/training/strategy", "deadlock" + progress + ": " + session_->deadlock()};
}

}  // namespace rehearse
