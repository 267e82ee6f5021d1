#pragma once
// What jobs draw, and what machines draw beside them.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/queue/policy.hpp"

namespace rehearse {

///   job   its GPUs' share of machines at rest, for the time in which it has them,
///         + MachinePower::above_rest() of each of its GPUs for the time in which it trains
///   idle  the share of GPUs that no job has
/// They add up to the cluster's. What sharing NICs adds to a job's time is spent at rest.
/// Or what is not known: what a machine or a GPU of a job draws.
std::variant<QueueEnergy, std::string> energy_of(const QueueSetup& setup, const QueueRun& run, JobSpeeds& speeds);

}  // namespace rehearse
