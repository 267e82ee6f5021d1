#pragma once
// The step that a sample's graph is on its cluster, for features.cpp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "predictor/detail/described_cluster.hpp"
#include "predictor/features.hpp"

namespace rehearse {

/// In the order of their numbers in a dataset.
inline constexpr std::array kOperatorKinds{
    OperatorKind::kConvolution, OperatorKind::kDense,     OperatorKind::kProduct,   OperatorKind::kRecurrent,
    OperatorKind::kEmbedding,   OperatorKind::kBatchNorm, OperatorKind::kLayerNorm, OperatorKind::kActivation,
    OperatorKind::kElementwise, OperatorKind::kDropout,   OperatorKind::kPooling,   OperatorKind::kSoftmaxLoss,
    OperatorKind::kUpdate};
inline constexpr std::size_t kPhases = 5;

/// The features of an operator that its inputs hold the logarithms of.
inline constexpr std::array kNodeSizes{
    &NodeFeatures::flops,    &NodeFeatures::read,      &NodeFeatures::written,         &NodeFeatures::parameters,
    &NodeFeatures::elements, &NodeFeatures::rows,      &NodeFeatures::columns,         &NodeFeatures::reduction,
    &NodeFeatures::products, &NodeFeatures::variables, &NodeFeatures::statistic_bytes, &NodeFeatures::input_bytes};

/// A kernel and a variable of a graph, as far as one step of one worker uses them.
struct StepKernel {
  std::int32_t kind = 0;
  double time = 0, memory = 0;  // seconds
  double end = 0;               // on the GPU, if all variables are there from the start
};
struct StepVariable {
  double bytes = 0;           // of its gradient, as kernels write it
  double pulled = 0;          // bytes that a worker receives of it
  double pushed = 0;          // bytes that a worker sends of its gradient
  int gradient = -1;          // kernel that completes it; -1: none
  int reader = -1;            // first kernel that reads it; -1: none
  int pieces = 1;             // in which it is sent
  std::vector<double> parts;  // [servers] share that each of them holds
};

/// The step that a sample's graph is, on its cluster.
struct Step {
  std::vector<StepKernel> kernels;
  std::vector<StepVariable> variables;
  NodeLinks flow, reads, writes;
  double flops = 0, input_bytes = 0;
  double end = 0, other_end = 0;  // of the last kernel, on the chief's GPU and on one of another kind
};

/// Throws InputError unless `x`, of a graph, can be an operator.
void check_node(const NodeFeatures& x, const DatasetGraph& graph);

/// Throws InputError for a graph that is no step.
Step step_of(const DatasetGraph& graph, const DescribedCluster& cluster);

/// Gives edges other ends, the same for the same graph.
void shuffle_edges(Step& step);

}  // namespace rehearse
