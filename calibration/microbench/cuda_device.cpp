// A GPU, by cuBLASLt, cuDNN where it was found, and kernels of our own.

#include "calibration/microbench/cuda_device.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include "calibration/microbench/cuda_calls.hpp"
#include "calibration/microbench/cuda_kernels.hpp"

namespace rehearse::microbench {

namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;
constexpr double kTimesCache = 4;  // buffers that are taken in turn hold so much more than the L2 cache
constexpr int kMostBuffers = 64;
constexpr double kShortest = 2e-3;  // s of a sample: the wait for its end is small beside it

bool is_blas_fine(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; }

cublasLtHandle_t blas() {
  static cublasLtHandle_t handle = [] {
    cublasLtHandle_t made = nullptr;
    if (!is_blas_fine(cublasLtCreate(&made)))
      throw NoResultError{"the GPU cannot be measured: cuBLASLt does not start"};
    return made;
  }();
  return handle;
}

cudaDataType_t data_type(kernels::Precision precision) {
  return precision == kernels::Precision::kFp16   ? CUDA_R_16F
         : precision == kernels::Precision::kBf16 ? CUDA_R_16BF
                                                  : CUDA_R_32F;
}

/// A matrix in row-major order is the transposed one in cuBLAS's: C' [n, m] = B' A'.
class ProductPlan {
 public:
  ProductPlan(const Case& of, int buffers) : product_{std::get<kernels::Product>(of.kernel)} {
    const bool is_a_transposed = of.layout == Layout::kFirstTransposed;
    const bool is_b_transposed = of.layout == Layout::kSecondTransposed;
    const cudaDataType_t type = data_type(product_.precision);
    const cublasComputeType_t compute =
        product_.precision == kernels::Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const auto m = static_cast<std::uint64_t>(product_.m), n = static_cast<std::uint64_t>(product_.n),
               k = static_cast<std::uint64_t>(product_.k);
    is_fine_ = is_blas_fine(cublasLtMatmulDescCreate(&operation_, compute, CUDA_R_32F));
    const auto transpose = [&](cublasLtMatmulDescAttributes_t which, bool is_transposed) {
      const cublasOperation_t value = is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
      is_fine_ &= is_blas_fine(cublasLtMatmulDescSetAttribute(operation_, which, &value, sizeof value));
    };
    transpose(CUBLASLT_MATMUL_DESC_TRANSA, is_b_transposed);
    transpose(CUBLASLT_MATMUL_DESC_TRANSB, is_a_transposed);
    first_ = layout(type, is_b_transposed ? k : n, is_b_transposed ? n : k);
    second_ = layout(type, is_a_transposed ? m : k, is_a_transposed ? k : m);
    result_ = layout(type, n, m);
    choose_algorithm();
    const std::size_t number = static_cast<std::size_t>(kernels::bytes_of(product_.precision));
    const auto batch = static_cast<std::size_t>(product_.batch);
    sizes_ = {batch * n * k * number, batch * k * m * number, batch * n * m * number};
    for (int i = 0; i < buffers && is_fine_; ++i)
      memory_.push_back(std::make_unique<GpuMemory>(aligned(sizes_[0]) + aligned(sizes_[1]) + aligned(sizes_[2])));
  }
  ProductPlan(const ProductPlan&) = delete;
  ProductPlan& operator=(const ProductPlan&) = delete;
  ~ProductPlan() {
    for (cublasLtMatrixLayout_t each : {first_, second_, result_})
      if (each != nullptr) (void)cublasLtMatrixLayoutDestroy(each);
    if (operation_ != nullptr) (void)cublasLtMatmulDescDestroy(operation_);
  }

  bool is_fine() const { return is_fine_; }
  bool start(int number) const {
    const float one = 1, zero = 0;
    char* const at = memory_[static_cast<std::size_t>(number) % memory_.size()]->bytes();
    char *const b = at + aligned(sizes_[0]), *const c = b + aligned(sizes_[1]);
    return is_blas_fine(cublasLtMatmul(blas(), operation_, &one, at, first_, b, second_, &zero, c, result_, c, result_,
                                       &algorithm_, workspace_.get(), kWorkspace, nullptr));
  }

