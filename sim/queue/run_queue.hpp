#pragma once
// The clock of a queue: jobs come, are placed, train, stop, move, end.

#include <functional>

#include "sim/base/budget.hpp"
#include "sim/queue/policy.hpp"

namespace rehearse {

/// Runs all jobs under a policy. `on_end(done, all)` is called when jobs end. Ends by budget.stop() once that is over.
///
/// A job trains on all of its GPUs at once, at the speed of its placement, from `restart` after it got them. It stops at a
/// whole step: the part of a step that it had begun is lost. GPUs that a job frees within a round stay idle until the
/// next one.
/// Conservation is checked: each job's spans have its steps, and the GPU time of all spans is that which the cluster's
/// free GPUs say; a difference is our own mistake and throws std::logic_error.
/// Throws NoResultError if a job has a speed on no group, or the policy leaves some waiting for ever.
QueueRun run_queue(const QueueSetup& setup, const std::string& policy, JobSpeeds& speeds, const Budget& budget,
                   const std::function<void(std::size_t, std::size_t)>& on_end = {});

/// [kinds][groups] steps per second on the fewest machines; 0: the group has no speed, or too few GPUs.
std::vector<std::vector<double>> packed_speeds(const QueueSetup& setup, JobSpeeds& speeds);

/// On the fewest machines of a group that nobody else uses. Requires that it has as many GPUs.
GpuPlacement packed_placement(const QueueSetup& setup, std::size_t group, int gpus);

/// Machines for a job's GPUs among those with `free` GPUs, as `placing` says. Requires that there are enough.
std::vector<GpuPlacement::Part> place_job(const std::vector<int>& free, int gpus, Placing placing);

}  // namespace rehearse
