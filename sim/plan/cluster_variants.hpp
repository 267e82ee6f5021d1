#pragma once
// A cluster with other machines: changes of an effective scenario (Scenario::effective).

#include <cstddef>

#include "sim/base/json.hpp"
#include "sim/engine/work.hpp"

namespace rehearse {

/// With `count` machines in a group; without the group if that is 0.
Json with_machines(Json effective, std::size_t group, int count);

/// The parameter servers that have machines of their own or are on those of the group, and one machine of a group of
/// workers.
Json one_machine_alone(Json effective, std::size_t group);

/// The cluster with what its workers do in a step in which only `workers` of each group take part, as their own batch.
Json with_shares(Json effective, const Scenario& scenario, const WorkerCounts& workers);

}  // namespace rehearse
