#include "calibration/parameter_uncertainty.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

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

double speed_uncertainty(const Scenario& scenario, const Pool& pool,
                         const std::function<void(std::size_t, std::size_t)>& on_done, const Budget& budget) {
  if (!has_uncertain_values(scenario)) return 0;
  const std::vector<Json> profiles = moved_profiles(scenario);
  const auto results = pool.run_all(
      profiles.size() + 1,
      [&](std::size_t i) {
        Json options = shortening(scenario);
        options["metric"] = "steps_per_s";
        if (i < profiles.size()) options["profile"] = profiles[i];
        return kMeasure.job(scenario, options);
      },
      on_done, budget);
  const auto speed_of = [](const PooledRun& result) {
    return result.has_succeeded ? std::strtod(result.text.c_str(), nullptr) : 0;
  };
  const double speed = speed_of(results.back());
  double variance = 0;
  for (const PooledRun& result : results)
    if (const double moved = speed_of(result); moved > 0 && speed > 0)
      variance += std::log(moved / speed) * std::log(moved / speed);
  return std::sqrt(variance);
}

}  // namespace rehearse
