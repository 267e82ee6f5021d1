#pragma once
// What the operators of frameworks do, by their names in PyTorch, ONNX and TensorFlow.

#include <cstdint>
#include <optional>
#include <string_view>

namespace rehearse {

enum class OperatorAction : std::uint8_t {
  kUnknown,
  kConstant,  // tells of shapes, or makes the same values for every sample
  kIdentity,
  kElementwise,
  kActivation,
  kDropout,
  kAdd,
  kMultiply,
  kConcatenate,
  kConvolution,
  kTransposedConvolution,
  kLinear,
  kProduct,
  kBatchNorm,
  kGroupNorm,
  kLayerNorm,
  kRmsNorm,
  kMaxPool,
  kAveragePool,
  kReduce,
  kReshape,
  kCopy,
  kPart,
  kEmbedding,
  kAttention,
  kAttentionLayer,  // with its matrices
  kLstm,
  kGru,
  kRnn,
};

/// None if the type is not known. Upper case, underscores, an "aten." before it, an overload such as ".default" and a
/// number of dimensions or version after it do not matter.
std::optional<OperatorAction> action_of(std::string_view type);

}  // namespace rehearse
