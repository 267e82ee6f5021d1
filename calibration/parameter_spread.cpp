#include "calibration/parameter_spread.hpp"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "calibration/detail/free_values.hpp"
#include "calibration/metric.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/engine/isolated.hpp"

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
    try {
      profiles.push_back(read(moving.profile_with(moving.start() + step)));
    } catch (const InputError&) { profiles.push_back(read(moving.profile_with(moving.start() - step))); }
  }
  return profiles;
}

std::vector<double> moved_speeds(const Scenario& scenario, int parallel) {
  const std::vector<Profile> profiles = moved_profiles(scenario);
  const auto results = run_isolated(profiles.size(), parallel, [&](std::size_t i) {
    Scenario moved = scenario;
    moved.profile = profiles[i];
    return to_text(simulated_metric(moved, "steps_per_s"));
  });
  std::vector<double> speeds;
  for (const IsolatedResult& result : results)
    speeds.push_back(result.has_succeeded ? std::strtod(result.text.c_str(), nullptr) : 0);
  return speeds;
}

double log_spread(const std::vector<double>& moved_speeds, double speed) {
  double variance = 0;
  for (const double moved : moved_speeds)
    if (moved > 0 && speed > 0) variance += std::log(moved / speed) * std::log(moved / speed);
  return std::sqrt(variance);
}

}  // namespace rehearse
