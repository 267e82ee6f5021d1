#pragma once
// A step as kernels whose times follow from the GPU's data sheet: platforms/kernels, for profiles that state "kernels".

#include <optional>
#include <string>

#include "platforms/kernels/kernels.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// All that the time of an operator depends on besides itself.
struct KernelSetting {
  kernels::Gpu gpu;
  BytesPerSecond host_link{};
  kernels::Values values;  // with launches of at most the framework's kernel_overhead
  Framework framework;
  kernels::Precision products = kernels::Precision::kFp32;  // of products and convolutions
  kernels::Precision scalars = kernels::Precision::kFp32;   // of activations
  std::optional<OptimizerImplementation> optimizer_implementation{};
};

/// Precision of kernels of that of a scenario.
kernels::Precision products_in(Precision precision);

/// Of a profile with kernels. fp32 products are computed in tf32 where the framework does so (Framework::uses_tf32) and the
/// GPU has units for it. Throws InputError, which names `place`, if the GPU's entry in the catalog does not state what kernels depend on.
KernelSetting kernel_setting(const Profile& profile, const std::string& framework, Precision precision,
                             const Accelerator& accelerator, const std::string& place);

/// The kernel that an operator launches, by its shape: a convolution (a transposed one's passes are the other way
/// round), a product, a layer normalisation or a loss by rows. None of others, which are bound by their bytes.
std::optional<kernels::Kernel> kernel_of(const Operator& op, const KernelSetting& setting);

/// Time of that kernel, or kernels::memory_time() of the bytes that the operator reads and writes, and what the framework
/// makes of it:
///   layer normalisations, dropouts, GELU    composition times the latter, if it is above 1
///   those and losses, in mixed precision    mixed_scalars times as long
///   other activations and sums              1 - fusion of it
///   fused attention                         by attention_rate, no faster than kernels made for the architecture
///   products                                + a kernel that reads and writes the output for each of copies
///   convolutions of large kernels           no longer than by transforms (kernels::fft_time()), as far as the framework has them
///   convolutions in fp16, transposes_images + two kernels that read and write inputs and outputs
///   batch norms, transposes_images          by kernels::channel_time()
/// On a processor (kernels::kProcessorArchitecture) the kernel, if there is one, after the framework's dispatch: one
/// thread does both.
KernelTime kernel_time(const Operator& op, const KernelSetting& setting);

/// As plan_compute(): a kernel for each operator, with the framework's dispatch for each that it launches, and its overhead
/// of a step, and kernels that add up gradients (Framework::accumulation); with 2 bytes of the parameters / link to the host if the variables lie there.
ComputePlan plan_kernels(const Workload& workload, const KernelSetting& setting);

/// Of an optimizer's update.
struct UpdateTime {
  Seconds total{};
  Seconds dispatch{};       // part of it that lasts as long as its host's dispatch
  Seconds loop{};           // of the host, besides: Framework::update_loop
  Seconds gather_copies{};  // of the host, besides, for each worker that has a part: Framework::gather_copy
  Seconds traffic{};        // of the GPU, besides: Framework::update_traffic
};

/// What the update of one variable takes besides the bytes that a fused kernel reads and writes.
struct UpdateKernels {
  int launches = 1;    // of one that is updated alone
  double traffic = 1;  // bytes by those of a fused kernel
  Seconds dispatch{};  // of the host
};

/// As the framework has it (Framework::update_dispatch), unless it is said how the optimizer is implemented. Then, with the
/// kernels of PyTorch's torch/optim/sgd.py and adam.py without weight decay:
///   SGD       1 elementary operation, 3 accesses of a scalar, as fused
///   momentum  3, 8 accesses instead of 5
///   Adam      7, 18 accesses instead of 7
/// and the host's times of calibration/data/h200-layers (updates.csv, medians by variable, of four models in fp32 and bf16), in
/// proportion to the framework's dispatch of a kernel, of which the profile's 6 us are taken to be those of that host:
///   loop      9.3 us for each operation
///   foreach   1.5, 3.1 and 11 us of a variable
///   fused     1.5, 3.1 and 3.4 us
UpdateKernels update_kernels(Optimizer optimizer, const Framework& framework,
                             std::optional<OptimizerImplementation> implementation);

/// The time of all trained variables, one after another, each no shorter than the host's for it:
///   sum of max(dispatch, traffic * kernel that reads and writes update_bytes() of the states)
/// on a processor of launches * Framework::dispatch + traffic * kernel.
UpdateTime update_time(const Workload& workload, Optimizer optimizer, const States& states,
                       const KernelSetting& setting);

}  // namespace rehearse
