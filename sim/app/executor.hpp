#pragma once
// Where the simulations of a command run: --executor, --shard and what belongs to them.

#include <functional>

#include "sim/app/verb.hpp"
#include "sim/pool/pool.hpp"

namespace rehearse {

/// Runs a verb with these options. Before, what is about where jobs run is taken out of what the verb sees: a shard's
/// own output is scratch, and provenance tells the command that gives the same result on one machine. After success
/// the folder of a Slurm run goes. Throws InputError.
int run_with_jobs(CommonOptions& common, const std::function<int()>& run);

/// The pool of the command that run_with_jobs() runs.
Pool pool_of(const CommonOptions& common);

}  // namespace rehearse
