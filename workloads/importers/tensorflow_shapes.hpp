#pragma once
// Shapes of what TensorFlow's operators give, and the numbers of small tensors, from which others get their shapes.

#include <optional>
#include <string>
#include <vector>

#include "workloads/importers/graph_def.hpp"

namespace rehearse {

/// What is known of a tensor.
struct TensorflowValue {
  std::optional<GraphDefShape> shape{};          // none: not even the number of axes; -1: an axis that is not known
  std::optional<std::vector<double>> numbers{};  // of at most 64 scalars; NaN: one that is not known
  std::vector<std::int64_t> blocks{};  // of positions that SpaceToBatchND moved to the batch: steps of a dilated kernel
};

/// What follows for the outputs of `node`, one or more; `inputs` are its data inputs, none where nothing is known. What
/// the file states of its outputs (_output_shapes) completes what follows. SpaceToBatchND is taken as leaving positions
/// where they are, so that the convolution after it is a dilated one. Source: the operators' definitions,
/// tensorflow/core/ops. Throws InputError, without a place, if sizes do not fit.
std::vector<TensorflowValue> infer_tensorflow(const GraphDefNode& node,
                                              const std::vector<const TensorflowValue*>& inputs);

}  // namespace rehearse
