#pragma once
// Operators that are no products, as kernels on one thread of a processor (platforms/kernels/processor.hpp).

#include <optional>

#include "platforms/kernels/kernels.hpp"
#include "workloads/operator_graph.hpp"

namespace rehearse {

/// As an eager framework computes it, one kernel for each. None where only a node of the graph is passed: the gradient
/// of a sum is the same tensor for all of its terms. Average pooling of whole images is a sum by rows. An activation is
/// GELU if it is composite, a softmax if its name ends so, else cheap.
std::optional<kernels::Kernel> streaming_on_processor(const Operator& op);

}  // namespace rehearse