 private:
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  cublasLtMatrixLayout_t layout(cudaDataType_t type, std::uint64_t rows, std::uint64_t columns) {
    cublasLtMatrixLayout_t made = nullptr;
    is_fine_ &= is_blas_fine(cublasLtMatrixLayoutCreate(&made, type, rows, columns, static_cast<std::int64_t>(rows)));
    const auto batch = static_cast<std::int32_t>(product_.batch);
    const auto stride = static_cast<std::int64_t>(rows * columns);
    if (batch > 1) {
      is_fine_ &= is_blas_fine(
          cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
      is_fine_ &= is_blas_fine(
          cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    }
    return made;
  }

  void choose_algorithm() {
    cublasLtMatmulPreference_t preference = nullptr;
    is_fine_ &= is_blas_fine(cublasLtMatmulPreferenceCreate(&preference));
    if (!is_fine_) return;
    const std::size_t most = kWorkspace;
    is_fine_ &= is_blas_fine(
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most));
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    is_fine_ &= is_blas_fine(cublasLtMatmulAlgoGetHeuristic(blas(), operation_, first_, second_, result_, result_,
                                                            preference, 1, &best, &found));
    is_fine_ &= found > 0;
    algorithm_ = best.algo;
    (void)cublasLtMatmulPreferenceDestroy(preference);
  }

  kernels::Product product_;
  bool is_fine_ = false;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  std::array<std::size_t, 3> sizes_{};
  std::vector<std::unique_ptr<GpuMemory>> memory_;
  GpuMemory workspace_{kWorkspace};
};

/// The arrays of a streaming kernel, `buffers` times.
struct StreamingMemory {
  std::vector<std::unique_ptr<GpuMemory>> numbers;
  std::unique_ptr<GpuMemory> indices;
  std::vector<StreamingArrays> arrays;
};

/// The catalog's name of what CUDA calls a compute capability.
std::string architecture_of(int major, int minor) {
  switch (major) {
    case 7:
      return minor < 5 ? "Volta" : "Turing";
    case 8:
      return minor < 9 ? "Ampere" : "Ada";
    case 9:
      return "Hopper";
    default:
      return major >= 10 ? "Blackwell" : "Pascal";
  }
}

/// Units in fp32 of a multiprocessor: CUDA C++ Programming Guide, arithmetic throughput by compute capability.
int cores_of(int major, int minor) {
  return major == 7 || (major == 8 && minor == 0) || (major == 6 && minor == 0) ? 64 : 128;
}

class GpuDevice : public Device {
 public:
  explicit GpuDevice(int number) : number_{number} {
    check(cudaSetDevice(number_), "cudaSetDevice");
    check(cudaGetDeviceProperties(&properties_, number_), "cudaGetDeviceProperties");
  }

  Accelerator describe(const Effort& effort) override {
    int clock_khz = 0, memory_khz = 0;
    check(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, number_), "clock rate");
    check(cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, number_), "memory clock rate");
    const int cores = cores_of(properties_.major, properties_.minor);
    const double vector_peak = 2.0 * properties_.multiProcessorCount * cores * 1e3 * clock_khz;
    const double rate = 2.0 * 1e3 * memory_khz * properties_.memoryBusWidth / 8;
    const auto peak = [&](kernels::Precision precision) { return FlopsPerSecond{measured_peak(precision, effort)}; };
    std::size_t free_bytes = 0, all_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo");
    return {.name = properties_.name,
            .peak_fp32 = FlopsPerSecond{vector_peak},
            .peak_fp16 = peak(kernels::Precision::kFp16),
            .memory_bandwidth = BytesPerSecond{rate > 0 ? rate : measured_bandwidth(effort)},
            .memory = Bytes{static_cast<std::int64_t>(all_bytes)},
            .memory_reserved = Bytes{static_cast<std::int64_t>(all_bytes - free_bytes)},
            .multiprocessors = properties_.multiProcessorCount,
            .host_link = BytesPerSecond{host_rate(effort)},
            .architecture = architecture_of(properties_.major, properties_.minor),
            .cores_per_multiprocessor = cores,
            .l2 = Bytes{properties_.l2CacheSize},
            .peak_tf32 = properties_.major >= 8 ? peak(kernels::Precision::kTf32) : FlopsPerSecond{},
            .peak_bf16 = properties_.major >= 8 ? peak(kernels::Precision::kBf16) : FlopsPerSecond{},
            .source =
                "rehearse microbench: sizes, fp32 peak and memory's rate as CUDA states them, peaks of matrix units as "
                "products of 8192 x 8192 x 8192 reach them"};
  }

  std::vector<Case> cases(Extent extent) const override { return gpu_cases(extent); }

