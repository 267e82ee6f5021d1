#pragma once
// The totals of a step (step_totals()).

#include <vector>

#include "predictor/detail/step_teams.hpp"

namespace rehearse {

/// Their values, of steps that take `period` seconds.
std::vector<double> totals_of(StepTeams& teams, double period);

}  // namespace rehearse
