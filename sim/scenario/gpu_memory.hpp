#pragma once
// What a worker's GPU holds at the most, by part.

#include <array>
#include <optional>
#include <string>

#include "sim/base/json.hpp"
#include "sim/base/named.hpp"
#include "sim/base/pinned.hpp"
#include "sim/scenario/kept_memory.hpp"
#include "sim/scenario/pipeline_stages.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// What collectives may take besides, by framework and settings.
struct UncountedMemory {
  /// All gradients as they are sent, again, where they go in buckets and are whole: PyTorch's DistributedDataParallel, unless
  /// gradient_as_bucket_view ("the saved memory size will be equal to the total gradients size", its documentation).
  Bytes bucket_copies{};
  /// Of one communicator's rings: kNcclChannels times what a channel receives into, kNcclChannelBuffers.
  Bytes nccl_buffers{};

  Bytes total() const { return bucket_copies + nccl_buffers; }
  bool operator==(const UncountedMemory&) const = default;
};

/// NCCL's buffers of a channel and connection (src/init.cc, src/include/device.h, 2.18 to 2.27): DEFAULT_BUFFSIZE 4 MiB for
/// Simple, 120 x 640 x 8 steps x 8 B for LL128, 8 x 512 x 8 steps x 16 B for LL.
inline constexpr Bytes kNcclChannelBuffers{(std::int64_t{4} << 20) + 120LL * 640 * 8 * 8 + 8LL * 512 * 8 * 16};
/// Its rings between GPUs with NVLink of an A100 or H100; of others it has 2 to 16, so this is at the most.
inline constexpr int kNcclChannels = 24;

/// Peak of one GPU, in bytes: of the moment of a step when it keeps the most for the backward pass (kept_memory.hpp), which with
/// all activations kept is the loss, beside what is there all the time. With P parameters of the GPU (those of its stage in
/// a pipeline), d GPUs that share states, and bytes of each state by States:
///   none            P weight_bytes + P gradient_bytes + P optimizer_bytes
///   optimizer       that of the optimizer is sharded: 1 / d of it; gradients: those besides; parameters: the weights besides
/// What is sharded is B P / d bytes, rounded up to a byte once for all of it: no padding of units to multiples of d.
/// Source: Rajbhandari et al., ZeRO, SC 2020, section 5; DeepSpeed's 16, 4 + 12 / d, 2 + 14 / d and 16 / d bytes.
/// Not counted: fragmentation and workspaces of the framework's allocator; gradients of activations, and values that no backward
/// pass reads, while they are passed on; temporaries of the update; and UncountedMemory, which is not there with every
/// framework and setting.
struct GpuMemory {
  Bytes context{};    // the driver's, memory_reserved of the GPU, and FrameworkMemory::held
  Bytes weights{};    // as they are stored, and as kernels read them if that is otherwise
  Bytes gradients{};  // and FrameworkMemory::gradient_buffers
  Bytes optimizer{};  // master weights and moments; none where servers update, and of Offload what GPUs keep
  /// Of sharded parameters, in the precision of kernels: the root unit (gradient_units.hpp), and the largest unit as often as
  /// one is in use or gathered ahead; at most the model.
  Bytes gathered_units{};
  Bytes activations{};  // kept for the backward pass, of a pipeline those of every micro-batch on its way
  Bytes logits{};       // Workload::logits_bytes: what the loss reads, its copy in fp32, its gradient
  Bytes input{};        // a batch of samples
  /// The largest unit of gradients as it is sent, where it is not what is held: gradients are sharded, sent in another
  /// precision, or copied into a buffer of fusion (cycle_time).
  Bytes communication_buffers{};
  UncountedMemory uncounted{};  // not in total()
  Bytes on_host{};              // not in total(): what it has there: optimizer, gradients and activations of Offload

  /// When that is: as the operator begins in this pass.
  struct Moment {
    std::optional<int> stage{};  // of a pipeline
    PassPhase phase = PassPhase::kForward;
    int microbatch = 0;
    std::string op;  // empty: nothing is kept

    bool operator==(const Moment&) const = default;
  } moment{};

