#include "calibration/parameter_uncertainty.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "calibration/detail/free_values.hpp"
#include "calibration/metric.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

/// The scenario by another profile. Throws InputError if it is none.
Scenario with_profile(const Scenario& scenario, const Json& profile) {
  Scenario other = scenario;
  other.profile = read_profile(JsonReader{profile, scenario.profile.name});
  Json effective = *scenario.effective;
  effective["calibration"] = profile;
  other.effective = share(std::move(effective));
  return other;
}

}  // namespace

std::vector<Scenario> with_moved_profiles(const Scenario& scenario) {
  const Json& file = scenario.effective->at("calibration");
  std::vector<Scenario> moved;
  for (const auto& component : scenario.profile.uncertainty.components) {
    std::vector<FreeValue> values;
    std::vector<double> changes;
    for (const auto& [pointer, change] : component) {
      values.push_back({.pointer = pointer, .min = {}, .max = {}, .place = {}});
      changes.push_back(change);
    }
    const FreeValues moving{file, scenario.profile.name, values, [](const Json&) { return true; }};
    const Eigen::Map<const Eigen::VectorXd> step{changes.data(), static_cast<Eigen::Index>(changes.size())};
    for (const double sign : {1.0, -1.0}) try {
        moved.push_back(with_profile(scenario, moving.profile_with(moving.start() + sign * step)));
        break;
      } catch (const InputError&) { continue; }
  }
  return moved;
}

std::vector<Scenario> with_other_profiles(const Scenario& scenario) {
  std::vector<Scenario> all;
  if (const Json* others = json_pointer_find(*scenario.effective, "/calibration/prediction/others"); others != nullptr)
    for (const auto& [name, profile] : others->items()) all.push_back(with_profile(scenario, profile));
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
  std::vector<Scenario> scenarios = with_moved_profiles(scenario);
  const std::size_t moved_ones = scenarios.size();
  for (Scenario& other : with_other_profiles(scenario)) scenarios.push_back(std::move(other));
  scenarios.push_back(scenario);
  const Experiment experiment{scenarios.size(), [&](std::size_t i) {
                                return brief_job(kMeasure, scenarios[i], {{"metric", "steps_per_s"}});
                              }};
  const auto results = experiment.run(pool, on_done, budget);
  const auto speed_of = [](const PooledRun& result) {
    return result.has_succeeded ? std::strtod(result.text.c_str(), nullptr) : 0;
  };
  const double speed = speed_of(results.back());
  double variance = 0, apart = 0;
  for (std::size_t i = 0; i + 1 < scenarios.size(); ++i) {
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
