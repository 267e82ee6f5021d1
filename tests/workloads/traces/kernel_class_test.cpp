#include "workloads/traces/kernel_class.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/files.hpp"
#include "tests/support/paths.hpp"

using namespace rehearse;

namespace {

struct RealKernel {
  std::string name, kernel, precision, library, source, set;
};

std::vector<RealKernel> real_kernels() {
  std::ifstream file{source_folder() + "/tests/workloads/traces/kernel_names.tsv"};
  std::vector<RealKernel> kernels;
  std::string line;
  std::getline(file, line);  // names of columns
  while (std::getline(file, line)) {
    std::stringstream row{line};
    RealKernel kernel;
    for (std::string* field : {&kernel.name, &kernel.kernel, &kernel.precision, &kernel.library, &kernel.source})
      std::getline(row, *field, '\t');
    std::getline(row, kernel.set);
    kernels.push_back(kernel);
  }
  return kernels;
}

struct Score {
  std::size_t right = 0, unknown = 0, wrong = 0;
  std::size_t names() const { return right + unknown + wrong; }
  std::string text() const {
    return std::to_string(names()) + " names: " + std::to_string(right) + " right, " + std::to_string(unknown) +
           " unknown, " + std::to_string(wrong) + " wrong";
  }
};

}  // namespace

TEST_CASE("of real kernels 99 % have their class, and none another one") {
  Score all;
  std::map<std::string, Score> by_set, by_library;
  for (const RealKernel& kernel : real_kernels()) {
    CAPTURE(kernel.name);
    CAPTURE(kernel.source);
    const KernelClass found = kernel_class(kernel.name);
    const bool is_right = to_text(found) == kernel.kernel;
    const bool is_unknown = !is_right && found == KernelClass::kOther;
    CHECK((is_right || is_unknown));
    CHECK(std::ranges::find(kKernelClassNames, kernel.kernel) != kKernelClassNames.end());
    CHECK_FALSE(kernel.source.empty());
    for (Score* score : {&all, &by_set[kernel.set], &by_library[kernel.library]})
      ++(is_right ? score->right : is_unknown ? score->unknown : score->wrong);
  }
  for (const auto& [set, score] : by_set) MESSAGE(set, ": ", score.text());
  for (const auto& [library, score] : by_library) MESSAGE(library, ": ", score.text());
  MESSAGE("all: ", all.text());
  CHECK(all.names() >= 1000);
  CHECK(static_cast<double>(all.right) >= 0.99 * static_cast<double>(all.names()));
}

