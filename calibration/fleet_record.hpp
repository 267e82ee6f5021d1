#pragma once
// What is seen of a fleet: recorded and simulated ones are looked at in the same way, by a probe every `resolution`.

#include <vector>

#include "calibration/lifetime_fit.hpp"
#include "platforms/fleet_trace.hpp"

namespace rehearse {

/// Machines that went between two looks.
struct FleetLoss {
  Seconds at{};
  int size = 0;
  int before = 0;     // machines there were
  Seconds watched{};  // time with machines until then
};

/// What a probe sees of a fleet of at most `slots` machines. Dates are rounded up to the next look; who came and went
/// between two looks is not seen. Where machines have no names, only the net change between two looks is known, and
/// the machine that came first goes first.
struct FleetRecord {
  int slots = 0;
  Seconds resolution{}, duration{};
  std::vector<LifetimeObservation> lives;  // with low = high: as seen
  std::vector<LifetimeObservation> waits;  // from a loss until a machine came; who was lost first comes back first
  std::vector<Seconds> gaps;               // from a loss until any machine came
  std::vector<FleetLoss> losses;
  std::vector<Seconds> time_with;  // [0 .. slots], the time with so many machines
  double mean_size = 0;
};

/// The shortest time between two different dates of the trace: what is shorter, it cannot show. At least the
/// shortest_resolution(): a billionth of its length.
Seconds resolution_of(const FleetTrace& trace);
Seconds shortest_resolution(const FleetTrace& trace);
FleetRecord observe(const FleetTrace& trace, Seconds resolution, int slots);

/// Most machines at one time.
int most_machines(const FleetTrace& trace);

}  // namespace rehearse
