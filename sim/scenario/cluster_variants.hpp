#pragma once
// A cluster with other machines: changes of an effective scenario (Scenario::effective).

#include <cstddef>

#include "sim/base/json.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

/// Machines of the group are there from the beginning to the end: nobody revokes, replaces or awaits them.
void keep_for_good(Json& group);

/// The cluster as a job starts on it, each of its groups kept for good.
Json without_revocations(Json effective);

/// The cluster with `count` machines in a group, without it if that is 0: who was to be replaced by it no longer is.
Json with_machines(Json effective, std::size_t group, int count);

/// The parameter servers that have machines of their own or are on those of the group, and one machine of a group of
/// workers; all of them are kept for good.
Json one_machine_alone(Json effective, const Scenario& scenario, std::size_t group);

inline constexpr int kMostGpus = 1'000'000;  // of a size that somebody asks for

/// The group of workers of a cluster that has one. Throws InputError.
std::size_t only_workers(const Scenario& scenario);

/// Servers on machines of workers, of which there were `before` and are `after`: as many on each as they were, if they were as many on each.
void keep_servers_of_each(Json& groups, int before, int after);

/// The cluster with so many GPUs: whole machines of its only group of workers, or some GPUs of one machine. Throws InputError.
Json with_gpus(Json effective, const Scenario& scenario, int gpus);

/// The workers without servers, each step as long as it takes one GPU that has nobody to exchange with.
Json without_exchange(Json effective, const Scenario& scenario);

/// The cluster with what its workers do in a step in which only `workers` of each group take part, as their own batch.
/// A step still waits for at least one of them.
Json with_shares(Json effective, const Scenario& scenario, const WorkerCounts& workers);

}  // namespace rehearse
