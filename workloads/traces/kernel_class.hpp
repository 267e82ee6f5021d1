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

/// What ranks do together. The numbers are those of Chakra's traces.
enum class CollectiveWork : std::int8_t {
  kOther = -1,
  kAllReduce,
  kReduce,
  kAllGather,
  kGather,
  kScatter,
  kBroadcast,
  kAllToAll,
  kReduceScatter,
  kReduceScatterBlock,
  kBarrier,
  kMessage,  // of one rank to another
};
inline constexpr int kCollectiveWorks = 10;  // that Chakra numbers

inline constexpr std::array<std::string_view, 12> kCollectiveWorkNames{
    "unknown",   "all_reduce", "reduce",         "all_gather",           "gather",  "scatter",
    "broadcast", "all_to_all", "reduce_scatter", "reduce_scatter_block", "barrier", "message"};

inline std::string_view to_text(CollectiveWork work) {
  return kCollectiveWorkNames[static_cast<std::size_t>(static_cast<int>(work) + 1)];
}

/// Kinds of events and classes of kernels are told by names in lower case (ASCII).
std::string lower_case(std::string_view name);

/// kOther if the name has none of the words.
KernelClass kernel_class(std::string_view name);

/// Of a collective's kernel, or of what the framework calls it, such as "nccl:_all_gather_base"; kOther if the name does
/// not say, as that of a kernel that sends and receives.
CollectiveWork collective_work(std::string_view name);

}  // namespace rehearse
