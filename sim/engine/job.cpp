#include "sim/engine/job.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/engine/machine_events.hpp"

namespace rehearse {

namespace {
using Kind = FleetEvent::Kind;
constexpr Seconds kNever{std::numeric_limits<double>::infinity()};

std::string text_of(const TrainingProgress& progress) {
  return "step " + std::to_string(progress.updates) + ", sample " + std::to_string(progress.samples);
}
}  // namespace

Job::Job(JobSite site, MachineEvents* machine_events)
    : site_{std::move(site)},
      machine_events_{machine_events},
      recovery_{site_.scenario.training.recovery},
      provider_{site_.clock, site_.clock.new_owner()},
      resumption_{site_.clock},
      rented_(site_.machines.size()),
      joins_at_(site_.machines.size()),
      starting_(site_.machines.size(), OwnedClock{site_.clock}),
      survivors_(site_.machines.size()) {
  result_.rentals.resize(site_.machines.size());
  int worker = 0;
  for (std::size_t m = 0; m < site_.machines.size(); ++m) {
    first_worker_.push_back(worker);
    worker += site_.machines[m].workers;
    if (site_.membership.is_there(static_cast<MachineIndex>(m))) rented_[m].emplace();
  }
}

Job::~Job() = default;

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
    const Group& group = site_.scenario.groups[static_cast<std::size_t>(site_.machines[m].group)];
    if (group.joins_at > Seconds{})
      provider_.schedule(group.joins_at, [this, m] {
        rented_[m] = Rental{.span = {site_.clock.now(), {}}};
        receive(static_cast<MachineIndex>(m));
      });
  }
  schedule_next_event();
  resume();
  site_.run();
  result_.end = is_done_ ? session_->last_update() : site_.clock.now();
  if (session_) result_.done = session_->progress();
  SampleCounts& samples = result_.samples;
  samples.done = result_.done.samples;
  samples.repeated = samples.done + samples.lost - std::max(most_samples_, samples.done);
  result_.interruptions.checkpoints = site_.checkpoints.count();
  for (std::size_t m = 0; m < site_.machines.size(); ++m)
    if (rented_[m]) end_rental(m, result_.end, false);
  return result_;
}

void Job::updated(const TrainingProgress& progress) {
  if (progress.samples < site_.scenario.training.samples || std::exchange(is_done_, true)) return;
  provider_.retire();
  site_.membership.set_next_event(kNever);
}

void Job::end_rental(std::size_t machine, Seconds now, bool is_by_provider) {
  Rental rental = *std::exchange(rented_[machine], std::nullopt);
  rental.span.end = now;
  rental.is_ended_by_provider = is_by_provider;
  rental.startup = std::min(rental.startup, now - rental.span.start);
  if (now > rental.span.start) result_.rentals[machine].push_back(rental);
}

void Job::announce_next_change() {
  Seconds next = next_event_;
  for (const auto& date : joins_at_) next = std::min(next, date.value_or(kNever));
  site_.membership.set_next_event(next);
}

void Job::schedule_next_event() {
  const auto event = machine_events_ != nullptr ? machine_events_->next() : std::nullopt;
  next_event_ = event ? event->at : kNever;
  announce_next_change();
  if (!event || event->at > Clock::kLatest) return;
  provider_.schedule(event->at, [this, event = *event] {
    schedule_next_event();
    react(event);
  });
}

void Job::react(const MachineEvent& event) {
  const MachineIndex machine = event.machine;
  switch (event.kind) {
    case Kind::kRequested:
      return record(machine, "request", "");
    case Kind::kRunning:
      return start(machine);
    case Kind::kNotice:
      record(machine, "notice", "");
      ++result_.interruptions.notices;
      if (!recovery_.uses_notice || !site_.membership.is_there(machine)) return;
      // Where the loss costs work, a checkpoint saves it; else the worker leaves between two steps.
      if (!is_worker(machine) || recovery_.lost_worker == Recovery::LostWorker::kRestart)
        site_.checkpoints.ask_for_one();
      else if (recovery_.lost_worker != Recovery::LostWorker::kWait)
        site_.membership.dismiss(machine);
      if (session_) session_->reconsider();
      return;
    case Kind::kRevoked:
      return revoke(machine);
  }
}

