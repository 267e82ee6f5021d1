#pragma once
// Which links between machines stand for others where machines and GPUs do.

#include <optional>

#include "sim/program/cluster.hpp"
#include "sim/resources/machine_fold.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "sim/training/cluster_step.hpp"

namespace rehearse {

/// The links of a network folded by `fold`, of which the `alike` GPUs are those along kTensor. Messages that are the same but for
/// who stands for their ends are a class, links that the same classes cross equally often are one, too. Where every message of a
/// class crosses links of the same classes, and each simulated one is one of equally many, max-min sharing gives all of a class the
/// same rate, that of the simulated ones if the link that stands for its class has
///   rate * links of the class / messages that a simulated one stands for
/// Progressive filling counts the messages of a link, and nothing else: Ramana, Scheinerman and Ullman, Fractional isomorphism of
/// graphs, Discrete Mathematics 132, 1994, are such partitions. Without links that may bind nothing stands for others. None where
/// a class is told apart by links. To be asked before the network is folded.
std::optional<LinkFold> fold_links(const MachineFold& fold, const RankGrid& grid, StepCompiler& compiler,
                                   const ClusterStep& step, Cluster& cluster);

/// Whether any link between machines may hold up what their NICs send.
bool has_binding_links(const Topology& topology);

}  // namespace rehearse
