#include "sim/scenario/kernel_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "platforms/kernels/attention.hpp"
#include "platforms/kernels/fft_convolution.hpp"
#include "sim/scenario/processor_kernels.hpp"

namespace rehearse {

namespace {

bool is_half(kernels::Precision precision) {
  return precision == kernels::Precision::kFp16 || precision == kernels::Precision::kBf16;
}

std::int64_t whole(double size) { return std::max<std::int64_t>(1, std::llround(size)); }

/// On each side, for as many outputs as the layer has.
std::int64_t padding(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return std::max<std::int64_t>(0, ((out - 1) * stride + kernel - in + 1) / 2);
}

kernels::Pass pass_of(Phase phase, bool is_transposed) {
  if (phase == Phase::kBackwardWeights) return kernels::Pass::kWeights;
  return (phase == Phase::kForward) != is_transposed ? kernels::Pass::kForward : kernels::Pass::kData;
}

kernels::Convolution convolution_of(const Operator& op, kernels::Precision precision) {
  const ConvolutionShape& c = *op.convolution;
  return {.batch = c.batch,
          .in_channels = c.in_channels,
          .out_channels = c.out_channels,
          .height = c.in_height,
          .width = c.in_width,
          .kernel_height = c.kernel_height,
          .kernel_width = c.kernel_width,
          .stride_height = c.stride,
          .stride_width = c.stride,
          .padding_height = padding(c.in_height, c.out_height, c.kernel_height, c.stride),
          .padding_width = padding(c.in_width, c.out_width, c.kernel_width, c.stride),
          .groups = c.groups,
          .pass = pass_of(op.phase, c.is_transposed),
          .precision = precision};
}

Seconds attention_time(const Operator& op, const KernelSetting& setting) {
  const AttentionShape& a = *op.attention;
  const kernels::Attention attention{.batch = a.batch,
                                     .heads = a.heads,
                                     .key_heads = a.key_heads,
                                     .queries = a.queries,
                                     .keys = a.keys,
                                     .head_size = a.head_features,
                                     .value_size = a.value_features,
                                     .is_causal = a.is_causal,
                                     .is_backward = op.phase != Phase::kForward,
                                     .is_fused = !setting.gpu.is_processor(),
                                     .precision = setting.products};
  return std::max(kernels::least_attention_time(attention, setting.gpu),
                  kernels::attention_time(attention, setting.gpu, setting.values) / setting.framework.attention_rate);
}

kernels::Product product_of(const Operator& op, const KernelSetting& setting) {
  kernels::Product product{.batch = whole(op.matrix.products),
                           .m = whole(op.matrix.rows),
                           .n = whole(op.matrix.columns),
                           .k = whole(op.matrix.reduction),
                           .precision = kernels::precision_of(op.factor_bits, setting.products)};
  if (setting.framework.needs_alignment && is_half(product.precision) && !is_aligned(product))
    product.precision = kernels::Precision::kFp32;
  return product;
}

/// A kernel over all numbers of the operator's output, whose rows are its last dimension.
kernels::Streaming by_rows(const Operator& op, kernels::StreamingKind kind, kernels::Precision precision) {
  kernels::Streaming kernel{.kind = kind, .precision = precision};
  if (op.output_shape.empty()) return kernel;
  kernel.columns = op.output_shape.back();
  for (std::size_t i = 0; i + 1 < op.output_shape.size(); ++i) kernel.rows *= op.output_shape[i];
  return kernel;
}

bool is_composite(const Operator& op) {
  return op.is_composite || op.kind == OperatorKind::kLayerNorm || op.kind == OperatorKind::kDropout;
}

/// An activation or sum, which a framework may make part of the kernel before it.
bool is_fusible(const Operator& op) {
  return !is_composite(op) && (op.kind == OperatorKind::kActivation || op.kind == OperatorKind::kElementwise);
}

bool is_product(const Operator& op) { return !op.convolution && op.matrix.reduction > 0; }

/// Elementary kernels that the framework launches for it.
double launches(const Operator& op, const KernelSetting& setting) {
  if (is_composite(op)) return setting.framework.composition;
  return is_fusible(op) ? 1 - setting.framework.fusion : 1;
}

/// A batch norm with a block of threads for each channel of images.
bool is_by_channels(const Operator& op, const KernelSetting& setting) {
  return op.kind == OperatorKind::kBatchNorm && setting.framework.transposes_images && !op.output_shape.empty();
}

/// What kernels besides the operator's own read and write, each once, and how many they are.
struct Copies {
  double bytes = 0, kernels = 0;
};

Copies copies_of(const Operator& op, const KernelSetting& setting) {
  const bool has_images_last = !is_half(setting.products) || !setting.framework.transposes_images;
  if (op.convolution && !has_images_last) return {2 * as_double(op.bytes_read + op.bytes_written), 2};
  if (!is_product(op) || op.phase == Phase::kBackwardWeights) return {};
  return {2 * setting.framework.copies * as_double(op.bytes_written), setting.framework.copies};
}

/// That it reads and writes: of casts also the transposed copies that units of the GPU want.
double traffic_of(const Operator& op, const KernelSetting& setting) {
  const bool has_copy = op.transposed > Bytes{} && kernels::wants_transposed(setting.gpu.architecture);
  return as_double(op.bytes_read + op.bytes_written + (has_copy ? op.transposed : Bytes{}));
}

/// Kernels that the framework launches for it.
double kernels_of(const Operator& op, const KernelSetting& setting) {
  return launches(op, setting) + copies_of(op, setting).kernels;
}

/// Of a time in fp16.
double widening(const Operator& op, const KernelSetting& setting) {
  const bool is_wide = is_composite(op) || op.kind == OperatorKind::kSoftmaxLoss;
  return is_wide && is_half(setting.scalars) ? setting.framework.mixed_scalars : 1;
}

/// The fastest algorithm that the framework's library has.
Seconds time_of_kernel(const kernels::Kernel& kernel, const KernelSetting& setting) {
  const Seconds time = kernels::time(kernel, setting.gpu, setting.values);
  const auto* convolution = std::get_if<kernels::Convolution>(&kernel);
  if (convolution == nullptr || kernels::fft_workspace(*convolution) > setting.framework.convolution_workspace ||
      (convolution->pass == kernels::Pass::kWeights && !setting.framework.transforms_weight_gradients))
    return time;
  return std::min(time, kernels::fft_time(*convolution, setting.gpu, setting.values.convolutions).value_or(time));
}

template <class ClassValues>
void limit_launch(ClassValues& values, double cycles) {
  values.launch = std::min(values.launch, cycles);
}

/// Values of convolutions are fitted to what frameworks run in fp32, which is tf32 where a GPU has units for it; in fp16
/// convolutions are the products that they are lowered to.
void share_tiles(kernels::ConvolutionValues& convolutions, const kernels::ProductValues& products) {
  static_cast<kernels::TileValues&>(convolutions) = static_cast<const kernels::TileValues&>(products);
  convolutions.memory = products.memory;
  convolutions.sharpness = products.sharpness;
}

kernels::StreamingKind kind_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kSgd:
      return kernels::StreamingKind::kSgd;
    case Optimizer::kMomentum:
      break;
    case Optimizer::kAdam:
      return kernels::StreamingKind::kAdam;
  }
  return kernels::StreamingKind::kMomentum;
}

}  // namespace