/// A machine runs; before it can train, its framework starts.
void Job::start(MachineIndex machine) {
  const auto m = static_cast<std::size_t>(machine);
  record(machine, "running", "");
  ++result_.interruptions.replacements;
  const auto startup =
      startup_of(site_.scenario, site_.scenario.groups[static_cast<std::size_t>(site_.machines[m].group)]);
  const Seconds framework =
      startup ? startup->framework.time(site_.scenario.workload.trainable_tensors(), true) : Seconds{};
  rented_[m] = Rental{.span = {site_.clock.now(), {}}, .startup = framework};
  joins_at_[m] = site_.clock.now() + framework;
  announce_next_change();
  starting_[m] = OwnedClock{site_.clock, site_.clock.new_owner()};
  starting_[m].schedule(*joins_at_[m], [this, machine] { receive(machine); });
}

void Job::receive(MachineIndex machine) {
  const auto m = static_cast<std::size_t>(machine);
  if (is_done_) return;
  joins_at_[m].reset();
  announce_next_change();
  site_.membership.arrive(machine);
  if (machine == lost_chief_) {
    lost_chief_ = -1;
    site_.checkpoints.chief = first_worker_[m];
    if (session_) return interrupt(false, 1, {}, "the chief is back");
  }
  if (site_.checkpoints.chief < 0 && lost_chief_ < 0) choose_chief();
  if (session_)
    session_->join(machine);
  else
    try_to_resume();
}

void Job::revoke(MachineIndex machine) {
  const auto m = static_cast<std::size_t>(machine);
  const Seconds now = site_.clock.now();
  record(machine, "revoked", "");
  ++result_.interruptions.revocations;
  if (rented_[m]) end_rental(m, now, true);
  if (joins_at_[m]) {  // it was starting
    joins_at_[m].reset();
    starting_[m].retire();
    announce_next_change();
    return;
  }
  site_.membership.vanish(machine);
  if (site_.on_loss) site_.on_loss(machine);
  const int chief = site_.checkpoints.chief;
  if (chief >= first_worker_[m] && chief < first_worker_[m] + site_.machines[m].workers) {
    site_.checkpoints.lose_chief(now);
    if (recovery_.lost_chief == Recovery::LostChief::kRestart) {
      lost_chief_ = machine;
      site_.checkpoints.chief = -1;
    } else {
      choose_chief();
    }
  }
  if (session_) return lose(machine);
  survivors_[m] = false;
  if (is_resuming_) resumption_.retire();
  is_resuming_ = false;
  if (keeps_updates_ &&
      (is_server(machine) || std::find(survivors_.begin(), survivors_.end(), true) == survivors_.end()))
    roll_back();
  noticed_from_ = now;  // anew
  try_to_resume();
}

void Job::lose(MachineIndex machine) {
  const bool restarts = recovery_.lost_worker == Recovery::LostWorker::kRestart;
  if (is_server(machine)) return interrupt(false, recovery_.minimum_workers.value_or(1), {}, "a server is lost");
  if (restarts) return interrupt(false, recovery_.minimum_workers.value_or(workers_at_begin_), {}, "a worker is lost");
  if (session_->lose(machine)) return;
  const bool waits = recovery_.lost_worker == Recovery::LostWorker::kWait;
  interrupt(true, recovery_.minimum_workers.value_or(waits ? workers_at_begin_ : 1), recovery_.timeout,
            "a worker is lost");
}

void Job::choose_chief() {
  site_.checkpoints.chief = -1;
  for (std::size_t m = 0; m < site_.machines.size(); ++m)
    if (is_worker(static_cast<MachineIndex>(m)) && site_.membership.is_there(static_cast<MachineIndex>(m))) {
      site_.checkpoints.chief = first_worker_[m];
      return;
    }
}

int Job::workers_there() const {
  int workers = 0;
  for (std::size_t m = 0; m < site_.machines.size(); ++m) {
    const auto machine = static_cast<MachineIndex>(m);
    if (site_.membership.is_there(machine) && !site_.membership.has_to_leave(machine))
      workers += site_.machines[m].workers;
  }
  return workers;
}

