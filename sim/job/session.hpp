#pragma once
// Training that nothing interrupts, and the two kinds of it that there are.

#include <memory>
#include <string>

#include "sim/program/cluster.hpp"
#include "sim/record/run_record.hpp"

namespace rehearse {

class Workers;
class SteadyWindow;
class TrainingLog;

/// Whom a session tells: job.hpp.
class SessionOwner {
 public:
  /// Called after each update.
  virtual void updated(const TrainingProgress& progress) = 0;
  /// Every worker has left, and with them the model. To be called by an event of nobody's.
  virtual void deserted() = 0;
  /// Each worker trains on so many times its batch from now on.
  virtual void batch_chosen(int /*times*/) {}
  /// The step has ended that was under way when Session::stop_after_step() was called. To be called by an event of nobody's.
  virtual void step_ended() = 0;

 protected:
  ~SessionOwner() = default;
};

/// Uninterrupted training by one strategy, from some update on until all samples are done or this is destroyed: then
/// whatever is under way is cut, messages as well as kernels. job.hpp drives it.
class Session {
 public:
  virtual ~Session() = default;
  /// Schedules the first steps of the workers that are there.
  virtual void begin() = 0;
  /// The machine, which the monitor counts as there, takes part from its next step on.
  virtual void join(MachineIndex machine) = 0;
  /// The machine is gone. False if the training cannot go on from where it is.
  virtual bool lose(MachineIndex machine) = 0;
  /// Somebody has to leave, or a checkpoint is asked for: for a session that does not look between two steps.
  virtual void reconsider() {}
  /// The owner is to be told when the step under way has ended, to end the session then; of synchronous sessions.
  virtual void stop_after_step() {}
  virtual TrainingProgress progress() const = 0;
  virtual Seconds last_update() const = 0;
  /// Who waits for whom, when nothing is left to do although samples are.
  virtual std::string deadlock() const = 0;
  /// Counts the traffic that it has not counted yet.
  virtual void settle() const {}
  /// What only the strategy knows.
  virtual void describe(RunRecord& record) const = 0;
};

/// What a session works with.
struct SessionParts {
  Cluster& cluster;
  Workers& workers;
  SteadyWindow& window;
  TrainingLog& log;
  SessionOwner& job;
};

/// Workers that add up their gradients by collectives in every step (lockstep_training.cpp), from what is `done` on.
std::unique_ptr<Session> train_in_lockstep(const SessionParts& parts, TrainingProgress done);

/// Workers that go on each by itself: with parameter servers, or averaging their models in pairs (paced_training.cpp).
std::unique_ptr<Session> train_at_own_pace(const SessionParts& parts, TrainingProgress done);

}  // namespace rehearse
