#pragma once
// Runs programs (program.hpp): one for each worker and step, on the clock and the network.
//
// An operation starts when all that it waits for have ended and its resource is free. Dates are known before they come
// where nothing else can change them: kernels on a stream, copies over a link of their own, delays. So a chain of them
// costs no event, and an event is scheduled only for what meets others: messages, collectives, ends of steps.

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/program/communicator.hpp"
#include "sim/program/connection.hpp"
#include "sim/program/copy_engine.hpp"
#include "sim/program/program.hpp"
#include "sim/program/step_gate.hpp"
#include "sim/resources/core_pool.hpp"

namespace rehearse {

class Executor;
class CollectiveGroup;

/// Where the time went for which something had to wait: each thing for what came to it last, from the end on back.
struct Waits {
  Seconds latency{}, network{}, server{}, copies{};
  Seconds other{};  // before all of these
};

/// Counters that the workers of a team share, and what waits for them.
class Counters;

/// What carries out programs, for itself and for those that do the same at the same time.
class RunningWorker {
 public:
  /// Where it is, and for how many workers it stands.
  struct Place {
    Endpoint host, gpu;
    std::vector<Endpoint> other_gpus{};  // do the same at the same time
    std::int64_t workers = 1;
    bool copies_are_alone = true;  // copy_engine.hpp
    std::vector<PathIndex> connections{};
  };

  RunningWorker(Executor& executor, Place place, int index, OwnedClock clock);

  int index() const { return index_; }
  std::int64_t workers() const { return place_.workers; }
  void stand_for_another() { ++place_.workers; }
  OwnedClock clock() const { return clock_; }
  /// Figures of the step that is under way, or the latest: when its last kernel ends or ended, valid once the fence's
  /// date is known; time of its kernels; and how much earlier they would have started had they waited for nothing.
  Seconds compute_end() const;
  Seconds kernel_time() const { return kernel_time_; }
  Seconds stalled() const { return stalled_; }
  const Waits& stalls() const { return stalls_; }
  /// Waits within the latest `length` before the step's end, which is known.
  Waits waits_before_end(Seconds length) const;
  /// When it had all variables of the step.
  Seconds has_variables_at() const;
  /// Whether kernels of the step wait for something.
  bool waits_in_kernels() const;
  /// When all that the operation of the step waits for had ended, valid once it has.
  Seconds ready_at(OperationIndex operation) const { return steps_[at(slot_)].ready[at(operation)].date; }
  /// The latest date that is known.
  Seconds latest() const { return latest_; }

 private:
  friend class Executor;
  friend class CollectiveGroup;
  friend class Counters;

  static constexpr OperationIndex kNone = -1;

  /// State of an operation in a step.
  struct Readiness {
    Seconds date{};                 // when the latest of its predecessors that have ended did
    OperationIndex latest = kNone;  // that one
    OperationIndex pending = 0;     // predecessors that have not ended
  };
  struct StepState {
    const Program* program = nullptr;
    std::int64_t index = 0;        // of the worker's steps, from 0
    std::int64_t number = 0;       // of the training's
    OperationIndex left = 0;       // operations that have not ended
    std::vector<Readiness> ready;  // [operations]
    const std::vector<CollectiveGroup*>* groups = nullptr;
  };
  struct Stream {
    Seconds host{}, gpu{};  // free from then on
    std::size_t stretch = 0;
    OperationIndex next = 0;
    std::int64_t repeats = 0;  // of the stretch, done
    bool is_advancing = false;
  };

  CopyEngine& copies(int direction);
  Connection& connection(int index);

  Executor& executor_;
  Place place_;
  int index_;
  OwnedClock clock_;
  std::array<StepState, 3> steps_;    // a step may begin while messages of the one before are on their way
  int slot_ = 0;                      // of the latest
  OperationIndex stands_at_ = kNone;  // fence or gate of steps
  std::int64_t next_number_ = 0;
  std::int64_t begun_ = 0;
  std::vector<Stream> streams_;
  std::shared_ptr<Counters> own_counters_, team_counters_;
  std::array<std::optional<CopyEngine>, 2> copies_;       // to the GPU, from it
  std::vector<std::unique_ptr<Connection>> connections_;  // those in use
  std::vector<int> collected_;                            // messages for the end of the cycle, by their tags
  std::map<int, std::vector<int>> fused_;                 // what comes with a message, by its tag
  std::unique_ptr<Connection> fetch_;                     // the latest
  const RunningWorker* fetches_from_ = nullptr;           // what has not arrived
  OperationIndex fetched_ = kNone;
  double slowdown_ = 1;
  Seconds kernel_time_{}, stalled_{}, latest_{};
  Waits stalls_;
};

class Counters {
 private:
  friend class Executor;
  struct Place {
    RunningWorker* worker;
    int slot;
    OperationIndex operation;
  };
  struct Counter {
    std::int64_t count = 0;
    Seconds date{};                                  // of its latest advance
    Place latest{nullptr, 0, RunningWorker::kNone};  // by whom that was,
    std::int64_t index = 0;                          // in which of its steps
    int waiting = 0;                                 // how many wait: a list in waiting_
    int first_waiting = -1, last_waiting = -1;
  };
  struct Waiting {
    Place place;
    int next;
  };

