#pragma once
// Which machines and GPUs of a lockstep training run for others that do the same at the same time.

#include "sim/job/workers.hpp"
#include "sim/program/cluster.hpp"
#include "sim/program/reductions.hpp"
#include "sim/resources/machine_fold.hpp"

namespace rehearse {

/// What may be folded of what `reductions` allow: blocks of machines if the groups of likes are the same in each; of a machine all
/// GPUs, if what they exchange is the same for each, or those that hold a layer together. Folds the network of the cluster so.
MachineFold fold_network(const Reductions& reductions, Workers& workers, Cluster& cluster);

}  // namespace rehearse
