#pragma once
// The kernels of a TensorFlow training step, from its GraphDef, as our networks know operators.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "predictor/dataset.hpp"
#include "workloads/importers/graph_def.hpp"

namespace rehearse {

/// How much a GraphDef did not tell. What is not known is 0 in the graph.
struct GraphDefGaps {
  std::size_t kernels = 0;
  std::size_t without_shape = 0;  // kernels whose output or one of whose inputs has no known shape
  std::size_t without_flops = 0;  // convolutions and matrix products among them
  std::size_t other_types = 0;    // kernels of a type without a kind of its own, taken as element-wise
  std::size_t variables = 0;
  std::size_t without_size = 0;  // variables
  std::size_t updates = 0;       // of variables
};

/// "12 of 300 kernels have no known shape, ..."; empty if nothing is missing.
std::string to_text(const GraphDefGaps& gaps);

/// The node features (node_feature_names()) and the edges of a GraphDef's training step on one GPU.
///   kernels    nodes whose device names a GPU (all nodes of a graph that names no device at all), in the order of the
///              file, without those that launch nothing (constants, identities, reshapes, variables, control flow) and
///              those that only give variables their first value: an Assign depends on them and no update
///   kind       the reverse of tensorflow_type(), with variants of a type; a type that is none of them is element-wise
///   FLOPs      of Conv2D, MatMul, BatchMatMul and their gradients, from the shapes of inputs and outputs, and where
///              the output's is not known from strides and padding (SAME, VALID)
///   bytes      of all inputs that are read and of the first output
///   variables  Variable, VariableV2 and VarHandleOp on any device that a kernel reads or an optimizer updates
///              (Apply..., ResourceApply...), in the order of the file; slots and counters are not among them
///   statistics variables from which AssignSub takes what depends on a batch normalisation (AssignMovingAvg)
///   input      what placeholders hand in
///   edges      between kernels, also where the data pass at most 1000 nodes that are none; a gradient reaches its
///              update also through an accumulator
/// A first dimension that is not known is `batch`, if that is above 0. Throws InputError, "where: ...", without kernels
/// or with more than a million nodes.
DatasetGraph operators_of(const std::vector<GraphDefNode>& nodes, std::int64_t batch, const std::string& where,
                          GraphDefGaps& gaps);

}  // namespace rehearse
