#pragma once
// What kind of work a kernel does, by its name: cuDNN, cuBLAS, NCCL and PyTorch each have their words.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace rehearse {

enum class KernelClass : std::uint8_t {
  kMatrixProduct,
  kConvolution,
  kAttention,
  kNormalization,
  kSoftmax,
  kElementwise,
  kReduction,
  kPooling,
  kEmbedding,
  kOptimizer,
  kCopy,
  kCollective,
  kOther,
};

inline constexpr std::array<std::string_view, 13> kKernelClassNames{
    "matrix-product", "convolution", "attention", "normalization", "softmax",    "element-wise", "reduction",
    "pooling",        "embedding",   "optimizer", "copy",          "collective", "other"};

inline std::string_view to_text(KernelClass kernel) { return kKernelClassNames[static_cast<std::size_t>(kernel)]; }

/// Kinds of events and classes of kernels are told by names in lower case (ASCII).
std::string lower_case(std::string_view name);

/// kOther if the name has none of the words.
KernelClass kernel_class(std::string_view name);

}  // namespace rehearse