TEST_CASE("the README counts the names that there are") {
  const std::vector<RealKernel> kernels = real_kernels();
  const std::string readme = read_file(source_folder() + "/workloads/traces/README.md", 4 * kMiB);
  const auto states = [&](const std::string& text) { return readme.find(text) != std::string::npos; };
  std::map<std::string, std::size_t> names;
  for (const RealKernel& kernel : kernels) ++names[kernel.set];
  for (const auto& row : names) {
    CAPTURE(row.first);
    CHECK(states("| " + row.first + " | " + std::to_string(row.second) + " |"));
  }
  const std::string all = std::to_string(kernels.size());
  CHECK(states(" has " + all.substr(0, 1) + "," + all.substr(1) + " names of real kernels"));
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

TEST_CASE("a word begins where a word of the name does, and letters of two words are no word") {
  CHECK(kernel_class("void cusparse::gather_kernel<long, uint4>(long)") == KernelClass::kEmbedding);  // no herk
  CHECK(kernel_class("void ns::GatherKernel<float>(float*)") == KernelClass::kEmbedding);
  CHECK(kernel_class("Cijk_SH_DBiasH_BiasSrcD_GradH_HAS_PostGSU2_VW2") == KernelClass::kMatrixProduct);  // no dgrad
  CHECK(kernel_class("wgrad_gemm_accum_fp32") == KernelClass::kMatrixProduct);
  CHECK(kernel_class("gemma_rotary_kernel") == KernelClass::kElementwise);  // no gemm
  CHECK(kernel_class("_gemma_qkv_rmsnorm_kernel") == KernelClass::kNormalization);
  CHECK(kernel_class("gemma_state_kernel") == KernelClass::kOther);
  CHECK(kernel_class("_ZN5aiter42mla_a16w16_qh16_m16x4_n16x1_coex0_mask1_psE") == KernelClass::kAttention);  // no mask
  CHECK(kernel_class("trsv_ln_exec_up") == KernelClass::kMatrixProduct);       // no layer norm
  CHECK(kernel_class("write_token_pool_kernel") == KernelClass::kOther);       // no pooling
  CHECK(kernel_class("lightning_indexer_kernel") == KernelClass::kAttention);  // no rows by index
  CHECK(kernel_class("void ns::unrelated_kernel<float>(float*)") == KernelClass::kOther);
}

TEST_CASE("what a library is called is no class, but for libraries that only communicate") {
  for (const char* name : {"void fbgemm_gpu::strange_kernel<float>(float*)", "void deep_gemm::strange<64>(float*)",
                           "void marlin::strange(int)", "void flash_attn::strange(int)", "_ZN10fbgemm_gpu7strangeEv"}) {
    CAPTURE(name);
    CHECK(kernel_class(name) == KernelClass::kOther);
  }
  CHECK(kernel_class("void fbgemm_gpu::pack_segments_cuda_kernel<float>(float*)") == KernelClass::kCopy);
  CHECK(kernel_class("void marlin::gptq_marlin_repack_kernel<4>(int)") == KernelClass::kCopy);
  CHECK(kernel_class("void deep_ep::intranode::dispatch<8>(int4*)") == KernelClass::kCollective);
  CHECK(kernel_class("void aiter::mxfp4_moe::gemm2::kernel<655360>(int)") == KernelClass::kMatrixProduct);
  CHECK(kernel_class("get_mla_metadata_kernel(Mla_metadata_params)") == KernelClass::kOther);
}

TEST_CASE("types of arguments that CuTe writes into a name say nothing, and copies have two words") {
  CHECK(kernel_class("kernel_cutlass_device_kernel_tensorptrbf16gmemalign16o4816512div85121") == KernelClass::kOther);
  CHECK(kernel_class("kernel_cutlass_kernel_flashinfernormkernelsrmsnormRMSNormKernel_object_at__tensorptrbf16gmem") ==
        KernelClass::kNormalization);
  CHECK(kernel_class("Memcpy HtoD (Pageable -> Device)") == KernelClass::kCopy);
  CHECK(kernel_class("[CUDA memcpy Device-to-Host]") == KernelClass::kCopy);
}

TEST_CASE("a kernel of Eigen does what its expression says") {
  const std::string eigen =
      "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<Eigen::";
  CHECK(kernel_class(eigen + "TensorMap<float>, Eigen::TensorPaddingOp<int> > > >") == KernelClass::kCopy);
  CHECK(kernel_class(eigen + "TensorMap<float>, Eigen::TensorReductionOp<int> > > >") == KernelClass::kReduction);
  CHECK(kernel_class(eigen + "TensorMap<float>, Eigen::TensorCwiseUnaryOp<int> > > >") == KernelClass::kElementwise);
  CHECK(kernel_class(eigen + "TensorMap<float>") == KernelClass::kOther);
}

TEST_CASE("a fusion does not communicate, though it reads what a collective gave") {
  CHECK(kernel_class("triton_poi_fused_add_all_reduce_embedding_0") == KernelClass::kElementwise);
  CHECK(kernel_class("triton_red_fused_all_reduce_add_rms_norm_1") == KernelClass::kNormalization);
}

TEST_CASE("a Fourier transform is part of a convolution where the library says so") {
  CHECK(kernel_class("void DSE::regular_fft_pad<0, 1>(float2*)") == KernelClass::kConvolution);
  CHECK(kernel_class("void regular_fft_pad<0, 1>(float2*)") == KernelClass::kOther);
}

TEST_CASE("a long name is read in time proportional to its length") {
  for (const std::string part :
       {"other_word<", "<unnamed>::", "{anonymous}::", "other(", "other)", "f<a>::", "7aAbBcCd", "I1a"}) {
    CAPTURE(part);
    const auto seconds_of = [&](std::size_t parts) {
      std::string name = part.front() == '7' || part.front() == 'I' ? "_Z1f" : "void f<";
      for (std::size_t i = 0; i < parts; ++i) name += part;
      const auto begin = std::chrono::steady_clock::now();
      CHECK(kernel_class(name) == KernelClass::kOther);
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    seconds_of(1000);  // reads the patterns
    // The machine does other things, too: the longest time of the short name, the shortest of one 8 times as long.
    const double once = std::max({seconds_of(4000), seconds_of(4000), seconds_of(4000)});
    CHECK(std::min({seconds_of(32000), seconds_of(32000), seconds_of(32000)}) < 5 * 8 * once);  // quadratic: 64
  }
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
