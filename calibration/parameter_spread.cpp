#include "calibration/parameter_spread.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "calibration/detail/free_values.hpp"
#include "calibration/metric.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/engine/isolated.hpp"
#include "sim/engine/work.hpp"

namespace rehearse {

std::vector<Profile> moved_profiles(const Scenario& scenario) {
  const Json file = parse_json(scenario.effective, scenario.name).at("calibration");
  const auto read = [&](const Json& profile) { return read_profile(JsonReader{profile, scenario.profile.name}); };
  std::vector<Profile> profiles;
  for (const auto& component : scenario.profile.spread.components) {
    std::vector<FreeValue> values;
    std::vector<double> changes;
    for (const auto& [pointer, change] : component) {
      values.push_back({.pointer = pointer, .min = {}, .max = {}, .place = {}});
      changes.push_back(change);
    }
    const FreeValues moving{file, scenario.profile.name, values, [](const Json&) { return true; }};
    const Eigen::Map<const Eigen::VectorXd> step{changes.data(), static_cast<Eigen::Index>(changes.size())};
    for (const double sign : {1.0, -1.0}) try {
        profiles.push_back(read(moving.profile_with(moving.start() + sign * step)));
        break;
      } catch (const InputError&) { continue; }
  }
  return profiles;
}

Scenario shortened(const Scenario& scenario) {
  constexpr std::int64_t kSteps = 20;
  Scenario shorter = scenario;
  const std::int64_t workers = scenario.training.strategy.is_synchronous() ? 1 : scenario.count(Role::kWorker);
  if (!scenario.has_changing_membership())
    if (const std::int64_t steps = workers * (scenario.training.warmup_steps + kSteps); steps < scenario.training.steps)
      set_steps(shorter, steps);
  return shorter;
}

double speed_spread(const Scenario& scenario, int parallel,
                    const std::function<void(std::size_t, std::size_t)>& on_done, const Budget& budget) {
  if (!has_uncertain_values(scenario)) return 0;
  const Scenario shorter = shortened(scenario);
  std::vector<Profile> profiles = moved_profiles(scenario);
  profiles.push_back(scenario.profile);
  const auto results = run_isolated(
      profiles.size(), parallel,
      [&](std::size_t i) {
        Scenario moved = shorter;
        moved.profile = profiles[i];
        return to_text(simulated_metric(moved, "steps_per_s"));
      },
      [&](std::size_t finished) {
        if (on_done) on_done(finished, profiles.size());
      },
      budget);
  const auto speed_of = [](const IsolatedResult& result) {
    return result.has_succeeded ? std::strtod(result.text.c_str(), nullptr) : 0;
  };
  const double speed = speed_of(results.back());
  double variance = 0;
  for (const IsolatedResult& result : results)
    if (const double moved = speed_of(result); moved > 0 && speed > 0)
      variance += std::log(moved / speed) * std::log(moved / speed);
  return std::sqrt(variance);
}

}  // namespace rehearse