  Counter& at(int index) {
    const auto i = static_cast<std::size_t>(index);
    if (counters_.size() <= i) counters_.resize(i + 1);
    return counters_[i];
  }
  void wait(int index, const Place& place) {
    const int added = std::exchange(free_, free_ < 0 ? -1 : waiting_[static_cast<std::size_t>(free_)].next);
    const int node = added < 0 ? static_cast<int>(waiting_.size()) : added;
    if (added < 0) waiting_.emplace_back();
    waiting_[static_cast<std::size_t>(node)] = {place, -1};
    Counter& counter = at(index);
    (counter.last_waiting < 0 ? counter.first_waiting : waiting_[static_cast<std::size_t>(counter.last_waiting)].next) =
        node;
    counter.last_waiting = node;
    ++counter.waiting;
  }
  /// The first of those that wait for the counter, which no longer does.
  Place take(int index) {
    Counter& counter = at(index);
    const int node = counter.first_waiting;
    --counter.waiting;
    Waiting& waiting = waiting_[static_cast<std::size_t>(node)];
    counter.first_waiting = std::exchange(waiting.next, std::exchange(free_, node));
    if (counter.first_waiting < 0) counter.last_waiting = -1;
    return waiting.place;
  }

  std::vector<Counter> counters_;
  std::vector<Waiting> waiting_;  // lists
  int free_ = -1;                 // one of them
};

/// The end of the cycle in which `now` lies; cycles begin at 0. A date that is one within rounding counts as it.
Seconds end_of_cycle(Seconds now, Seconds cycle);

/// Workers that take part in collectives together: one at a time, in the order in which all have come to them.
class CollectiveGroup {
 public:
  /// When what is ready is started, and together with what: as GradientExchange says.
  struct Rule {
    Order order = Order::kFifo;
    std::optional<Seconds> cycle_time;
    std::optional<Bytes> largest;  // of what a cycle fuses
  };

  /// `workers` in all, folded ones counted.
  CollectiveGroup(Executor& executor, OwnedClock clock, std::int64_t workers, const Rule& rule,
                  std::unique_ptr<Communicator> communicator)
      : executor_{executor}, clock_{clock}, workers_{workers}, rule_{rule}, communicator_{std::move(communicator)} {}

  Communicator& communicator() { return *communicator_; }
  /// The worker's operation, of its step in `slot`, has come to its collective.
  void come(RunningWorker& worker, int slot, OperationIndex operation);
  /// "u1 is ready at 3 of 4": the first that some wait for; empty if none.
  std::string waits_for(const std::function<std::string(int)>& name) const;
  /// When the latest collective of the label began.
  Seconds begun(int label) const { return collectives_[static_cast<std::size_t>(label)].begun; }

 private:
  struct Arrival {
    RunningWorker* worker;
    int slot;
    OperationIndex operation;
  };
  struct Collective {
    std::int64_t workers = 0;  // that have come
    Seconds ready{};           // when the last of all had
    Seconds begun{};           // the latest of its label
    std::vector<Arrival> arrivals;
  };

  void launch();
  int take_next();
  std::vector<int> take_fused();
  void start(std::vector<int> labels);
  void record(const std::vector<int>& labels, Bytes payload, Seconds began);
  const Operation& operation_of(int label) const;

  Executor& executor_;
  OwnedClock clock_;
  std::int64_t workers_;
  Rule rule_;
  std::unique_ptr<Communicator> communicator_;
  std::vector<Collective> collectives_;  // [labels]
  std::deque<int> waiting_;              // labels to which all workers have come
  Seconds begun_{};                      // the latest
  bool is_busy_ = false;
  bool cycle_is_scheduled_ = false;
};

class Executor {
 public:
  /// What a training does about it.
  class Client {
   public:
    virtual ~Client() = default;
    /// The worker's kernels begin at `when`, now or later. Returns by how much longer they take.
    virtual double begin_kernels(RunningWorker& worker, Seconds when) = 0;
    /// The worker's step ends at `end`, now or later. It goes on with go_on() or begin_step().
    virtual void know_end(RunningWorker& worker, Seconds end) = 0;
    /// All workers have come to the end of the update.
    virtual void update() = 0;
    /// All that the worker sends of its step `number` has come to an update of its own, as no others share the step.
    virtual void update_of(RunningWorker& /*worker*/, std::int64_t /*number*/) {}
    /// The worker may begin its next step.
    virtual void begin_next(RunningWorker&) {}
    /// Something has changed for a worker that waits to begin its next step: it goes on with go_on(), or not at all.
    virtual void reconsider(RunningWorker&) {}
    /// From which worker it fetches; nullptr: there is none.
    virtual const RunningWorker* choose_partner(RunningWorker&) { return nullptr; }
  };

