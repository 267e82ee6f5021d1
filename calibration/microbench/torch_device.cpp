// One thread of a processor, by LibTorch: products by its BLAS, convolutions by oneDNN, the rest by its own kernels.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <malloc.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <tuple>

#include "calibration/microbench/device.hpp"
#include "predictor/gnn/torch_threads.hpp"
#include "sim/base/errors.hpp"

namespace rehearse::microbench {

namespace {

using at::Tensor;
using kernels::StreamingKind;

// Inputs of a kernel are taken in turn, and its results kept as long: a step finds no more of them in caches.
constexpr double kRotated = 128e6;  // B of both
constexpr int kMostBuffers = 64;
constexpr double kNormEpsilon = 1e-5, kMomentum = 0.1;

/// Numbers in fp32 of a vector times two units that multiply and add.
int numbers_per_cycle() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return 32;
  if (__builtin_cpu_supports("avx2")) return 16;
#endif
  return 8;
}

std::string processor_name() {
  std::ifstream file{"/proc/cpuinfo"};
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) {
      const std::size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2) + ", one thread";
    }
  return "processor, one thread";
}

std::int64_t second_level_cache() {
  const long size = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return size > 0 ? size : 1 << 20;
}

/// What a kernel gives, which is kept for a while.
using Results = std::vector<Tensor>;
using Run = std::function<Results(int)>;

/// A run whose results are kept until `count` others have come.
std::function<void(int)> keeping(const Run& run, int count) {
  const auto kept = std::make_shared<std::vector<Results>>(static_cast<std::size_t>(count));
  return [run, kept](int i) { (*kept)[static_cast<std::size_t>(i) % kept->size()] = run(i); };
}

Results all_of(const Tensor& one) { return {one}; }
template <class... Tensors>
Results all_of(const std::tuple<Tensors...>& several) {
  return std::apply([](const auto&... each) { return Results{each...}; }, several);
}

/// How many buffers of so many bytes are taken in turn.
int buffers(double bytes) { return std::clamp(static_cast<int>(kRotated / std::max(bytes, 1.0)), 1, kMostBuffers); }

std::vector<Tensor> randoms(int count, at::IntArrayRef shape) {
  std::vector<Tensor> all;
  for (int i = 0; i < count; ++i) all.push_back(at::randn(shape));
  return all;
}

std::size_t turn(int number, const std::vector<Tensor>& of) { return static_cast<std::size_t>(number) % of.size(); }

Run product_run(const kernels::Product& p, Layout layout) {
  const int count = buffers(p.bytes());
  std::vector<Tensor> a, b;
  for (int i = 0; i < count; ++i) {
    a.push_back(layout == Layout::kFirstTransposed ? at::randn({p.batch, p.k, p.m}).transpose(1, 2)
                                                   : at::randn({p.batch, p.m, p.k}));
    b.push_back(layout == Layout::kSecondTransposed ? at::randn({p.batch, p.n, p.k}).transpose(1, 2)
                                                    : at::randn({p.batch, p.k, p.n}));
  }
  if (p.batch > 1) return [a, b](int i) { return all_of(at::bmm(a[turn(i, a)], b[turn(i, b)])); };
  for (Tensor& each : a) each = each[0];
  for (Tensor& each : b) each = each[0];
  return [a, b](int i) { return all_of(at::mm(a[turn(i, a)], b[turn(i, b)])); };
}

Run convolution_run(const kernels::Convolution& c) {
  const auto height = static_cast<std::int64_t>(c.out_height()), width = static_cast<std::int64_t>(c.out_width());
  const int count = buffers(c.bytes());
  const auto x = randoms(count, {c.batch, c.in_channels, c.height, c.width});
  const Tensor w = at::randn({c.out_channels, c.in_channels / c.groups, c.kernel_height, c.kernel_width});
  const std::array stride{c.stride_height, c.stride_width}, padding{c.padding_height, c.padding_width};
  const std::array<std::int64_t, 2> dilation{1, 1}, none{0, 0};
  const std::int64_t groups = c.groups;
  if (c.pass == kernels::Pass::kForward)
    return [=](int i) {
      return all_of(at::convolution(x[turn(i, x)], w, {}, stride, padding, dilation, false, none, groups));
    };
  const auto gradient = randoms(count, {c.batch, c.out_channels, height, width});
  const bool is_data = c.pass == kernels::Pass::kData;
  return [=](int i) {
    return all_of(at::convolution_backward(gradient[turn(i, x)], x[turn(i, x)], w, c10::nullopt, stride, padding,
                                           dilation, false, none, groups, {is_data, !is_data, false}));
  };
}

