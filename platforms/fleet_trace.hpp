#pragma once
// Recorded fleets: what happened to spot machines at some time in some place, to be replayed or fitted.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "platforms/fleet.hpp"

namespace rehearse {

class CsvTable;

/// A machine came or went. Of traces without names, `node` is a number given in the order of arrival.
struct TraceEvent {
  Seconds at{};
  bool is_added = false;
  std::string node;
};

struct FleetTrace {
  std::vector<TraceEvent> events;  // in order of date; of one date as in the file
  Seconds end{};                   // of the recording
  bool has_names = true;           // whether it is known which machine went
};

/// Reads, told apart by their columns,
///   time_s,event,node (or time_ms)              event is add or remove
///   start_s,available_instances,duration_s      how many there were, run-length encoded
///   time_s,instances (or time_h)                how many there were from then on
/// Where only numbers are known, the machine that came first goes first.
/// Throws InputError: dates that fall, a node added twice or removed before it was added, counts above 10 000,
/// more than a million arrivals and losses.
FleetTrace read_fleet_trace(const CsvTable& table);

/// The trace from the date `from` on, which becomes 0. Who is there then has come at 0.
FleetTrace cut(const FleetTrace& trace, Seconds from);
FleetTrace load_fleet_trace(const std::filesystem::path& path);

/// A trace, played back on `slots` places: a machine that comes takes the lowest free one, and waits while there is
/// none. `from` of the trace is time 0; who is there then runs at the start. Before each revocation there is a notice
/// if `notice` is above 0. No kRequested: a trace does not know when machines were asked for.
class FleetReplay {
 public:
  FleetReplay(const FleetTrace& trace, int slots, Seconds from = {}, Seconds notice = {});

  std::optional<FleetEvent> next();
  /// All of them, in order of date.
  const std::vector<FleetEvent>& events() const { return events_; }
  bool runs_at_start(int slot) const { return runs_at_start_[static_cast<std::size_t>(slot)]; }
  int slots() const { return static_cast<int>(runs_at_start_.size()); }

 private:
  std::vector<FleetEvent> events_;
  std::vector<bool> runs_at_start_;
  std::size_t told_ = 0;
};

}  // namespace rehearse
