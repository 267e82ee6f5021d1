#pragma once
// How far a prediction may be off because the profile's values are not known better.

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "sim/base/budget.hpp"
#include "sim/base/json.hpp"
#include "sim/pool/experiment.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// The profile with its values moved along each component of their uncertainty by one standard error; against it where a
/// value would leave what a profile may hold, and not at all where one does so either way.
std::vector<Profile> moved_profiles(const Profile& profile);

/// The profiles that would do nearly as well as the one that calibration "auto" took.
std::vector<Profile> other_profiles(const Scenario& scenario);

/// Whether speed_uncertainty() would find any: the profile states how uncertain its values are, or others would do.
inline bool has_uncertain_values(const Scenario& scenario) {
  const std::optional<StatedPrediction>& prediction = scenario.profile.prediction;
  return !scenario.profile.uncertainty.components.empty() || (prediction && !prediction->others.empty());
}

/// The scenario with 20 steps of each worker after the warm-up at most, unless machines come and go: enough for how its
/// speed depends on the profile.
Scenario shortened(const Scenario& scenario);
/// The job of such a scenario: of a verb with the option "steps", such as kSimulate.
PoolJob brief_job(const Verb& verb, Scenario scenario, Json options);
PoolJob brief_job(const Verb& verb, Scenario scenario);

/// Standard deviation of ln(steps per second): sqrt(sum over moved profiles of ln(speed with it / speed)^2), or more where
/// the interval would leave out the speed by one of the other profiles, or the 5th percentile of what errors of the kind of
/// prediction leave out. One simulation more than there are profiles. A component with which nothing can be simulated counts as none. Without
/// components it is 0, and nothing is simulated. `on_done(finished, total)` is called after each; once `budget` is over,
/// its stop() ends the call.
double speed_uncertainty(const Scenario& scenario, const Pool& pool,
                         const std::function<void(std::size_t, std::size_t)>& on_done = {}, const Budget& budget = {});

}  // namespace rehearse