  std::optional<Sample> measure(const Case& of, const Effort& effort, const std::function<bool()>& is_over) override {
    const double bytes = std::visit(
        [](const auto& kernel) -> double {
          if constexpr (requires { kernel.bytes(); }) return kernel.bytes();
          return 0;
        },
        of.kernel);
    const int count =
        std::clamp(static_cast<int>(kTimesCache * properties_.l2CacheSize / std::max(bytes, 1.0)), 1, kMostBuffers);
    const auto run = std::holds_alternative<kernels::Product>(of.kernel) ? gpu_product(of, count)
                     : std::holds_alternative<kernels::Convolution>(of.kernel)
                         ? gpu_convolution(std::get<kernels::Convolution>(of.kernel), count)
                         : gpu_streaming(std::get<kernels::Streaming>(of.kernel), count);
    if (!run) return {};
    Effort of_gpu = effort;
    of_gpu.shortest = kShortest;
    std::vector<double> samples = sample(*run, gpu_seconds, of_gpu, is_over);
    check(cudaGetLastError(), "a kernel");
    if (samples.empty()) return {};
    return summarize(std::move(samples));
  }

  /// Empty kernels one after another: as fast as the host starts them.
  double dispatch(const Effort& effort) override {
    Effort of_gpu = effort;
    of_gpu.shortest = kShortest;
    return summarize(sample([](int) { start_empty(); }, gpu_seconds, of_gpu)).time;
  }

  std::vector<SystemFigure> system_figures(const Effort& effort) override {
    return gpu_system_figures(number_, effort);
  }

 private:
  double measured_peak(kernels::Precision precision, const Effort& effort) {
    const kernels::Product product{.m = 8192, .n = 8192, .k = 8192, .precision = precision};
    const auto sample = measure({product, Layout::kSecondTransposed}, effort, {});
    return sample ? product.flops() / sample->time : 1;
  }
  double measured_bandwidth(const Effort& effort) {
    const kernels::Streaming copy{.kind = kernels::StreamingKind::kUnary, .rows = 1 << 14, .columns = 1 << 14};
    const auto sample = measure({copy}, effort, {});
    return sample ? copy.bytes() / sample->time : 1;
  }
  double host_rate(const Effort& effort) {
    for (const SystemFigure& figure : gpu_system_figures(number_, effort))
      if (figure.what == "host_to_device") return figure.bytes / figure.time;
    return 1;
  }

  int number_;
  cudaDeviceProp properties_{};
};

}  // namespace

double gpu_seconds() {
  check(cudaDeviceSynchronize(), "a kernel");
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::optional<GpuRun> gpu_product(const Case& of, int buffers) {
  if (std::get<kernels::Product>(of.kernel).precision == kernels::Precision::kFp8) return {};
  const auto plan = std::make_shared<const ProductPlan>(of, buffers);
  if (!plan->is_fine() || !plan->start(0)) return {};
  return [plan](int number) { (void)plan->start(number); };
}

std::optional<GpuRun> gpu_streaming(const kernels::Streaming& kernel, int buffers) {
  const auto memory = std::make_shared<StreamingMemory>();
  const std::size_t number = static_cast<std::size_t>(kernels::bytes_of(kernel.precision));
  const std::size_t bytes = static_cast<std::size_t>(kernel.rows * kernel.columns) * number;
  memory->indices = std::make_unique<GpuMemory>(static_cast<std::size_t>(kernel.rows) * sizeof(std::int64_t));
  for (int i = 0; i < buffers; ++i) {
    StreamingArrays arrays{.indices = static_cast<const std::int64_t*>(memory->indices->get()),
                           .rows = kernel.rows,
                           .columns = kernel.columns,
                           .is_half = number == 2};
    for (void** array : {&arrays.x, &arrays.y, &arrays.z, &arrays.m, &arrays.v}) {
      memory->numbers.push_back(std::make_unique<GpuMemory>(bytes));
      *array = memory->numbers.back()->get();
    }
    memory->arrays.push_back(arrays);
  }
  const int kind = static_cast<int>(kernel.kind);
  if (!start_streaming(kind, memory->arrays.front())) return {};
  return [memory, kind](int i) {
    (void)start_streaming(kind, memory->arrays[static_cast<std::size_t>(i) % memory->arrays.size()]);
  };
}

std::unique_ptr<Device> make_gpu_device(int number) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess || count <= number)
    throw NoResultError{std::string{"no GPU can be measured: "} +
                        (status != cudaSuccess ? cudaGetErrorString(status) : "there is none of this number")};
  return std::make_unique<GpuDevice>(number);
}

}  // namespace rehearse::microbench
