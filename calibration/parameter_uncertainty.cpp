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

std::vector<Json> moved_profiles(const Scenario& scenario) {
  const Json file = parse_json(scenario.effective, scenario.name).at("calibration");
  std::vector<Json> profiles;
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
        Json moved = moving.profile_with(moving.start() + sign * step);
        (void)read_profile(JsonReader{moved, scenario.profile.name});
        profiles.push_back(std::move(moved));
        break;
      } catch (const InputError&) { continue; }
  }
  return profiles;
}

std::vector<Json> other_profiles(const Scenario& scenario) {
  const Json file = parse_json(scenario.effective, scenario.name);
  std::vector<Json> profiles;
  if (const Json* others = json_pointer_find(file, "/calibration/prediction/others"); others != nullptr)
    for (const auto& [name, profile] : others->items()) profiles.push_back(profile);
  return profiles;
}

Json shortening(const Scenario& scenario) {
  constexpr std::int64_t kSteps = 20;
  const Training& training = scenario.training;
  const std::int64_t workers = training.strategy.is_synchronous() ? 1 : scenario.count(Role::kWorker);
  const std::int64_t steps = workers * (training.warmup_steps + kSteps);
  if (scenario.has_changing_membership() || steps >= training.steps) return Json::object();
  return {{"steps", steps}};
}

Scenario shortened(const Scenario& scenario) {
  Scenario shorter = scenario;
  if (const Json changes = shortening(scenario); !changes.empty()) set_steps(shorter, changes["steps"]);
  return shorter;
}

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
  std::vector<Json> profiles = moved_profiles(scenario);
  const std::size_t moved_ones = profiles.size();
  for (Json& other : other_profiles(scenario)) profiles.push_back(std::move(other));
  const auto results = pool.run_all(
      profiles.size() + 1,
      [&](std::size_t i) {
        Json options = shortening(scenario);
        options["metric"] = "steps_per_s";
        if (i < profiles.size()) options["profile"] = profiles[i];
        return kMeasure.job(Scenario{scenario}, std::move(options));
      },
      on_done, budget);
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
