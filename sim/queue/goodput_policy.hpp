#pragma once
// Pollux's policy: how many GPUs each elastic job has.

#include <memory>

#include "sim/queue/policy.hpp"

namespace rehearse {

/// In each round the GPUs of each job are those with the largest harmonic mean over all jobs of
///   (speed on them / speed on a fair share of the cluster) * penalty + 0.004, 0.001 of a machine of four GPUs,
/// penalty = max(0, age - preemptions * restart) / (age + restart) where the number of GPUs of a job that has run would
/// change, 1 otherwise.
/// A job begins with the fewest on which it has a speed, tries at most twice as many GPUs as it has had, and counts as
/// scaling perfectly before its first. The speed of an
/// elastic job is its goodput (statistical efficiency times throughput), with the batch that is best on so many GPUs.
/// Pollux searches by a genetic algorithm over GPUs of machines, here it is ascent over numbers of GPUs: one job gets more
/// of those that are free, or another's; jobs are then placed as all are. Jobs that are not elastic run or wait.
/// Source: Qiao et al., Pollux, OSDI 2021, section 4.2, and their released simulator for what the paper leaves open.
std::unique_ptr<QueuePolicy> make_goodput_policy(const QueueSetup& setup);

}  // namespace rehearse
