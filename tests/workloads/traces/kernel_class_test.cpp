#include "workloads/traces/kernel_class.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/files.hpp"
#include "tests/support/paths.hpp"

using namespace rehearse;

namespace {

struct RealKernel {
  std::string name, kernel, precision, source;
};

std::vector<RealKernel> real_kernels() {
  std::ifstream file{source_folder() + "/tests/workloads/traces/kernel_names.tsv"};
  std::vector<RealKernel> kernels;
  std::string line;
  std::getline(file, line);  // names of columns
  while (std::getline(file, line)) {
    std::stringstream row{line};
    RealKernel kernel;
    std::getline(row, kernel.name, '\t');
    std::getline(row, kernel.kernel, '\t');
    std::getline(row, kernel.precision, '\t');
    std::getline(row, kernel.source);
    kernels.push_back(kernel);
  }
  return kernels;
}

}  // namespace

TEST_CASE("of real kernels 99 % have their class, and none another one") {
  const std::vector<RealKernel> kernels = real_kernels();
  REQUIRE(kernels.size() >= 1000);
  std::size_t right = 0;
  for (const RealKernel& kernel : kernels) {
    const KernelClass found = kernel_class(kernel.name);
    CAPTURE(kernel.name);
    CAPTURE(kernel.source);
    if (found == KernelClass::kOther) continue;
    CHECK(to_text(found) == kernel.kernel);
    right += to_text(found) == kernel.kernel ? 1 : 0;
  }
  MESSAGE(right, " of ", kernels.size(), " right");
  CHECK(static_cast<double>(right) >= 0.99 * static_cast<double>(kernels.size()));
}

TEST_CASE("the README counts the names that there are") {
  const std::vector<RealKernel> kernels = real_kernels();
  const auto with = [&](const std::string& source) {
    return std::to_string(std::ranges::count_if(
        kernels, [&](const RealKernel& kernel) { return kernel.source.find(source) != std::string::npos; }));
  };
  const std::string readme = read_file(source_folder() + "/workloads/traces/README.md", 4 * kMiB);
  const auto states = [&](const std::string& text) { return readme.find(text) != std::string::npos; };
  const std::string all = std::to_string(kernels.size());
  CHECK(states(" has " + all.substr(0, 1) + "," + all.substr(1) + " names of real kernels"));
  CHECK(states("Of\n" + with(".json.gz") + ", in the traces"));
  CHECK(states(with("left out first") + " names of hipBLASLt"));
  CHECK(states("Of " + with("tried blind") + " names of reports"));
}

TEST_CASE("the precision of real kernels is that of their operands") {
  for (const RealKernel& kernel : real_kernels()) {
    if (kernel.precision.empty()) continue;
    CAPTURE(kernel.name);
    CHECK(to_text(kernel_precision(kernel.name)) == kernel.precision);
  }
}

TEST_CASE("letters within another word say nothing") {
  CHECK(kernel_class("bmm_E4m3_E4m3E4m3_Fp32_t128x16x128_TN_transOut_schedS_bN_ldgsts") == KernelClass::kMatrixProduct);
  CHECK(kernel_class("multimem_all_reduce_kernel") == KernelClass::kCollective);
  CHECK(kernel_class("std::enable_if<(8>(0))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
                     "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(int)") == KernelClass::kNormalization);
  CHECK(kernel_class("void unconventional_kernel<float>(float*)") == KernelClass::kOther);
  CHECK(kernel_class("preadamant_kernel") == KernelClass::kOther);
  CHECK(kernel_class("abnormal_kernel") == KernelClass::kOther);
  CHECK(kernel_class("") == KernelClass::kOther);
}

TEST_CASE("a name has its class in each of the ways in which profilers write it, and cut off") {
  for (const char* name : {"void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, cutlass::bfloat16_t> >(Params)",
                           "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, cutlass::bfloat16_t",
                           "_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128EN7cutlass10bfloat16_tEEEEvv",
                           "_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128EN7cutlass10bfloat16_tEE",
                           "_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128EN7cutlass10bfloat16_t.kd"}) {
    CAPTURE(name);
    CHECK(kernel_class(name) == KernelClass::kAttention);
    CHECK(kernel_precision(name) == KernelPrecision::kBf16);
  }
}

TEST_CASE("a namespace without a name is part of none") {
  for (const char* name :
       {"void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int)",
        "voId at::native::(anonymous Namespace)::max_pool_forward_nchw<float, float>(int)",  // Chakra
        "void at::native::<unnamed>::max_pool_forward_nchw<float, float>(int)",
        "_ZN2at6native12_GLOBAL__N_121max_pool_forward_nchwIffEEvi"}) {
    CAPTURE(name);
    CHECK(kernel_class(name) == KernelClass::kPooling);
  }
}

TEST_CASE("the narrowest type of a name is that of the operands; without one it is not known") {
  CHECK(kernel_precision("ampere_sgemm_128x64_nn") == KernelPrecision::kFp32);
  CHECK(kernel_precision("sm80_xmma_gemm_tf32f32_tf32f32_f32_tn_n") == KernelPrecision::kTf32);
  CHECK(kernel_precision("void gemm<__half, float>(float*)") == KernelPrecision::kFp16);
  CHECK(kernel_precision("void fp8_gemm_kernel<128u>(__nv_bfloat16*, float*)") == KernelPrecision::kFp8);
  CHECK(kernel_precision("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_dynBatch_bN_tma") == KernelPrecision::kFp8);
  CHECK(kernel_precision("gemm_Bfloat16_E2m1E2m1_Fp32_t128x16x256") == KernelPrecision::kFp4);
  CHECK(kernel_precision("_attn_fwd") == KernelPrecision::kUnknown);
}
