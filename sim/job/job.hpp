#pragma once
// A training job on machines that come and go: it drives one Session after another through what the provider does to
// the machines. What the provider does depends on no training, and no training knows why a machine is gone.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "sim/job/control.hpp"
#include "sim/job/machine_events.hpp"
#include "sim/job/membership.hpp"
#include "sim/job/session.hpp"

namespace rehearse {

/// What a job shares with its training.
struct JobState {
  /// The state at the start, with the machine events of `seed`.
  JobState(const Site& site, std::uint64_t seed, Clock& clock, std::vector<EventSpan>& events);

  const Site& site;
  Clock& clock;
  std::vector<EventSpan>& events;
  MachineEvents machine_events;
  Membership membership;
  Checkpoints checkpoints;
};

/// On its way to those that lack it.
class ModelBroadcast {
 public:
  virtual ~ModelBroadcast() = default;
};

/// How a job trains. The same rules (Recovery) hold for a training that is simulated message by message and for one
/// whose speed in each membership is known.
struct JobTraining {
  std::function<std::unique_ptr<Session>(SessionOwner& job, TrainingProgress done)> begin_session;
  std::function<void()> run;                               // advances time until nothing is left to do
  std::function<void(const TrainingProgress&)> on_update;  // after each; may be empty
  std::function<void(MachineIndex)> on_loss;               // of a machine, with what it was doing; may be empty
  std::function<void()> on_stop;                           // of a session; may be empty
  /// Sends variables and optimizer state from the first GPU of a machine to all others of its own and of the receivers. What it
  /// gives has to live until it calls `on_done`; destroyed before, it cuts what is under way.
  std::function<std::unique_ptr<ModelBroadcast>(MachineIndex source, const MachineSet& receivers,
                                                std::function<void()> on_done)>
      broadcast;
};

/// The GPUs of a broadcast: those of the source's workers, then those of the others'.
std::vector<Endpoint> broadcast_gpus(const Site& site, MachineIndex source, const MachineSet& receivers);

/// What a job was.
struct JobResult {
  Seconds end{};  // of the last update
  TrainingProgress done;
  SampleCounts samples;                      // as far as it depends on no step of a worker
  std::vector<std::vector<Rental>> rentals;  // [machines]
  std::vector<Span> stopped;                 // the job stood still
  Interruptions interruptions;
  TimeUse time_use;
};

class Job final : public SessionOwner {
 public:
  Job(JobState& state, JobTraining training, JobControl control = {});
  void updated(const TrainingProgress& progress) override;
  void deserted() override;
  void step_ended() override;
  void batch_chosen(int times) override;
  /// Runs the job to its end. Throws NoResultError if it does not come to one.
  JobResult run();
  /// The same, but gives what there is when the training's run() ends before the job does.
  JobResult run_until_given_up();
  const Session& session() const { return *session_; }

 private:
  void schedule_next_event();
  void take_events();
  void schedule_taking();
  bool is_controlled() const { return !control_.rules.empty(); }
  bool asks_at(ControlEvent event) const;
  void ask_soon();
  void ask(ControlEvent event, const ControlView& view);
  ControlView view() const;
  bool is_on_its_way(MachineIndex machine) const;
  void change_machines(const ControlDecision& decision);
  void release(MachineIndex machine);
  void observe();
  void begin_window();
  void announce_next_change();
  void set_joining(MachineIndex machine, std::optional<Seconds> date);
  void react(const MachineEvent& event);
  void start(MachineIndex machine);
  void revoke(MachineIndex machine, FleetEvent::Kind kind);
  void take_away(MachineIndex machine, bool is_fault);
  void receive(MachineIndex machine);
  void lose(MachineIndex machine, bool is_fault);
  bool has_pair(MachineIndex machine) const;
  void choose_chief();
  bool is_worker(MachineIndex machine) const { return site_.machine(machine).workers > 0; }
  bool is_server(MachineIndex machine) const { return site_.machine(machine).servers > 0; }
  /// Training goes on without it until it comes.
  bool is_added(MachineIndex machine) const { return is_server(machine) && site_.group(machine).is_standby; }
  int workers_there() const;  // that do not have to leave
  /// What a stop takes at least: until it is noticed, and to form anew besides.
  struct Delay {
    Seconds detection{}, forming{};
  };
  void interrupt(bool keeps_updates, int needed_workers, Delay delay, const std::string& reason);
  void count_stop();
  void roll_back();
  void fall_back();
  std::string progress_text() const;
  void ask_for_rendezvous(const std::string& reason);
  void leave_on_purpose(const Group& group);
  void try_to_resume();
  bool has_newcomers() const;
  void resume();
  void broadcast();
  std::vector<MachineIndex> set_newcomers_apart();
  void bring_in();
  void go_on();
  void end_rental(std::size_t machine, Seconds now, bool is_by_provider);
  void record(MachineIndex machine, const char* kind, const std::string& detail);
  [[noreturn]] void fail() const;

  const Site& site_;
  JobState& state_;
  JobTraining training_;
  JobControl control_;
  const Recovery& recovery_;
  std::unique_ptr<Session> session_;
  OwnedClock provider_, resumption_;
  OwnedClock taking_, planning_, observation_;  // of a job that is controlled
  bool is_planning_ = false;
  int batch_ = 1;  // times the scenario's
  Seconds next_event_{};
  MachineEvent event_;                               // that comes then, unless the job is controlled
  std::vector<std::optional<Rental>> rented_;        // [machines] now
  std::vector<std::optional<Seconds>> joins_at_;     // [machines] whose framework is starting
  std::multiset<Seconds> joining_;                   // the same dates
  std::vector<std::optional<OwnedClock>> starting_;  // [machines] none: it has not started since it was taken away
  std::vector<bool> requested_, noticed_;            // [machines]
  int workers_at_begin_ = 0;                         // of the current training
  MachineIndex lost_chief_ = -1;                     // whose return is awaited
  bool is_done_ = false;
  // While the job stands still:
  bool keeps_updates_ = true;  // the survivors, or servers, have the model
  MachineSet survivors_;
  int least_workers_ = 0;  // without which nothing is trained
  int needed_workers_ = 1;
  Delay delay_;
  Seconds stopped_at_{}, noticed_from_{};  // when the latest loss happened
  Seconds counted_until_{};                // what the stop was for
  MachineSet holds_copies_;                // of parts in memory
  bool is_resuming_ = false;
  bool stops_for_rendezvous_ = false;          // the interruption that begins, and
  bool is_stopped_for_rendezvous_ = false;     // the one that lasts: delay_ is that of a rendezvous
  bool sends_to_all_ = false;                  // the interruption that begins, and
  bool is_sent_to_all_ = false;                // the one that lasts: survivors get the model again, too
  bool counts_rendezvous_ = false;             // in the delay of the resumption under way
  std::unique_ptr<ModelBroadcast> broadcast_;  // under way, before the resumption
  Seconds broadcast_at_{};
  // Until the step under way ends:
  MachineSet apart_;               // that have come
  std::string rendezvous_reason_;  // empty: none is asked for
  std::int64_t most_samples_ = 0;  // that were ever done
  JobResult result_;
};

}  // namespace rehearse
