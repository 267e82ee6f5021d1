#pragma once
// What of a scenario decides which profile fits it.

#include "platforms/prediction_kind.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Whether any kernel's time is modelled, rather than stated.
bool has_kernels(const Workload& workload);

/// Complete but for the profile, of which nothing is read.
TrainingFacts facts_of(const Scenario& scenario);

}  // namespace rehearse
