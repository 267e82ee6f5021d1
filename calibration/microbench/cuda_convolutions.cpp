// Convolutions by cuDNN, with the algorithm that its heuristics put first.

#include <cudnn.h>

#include <array>
#include <memory>

#include "calibration/microbench/cuda_calls.hpp"
#include "calibration/microbench/cuda_device.hpp"

namespace rehearse::microbench {

namespace {

using kernels::Pass;

constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;

bool is_fine(cudnnStatus_t status) { return status == CUDNN_STATUS_SUCCESS; }

cudnnHandle_t dnn() {
  static cudnnHandle_t handle = [] {
    cudnnHandle_t made = nullptr;
    return is_fine(cudnnCreate(&made)) ? made : nullptr;
  }();
  return handle;
}

class ConvolutionPlan {
 public:
  ConvolutionPlan(const kernels::Convolution& c, int buffers) : pass_{c.pass} {
    is_fine_ = dnn() != nullptr && describe(c) && choose();
    const auto number = static_cast<std::size_t>(kernels::bytes_of(c.precision));
    sizes_[0] = number * static_cast<std::size_t>(c.batch * c.in_channels * c.height * c.width);
    sizes_[1] = number * static_cast<std::size_t>(c.out_channels * (c.in_channels / c.groups) * c.kernel_height *
                                                  c.kernel_width);
    sizes_[2] = number * static_cast<std::size_t>(static_cast<double>(c.batch * c.out_channels) * c.out_height() *
                                                  c.out_width());
    if (!is_fine_) return;
    for (int i = 0; i < 3 * buffers; ++i)
      memory_.push_back(std::make_unique<GpuMemory>(sizes_[static_cast<std::size_t>(i % 3)]));
    if (workspace_size_ > 0) workspace_ = std::make_unique<GpuMemory>(workspace_size_);
  }
  ConvolutionPlan(const ConvolutionPlan&) = delete;
  ConvolutionPlan& operator=(const ConvolutionPlan&) = delete;
  ~ConvolutionPlan() {
    if (input_ != nullptr) (void)cudnnDestroyTensorDescriptor(input_);
    if (output_ != nullptr) (void)cudnnDestroyTensorDescriptor(output_);
    if (filter_ != nullptr) (void)cudnnDestroyFilterDescriptor(filter_);
    if (convolution_ != nullptr) (void)cudnnDestroyConvolutionDescriptor(convolution_);
  }

  bool has_algorithm() const { return is_fine_; }
  bool start(int number) const {
    const float one = 1, zero = 0;
    const std::size_t at = 3 * (static_cast<std::size_t>(number) % (memory_.size() / 3));
    void *const x = memory_[at]->get(), *const w = memory_[at + 1]->get(), *const y = memory_[at + 2]->get();
    void* const space = workspace_ ? workspace_->get() : nullptr;
    switch (pass_) {
      case Pass::kForward:
        break;
      case Pass::kData:
        return is_fine(cudnnConvolutionBackwardData(dnn(), &one, filter_, w, output_, y, convolution_, data_, space,
                                                    workspace_size_, &zero, input_, x));
      case Pass::kWeights:
        return is_fine(cudnnConvolutionBackwardFilter(dnn(), &one, input_, x, output_, y, convolution_, weights_, space,
                                                      workspace_size_, &zero, filter_, w));
    }
    return is_fine(cudnnConvolutionForward(dnn(), &one, input_, x, filter_, w, convolution_, forward_, space,
                                           workspace_size_, &zero, output_, y));
  }

 private:
  bool describe(const kernels::Convolution& c) {
    const cudnnDataType_t type = c.precision == kernels::Precision::kFp16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    // Matrix units read channels last.
    const cudnnTensorFormat_t format = type == CUDNN_DATA_HALF ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    const auto size = [](auto value) { return static_cast<int>(value); };
    return is_fine(cudnnCreateTensorDescriptor(&input_)) && is_fine(cudnnCreateTensorDescriptor(&output_)) &&
           is_fine(cudnnCreateFilterDescriptor(&filter_)) && is_fine(cudnnCreateConvolutionDescriptor(&convolution_)) &&
           is_fine(cudnnSetTensor4dDescriptor(input_, format, type, size(c.batch), size(c.in_channels), size(c.height),
                                              size(c.width))) &&
           is_fine(cudnnSetTensor4dDescriptor(output_, format, type, size(c.batch), size(c.out_channels),
                                              size(c.out_height()), size(c.out_width()))) &&
           is_fine(cudnnSetFilter4dDescriptor(filter_, type, format, size(c.out_channels),
                                              size(c.in_channels / c.groups), size(c.kernel_height),
                                              size(c.kernel_width))) &&
           is_fine(cudnnSetConvolution2dDescriptor(convolution_, size(c.padding_height), size(c.padding_width),
                                                   size(c.stride_height), size(c.stride_width), 1, 1,
                                                   CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT)) &&
           is_fine(cudnnSetConvolutionGroupCount(convolution_, size(c.groups))) &&
           is_fine(cudnnSetConvolutionMathType(convolution_,
                                               type == CUDNN_DATA_HALF ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH));
  }

  /// The first of the heuristics' algorithms that runs in at most kMostWorkspace.
  bool choose() {
    constexpr int kMost = 8;
    int count = 0;
    const auto take = [&](const auto& found, auto& algorithm) {
      for (int i = 0; i < count; ++i)
        if (is_fine(found[static_cast<std::size_t>(i)].status) &&
            found[static_cast<std::size_t>(i)].memory <= kMostWorkspace) {
          algorithm = found[static_cast<std::size_t>(i)].algo;
          workspace_size_ = found[static_cast<std::size_t>(i)].memory;
          return true;
        }
      return false;
    };
    if (pass_ == Pass::kData) {
      std::array<cudnnConvolutionBwdDataAlgoPerf_t, kMost> found{};
      return is_fine(cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn(), filter_, output_, convolution_, input_, kMost,
                                                                 &count, found.data())) &&
             take(found, data_);
    }
    if (pass_ == Pass::kWeights) {
      std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kMost> found{};
      return is_fine(cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn(), input_, output_, convolution_, filter_, kMost,
                                                                   &count, found.data())) &&
             take(found, weights_);
    }
    std::array<cudnnConvolutionFwdAlgoPerf_t, kMost> found{};
    return is_fine(cudnnGetConvolutionForwardAlgorithm_v7(dnn(), input_, filter_, convolution_, output_, kMost, &count,
                                                          found.data())) &&
           take(found, forward_);
  }

  Pass pass_;
  bool is_fine_ = false;
  cudnnTensorDescriptor_t input_ = nullptr, output_ = nullptr;
  cudnnFilterDescriptor_t filter_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  cudnnConvolutionFwdAlgo_t forward_{};
  cudnnConvolutionBwdDataAlgo_t data_{};
  cudnnConvolutionBwdFilterAlgo_t weights_{};
  std::size_t workspace_size_ = 0;
  std::array<std::size_t, 3> sizes_{};
  std::vector<std::unique_ptr<GpuMemory>> memory_;
  std::unique_ptr<GpuMemory> workspace_;
};

}  // namespace

std::optional<GpuRun> gpu_convolution(const kernels::Convolution& convolution, int buffers) {
  const auto plan = std::make_shared<const ConvolutionPlan>(convolution, buffers);
  if (!plan->has_algorithm() || !plan->start(0)) return {};
  return [plan](int number) { (void)plan->start(number); };
}

}  // namespace rehearse::microbench