kernels::Precision products_in(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      break;
    case Precision::kTf32:
      return kernels::Precision::kTf32;
    case Precision::kFp16:
      return kernels::Precision::kFp16;
    case Precision::kBf16:
      return kernels::Precision::kBf16;
  }
  return kernels::Precision::kFp32;
}

KernelSetting kernel_setting(const Profile& profile, const std::string& framework, Precision precision,
                             const Accelerator& accelerator, const std::string& place) {
  KernelSetting setting{.gpu = kernels::gpu_of(accelerator, place, profile.power_of(accelerator)),
                        .host_link = accelerator.host_link,
                        .values = {},
                        .framework = profile.framework(framework)};
  setting.values = profile.kernels->of(setting.gpu);
  if (is_half(precision)) share_tiles(setting.values.convolutions, setting.values.products_reduced);
  if (setting.gpu.is_processor()) return setting;
  const double most = setting.framework.kernel_overhead.value() * setting.gpu.clock;
  limit_launch(setting.values.products_fp32, most);
  limit_launch(setting.values.products_reduced, most);
  limit_launch(setting.values.convolutions, most);
  limit_launch(setting.values.elementwise, most);
  limit_launch(setting.values.softmax, most);
  limit_launch(setting.values.norms, most);
  const bool has_tf32 = accelerator.peak_tf32 > FlopsPerSecond{};
  setting.products = products_in(precision);
  if (precision == Precision::kFp32 && setting.framework.uses_tf32 && has_tf32)
    setting.products = kernels::Precision::kTf32;
  if (is_half(precision)) setting.scalars = setting.products;
  return setting;
}

std::optional<kernels::Kernel> kernel_of(const Operator& op, const KernelSetting& setting) {
  if (op.convolution) return convolution_of(op, setting.products);
  if (op.matrix.reduction > 0) return product_of(op, setting);
  if (setting.gpu.is_processor()) return streaming_on_processor(op);
  const bool is_forward = op.phase == Phase::kForward;
  if (op.kind == OperatorKind::kLayerNorm)
    return by_rows(op, is_forward ? kernels::StreamingKind::kLayerNorm : kernels::StreamingKind::kLayerNormBackward,
                   setting.scalars);
  if (op.kind == OperatorKind::kSoftmaxLoss) return by_rows(op, kernels::StreamingKind::kCrossEntropy, setting.scalars);
  return {};
}