  Bytes total() const;
  /// What is there all the time.
  Bytes constant() const { return total() - activations - logits; }
  bool operator==(const GpuMemory&) const = default;
};

/// Words of the parts, as keys and in sentences.
struct GpuMemoryPart {
  Bytes GpuMemory::*bytes;
  const char* words;
};
inline constexpr std::array kGpuMemoryParts{
    Named{"context",
          GpuMemoryPart{&GpuMemory::context, "the driver's context, and what the framework holds all the time"}},
    Named{"weights", GpuMemoryPart{&GpuMemory::weights, "weights"}},
    Named{"gradients", GpuMemoryPart{&GpuMemory::gradients, "gradients"}},
    Named{"optimizer", GpuMemoryPart{&GpuMemory::optimizer, "master weights and moments of the optimizer"}},
    Named{"gathered_units", GpuMemoryPart{&GpuMemory::gathered_units, "gathered units of sharded weights"}},
    Named{"activations", GpuMemoryPart{&GpuMemory::activations, "activations"}},
    Named{"logits", GpuMemoryPart{&GpuMemory::logits, "logits and loss"}},
    Named{"input", GpuMemoryPart{&GpuMemory::input, "samples"}},
    Named{"communication_buffers", GpuMemoryPart{&GpuMemory::communication_buffers, "communication buffers"}}};

/// Of the group's GPU that holds the most: of a pipeline, that of the stage with the most among those of the group's workers.
GpuMemory gpu_memory(const Scenario& scenario, const Group& group);

/// Layers whose activations wait in the hosts' memory, as the strategy says.
std::vector<OffloadedLayer> offloaded_layers(const Scenario& scenario, const Workload& workload);

/// Of any workload whose states are not sharded; `slots` of the optimizer are on the GPU.
GpuMemory gpu_memory(const Workload& workload, const Accelerator& gpu, const States& states, int slots);

/// Memory of the GPUs of a group's workers, whatever of the model they have.
class WorkerMemory : private Pinned {
 public:
  WorkerMemory(const Scenario& scenario, const Group& group);

  /// Of those that are this stage of a pipeline; without one there is stage 0.
  GpuMemory of(int stage) const;
  /// What the operators of the stage change: over the kernels of a step the sum of these is what is kept.
  KeptChanges changes(int stage) const {
    return kept_changes(workload_, operators(stage), framework_, scenario_.model.split.degree, offloaded_);
  }
  PassOperators operators(int stage) const;

 private:
  const Scenario& scenario_;
  const Group& group_;
  const Workload& workload_;
  FrameworkMemory framework_;
  std::vector<OffloadedLayer> offloaded_;
  std::optional<PipelineStages> stages_;
};

/// The group whose GPUs are the fullest, by share.
const Group& fullest_group(const Scenario& scenario);

/// Of the fullest group: its name, bytes of all parts by name, their sum and what the GPU has, and when it has so much:
///   "gpu_memory_needed_B", "gpu_memory_on_host_B" if hosts keep any, "gpu_memory_available_B", "gpu_memory_group", "gpu_memory_parts_B": { "weights": ... },
///   "gpu_memory_peak": { "stage": 1, "pass": "forward", "microbatch": 1, "operator": "loss" }, numbers from 1
void add_gpu_memory(const Scenario& scenario, Json& json);
/// Of any GPU what it needs, its parts, and when.
void add_gpu_memory(const GpuMemory& memory, Json& json);

/// "in the backward pass of micro-batch 2 of stage 1, as h0/mlp begins"; "in the forward pass, as loss begins"; empty if
/// nothing is kept.
std::string describe_moment(const GpuMemory& memory);

/// "6.64 GiB weights, 3.2 GiB activations": the parts of 0.01 GiB and more, the largest first.
std::string describe_parts(const GpuMemory& memory);

/// Which changes of the scenario, each by itself, fit the group into its GPUs' memory, found by computing it anew: a smaller
/// batch, a fused loss, recomputation, more sharding, layers on more GPUs, more GPUs that share states. A stated global batch stays
/// what it is: a step then has other micro-batches, as it has when the scenario is read with the change. Empty if none does.
std::string what_would_fit(const Scenario& scenario, const Group& group);

}  // namespace rehearse
