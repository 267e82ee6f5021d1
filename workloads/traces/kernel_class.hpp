#pragma once
// What kind of work a kernel does, and in which precision, by its name. The patterns are data: kernel_names.txt, whose
// head says how they are written; the program has them inside.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace rehearse {

/// The numbers stand in exported traces: new classes come last.
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
  kOther,  // the name tells nothing
  kSort,
};

inline constexpr std::array<std::string_view, 14> kKernelClassNames{
    "matrix-product", "convolution", "attention", "normalization", "softmax",    "element-wise", "reduction",
    "pooling",        "embedding",   "optimizer", "copy",          "collective", "other",        "sort"};

inline std::string_view to_text(KernelClass kernel) { return kKernelClassNames[static_cast<std::size_t>(kernel)]; }

/// What the operands of products are, from the narrowest to the widest.
enum class KernelPrecision : std::uint8_t { kFp4, kFp8, kInt8, kBf16, kFp16, kTf32, kFp32, kFp64, kUnknown };

inline constexpr std::array<std::string_view, 9> kKernelPrecisionNames{"fp4",  "fp8",  "int8", "bf16",   "fp16",
                                                                       "tf32", "fp32", "fp64", "unknown"};

inline std::string_view to_text(KernelPrecision precision) {
  return kKernelPrecisionNames[static_cast<std::size_t>(precision)];
}

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

/// Of a kernel's name as a profiler writes it: demangled, mangled or cut off. kOther if no pattern fits, or one that says
/// so, as of kernels that plan the work of others.
KernelClass kernel_class(std::string_view name);

/// The narrowest type that the name has, since sums are kept in wider ones; kUnknown if it has none. Operands in FP4 and
/// FP8 are multiplied at the rate of FP8 (PTX ISA, tcgen05.mma, kind mxf8f6f4).
KernelPrecision kernel_precision(std::string_view name);

/// Of a collective's kernel, or of what the framework calls it, such as "nccl:_all_gather_base"; kOther if the name does
/// not say, as that of a kernel that sends and receives.
CollectiveWork collective_work(std::string_view name);

}  // namespace rehearse
