#include "workloads/traces/kernel_class.hpp"

#include <algorithm>
#include <utility>

namespace rehearse {

namespace {

/// The first row of which the name, in lower case, has the word.
constexpr std::pair<std::string_view, KernelClass> kWords[] = {
    {"nccl", KernelClass::kCollective},
    {"rccl", KernelClass::kCollective},
    {"memcpy", KernelClass::kCopy},
    {"memset", KernelClass::kCopy},
    {"flash", KernelClass::kAttention},
    {"fmha", KernelClass::kAttention},
    {"attention", KernelClass::kAttention},
    {"softmax", KernelClass::kSoftmax},
    {"multi_tensor_apply", KernelClass::kOptimizer},
    {"adam", KernelClass::kOptimizer},
    {"embedding", KernelClass::kEmbedding},
    {"bn_", KernelClass::kNormalization},
    {"batch_norm", KernelClass::kNormalization},
    {"batchnorm", KernelClass::kNormalization},
    {"layer_norm", KernelClass::kNormalization},
    {"layernorm", KernelClass::kNormalization},
    {"welford", KernelClass::kNormalization},
    {"pool", KernelClass::kPooling},
    {"convertt", KernelClass::kCopy},  // cuDNN changes the layout of a tensor
    {"nchwtonhwc", KernelClass::kCopy},
    {"nhwctonchw", KernelClass::kCopy},
    {"wgrad", KernelClass::kConvolution},
    {"dgrad", KernelClass::kConvolution},
    {"fprop", KernelClass::kConvolution},
    {"scudnn", KernelClass::kConvolution},
    {"winograd", KernelClass::kConvolution},
    {"conv", KernelClass::kConvolution},
    {"computeoffsets", KernelClass::kConvolution},
    {"gemm", KernelClass::kMatrixProduct},
    {"gemv", KernelClass::kMatrixProduct},
    {"cutlass", KernelClass::kMatrixProduct},
    {"dot_kernel", KernelClass::kMatrixProduct},
    {"splitk", KernelClass::kMatrixProduct},
    {"reduce", KernelClass::kReduction},
    {"catarray", KernelClass::kCopy},
    {"copy", KernelClass::kCopy},
    {"index", KernelClass::kEmbedding},
    {"gather", KernelClass::kEmbedding},
    {"scatter", KernelClass::kEmbedding},
    {"elementwise", KernelClass::kElementwise},
    {"vectorized", KernelClass::kElementwise},
};

constexpr std::pair<std::string_view, CollectiveWork> kCollectiveWords[] = {
    {"allreduce", CollectiveWork::kAllReduce}, {"reducescatter", CollectiveWork::kReduceScatter},
    {"allgather", CollectiveWork::kAllGather}, {"broadcast", CollectiveWork::kBroadcast},
    {"alltoall", CollectiveWork::kAllToAll},
};

}  // namespace

std::string lower_case(std::string_view name) {
  std::string lower{name};
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

KernelClass kernel_class(std::string_view name) {
  const std::string lower = lower_case(name);
  for (const auto& [word, kernel] : kWords)
    if (lower.find(word) != std::string::npos) return kernel;
  return KernelClass::kOther;
}

CollectiveWork collective_work(std::string_view name) {
  std::string lower = lower_case(name);
  std::erase(lower, '_');
  for (const auto& [word, work] : kCollectiveWords)
    if (lower.find(word) != std::string::npos) return work;
  return CollectiveWork::kOther;
}

}  // namespace rehearse
