#pragma once
// Runs programs (program.hpp): one for each worker and step, on the clock and the network.
//
// An operation starts when all that it waits for have ended and its resource is free. Dates are known before they come
// where nothing else can change them: kernels on a stream, copies over a link of their own, delays. So a chain of them
// costs no event, and an event is scheduled only for what meets others: messages, collectives, ends of steps.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "sim/program/running_worker.hpp"
#include "sim/program/step_gate.hpp"

namespace rehearse {

class Executor : private Pinned {
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

  /// Who is told of every operation that has ended, or is known to at `when`; of kernels that are repeated, each time. It is still
  /// under way for RunningWorker::ready_at() and its like.
  class Watcher {
   public:
    virtual void ended(const RunningWorker& worker, StepOperation operation, Seconds when) = 0;

   protected:
    ~Watcher() = default;
  };

  /// `first`: the number of the first step. `steps`: who may begin one; without it everybody may.
  Executor(Cluster& cluster, OwnedClock clock, Client& client, std::int64_t first = 0, StepGate* steps = nullptr)
      : cluster_{cluster}, clock_{clock}, client_{client}, first_{first}, steps_{steps} {}

  /// A worker without a step; those of a `team` share its counters. The reference stays valid.
  RunningWorker& add_worker(const RunningWorker::Place& place, OwnedClock clock,
                            std::shared_ptr<Counters> team = nullptr);
  /// How many workers come to the update of a step, and push each gradient: known before any does.
  void expect(std::int64_t number, std::int64_t workers);
  /// Fewer do after all.
  void expect_fewer(std::int64_t number, std::int64_t workers);
  /// Nobody begins the step after all; it may be expected anew.
  void forget(std::int64_t number);
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

  /// From now on. It outlives the executor.
  void watch(Watcher& watcher) { watcher_ = &watcher; }

  // For operations that run.
  Cluster& cluster() { return cluster_; }
  OwnedClock clock() const { return clock_; }
  Client& client() { return client_; }
  void tell_watcher(const RunningWorker& worker, StepOperation operation, Seconds when) const {
    if (watcher_ != nullptr) watcher_->ended(worker, operation, when);
  }
  Counters& common_counters() { return common_; }
  std::int64_t first_step() const { return first_; }
  bool may_begin(std::int64_t step) const { return steps_ == nullptr || steps_->may_begin(step); }
  /// Until release().
  void hold(RunningWorker& worker) { held_.push_back(&worker); }
  /// A worker has come to its update of the step. False if it shares that with none.
  bool come_to_update(std::int64_t number);
  /// A gradient has come that the common counter counts. Whether it is the step's last.
  bool count_gradient(std::int64_t number, int counter);
  /// A common counter advances, once in each step of all, which is updated when all of them have.
  void complete(std::int64_t number, int counter, const Counters::Place& by, Seconds when);
  /// Tells of an update that is complete: after all that it has brought about.
  void tell_update();

 private:
  /// State of a step of all.
  struct Round {
    std::int64_t number = -1;
    std::int64_t expected = 0;              // workers
    std::int64_t updated = 0;               // of them have come to the update
    int counters = 0;                       // common ones, all of which advance in it
    int completed = 0;                      // that have
    std::vector<std::int64_t> gradients{};  // [common counters] that have come
  };
  Round& round_of(std::int64_t number) { return rounds_[at(number) % rounds_.size()]; }
  Round* find_round(std::int64_t number) { return round_of(number).number == number ? &round_of(number) : nullptr; }

  Cluster& cluster_;
  OwnedClock clock_;
  Client& client_;
  std::int64_t first_;
  StepGate* steps_;
  Watcher* watcher_ = nullptr;
  std::deque<RunningWorker> all_;
  Counters common_;
  std::vector<RunningWorker*> held_;  // by the gate, in the order in which they came
  std::array<Round, 4> rounds_;
  bool is_updated_ = false;
};

}  // namespace rehearse
