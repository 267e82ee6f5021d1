#pragma once
// What a scenario states that no result depends on.

#include <string>
#include <vector>

#include "sim/base/json.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// A sentence for each: a framework that the profile has no values of; rules for machines that come and go where none does; a date
/// on which nothing depends; a price that one of its region goes before; an interval of checkpoints by Young and Daly where no loss costs work. `root` is what was
/// stated. Such keys are not refused, since a scenario of a sweep may need them in other combinations.
std::vector<std::string> idle_keys(const JsonReader& root, const Scenario& scenario);

/// A sentence for each group whose machines have less memory than what is known to be in it: a server's part of the
/// variables and of the optimizer's states, by the mean of all servers; of checkpoints that are copied to hosts the part
/// that a machine writes, and of those in memory its own part and that of the other machine of its pair.
std::vector<std::string> exceeded_host_memory(const Scenario& scenario);

}  // namespace rehearse
