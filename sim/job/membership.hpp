#pragma once
// Which machines are there, and which checkpoints: what the job (job.hpp) and the training share.

#include <boost/dynamic_bitset.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/record/run_record.hpp"
#include "sim/resources/clock.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

/// [machines] Some of them: a job of days on thousands of machines asks after each revocation who is left.
using MachineSet = boost::dynamic_bitset<>;

/// The first machine of the set; -1: it is empty.
inline MachineIndex first_of(const MachineSet& machines) {
  return machines.any() ? static_cast<MachineIndex>(machines.find_first()) : -1;
}

/// Those of a site that `is_one` holds for.
template <class IsOne>
MachineSet machines_that(const Site& site, IsOne is_one) {
  MachineSet machines{site.machines.size()};
  for (std::size_t m = 0; m < machines.size(); ++m) machines[m] = is_one(static_cast<MachineIndex>(m));
  return machines;
}

class Membership {
 public:
  /// `is_there`: [machines] at the start.
  Membership(const Site& site, const std::vector<bool>& is_there, Clock& clock);

  /// A machine that is there trains, or could.
  bool is_there(MachineIndex machine) const { return is_there_[static_cast<std::size_t>(machine)]; }
  bool is_there_from_the_start(MachineIndex machine) const { return from_start_[static_cast<std::size_t>(machine)]; }
  /// It is there from now on; or no longer.
  void arrive(MachineIndex machine);
  void vanish(MachineIndex machine);
  /// It counts as there only once it arrives again.
  void set_apart(MachineIndex machine) { set_there(machine, false); }
  /// Its workers have to leave after their step.
  void dismiss(MachineIndex machine) { is_dismissed_[static_cast<std::size_t>(machine)] = true; }
  bool has_to_leave(MachineIndex machine) const;

  /// It is there, and may begin another step.
  bool stays(MachineIndex machine) const { return is_there(machine) && !has_to_leave(machine); }

  /// All that are there, have to leave, stay.
  const MachineSet& there() const { return is_there_; }
  MachineSet leaving() const;
  MachineSet staying() const { return has_leaving() ? is_there_ - leaving() : is_there_; }
  /// By what is on them, whoever is there: workers, servers without which nobody trains, and standby ones, which are added.
  const MachineSet& workers() const { return workers_; }
  const MachineSet& needed_servers() const { return needed_servers_; }
  const MachineSet& added_servers() const { return added_servers_; }
  const MachineSet& of_group(int group) const { return of_group_[static_cast<std::size_t>(group)]; }
  /// [groups] machines of each group that are in the set, or that stay.
  std::vector<int> by_group(const MachineSet& machines) const;
  std::vector<int> staying_by_group() const { return has_leaving() ? by_group(staying()) : there_by_group_; }

  /// When it may change next; infinity if never.
  Seconds next_change() const;
  /// The next date at which something happens to a machine.
  void set_next_event(Seconds date) { next_event_ = date; }

  /// Its workers have left.
  void end_presence(MachineIndex machine);
  /// [machines] each time from arriving to leaving; infinity where it has not left.
  const std::vector<std::vector<Span>>& presence() const { return presence_; }

 private:
  void set_there(MachineIndex machine, bool is_there);
  bool leaves(const Group& group) const { return group.leaves_at && clock_.now() >= *group.leaves_at; }
  bool has_leaving() const;

  const Site& site_;
  Clock& clock_;
  MachineSet is_there_, from_start_, is_dismissed_;
  MachineSet workers_, needed_servers_, added_servers_;
  std::vector<MachineSet> of_group_;  // [groups]
  std::vector<int> there_by_group_;   // [groups] machines of is_there_
  Seconds next_event_;
  std::vector<std::vector<Span>> presence_;
};

/// A state of the job that is kept: how far it had come, and the time that it had trained for that.
struct SavedState {
  TrainingProgress progress;
  Seconds trained{};
};

