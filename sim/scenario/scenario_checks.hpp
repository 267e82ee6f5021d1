#pragma once
// What can be checked only when a scenario is complete, profile included. Combinations that are refused whatever the
// times are: refusals.hpp.

#include "sim/base/json.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Checks that the model can be cut into the pipeline's stages, the fabric holds the machines, and GPUs hold what they
/// have to, also with larger shares; warns where memory is nearly full. Throws InputError at a place below `root`, the
/// scenario's file; NoResultError if a GPU's memory is too small, which begins with kMemoryExceeded behind the place of the group.
void check_fits(Scenario& scenario, const JsonReader& root, const ReadOptions& options);

}  // namespace rehearse