void Job::deserted() {
  if (!session_ || is_done_) return;
  if (machine_events_ == nullptr) fail();
  interrupt(false, recovery_.minimum_workers.value_or(1), {}, "every worker has left");
}

/// The training stops here; it will go on when so many workers, and all servers, are there, and `delay` has passed.
void Job::interrupt(bool keeps_updates, int needed_workers, Seconds delay, const std::string& reason) {
  result_.done = session_->progress();
  most_samples_ = std::max(most_samples_, result_.done.samples);
  session_.reset();
  stopped_at_ = noticed_from_ = site_.clock.now();
  record(-1, "stop", reason + " after " + text_of(result_.done));
  keeps_updates_ = keeps_updates;
  needed_workers_ = needed_workers;
  delay_ = delay;
  bool has_survivor = false;
  for (std::size_t m = 0; m < survivors_.size(); ++m) {
    const auto machine = static_cast<MachineIndex>(m);
    survivors_[m] = site_.membership.is_there(machine);
    has_survivor = has_survivor || (survivors_[m] && (is_worker(machine) || is_server(machine)));
  }
  if (keeps_updates && has_survivor)
    ++result_.interruptions.pauses;
  else
    roll_back();
  try_to_resume();
}

void Job::roll_back() {
  keeps_updates_ = false;
  ++result_.interruptions.restarts;
  const TrainingProgress saved = site_.checkpoints.latest(site_.clock.now());
  if (saved.updates >= result_.done.updates) return;
  result_.interruptions.lost_updates += result_.done.updates - saved.updates;
  result_.samples.lost += result_.done.samples - saved.samples;
  result_.done = saved;
}

void Job::try_to_resume() {
  if (is_resuming_ || workers_there() < std::max(1, needed_workers_)) return;
  for (std::size_t m = 0; m < site_.machines.size(); ++m)
    if (is_server(static_cast<MachineIndex>(m)) && !site_.membership.is_there(static_cast<MachineIndex>(m))) return;
  const Seconds now = site_.clock.now();
  Seconds delay = std::max(Seconds{}, noticed_from_ + delay_ - now);
  if (!keeps_updates_) {
    delay = recovery_.restart_time;
    if (result_.done.updates > 0) delay += checkpoint_time(site_.scenario).value_or(Seconds{});
  }
  is_resuming_ = true;
  resumption_ = OwnedClock{site_.clock, site_.clock.new_owner()};
  resumption_.schedule_in(delay, [this] {
    is_resuming_ = false;
    record(-1, keeps_updates_ ? "resume" : "restart", "after " + text_of(result_.done));
    result_.stopped.push_back({stopped_at_, site_.clock.now()});
    result_.interruptions.stopped += site_.clock.now() - stopped_at_;
    resume();
  });
}

/// Those who have the model begin, the others join them.
void Job::resume() {
  site_.checkpoints.resume(result_.done.updates, site_.clock.now(), !keeps_updates_);
  if (site_.checkpoints.chief < 0 && lost_chief_ < 0) choose_chief();
  std::vector<MachineIndex> newcomers;
  if (keeps_updates_ && site_.clock.now() > Seconds{})
    for (std::size_t m = 0; m < survivors_.size(); ++m) {
      const auto machine = static_cast<MachineIndex>(m);
      if (survivors_[m] || !site_.membership.is_there(machine)) continue;
      site_.membership.set_apart(machine);
      newcomers.push_back(machine);
    }
  session_ = site_.begin_session(result_.done);
  session_->begin();
  workers_at_begin_ = std::max(workers_at_begin_, workers_there());
  for (const MachineIndex machine : newcomers) {
    site_.membership.arrive(machine);
    session_->join(machine);
  }
}

void Job::record(MachineIndex machine, const char* kind, const std::string& detail) {
  const Seconds now = site_.clock.now();
  site_.events.push_back({machine, kind, {now, now}, detail});
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
    has_worker = has_worker ||
                 (is_worker(machine) && site_.membership.is_there(machine) && !site_.membership.has_to_leave(machine));
  }
  if (!has_worker) throw RunError{"/cluster/groups", "every worker has left" + progress};
  throw RunError{"/training/strategy", "deadlock" + progress + ": " + session_->deadlock()};
}

}  // namespace rehearse
