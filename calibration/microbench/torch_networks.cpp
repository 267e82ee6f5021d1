// The networks of network_steps.hpp in LibTorch, with its operators alone: no modules, no optimizer's class.

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "calibration/microbench/network_steps.hpp"
#include "predictor/gnn/torch_threads.hpp"

namespace rehearse::microbench {

namespace {

using at::Tensor;

constexpr double kRate = 1e-3;
constexpr double kEpsilon = 1e-5, kStatisticsRate = 0.1;  // of normalisations
constexpr std::int64_t kClasses = 10;
constexpr int kWarmUpSteps = 2;

/// Parameters in the order in which the network asks for them: the first pass makes them.
class Parameters {
 public:
  void rewind() { next_ = 0; }
  Tensor next(at::IntArrayRef shape, double deviation) {
    if (next_ == all_.size()) all_.push_back(at::randn(shape).mul_(deviation).requires_grad_(true));
    return all_[next_++];
  }
  Tensor ones(std::int64_t channels) {
    if (next_ == all_.size()) all_.push_back(at::ones({channels}).requires_grad_(true));
    return all_[next_++];
  }
  /// Statistics of normalisations, which are no parameters.
  std::pair<Tensor, Tensor> statistics(std::int64_t channels) {
    if (!statistics_.contains(next_)) statistics_[next_] = {at::zeros({channels}), at::ones({channels})};
    return statistics_.at(next_);
  }
  const std::vector<Tensor>& all() const { return all_; }

 private:
  std::vector<Tensor> all_;
  std::map<std::size_t, std::pair<Tensor, Tensor>> statistics_;
  std::size_t next_ = 0;
};

Tensor linear(Parameters& p, const Tensor& x, std::int64_t features, bool has_bias = true) {
  const std::int64_t in = x.size(-1);
  const Tensor weights = p.next({features, in}, 1 / std::sqrt(static_cast<double>(in)));
  return at::linear(x, weights, has_bias ? p.next({features}, 0) : Tensor{});
}

struct Window {
  std::int64_t kernel = 1, stride = 1, padding = 0, groups = 1;
};

Tensor convolution(Parameters& p, const Tensor& x, std::int64_t channels, const Window& w, bool has_bias = false) {
  const std::int64_t in = x.size(1) / w.groups;
  const double terms = static_cast<double>(in * w.kernel * w.kernel);
  const Tensor weights = p.next({channels, in, w.kernel, w.kernel}, 1 / std::sqrt(terms));
  return at::conv2d(x, weights, has_bias ? p.next({channels}, 0) : Tensor{}, {w.stride, w.stride},
                    {w.padding, w.padding}, {1, 1}, w.groups);
}

Tensor batch_norm(Parameters& p, const Tensor& x) {
  const std::int64_t channels = x.size(1);
  const auto statistics = p.statistics(channels);
  const Tensor scale = p.ones(channels), shift = p.next({channels}, 0);
  return at::batch_norm(x, scale, shift, statistics.first, statistics.second, true, kStatisticsRate, kEpsilon, false);
}

Tensor unit(Parameters& p, const Tensor& x, std::int64_t channels, const Window& window) {
  return at::relu(batch_norm(p, convolution(p, x, channels, window)));
}

Tensor mlp(Parameters& p, const Tensor& images) {
  const Tensor x = at::relu(linear(p, images.flatten(1), 1000));
  return linear(p, at::relu(linear(p, x, 500)), kClasses);
}

Tensor lenet(Parameters& p, const Tensor& images) {
  Tensor x = at::max_pool2d(at::relu(convolution(p, images, 6, {.kernel = 5, .padding = 2}, true)), {2, 2}, {2, 2});
  x = at::max_pool2d(at::relu(convolution(p, x, 16, {.kernel = 5}, true)), {2, 2}, {2, 2});
  x = at::relu(linear(p, x.flatten(1), 120));
  return linear(p, at::relu(linear(p, x, 84)), kClasses);
}

Tensor resnet20(Parameters& p, const Tensor& images) {
  Tensor x = unit(p, images, 16, {.kernel = 3, .padding = 1});
  for (const std::int64_t width : {16, 32, 64})
    for (int block = 0; block < 3; ++block) {
      const std::int64_t stride = width > 16 && block == 0 ? 2 : 1;
      Tensor y = unit(p, x, width, {.kernel = 3, .stride = stride, .padding = 1});
      y = batch_norm(p, convolution(p, y, width, {.kernel = 3, .padding = 1}));
      if (stride > 1) x = batch_norm(p, convolution(p, x, width, {.stride = stride}));
      x = at::relu(y + x);
    }
  return linear(p, at::adaptive_avg_pool2d(x, {1, 1}).flatten(1), kClasses);
}

Tensor inverted_residual(Parameters& p, const Tensor& x, std::int64_t width, std::int64_t expansion,
                         std::int64_t stride) {
  const std::int64_t in = x.size(1), inner = in * expansion;
  Tensor y = expansion > 1 ? unit(p, x, inner, {}) : x;
  y = unit(p, y, inner, {.kernel = 3, .stride = stride, .padding = 1, .groups = inner});
  y = batch_norm(p, convolution(p, y, width, {}));
  return stride == 1 && in == width ? x + y : y;
}

Tensor mobilenet_v2(Parameters& p, const Tensor& images) {
  struct Stage {
    std::int64_t expansion, width, blocks, stride;
  };
  Tensor x = unit(p, images, 32, {.kernel = 3, .stride = 2, .padding = 1});
  for (const Stage& stage : {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
                             Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}})
    for (std::int64_t block = 0; block < stage.blocks; ++block)
      x = inverted_residual(p, x, stage.width, stage.expansion, block == 0 ? stage.stride : 1);
  x = unit(p, x, 1280, {});
  return linear(p, at::adaptive_avg_pool2d(x, {1, 1}).flatten(1), kClasses);
}

constexpr std::int64_t kTokens = 64;

/// [batch, tokens, heads features] as [batch, heads, tokens, features].
Tensor by_head(const Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), kTokens, heads, x.size(-1) / heads}).transpose(1, 2);
}