namespace {

/// The same thread dispatches an operator and computes it.
KernelTime processor_time(const Operator& op, const KernelSetting& setting) {
  const auto kernel = op.attention ? std::nullopt : kernel_of(op, setting);
  const Seconds work = op.attention ? attention_time(op, setting)
                       : kernel     ? kernels::time(*kernel, setting.gpu, setting.values)
                                    : Seconds{};
  const Seconds memory{as_double(op.bytes_read + op.bytes_written) / setting.gpu.bandwidth};
  return {.total = setting.framework.dispatch + work,
          .memory = std::min(work, memory),
          .launch = setting.framework.dispatch};
}

/// What it takes to add an operator's gradients to those of the batches before (Framework::accumulation).
struct GradientSums {
  double kernels = 0;
  Seconds total{}, memory{}, launch{};
};

GradientSums sums_of(const Operator& op, const Workload& workload, const KernelSetting& setting) {
  const double bytes = setting.framework.accumulation * static_cast<double>(workload.gradient_scalars(op));
  if (bytes == 0 || setting.gpu.is_processor()) return {};
  const kernels::StreamingValues& values = setting.values.elementwise;
  const auto variables = static_cast<double>(op.produces_gradients.size());
  const Seconds launch = kernels::launch_time(setting.gpu, values), memory{bytes / setting.gpu.bandwidth};
  const Seconds total = variables * kernels::memory_time(bytes / variables, setting.gpu, values);
  if (setting.framework.accumulates_in_product)
    return {.kernels = 0, .total = std::max(total - variables * launch, memory), .memory = memory, .launch = {}};
  return {.kernels = variables, .total = total, .memory = memory, .launch = variables * launch};
}

struct OperatorTime {
  KernelTime time;
  Seconds dispatch{};
};

/// Of the operator's kernels and of those that add up its gradients.
OperatorTime time_of_operator(const Operator& op, const Workload& workload, const KernelSetting& setting) {
  if (op.measured_time) return {{.total = *op.measured_time, .memory = {}}};
  KernelTime time = kernel_time(op, setting);
  const GradientSums sums = sums_of(op, workload, setting);
  time.total += sums.total;
  time.memory += sums.memory;
  time.launch += sums.launch;
  const bool is_dispatched = !setting.gpu.is_processor() && !op.is_cast && !op.is_further_part;
  return {time, is_dispatched ? (kernels_of(op, setting) + sums.kernels) * setting.framework.dispatch : Seconds{}};
}

}  // namespace

KernelTime kernel_time(const Operator& op, const KernelSetting& setting) {
  if (setting.gpu.is_processor()) return processor_time(op, setting);
  const auto time_of = [&](double bytes) {
    return kernels::memory_time(bytes, setting.gpu, setting.values.elementwise);
  };
  const auto own_time = [&](double bytes) {
    return is_by_channels(op, setting)
               ? kernels::channel_time(bytes, static_cast<double>(op.output_shape.back()), op.phase != Phase::kForward,
                                       setting.scalars, setting.gpu, setting.values.elementwise)
               : time_of(bytes);
  };
  const double bytes = traffic_of(op, setting);
  if (op.is_cast && bytes == 0) return {};
  const double count = launches(op, setting), wide = widening(op, setting);
  const auto kernel = count > 1 || op.attention ? std::nullopt : kernel_of(op, setting);
  Seconds total = op.attention ? attention_time(op, setting)
                  : kernel     ? time_of_kernel(*kernel, setting)
                               : count * own_time(bytes);
  total = wide * total;
  Seconds launch = kernel ? kernels::launch_time(*kernel, setting.gpu, setting.values)
                          : (op.attention ? 1 : count) * kernels::launch_time(setting.gpu, setting.values.elementwise);
  launch = wide * launch;
  const Copies copies = copies_of(op, setting);
  if (copies.kernels > 0) {
    total += copies.kernels * time_of(copies.bytes / copies.kernels);
    launch += copies.kernels * kernels::launch_time(setting.gpu, setting.values.elementwise);
  }
  return {.total = total,
          .memory = std::min(total, Seconds{(wide * count * bytes + copies.bytes) / setting.gpu.bandwidth}),
          .launch = std::min(total, launch)};
}

