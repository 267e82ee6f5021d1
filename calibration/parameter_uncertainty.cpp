#include "calibration/parameter_uncertainty.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "calibration/metric.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

std::vector<Profile> moved_profiles(const Profile& profile) {
  std::vector<Profile> moved;
  for (const auto& component : profile.uncertainty.components)
    for (const double sign : {1.0, -1.0}) {
      Profile other = profile;
      if (!std::ranges::all_of(
              component, [&](const auto& change) { return move_value(other, change.first, sign * change.second); }))
        continue;
      set_consequences(other);
      moved.push_back(std::move(other));
      break;
    }
  return moved;
}

std::vector<Profile> other_profiles(const Scenario& scenario) {
  std::vector<Profile> all;
  if (const Json* others = json_pointer_find(*scenario.effective, "/calibration/prediction/others"); others != nullptr)
    for (const auto& [name, profile] : others->items())
      all.push_back(read_profile(JsonReader{profile, scenario.profile.name}));
  return all;
}

namespace {

/// None: all steps are needed.
std::optional<std::int64_t> brief_steps(const Scenario& scenario) {
  constexpr std::int64_t kSteps = 20;
  const Training& training = scenario.training;
  const std::int64_t workers = training.strategy.is_synchronous() ? 1 : scenario.count(Role::kWorker);
  const std::int64_t steps = workers * (training.warmup_steps + kSteps);
  return scenario.has_changing_membership() || steps >= training.steps ? std::nullopt : std::optional{steps};
}

}  // namespace

Scenario shortened(const Scenario& scenario) {
  Scenario shorter = scenario;
  if (const auto steps = brief_steps(scenario)) set_steps(shorter, *steps);
  return shorter;
}

PoolJob brief_job(const Verb& verb, Scenario scenario, Json options) {
  if (const auto steps = brief_steps(scenario)) options["steps"] = *steps;
  return verb.job(std::move(scenario), std::move(options));
}

PoolJob brief_job(const Verb& verb, Scenario scenario) { return brief_job(verb, std::move(scenario), Json::object()); }

namespace {

/// What the interval's deviation by values must be so that its end is at the speed of another profile, which is exp(`change`)
/// times this one's: a change within what the interval has anyway takes none.
double deviation_that_covers(double change, const PredictionUncertainty& errors) {
  constexpr double kLeast = 0.25;  // of an end that all errors lie beyond
  const double end = std::max(change > 0 ? -errors.low : errors.high, kLeast);
  const double needed = std::abs(change) / end;
  return needed > errors.residual ? std::sqrt(needed * needed - errors.residual * errors.residual) : 0;
}

}  // namespace

double speed_uncertainty(const Scenario& scenario, const Pool& pool,
                         const std::function<void(std::size_t, std::size_t)>& on_done, const Budget& budget) {
  if (!has_uncertain_values(scenario)) return 0;
  std::vector<Profile> profiles = moved_profiles(scenario.profile);
  const std::size_t moved_ones = profiles.size();
  for (Profile& other : other_profiles(scenario)) profiles.push_back(std::move(other));
  const Experiment experiment{profiles.size() + 1, [&](std::size_t i) {
                                Scenario by_profile = scenario;
                                if (i < profiles.size()) by_profile.profile = profiles[i];
                                return brief_job(kMeasure, std::move(by_profile), {{"metric", "steps_per_s"}});
                              }};
  const auto results = experiment.run(pool, on_done, budget);
  const auto speed_of = [](const PooledRun& result) {
    return result.has_succeeded ? std::strtod(result.text.c_str(), nullptr) : 0;
  };
  const double speed = speed_of(results.back());
  double variance = 0, apart = 0;
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    const double moved = speed_of(results[i]);
    if (!(moved > 0 && speed > 0)) continue;
    const double change = std::log(moved / speed);
    if (i < moved_ones)
      variance += change * change;
    else
      apart = std::max(apart, deviation_that_covers(change, scenario.profile.uncertainty));
  }
  // Percentiles of the errors of a kind of prediction are not those of what is not in it, which has normal ones beside them.
  const double moved = std::sqrt(variance);
  if (moved > 0 && scenario.profile.prediction) {
    const double too_fast = std::hypot(kNormal95 * moved, std::max(scenario.profile.prediction->high, 0.0));
    apart = std::max(apart, deviation_that_covers(-too_fast, scenario.profile.uncertainty));
  }
  return std::max(moved, apart);
}

}  // namespace rehearse