  /// `first`: the number of the first step. `steps`: who may begin one; without it everybody may.
  Executor(Cluster& cluster, OwnedClock clock, Client& client, std::int64_t first = 0, StepGate* steps = nullptr)
      : cluster_{cluster}, clock_{clock}, client_{client}, first_{first}, steps_{steps} {}

  /// A worker without a step; those of a `team` share its counters. The reference stays valid.
  RunningWorker& add_worker(const RunningWorker::Place& place, OwnedClock clock,
                            std::shared_ptr<Counters> team = nullptr);
  /// How many workers come to the update of a step, and push each gradient: known before any does.
  void expect(std::int64_t number, std::int64_t workers);
  /// One fewer does after all.
  void withdraw(std::int64_t number);
  /// The worker's next step, the training's `number`-th, begins now. `program` and `groups` live as long as it does.
  void begin_step(RunningWorker& worker, const Program& program, const std::vector<CollectiveGroup*>& groups,
                  std::int64_t number);
  /// The worker, whose step has ended if it was in one, goes on to the training's step `next`, once the gate lets it.
  void go_on(RunningWorker& worker, std::int64_t next);
  /// Those that wait for that are reconsidered.
  void release();
  /// Nothing of what the worker had before is under way any more.
  void reset(RunningWorker& worker, std::shared_ptr<Counters> team);
  /// Whoever fetches from the worker goes on without.
  void cut_fetches_from(const RunningWorker& worker);

  OwnedClock clock() const { return clock_; }

 private:
  friend class CollectiveGroup;
  friend class RunningWorker;

  /// State of a step of all.
  struct Round {
    std::int64_t number = -1;
    std::int64_t expected = 0;          // workers
    std::int64_t updated = 0;           // of them have come to the update
    int counters = 0;                   // common ones, all of which advance in it
    int completed = 0;                  // that have
    std::vector<std::int64_t> applied;  // [common counters] gradients that have come
  };
  Round* find_round(std::int64_t number) {
    Round& round = rounds_[static_cast<std::size_t>(number) % rounds_.size()];
    return round.number == number ? &round : nullptr;
  }

  void issue(RunningWorker& worker, int slot, OperationIndex operation);
  void start_at(RunningWorker& worker, int slot, OperationIndex operation, Seconds when);
  void start(RunningWorker& worker, int slot, OperationIndex operation);
  void collect(RunningWorker& worker, int slot, OperationIndex operation);
  void send_collected(RunningWorker& worker);
  void arrive(RunningWorker& worker, int tag);
  void work(RunningWorker& worker, int slot, OperationIndex operation);
  void fetch(RunningWorker& worker, int slot, OperationIndex operation);
  void end_at(RunningWorker& worker, int slot, OperationIndex operation, Seconds when);
  void end(RunningWorker& worker, int slot, OperationIndex operation, Seconds when);
  void advance(RunningWorker& worker, int slot, std::size_t stream);
  Counters& counters(RunningWorker& worker, CounterScope scope);
  bool has_come(const RunningWorker::StepState& step, const Operation& gate, std::int64_t count) const;
  void advance_counter(Counters& counters, int index, const Counters::Place& by, Seconds when);
  void complete(std::int64_t number, int counter, const Counters::Place& by, Seconds when);
  Waits waits(const RunningWorker& worker, int slot, OperationIndex operation, Seconds date, Seconds length) const;
  /// Records that the worker waits for the operation, which ends at `date`, in the `length` before it, but for delays
  /// of its own.
  void record_wait(const RunningWorker& worker, int slot, OperationIndex operation, Seconds date, Seconds length);
  /// Tells of an update that is complete: after all that it has brought about.
  void tell_update();

  Cluster& cluster_;
  OwnedClock clock_;
  Client& client_;
  std::int64_t first_;
  StepGate* steps_;
  std::deque<RunningWorker> all_;
  Counters common_;
  std::vector<RunningWorker*> held_;  // by the gate, in the order in which they came
  std::array<Round, 4> rounds_;
  bool is_updated_ = false;
};

}  // namespace rehearse