ComputePlan plan_kernels(const Workload& workload, const KernelSetting& setting) {
  ComputePlan plan{.kernels = {},
                   .step_overhead = workload.is_whole_step ? Seconds{} : setting.framework.step_overhead,
                   .input = workload.input_bytes};
  if (setting.framework.has_variables_on_host && !workload.is_whole_step) {
    plan.host_copies = 2 * workload.parameter_bytes() / setting.host_link;
    plan.step_overhead += plan.host_copies;
  }
  std::vector<std::vector<int>> readers = readers_of_exchanges(workload.graph);
  std::vector<std::optional<OperatorTime>> times(workload.graph.stored_size());  // of layers that are repeated once
  Seconds awaited_launches{};  // of collectives, where the host waits for each of them: before the next kernel
  for (std::size_t vertex = 0; vertex < workload.graph.size(); ++vertex) {
    const OperatorAt op = workload.graph[vertex];
    if (op->phase == Phase::kUpdate) continue;
    if (op->exchange) {
      Seconds dispatch = op->is_further_part ? Seconds{} : setting.framework.collective_dispatch;
      if (setting.framework.waits_for_kernels) awaited_launches += std::exchange(dispatch, {});
      plan.kernels.push_back(plan_exchange(workload.graph, vertex, std::move(readers[vertex]), dispatch));
      if (op->awaits_loads) plan.kernels.back().host_wait = setting.framework.load_wait;
      continue;
    }
    std::optional<OperatorTime>& known = times[workload.graph.stored_for(vertex)];
    if (!known) known = time_of_operator(op.stored(), workload, setting);
    auto [time, dispatch] = *known;
    if (setting.framework.waits_for_kernels) {
      const Seconds idle = std::exchange(dispatch, {}) + std::exchange(awaited_launches, {});
      time.total += idle;
      time.launch += idle;
    }
    plan.gpu_time += time.total;
    plan.memory_time += time.memory;
    plan.launch_time += time.launch;
    plan.kernels.push_back({.vertex = static_cast<int>(vertex),
                            .time = time,
                            .dispatch = dispatch,
                            .host_wait = op->awaits_loads ? setting.framework.load_wait : Seconds{},
                            .waits_for = op.reads_variables(),
                            .completes = op.produces_gradients()});
  }
  return plan;
}

UpdateKernels update_kernels(Optimizer optimizer, const Framework& framework,
                             std::optional<OptimizerImplementation> implementation) {
  if (!implementation) return {.dispatch = framework.update_dispatch};
  struct Law {
    int operations;
    double traffic, foreach_us, fused_us;
  };
  constexpr std::array kLaws{Law{1, 1, 1.5, 1.5}, Law{3, 8.0 / 5, 3.1, 3.1}, Law{7, 18.0 / 7, 11, 3.4}};  // by slots
  constexpr double kOperationUs = 9.3, kOfDispatchUs = 6;
  const Law& law = kLaws[static_cast<std::size_t>(optimizer_slots(optimizer))];
  const auto host = [&](double us) { return framework.dispatch * (us / kOfDispatchUs); };
  switch (*implementation) {
    case OptimizerImplementation::kFused:
      return {.dispatch = host(law.fused_us)};
    case OptimizerImplementation::kForeach:
      return {.launches = law.operations, .traffic = law.traffic, .dispatch = host(law.foreach_us)};
    case OptimizerImplementation::kLoop:
      break;
  }
  return {.launches = law.operations, .traffic = law.traffic, .dispatch = host(law.operations * kOperationUs)};
}

UpdateTime update_time(const Workload& workload, Optimizer optimizer, const States& states,
                       const KernelSetting& setting) {
  const UpdateKernels update = update_kernels(optimizer, setting.framework, setting.optimizer_implementation);
  // The kernel is of numbers of 4 bytes, 7 of them for Adam; it takes the time of its bytes.
  const int slots = optimizer_slots(optimizer), bytes = update_bytes(states, slots), own = update_bytes({}, slots);
  UpdateTime sum;
  for (const Variable& variable : workload.variables) {
    if (!variable.is_trainable) continue;
    const double used = variable.rows_used ? as_double(*variable.rows_used) / as_double(variable.bytes) : 1;
    const auto scalars = std::llround(static_cast<double>(variable.scalars()) * used);
    const Seconds time =
        kernels::time(kernels::Streaming{.kind = kind_of(optimizer), .rows = 1, .columns = scalars * bytes / own},
                      setting.gpu, setting.values) *
        update.traffic;
    const Framework& framework = setting.framework;
    if (setting.gpu.is_processor()) {
      const Seconds dispatch = framework.dispatch * update.launches;
      sum.total += time + dispatch;
      sum.dispatch += dispatch;
    } else {
      sum.total += std::max(time, update.dispatch);
      sum.loop += framework.update_loop;
      sum.gather_copies += framework.gather_copy;
      if (framework.update_traffic > 0)
        sum.traffic += kernels::memory_time(static_cast<double>(scalars) * framework.update_traffic, setting.gpu,
                                            setting.values.elementwise);
      if (update.dispatch > time) sum.dispatch += update.dispatch;
    }
  }
  return sum;
}

}  // namespace rehearse
