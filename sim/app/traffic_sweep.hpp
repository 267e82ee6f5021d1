#pragma once
// Traffic of the combinations of sweeps, which are simulated for it.

#include <filesystem>
#include <functional>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/app/traffic_runs.hpp"
#include "sim/base/budget.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

/// Whether `input` is a scenario or sweep file: JSON, but not of packets.
bool is_sweep(const std::filesystem::path& input);

/// How the combinations are simulated.
struct TrafficSweepOptions {
  Pool pool = 1;
  TrafficOptions traffic;
  std::function<void(std::size_t done, std::size_t total)> on_done;
};

/// The traffic of every combination of the files, of equal ones once, in their order. Of each the first 20 steps of the
/// first worker are counted; durations are those of the whole run. Throws InputError, and what a simulation throws that
/// has no result; once the budget is over its stop() ends the call.
std::vector<TrafficOfRun> traffic_of_sweeps(const std::vector<std::filesystem::path>& files, const Catalog& catalog,
                                            const TrafficSweepOptions& options, const Budget& budget);

}  // namespace rehearse
