// Kernels on another GPU: which rate bounds them, and how the catalog calls GPUs.

#include "sim/plan/recorded_gpu.hpp"

#include <doctest/doctest.h>

namespace rehearse::recorded_gpu_test {

namespace {

const Accelerator kOld{.name = "old",
                       .peak_fp32 = FlopsPerSecond{10e12},
                       .peak_fp16 = FlopsPerSecond{100e12},
                       .memory_bandwidth = BytesPerSecond{900e9},
                       .host_link = BytesPerSecond{12e9}};
const Accelerator kNew{.name = "new",
                       .peak_fp32 = FlopsPerSecond{20e12},
                       .peak_fp16 = FlopsPerSecond{400e12},
                       .memory_bandwidth = BytesPerSecond{1500e9},
                       .host_link = BytesPerSecond{48e9}};

struct RecordedKernel {
  const char* name;
  KernelClass kernel;
  Nanoseconds duration;
};

RecordedJob job_of(const std::vector<RecordedKernel>& kernels) {
  RecordedRun run;
  for (const RecordedKernel& kernel : kernels) {
    run.operations.push_back({.kind = RecordedOperation::Kind::kGpu,
                              .kernel = kernel.kernel,
                              .name = static_cast<std::int32_t>(run.names.size()),
                              .duration = kernel.duration});
    run.names.emplace_back(kernel.name);
  }
  return {.ranks = {run}};
}

double factor(const RecordedChange& change, KernelClass kernel) {
  return change.kernels[static_cast<std::size_t>(kernel)];
}

}  // namespace

TEST_CASE("each class is as much faster as what bounds it, in the mean over its time") {
  RecordedChange change;
  const std::vector<std::string> said =
      move_to_gpu(change,
                  job_of({{"volta_sgemm_128x64", KernelClass::kMatrixProduct, 300},
                          {"volta_h884gemm", KernelClass::kMatrixProduct, 100},
                          {"bn_fw", KernelClass::kNormalization, 50},
                          {"Memcpy HtoD (Pageable -> Device)", KernelClass::kCopy, 20},
                          {"Memcpy DtoD", KernelClass::kCopy, 20},
                          {"ncclAllReduce", KernelClass::kCollective, 10}}),
                  kOld, kNew);
  CHECK(factor(change, KernelClass::kMatrixProduct) == doctest::Approx((300 * 0.5 + 100 * 0.25) / 400));
  CHECK(factor(change, KernelClass::kNormalization) == doctest::Approx(0.6));
  CHECK(factor(change, KernelClass::kCopy) == doctest::Approx((0.25 + 0.6) / 2));
  CHECK(factor(change, KernelClass::kCollective) == 1);
  CHECK(factor(change, KernelClass::kAttention) == 1);  // there is none
  CHECK(change.host == 1);
  REQUIRE(said.size() == 2);
  CHECK(said[1] ==
        "what if: the host, collectives and kernels of unknown kind (2.0 % of the time of kernels) are not scaled");
}

TEST_CASE("to the GPU that was recorded nothing changes, and back again neither") {
  const RecordedJob job = job_of({{"sgemm", KernelClass::kMatrixProduct, 300}, {"pool", KernelClass::kPooling, 7}});
  RecordedChange same, there_and_back;
  move_to_gpu(same, job, kOld, kOld);
  move_to_gpu(there_and_back, job, kOld, kNew);
  CHECK(factor(there_and_back, KernelClass::kPooling) < 1);
  move_to_gpu(there_and_back, job, kNew, kOld);
  for (std::size_t c = 0; c < same.kernels.size(); ++c) {
    CHECK(same.kernels[c] == 1);
    CHECK(there_and_back.kernels[c] == doctest::Approx(1));
  }
}

TEST_CASE("16-bit kernels take the 16-bit rate, and what has no precision in its name stays as it is") {
  RecordedChange change;
  const RecordedJob job = job_of({{"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, cutlass::bfloat16_t> >(Params)",
                                   KernelClass::kAttention, 300},
                                  {"_attn_fwd", KernelClass::kAttention, 100},
                                  {"sm80_xmma_gemm_tf32f32_tf32f32_f32_tn_n", KernelClass::kMatrixProduct, 100},
                                  {"unheard_of", KernelClass::kOther, 50},
                                  {"ncclDevKernel_AllReduce", KernelClass::kCollective, 1000}});
  const std::vector<std::string> said = move_to_gpu(change, job, kOld, kNew);
  CHECK(factor(change, KernelClass::kAttention) == doctest::Approx((300 * 0.25 + 100) / 400));
  CHECK(factor(change, KernelClass::kMatrixProduct) == doctest::Approx(0.5));  // no TF32: in fp32
  CHECK(said[0].find("attention 0.438 (bf16 0.250, unknown 1.000)") != std::string::npos);
  CHECK(said.size() == 3);
  const UnscaledShare unscaled = unscaled_share(job);
  CHECK(unscaled.kind == doctest::Approx(50.0 / 550));
  CHECK(unscaled.precision == doctest::Approx(100.0 / 550));
}

TEST_CASE("kernels in a precision that a GPU has no rate in are not scaled, and the share says so") {
  const RecordedJob job = job_of({{"sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n", KernelClass::kMatrixProduct, 300},
                                  {"pool", KernelClass::kPooling, 100}});
  CHECK(unscaled_share(job).precision == 0);
  CHECK(unscaled_share(job, &kOld, &kNew).precision == doctest::Approx(0.75));  // neither states a rate in FP8
}

TEST_CASE("a recorded GPU is the catalog's with the most of its words") {
  const std::vector<std::string> names{"A100", "A100 80GB", "V100", "RTX 2080 Ti", "T4"};
  CHECK(catalog_name("NVIDIA A100-SXM4-80GB", names) == "A100 80GB");
  CHECK(catalog_name("NVIDIA A100-PG509-200", names) == "A100");
  CHECK(catalog_name("Tesla V100-DGXS-32GB", names) == "V100");
  CHECK(catalog_name("NVIDIA GeForce RTX 2080 Ti", names) == "RTX 2080 Ti");
  CHECK(catalog_name("AMD Instinct MI250X", names).empty());
  CHECK(catalog_name("", names).empty());
}

}  // namespace rehearse::recorded_gpu_test
