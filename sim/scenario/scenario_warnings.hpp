#pragma once
// What a complete scenario asks for that is possible, but not what it may seem to be.

#include "sim/scenario/scenario_readers.hpp"

namespace rehearse {

/// Adds a line to the warnings for each of: spot prices without revocations, a spot pool that was fitted elsewhere
/// (`root`, what was stated, may have a date), too few steps for a steady state, what lies outside of what the profile and the
/// convergence model were fitted on, a stated step that no GPU can be as fast as, keys that change nothing, and
/// machines with too little memory.
void warn_about(Scenario& scenario, const PoolOrigins& pool_origins, const JsonReader& root);

}  // namespace rehearse
