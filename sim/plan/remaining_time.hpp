#pragma once
// How long a training still takes after machines of it were lost and replacements are on their way.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "platforms/catalog.hpp"
#include "sim/base/json.hpp"
#include "sim/base/units.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

/// Time for `steps_left` steps of the full cluster at `degraded` of them per second until the replacement works, at
/// `full` from then on:
///   T = t + (n - t degraded) / full, or n / degraded if the training ends before
/// n `steps_left`, t `until_replaced`. Infinite if it never ends.
Seconds remaining_time(double steps_left, double degraded, double full, Seconds until_replaced);

/// CM-DARE's controller:  T = t + n / v_new - t v_now / v_new, whether or not the training ends before t. v_now
/// `degraded`; v_new `by_addition`: the degraded speed and the speeds that the new workers have alone.
/// Source: CM-DARE's released controller (Li, Walls, Guo, ICDCS 2020).
Seconds controller_remaining_time(double steps_left, double degraded, double by_addition, Seconds until_replaced);

/// A revocation that has happened, for fit_remaining_time().
struct RemainingCase {
  double steps_left = 0;
  Seconds measured{};
};

/// What is fitted to past revocations: the cluster's speed as a multiple of the simulated one, with and without the
/// lost machines; and the time until the replacement works, which takes up whatever else a revocation costs once.
struct RemainingFit {
  double speed_factor = 1;
  Seconds until_replaced{};
};

/// Least squares of relative errors over T = n / (f full) + t (1 - degraded / full), all replaced before the end.
/// Throws InputError for less than two different cases, or if no positive speed or time until replaced fits them.
RemainingFit fit_remaining_time(std::span<const RemainingCase> cases, double degraded, double full);

/// Reads a CSV with the columns revocation_step, total_steps, measured_remaining_s. Throws InputError.
std::vector<RemainingCase> load_remaining_cases(const std::filesystem::path& csv);

struct RemainingRequest {
  std::int64_t step = 0;                  // when the machines were lost
  std::string group;                      // of workers; empty: the first
  int lost = 1;                           // machines of it
  std::optional<Seconds> until_replaced;  // none: by the profile's start-up times
  bool is_warm = false;                   // the replacement has run the framework before
  std::optional<double> measured_speed;   // steps/s before the revocation; scales the simulated speeds
  std::vector<RemainingCase> history;     // past revocations of this cluster; fits both
};

struct RemainingPrediction {
  std::string group;
  std::int64_t steps_left = 0;                              // of the full cluster
  double samples_left = 0;                                  // in them
  double full = 0, degraded = 0, by_addition = 0;           // steps/s, of the full cluster
  std::optional<std::pair<double, double>> speed_interval;  // factors on them, 90 %
  Seconds until_replaced{};
  std::optional<Seconds> machine, framework;                     // its parts, by the profile
  std::optional<std::pair<Seconds, Seconds>> replaced_interval;  // 5th and 95th percentile
  std::optional<RemainingFit> fit;
  Seconds remaining{}, controller{};
  std::int64_t lost_steps = 0;  // done again, by what the loss and the replacement have the job roll back
  Seconds stopped{};            // in which nobody trains, by the scenario's recovery
  /// The time left with the ends of both intervals: at least a 90 % interval if they are independent.
  std::optional<std::pair<Seconds, Seconds>> interval;
};

/// Simulates the steady state of the whole cluster, of what is left if that trains, and of one lost worker alone if workers
/// do not wait for one another. At these speeds the job runs by the scenario's recovery and checkpoints (run_trajectory()):
/// machines of the group, its last ones, are lost as step `step` ends, and come again once. With a history the
/// fitted formula, remaining_time(), takes its place.
/// The speeds that are told have the pauses for checkpoints: with_checkpoints().
/// None if `is_stopped` ended it. Throws InputError, also for a recovery that such a loss cannot have; NoResultError if
/// nothing can be simulated.
std::optional<RemainingPrediction> predict_remaining(const Json& scenario, const std::string& file_name,
                                                     const Catalog& catalog, const RemainingRequest& request,
                                                     const Pool& pool, const std::function<bool()>& is_stopped = {});

/// Version 1 of remaining.json.
Json to_json(const RemainingPrediction& prediction);

}  // namespace rehearse
