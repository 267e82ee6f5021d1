#pragma once
// A scenario from its text to its summary: what rehearse simulate and the Python package have in common.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/app/progress.hpp"
#include "sim/base/budget.hpp"
#include "sim/base/json.hpp"
#include "sim/job/simulate.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// The scenario that `json`, of `file`, is with overrides, "/pointer=value", and a seed. Throws InputError.
Scenario read_scenario_with(Json json, const std::filesystem::path& file, const std::vector<std::string>& overrides,
                            std::optional<std::uint64_t> seed, const Catalog& catalog);

/// Processors of this machine, at least one.
int processors();

/// Whether the speed is one of a steady state, and its interval can have its part by the uncertainty of the profile's
/// values in short time; adds a warning to the scenario's if not.
bool has_time_for_moved_profiles(Scenario& scenario);

struct Simulated {
  RunRecord record;
  Summary summary;
  std::string warning;  // one sentence; empty: none
};

/// speed_uncertainty() with all processors, and progress on it.
double uncertainty_by_profile(const Scenario& scenario, bool is_quiet, const Budget& budget);

/// Simulates the scenario, whose speed is uncertain by the profile's values as `uncertainty` says. Ends with budget.stop()
/// once that is over. `options` are without callbacks. Throws NoResultError.
/// The summary is the same to the last bit whether activity is recorded or not: where that takes events that are left out
/// otherwise (recording_changes_events()), whose dates are sums in another order, the record is of a second run. It
/// warns if the two differ by more than rounding.
Simulated simulate_once(const Scenario& scenario, SimulateOptions options, double uncertainty, Progress& progress,
                        const Budget& budget);

}  // namespace rehearse
