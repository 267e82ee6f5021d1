#pragma once
// How far a prediction may be off because the profile's values are not known better.

#include <vector>

#include "sim/base/json.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

/// The scenario's profile with its values moved along each component of its spread by one standard error; against it
/// where a value would leave what a profile may hold.
std::vector<Profile> moved_profiles(const Scenario& scenario);

/// Steps per second with each of them: simulations in processes of their own, at most `parallel` at a time. 0: none.
std::vector<double> moved_speeds(const Scenario& scenario, int parallel);

/// Standard deviation of ln(steps per second): sqrt(sum over them of ln(moved / speed)^2).
double log_spread(const std::vector<double>& moved_speeds, double speed);

}  // namespace rehearse