/// Checkpoints of one rule, in one place: storage, or machines' memory.
class CheckpointSeries {
 public:
  CheckpointSeries(std::int64_t every_steps, std::optional<Seconds> interval, CheckpointTimes times)
      : every_steps_{every_steps}, interval_{interval}, times_{times} {}

  /// The number of updates and the date at which one will be due next; infinite if not by that rule. Not before
  /// written_until().
  std::int64_t next_updates() const;
  Seconds next_date() const { return interval_ ? std::max(began_ + *interval_, written_until_) : kNever; }
  bool is_due(std::int64_t updates, Seconds now) const {
    return now >= written_until_ && (updates >= next_updates() || now >= next_date());
  }
  void begin(const SavedState& state, Seconds now);
  Seconds written_until() const { return written_until_; }
  const CheckpointTimes& times() const { return times_; }
  /// The latest that had been completed by `now`; nothing without any.
  const SavedState& latest(Seconds now) const { return now >= written_until_ ? latest_ : before_; }
  /// What is being written is given up.
  void cut(Seconds now);
  /// All are lost.
  void forget() { latest_ = before_ = {}; }
  void resume(std::int64_t updates, Seconds now, bool is_from_checkpoint);

 private:
  std::int64_t every_steps_;
  std::optional<Seconds> interval_;  // overrules the rule by steps
  CheckpointTimes times_;
  std::int64_t periods_ = 0;  // of every_steps, up to the latest
  Seconds began_{};
  SavedState latest_, before_;
  Seconds written_until_{};
};

/// When a checkpoint is due, which there are, and for how long the job has trained what they hold.
class Checkpoints {
 public:
  explicit Checkpoints(const Site& site);

  /// The machine whose first worker writes them, or says when parts are written; -1: none.
  MachineIndex chief;

  /// One is due at the next opportunity, whatever the rule says.
  void ask_for_one() { is_asked_for_ = true; }
  bool is_due(std::int64_t updates, Seconds now) const;
  /// Of each rule.
  std::span<const CheckpointSeries> series() const { return series_; }
  /// One of this state begins, for which those who write it stand still until the date that is given back.
  Seconds begin(TrainingProgress progress, Seconds now);
  Seconds stalls_until() const { return stall_.end; }

  /// The furthest state that had been saved by `now`, and how long a restart from it reads; nothing without any.
  std::pair<SavedState, Seconds> latest(Seconds now) const;
  /// What the machine was writing is given up; of all machines if none is named.
  void cut(Seconds now, std::optional<MachineIndex> machine = {});
  /// The machine is gone with its memory and its disk; `has_pair`: another one still has a copy of its part in memory.
  void lose_copies(MachineIndex machine, bool has_pair);
  /// The training goes on from so many updates: those of a checkpoint, from which the next interval then counts, or
  /// those that it had reached.
  void resume(std::int64_t updates, Seconds now, bool is_from_checkpoint);
  /// It stands still from now on.
  void stop(Seconds now);
  std::int64_t count() const { return count_; }

  /// Time in which steps were trained until `at`, which is not before the latest checkpoint of this training began or else
  /// lies before any; and in which training stood still for checkpoints.
  Seconds trained(Seconds at) const;
  Seconds stalled(Seconds at) const { return stalled_ + stalled_since(at); }
  /// Steps of this time do not last. Gives back how much that is.
  Seconds undo_to(Seconds trained);

 private:
  Seconds stalled_since(Seconds at) const;

  bool is_by_machines_ = false, is_on_disk_ = false;
  std::vector<CheckpointSeries> series_;  // storage, memory
  double stall_share_ = 1;                // of the cluster that stands still
  bool is_asked_for_ = false;
  std::int64_t count_ = 0;
  bool is_training_ = false;
  Seconds since_{};                // the training began
  Seconds trained_{}, stalled_{};  // before; stalled_ with stalls of this training that have ended
  Seconds stalled_before_{};       // stalled_ at since_
  Span stall_;                     // the latest
};

}  // namespace rehearse