/// Of queries, keys and values by head: [batch, tokens, heads features]. Several heads of queries may share one of keys. `mask` is
/// added to the scores if it is defined.
Tensor attend(const Tensor& queries, const Tensor& keys, const Tensor& values, const Tensor& mask = {}) {
  const std::int64_t heads = queries.size(1), features = queries.size(3), shared = heads / keys.size(1);
  const auto by_key_head = [&](const Tensor& x) {
    return x.reshape({x.size(0), heads / shared, shared * kTokens, x.size(3)});
  };
  Tensor scores =
      at::matmul(by_key_head(queries), keys.transpose(2, 3)) * (1 / std::sqrt(static_cast<double>(features)));
  scores = scores.view({-1, heads, kTokens, kTokens});
  if (mask.defined()) scores = scores + mask;
  const Tensor y = at::matmul(by_key_head(at::softmax(scores, -1)), values).view({-1, heads, kTokens, features});
  return y.transpose(1, 2).reshape({-1, kTokens, heads * features});
}

namespace bert {

constexpr std::int64_t kWidth = 192, kHeads = 6, kFeedForward = 768, kVocabulary = 2000;

Tensor attention(Parameters& p, const Tensor& x) {
  const Tensor queries = by_head(linear(p, x, kWidth), kHeads), keys = by_head(linear(p, x, kWidth), kHeads),
               values = by_head(linear(p, x, kWidth), kHeads);
  return linear(p, attend(queries, keys, values), kWidth);
}

Tensor layer_norm(Parameters& p, const Tensor& x) {
  const Tensor scale = p.ones(kWidth), shift = p.next({kWidth}, 0);
  return at::layer_norm(x, {kWidth}, scale, shift, kEpsilon, false);
}

Tensor transformer(Parameters& p, const Tensor& tokens) {
  const Tensor words = p.next({kVocabulary, kWidth}, 1), positions = p.next({kTokens, kWidth}, 1);
  Tensor x = at::embedding(words, tokens) + positions;
  for (int layer = 0; layer < 2; ++layer) {
    x = layer_norm(p, x + attention(p, x));
    const Tensor inner = at::gelu(linear(p, x, kFeedForward));
    x = layer_norm(p, x + linear(p, inner, kWidth));
  }
  return linear(p, x, kVocabulary, false).view({-1, kVocabulary});
}

}  // namespace bert

namespace llama {

constexpr std::int64_t kWidth = 256, kHeads = 8, kKeyHeads = 2, kFeatures = kWidth / kHeads, kFeedForward = 896,
                       kVocabulary = 1600;

Tensor rms_norm(Parameters& p, const Tensor& x) {
  return x * at::rsqrt(at::mean(x * x, at::OptionalIntArrayRef{{-1}}, true) + kEpsilon) * p.ones(kWidth);
}

/// Queries or keys by head, turned by an angle for each position and pair of features.
struct Rotation {
  Tensor cosine, sine;

