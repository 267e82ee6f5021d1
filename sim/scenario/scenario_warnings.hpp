#pragma once
// What a complete scenario asks for that is possible, but not what it may seem to be.

#include "sim/scenario/scenario_readers.hpp"

namespace rehearse {

/// Adds a line to the warnings for each of: spot prices without revocations, a spot pool that was fitted elsewhere
/// (`has_start`: the cluster states its date), too few steps for a steady state, and what lies outside of what the
/// profile and the convergence model were fitted on.
void warn_about(Scenario& scenario, const PoolOrigins& pool_origins, bool has_start);

}  // namespace rehearse
