#pragma once
// A worker that runs a program in each of its steps (program.hpp).

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sim/program/collective_group.hpp"
#include "sim/program/connection.hpp"
#include "sim/program/copy_engine.hpp"
#include "sim/program/counters.hpp"
#include "sim/program/program.hpp"

namespace rehearse {

class Executor;

/// Where the time went for which something had to wait: each thing for what came to it last, from the end on back.
struct Waits {
  Seconds latency{}, network{}, server{}, copies{};
  Seconds other{};  // before all of these
};

/// What carries out programs, for itself and for those that do the same at the same time.
class RunningWorker : private Pinned {
 public:
  /// Where it is, and for how many workers it stands.
  struct Place {
    Endpoint host, gpu;
    std::vector<Endpoint> other_gpus{};  // do the same at the same time
    std::int64_t workers = 1;
    bool copies_are_alone = true;  // copy_engine.hpp
    std::vector<PathIndex> connections{};
  };

  RunningWorker(Executor& executor, Place place, int index, OwnedClock clock, std::shared_ptr<Counters> team);

  int index() const { return index_; }
  std::int64_t workers() const { return place_.workers; }
  void stand_for_another() { ++place_.workers; }
  Endpoint gpu() const { return place_.gpu; }
  OwnedClock clock() const { return clock_; }

  /// Its next step, the training's `number`-th, begins now, as Executor::begin_step() says.
  void begin_step(const Program& program, const std::vector<CollectiveGroup*>& groups, std::int64_t number);
  /// It goes on, from the fence or the gate of steps at which it stands, to the training's step `next`. False if it
  /// stands at none.
  bool go_on(std::int64_t next);
  /// Nothing of what it had before is under way any more.
  void reset(OwnedClock clock, std::shared_ptr<Counters> team);
  /// What it fetches from that worker, if anything, does not come any more: it goes on without.
  void cut_fetch_from(const RunningWorker& other);

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
  /// How long it waited, before its kernels began, for the samples of the step to come into the host's memory.
  Seconds waited_for_samples() const;
  /// How long from now until the samples of the next step are there, if they are loaded ahead.
  Seconds until_samples() const;
  /// They come so much later, as steps are skipped before it.
  void delay_samples(Seconds by);
  /// Whether kernels of the step wait for something.
  bool waits_in_kernels() const;
  /// When all that the operation of the latest step waits for had ended, valid once it has.
  Seconds ready_at(OperationIndex operation) const { return ready_at({slot_, operation}); }
  /// The latest date that is known.
  Seconds latest() const { return latest_; }

  /// Of an operation that is under way: when it was ready, and the number of its step, the worker's and the training's.
  Seconds ready_at(StepOperation operation) const { return readiness(operation).date; }
  std::int64_t step_of(StepOperation operation) const { return steps_[at(operation.slot)].index; }
  std::int64_t number_of(StepOperation operation) const { return steps_[at(operation.slot)].number; }
  /// It has ended at `when`, now or later.
  void end(StepOperation operation, Seconds when);
  /// A gate ends if its counter has come so far.
  bool pass(StepOperation gate, const Counters::Counter& counter);

 private:
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
  /// The latest fetch.
  struct Fetching {
    std::unique_ptr<Connection> connection{};
    const RunningWorker* from = nullptr;  // nullptr: it has arrived
    StepOperation operation{};
  };

  /// The gate at which steps wait for samples that are loaded ahead; nullptr: none are.
  const Gate* gate_of_samples() const;
  const Readiness& readiness(StepOperation operation) const {
    return steps_[at(operation.slot)].ready[at(operation.index)];
  }
  const Node& node(StepOperation operation) const {
    return steps_[at(operation.slot)].program->nodes[at(operation.index)];
  }
  template <class Kind>
  const Kind& get(StepOperation operation) const {
    return std::get<Kind>(node(operation).operation);
  }
  CopyEngine& copies(CopyDirection direction);
  Connection& connection(int index);
  Counters& counters(CounterScope scope) const;

  /// All that it waits for has ended.
  void issue(StepOperation operation);
  void end_at(StepOperation operation, Seconds when);
  /// start() as what it is, in an event.
  template <class Kind>
  void start_at(StepOperation operation, Seconds when);
  void start(StepOperation operation, const Send& send);
  void start(StepOperation operation, const ReadVariable& read);
  void start(StepOperation operation, const ApplyGradient& apply);
  void start(StepOperation operation, const AddGradient& add);
  void start(StepOperation operation, const Collective& collective);
  void start(StepOperation operation, const Fetch& fetch);
  Seconds serve(int server, bool is_message, ServerSpan span, int parts, Seconds time);
  void send_collected(const Cycle& cycle);
  void arrive(int tag);
  void advance(int slot, int stream);
  void count_stall(StepOperation kernels, Seconds length);
  Waits waits(StepOperation operation, Seconds date, Seconds length) const;
  void record_wait(StepOperation operation, Seconds date, Seconds length) const;

  Executor& executor_;
  Place place_;
  int index_;
  OwnedClock clock_;
  std::shared_ptr<Counters> own_counters_, team_counters_;
  std::array<StepState, 3> steps_;    // a step may begin while messages of the one before are on their way
  int slot_ = 0;                      // of the latest
  OperationIndex stands_at_ = kNone;  // fence or gate of steps
  std::int64_t next_number_ = 0;
  std::int64_t begun_ = 0;
  std::vector<Stream> streams_;
  std::array<std::optional<CopyEngine>, 2> copies_;       // [directions]
  std::vector<std::unique_ptr<Connection>> connections_;  // those in use
  std::vector<StepOperation> collected_;                  // messages for the end of the cycle
  std::map<int, std::vector<StepOperation>> fused_;       // what comes with a message, by its tag
  Fetching fetch_;
  double slowdown_ = 1;
  Seconds kernel_time_{}, stalled_{}, latest_{};
  Waits stalls_;
};

}  // namespace rehearse