/// Batch normalisation of as many channels as rows, each of `columns` pixels, of 16 images where that divides them.
Run batch_norm_run(const kernels::Streaming& s, int count) {
  const std::int64_t samples = s.columns % 16 == 0 ? 16 : 1, channels = s.rows;
  const auto x = randoms(count, {samples, channels, s.columns / samples, 1});
  const Tensor scale = at::ones({channels}), shift = at::zeros({channels}), mean = at::zeros({channels}),
               variance = at::ones({channels});
  if (s.kind == StreamingKind::kBatchNorm)
    return [=](int i) {
      return all_of(at::native_batch_norm(x[turn(i, x)], scale, shift, mean, variance, true, kMomentum, kNormEpsilon));
    };
  return [=](int i) {
    return all_of(at::native_batch_norm_backward(x[turn(i + 1, x)], x[turn(i, x)], scale, mean, variance, mean,
                                                 variance, true, kNormEpsilon, {true, true, true}));
  };
}

/// Of square images, each a row, by windows of 2 x 2.
Run pooling_run(const kernels::Streaming& s, int count) {
  const auto edge = static_cast<std::int64_t>(std::sqrt(static_cast<double>(s.columns)));
  const auto x = randoms(count, {1, s.rows, edge, edge});
  if (s.kind == StreamingKind::kPooling)
    return [=](int i) { return all_of(at::max_pool2d_with_indices(x[turn(i, x)], {2, 2}, {2, 2})); };
  const auto pooled = at::max_pool2d_with_indices(x[0], {2, 2}, {2, 2});
  const Tensor gradient = std::get<0>(pooled), indices = std::get<1>(pooled);
  return [=](int i) {
    return all_of(
        at::max_pool2d_with_indices_backward(gradient, x[turn(i, x)], {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, indices));
  };
}

Run embedding_run(const kernels::Streaming& s, int count) {
  const auto x = randoms(count, {s.rows, s.columns});
  const Tensor rows = at::randint(s.rows, {s.rows}, at::kLong);
  if (s.kind == StreamingKind::kEmbedding) return [=](int i) { return all_of(at::embedding(x[turn(i, x)], rows)); };
  const std::int64_t table = s.rows;
  return [=](int i) { return all_of(at::embedding_dense_backward(x[turn(i, x)], rows, table, -1, false)); };
}

Run norm_run(const kernels::Streaming& s, int count) {
  const auto x = randoms(count, {s.rows, s.columns});
  const Tensor scale = at::ones({s.columns}), shift = at::zeros({s.columns});
  const std::vector<std::int64_t> shape{s.columns};
  if (s.kind == StreamingKind::kLayerNorm)
    return [=](int i) { return all_of(at::native_layer_norm(x[turn(i, x)], shape, scale, shift, kNormEpsilon)); };
  const auto result = at::native_layer_norm(x[0], shape, scale, shift, kNormEpsilon);
  const Tensor mean = std::get<1>(result), deviation = std::get<2>(result);
  return [=](int i) {
    return all_of(at::native_layer_norm_backward(x[turn(i + 1, x)], x[turn(i, x)], shape, mean, deviation, scale, shift,
                                                 {true, true, true}));
  };
}

Run loss_run(const kernels::Streaming& s, int count) {
  const auto x = randoms(count, {s.rows, s.columns});
  const Tensor classes = at::randint(s.columns, {s.rows}, at::kLong), one = at::ones({});
  return [=](int i) {
    const Tensor logarithms = at::_log_softmax(x[turn(i, x)], 1, false);
    const auto loss = at::nll_loss_forward(logarithms, classes, {}, at::Reduction::Mean, -100);
    const Tensor gradient =
        at::nll_loss_backward(one, logarithms, classes, {}, at::Reduction::Mean, -100, std::get<1>(loss));
    return all_of(at::_log_softmax_backward_data(gradient, logarithms, 1, at::kFloat));
  };
}

Run optimizer_run(const kernels::Streaming& s, int count) {
  const auto p = randoms(count, {s.rows, s.columns}), g = randoms(count, {s.rows, s.columns});
  auto m = randoms(count, {s.rows, s.columns}), v = randoms(count, {s.rows, s.columns});
  if (s.kind == StreamingKind::kSgd)
    return [=](int i) {
      p[turn(i, p)].add_(g[turn(i, p)], -1e-6);
      return Results{};
    };
  if (s.kind == StreamingKind::kMomentum)
    return [=](int i) {
      const std::size_t t = turn(i, p);
      m[t].mul_(0.9).add_(g[t]);
      p[t].add_(m[t], -1e-6);
      return Results{};
    };
  return [=](int i) {
    const std::size_t t = turn(i, p);
    m[t].mul_(0.9).add_(g[t], 0.1);
    v[t].mul_(0.999).addcmul_(g[t], g[t], 0.001);
    p[t].addcdiv_(m[t], v[t].abs().sqrt_().add_(1e-3), -1e-6);
    return Results{};
  };
}

Run elementwise_run(const kernels::Streaming& s, int count) {
  const auto x = randoms(count, {s.rows, s.columns}), y = randoms(count, {s.rows, s.columns});
  switch (s.kind) {
    case StreamingKind::kBinary:  // as the gradient of ReLU, and sums
      return [=](int i) { return all_of(at::threshold_backward(x[turn(i, x)], y[turn(i, x)], 0)); };
    case StreamingKind::kCopy:
      return [=](int i) { return all_of(x[turn(i, x)].t().contiguous()); };
    case StreamingKind::kReduction:
      return [=](int i) { return all_of(x[turn(i, x)].sum(0)); };
    case StreamingKind::kSoftmax:
      return [=](int i) { return all_of(at::_softmax(x[turn(i, x)], 1, false)); };
    case StreamingKind::kSoftmaxBackward:
      return [=](int i) { return all_of(at::_softmax_backward_data(x[turn(i, x)], y[turn(i, x)], 1, at::kFloat)); };
    case StreamingKind::kGelu:
      return [=](int i) { return all_of(at::gelu(x[turn(i, x)])); };
    case StreamingKind::kGeluBackward:
      return [=](int i) { return all_of(at::gelu_backward(x[turn(i, x)], y[turn(i, x)])); };
    default:
      return [=](int i) { return all_of(at::relu(x[turn(i, x)])); };
  }
}

Run streaming_run(const kernels::Streaming& s) {
  const int count = buffers(s.bytes());
  switch (s.kind) {
    case StreamingKind::kBatchNorm:
    case StreamingKind::kBatchNormBackward:
      return batch_norm_run(s, count);
    case StreamingKind::kPooling:
    case StreamingKind::kPoolingBackward:
      return pooling_run(s, count);
    case StreamingKind::kEmbedding:
    case StreamingKind::kEmbeddingBackward:
      return embedding_run(s, count);
    case StreamingKind::kLayerNorm:
    case StreamingKind::kLayerNormBackward:
      return norm_run(s, count);
    case StreamingKind::kCrossEntropy:
      return loss_run(s, count);
    case StreamingKind::kSgd:
    case StreamingKind::kMomentum:
    case StreamingKind::kAdam:
      return optimizer_run(s, count);
    default:
      return elementwise_run(s, count);
  }
}

class ProcessorDevice : public Device {
 public:
  ProcessorDevice() {
    use_torch_threads(1);
    keep_freed_memory();
    at::manual_seed(1);
  }

  Accelerator describe(const Effort& effort) override {
    constexpr std::int64_t kEdge = 768, kCopied = std::int64_t{1} << 24;
    const kernels::Product product{.m = kEdge, .n = kEdge, .k = kEdge};
    const double peak =
        product.flops() / time_of([run = product_run(product, Layout::kPlain)](int i) { (void)run(i); }, effort);
    const Tensor from = at::randn({kCopied}), to = at::empty({kCopied});
    const double copied = 2.0 * 4 * kCopied;
    const double rate = copied / time_of([&](int) { to.copy_(from); }, effort);
    struct sysinfo system {};
    ::sysinfo(&system);
    const Bytes memory{static_cast<std::int64_t>(system.totalram) * static_cast<std::int64_t>(system.mem_unit)};
    return {.name = processor_name(),
            .peak_fp32 = FlopsPerSecond{peak},
            .peak_fp16 = FlopsPerSecond{peak},
            .memory_bandwidth = BytesPerSecond{rate},
            .memory = memory,
            .memory_reserved = Bytes{0},
            .multiprocessors = 1,
            .host_link = BytesPerSecond{rate},
            .architecture = kernels::kProcessorArchitecture,
            .cores_per_multiprocessor = numbers_per_cycle(),
            .l2 = Bytes{second_level_cache()},
            .source = "rehearse microbench: a product of 768 x 768 x 768 in fp32 by LibTorch " + linear_algebra_name() +
                      ", a copy of 64 MiB; caches and vectors as the system states them"};
  }

  std::vector<Case> cases(Extent extent) const override { return processor_cases(extent); }

  std::optional<Sample> measure(const Case& of, const Effort& effort, const std::function<bool()>& is_over) override {
    const at::NoGradGuard no_gradients;
    const Run run = std::holds_alternative<kernels::Product>(of.kernel)
                        ? product_run(std::get<kernels::Product>(of.kernel), of.layout)
                    : std::holds_alternative<kernels::Convolution>(of.kernel)
                        ? convolution_run(std::get<kernels::Convolution>(of.kernel))
                        : streaming_run(std::get<kernels::Streaming>(of.kernel));
    const int kept = buffers(std::visit(
        [](const auto& kernel) -> double {
          if constexpr (requires { kernel.bytes(); }) return kernel.bytes();
          return 0;
        },
        of.kernel));
    const auto keeping_run = keeping(run, kept);
    for (int i = 0; i < kept; ++i) keeping_run(i);  // memory that was never used is slow at first
    std::vector<double> samples = sample(keeping_run, thread_seconds, effort, is_over);
    if (samples.empty()) return {};
    return summarize(std::move(samples));
  }

  /// A chain of operators on 64 numbers, forward and backward, less what their kernels take.
  double dispatch(const Effort& effort) override {
    constexpr int kLinks = 100;
    const Tensor x = at::randn({8, 8});
    const auto chain = [&](int) {
      Tensor start = x.detach();
      start.requires_grad_(true);
      Tensor y = start;
      for (int i = 0; i < kLinks; ++i) y = at::relu(y);
      y.sum().backward();
    };
    const double both = time_of(chain, effort) / kLinks;
    const at::NoGradGuard no_gradients;
    const double forward = time_of([&](int) { return all_of(at::relu(x)); }, effort);
    const double backward = time_of([&](int) { return all_of(at::threshold_backward(x, x, 0)); }, effort);
    return std::max(0.0, (both - forward - backward) / 2);
  }

  std::vector<SystemFigure> system_figures(const Effort&) override { return {}; }

 private:
  static double time_of(const std::function<void(int)>& run, const Effort& effort) {
    return summarize(sample(run, thread_seconds, effort)).time;
  }
  static std::string linear_algebra_name() {
    const std::string library = linear_algebra_library();
    return "with " + library.substr(library.rfind('/') + 1);
  }
};

}  // namespace

std::unique_ptr<Device> make_processor_device() { return std::make_unique<ProcessorDevice>(); }

}  // namespace rehearse::microbench
