#pragma once
// The blocks that a model repeats, such as the layers of a transformer, from the names and shapes of its variables.

#include <string>
#include <vector>

#include "workloads/operator_graph.hpp"

namespace rehearse {

struct ModelBlocks {
  std::vector<std::string> names;  // in the order in which their first variables are created
  std::vector<int> of_variable;    // [variables] index of names; -1: outside of blocks, such as embedding and head
};

/// A name such as encoder/layer12/attention/kernel or model.layers.12.attn.weight has a number at the end of a part, which
/// '/', '.' or '_' ends. What has the same text before it ("encoder/layer") and the same number is a block if another number
/// has the same variables, by what comes after in their names and by shape, and one of them is a matrix. A variable with
/// several such numbers is in the block of the first: the layer rather than its expert, the residual block rather than a
/// stage, as stages differ.
ModelBlocks model_blocks(const Workload& workload);

}  // namespace rehearse
