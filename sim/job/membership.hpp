#pragma once
// Which machines are there, and which checkpoints: what the job (job.hpp) and the training share.

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "sim/record/run_record.hpp"
#include "sim/resources/clock.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

class Membership {
 public:
  /// `is_there`: [machines] at the start.
  Membership(const Site& site, std::vector<bool> is_there, Clock& clock);

  /// A machine that is there trains, or could.
  bool is_there(MachineIndex machine) const { return is_there_[static_cast<std::size_t>(machine)]; }
  bool is_there_from_the_start(MachineIndex machine) const { return from_start_[static_cast<std::size_t>(machine)]; }
  /// It is there from now on; or no longer.
  void arrive(MachineIndex machine);
  void vanish(MachineIndex machine);
  /// It counts as there only once it arrives again.
  void set_apart(MachineIndex machine) { is_there_[static_cast<std::size_t>(machine)] = false; }
  /// Its workers have to leave after their step.
  void dismiss(MachineIndex machine) { is_dismissed_[static_cast<std::size_t>(machine)] = true; }
  bool has_to_leave(MachineIndex machine) const;

  /// It is there, and may begin another step.
  bool stays(MachineIndex machine) const { return is_there(machine) && !has_to_leave(machine); }

  /// When it may change next; infinity if never.
  Seconds next_change() const;
  /// The next date at which something happens to a machine.
  void set_next_event(Seconds date) { next_event_ = date; }

  /// Its workers have left.
  void end_presence(MachineIndex machine);
  /// [machines] each time from arriving to leaving; infinity where it has not left.
  const std::vector<std::vector<Span>>& presence() const { return presence_; }

 private:
  const Site& site_;
  Clock& clock_;
  std::vector<bool> is_there_, from_start_, is_dismissed_;  // [machines]
  Seconds next_event_;
  std::vector<std::vector<Span>> presence_;
};

/// When a checkpoint is due, and which there are.
class Checkpoints {
 public:
  explicit Checkpoints(const Site& site);

  /// The machine whose first worker writes them; -1: none.
  MachineIndex chief;

  /// One is due at the next opportunity, whatever the rule says.
  void ask_for_one() { is_asked_for_ = true; }
  bool is_due(std::int64_t updates, Seconds now) const;
  /// The number of updates and the date at which one will be due next; infinite if not by that rule.
  std::int64_t next_updates() const;
  Seconds next_date() const;
  /// The chief begins to write one of this state, and ends at `end`.
  void begin(TrainingProgress progress, Seconds now, Seconds end);
  Seconds written_until() const { return written_until_; }
  /// What is in the latest checkpoint that had been completed by `now`; nothing without any.
  TrainingProgress latest(Seconds now) const { return now >= written_until_ ? latest_ : before_; }
  /// What is being written is given up; what lies on the chief's disk is lost.
  void lose_chief(Seconds now);
  /// The training goes on from so many updates: those of a checkpoint, from which the next interval then counts, or
  /// those that it had reached.
  void resume(std::int64_t updates, Seconds now, bool is_from_checkpoint);
  std::int64_t count() const { return count_; }

 private:
  std::optional<Checkpointing> rule_;
  std::optional<Seconds> interval_;  // overrules the rule by steps
  std::int64_t periods_ = 0;         // of every_steps, up to the latest
  Seconds began_{};
  bool is_asked_for_ = false;
  TrainingProgress latest_, before_;
  Seconds written_until_{};
  std::int64_t count_ = 0;
};

}  // namespace rehearse