  Rotation() {
    const Tensor frequencies = at::pow(10'000.0, at::arange(0, kFeatures, 2) * (-1.0 / kFeatures));
    const Tensor angles = at::outer(at::arange(kTokens).to(at::kFloat), at::cat({frequencies, frequencies}));
    cosine = angles.cos();
    sine = angles.sin();
  }
  Tensor operator()(const Tensor& x) const {
    const std::vector<Tensor> halves = x.chunk(2, -1);
    return x * cosine + at::cat({-halves[1], halves[0]}, -1) * sine;
  }
};

Tensor attention(Parameters& p, const Tensor& x, const Rotation& rotated, const Tensor& mask) {
  const Tensor queries = by_head(linear(p, x, kWidth, false), kHeads),
               keys = by_head(linear(p, x, kKeyHeads * kFeatures, false), kKeyHeads),
               values = by_head(linear(p, x, kKeyHeads * kFeatures, false), kKeyHeads);
  return linear(p, attend(rotated(queries), rotated(keys), values, mask), kWidth, false);
}

Tensor decoder(Parameters& p, const Tensor& tokens) {
  static const Rotation rotation;
  static const Tensor mask = at::full({kTokens, kTokens}, -INFINITY).triu(1);
  Tensor x = at::embedding(p.next({kVocabulary, kWidth}, 1), tokens);
  for (int layer = 0; layer < 2; ++layer) {
    x = x + attention(p, rms_norm(p, x), rotation, mask);
    const Tensor y = rms_norm(p, x);
    const Tensor inner = linear(p, y, kFeedForward, false), gates = linear(p, y, kFeedForward, false);
    x = x + linear(p, inner * at::silu(gates), kWidth, false);
  }
  return linear(p, rms_norm(p, x), kVocabulary, false).view({-1, kVocabulary});
}

}  // namespace llama

/// Allocated and not freed since it is the thread's.
class AllocatedBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t allocated, std::int64_t, std::int64_t, c10::Device) override {
    bytes_ += allocated;
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

/// A network, its parameters and a batch of samples.
struct Trained {
  std::function<Tensor(Parameters&, const Tensor&)> forward;
  Parameters parameters;
  Tensor input, classes;

  Trained(std::string_view name, std::int64_t batch) {
    const bool is_small = name == "mlp" || name == "lenet";
    const std::int64_t edge = is_small ? 28 : name == "resnet20" ? 32 : 64;
    input = at::randn({batch, is_small ? 1 : 3, edge, edge});
    classes = at::randint(kClasses, {batch}, at::kLong);
    forward = name == "mlp" ? mlp : name == "lenet" ? lenet : name == "resnet20" ? resnet20 : mobilenet_v2;
    if (name != "transformer" && name != "llama") return;
    forward = name == "llama" ? llama::decoder : bert::transformer;
    const std::int64_t words = name == "llama" ? llama::kVocabulary : bert::kVocabulary;
    input = at::randint(words, {batch, kTokens}, at::kLong);
    classes = at::randint(words, {batch * kTokens}, at::kLong);
  }

  void step() {
    parameters.rewind();
    at::cross_entropy_loss(forward(parameters, input), classes).backward();
    const at::NoGradGuard no_gradients;
    for (const Tensor& parameter : parameters.all()) {
      parameter.add_(parameter.grad(), -kRate);
      parameter.mutable_grad().reset();  // the next step writes it, instead of adding
    }
  }
};

}  // namespace

std::int64_t trained_scalars(std::string_view name) {
  Trained network{name, 2};
  (void)network.forward(network.parameters, network.input);
  std::int64_t sum = 0;
  for (const Tensor& parameter : network.parameters.all()) sum += parameter.numel();
  return sum;
}

std::int64_t kept_bytes(const Network& network) {
  use_torch_threads(1);
  Trained trained{network.name, network.batch};
  trained.step();
  trained.parameters.rewind();
  const auto counter = std::make_shared<AllocatedBytes>();
  const c10::DebugInfoGuard counted{c10::DebugInfoKind::PROFILER_STATE, counter};
  const Tensor scores = trained.forward(trained.parameters, trained.input),
               loss = at::cross_entropy_loss(scores, trained.classes);
  return counter->bytes();
}

std::optional<Sample> measure_step(const Network& network, const Effort& effort, const std::function<bool()>& is_over) {
  use_torch_threads(1);
  keep_freed_memory();
  at::manual_seed(1);
  Trained trained{network.name, network.batch};
  const auto samples = sample([&](int) { trained.step(); }, thread_seconds, effort, is_over);
  if (samples.empty()) return {};
  return summarize(samples);
}

std::vector<BusySpan> paused_steps(const Network& network, int count, double pause,
                                   const std::function<bool()>& is_over) {
  use_torch_threads(1);
  keep_freed_memory();
  at::manual_seed(1);
  Trained trained{network.name, network.batch};
  for (int i = 0; i < kWarmUpSteps; ++i) trained.step();
  using Clock = std::chrono::steady_clock;
  const Clock::time_point first = Clock::now();
  const auto now = [&] { return std::chrono::duration<double>(Clock::now() - first).count(); };
  std::vector<BusySpan> spans;
  for (int i = 0; i < count; ++i) {
    if (is_over && is_over()) return {};
    const double start = now(), computed = thread_seconds();
    trained.step();
    spans.push_back({start, now(), thread_seconds() - computed});
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
  return spans;
}

}  // namespace rehearse::microbench
