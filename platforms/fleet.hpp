#pragma once
// What happens to the machines of a cluster: requests, starts, notices and revocations, as a function of a seed alone.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platforms/machine_faults.hpp"
#include "platforms/spot_pool.hpp"
#include "platforms/startup.hpp"

namespace rehearse {

struct FleetEvent {
  enum class Kind {
    kRequested,  // a machine for this slot is asked for
    kRunning,    // it has booted
    kNotice,     // its revocation is announced; only where the pool gives notice
    kRevoked,    // it is gone
    kFailed,     // what runs on it has failed; it starts again
    kBroken,     // it has failed, and is away to be repaired
  };
  Seconds at{};
  int slot = 0;  // over all groups, group after group
  Kind kind = Kind::kRequested;

  friend bool operator==(const FleetEvent&, const FleetEvent&) = default;
};

class FleetReplay;

/// Machines of one type. Its `slots` are its quota: so many places, each with one machine or none.
struct FleetGroup {
  int slots = 1;
  bool is_standby = false;              // requested only as replacements for others
  std::optional<SpotPool> pool;         // none: on demand, never revoked
  std::optional<MachineFaults> faults;  // instead of a pool: machines fail, and spares of the group replace broken ones
  Seconds noticed_after{};              // from a fault until somebody starts the machine, or a spare for it
  /// What happened to its machines, instead of a pool; of as many slots. It has no place for other machines.
  std::shared_ptr<const FleetReplay> replay;
  std::string zone;                // machines of one zone and pool share bulk revocations and churn
  std::optional<Startup> startup;  // none: running as soon as the pool has a machine
  /// Index of the group that gives the replacement of a revoked machine; its own: another of the same type. None: not
  /// replaced. A request that finds no free slot there waits until one becomes free, first come, first served.
  std::optional<int> replaced_by;
  Seconds replacement_delay{};      // from the revocation to the request
  bool requests_at_notice = false;  // counted from the notice instead
};

/// Machines of groups that are not standby run, newly started, at time 0; of a replay, those that it says.
///
/// Machines of one zone and pool share its churn.
/// A machine is revoked when its own life ends or when a bulk revocation hits it, whichever comes first. The notice
/// comes SpotPool::notice earlier, but not before it runs; a bulk revocation hits who runs when its notice is given.
/// A replacement that is ready before the machine whose slot it takes is gone starts when that one goes.
/// Each slot has its own random streams, and so have the bulk revocations and the churn of each zone and pool: another
/// slot or zone moves no draw of the others.
class Fleet {
 public:
  /// `start_s_utc`: time 0 as seconds from a midnight UTC, for the hours of lifetimes.
  Fleet(std::vector<FleetGroup> groups, double start_s_utc, std::uint64_t seed);
  ~Fleet();
  Fleet(Fleet&&) noexcept;

  /// The next event, in order of date; events of one date in the order in which they were caused. None: nothing will
  /// happen any more, or not up to `until`. A fleet with replacements goes on for ever; what would come after 1e9 s
  /// never comes.
  std::optional<FleetEvent> next(Seconds until = Seconds{1e9});
  /// No event comes before this date, whatever is requested or released until then; infinity: none will.
  Seconds next_date() const;
  /// Asks for a machine in a slot that has none, or whose machine was announced to go: the new one then starts when that one is
  /// gone. Not before the latest event; of no replay.
  void request(Seconds now, int slot);
  /// Gives back what there is in the slot, or what was requested for it. No event tells of it.
  void release(int slot);
  /// Whether there is a machine in this slot at time 0.
  bool runs_at_start(int slot) const;
  int slots() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rehearse
