#pragma once
// How long a kernel runs on a GPU, and the compute plan of one training step.

#include <algorithm>
#include <optional>
#include <vector>

#include "platforms/accelerator.hpp"
#include "platforms/profile.hpp"
#include "sim/base/units.hpp"
#include "sim/scenario/offloaded_layers.hpp"
#include "workloads/operator_graph.hpp"

namespace rehearse {

/// Share of e_max that a matrix product of this shape reaches, in (0, 1]:
///   fill * tiles / (ceil(tiles / SMs) * SMs) * K / (K + K_half)
/// Output tiles of 128 x 32; `fill` is the share of the tiles' area that is output; when there are fewer tiles than
/// multiprocessors the reduction is split between several tiles, down to 256 terms each.
/// Source: the wave quantization of tiled matrix products (NVIDIA, Matrix Multiplication Background User's Guide).
double matrix_efficiency(const MatrixShape& shape, int multiprocessors, double reduction_half);

struct KernelTime {
  Seconds total{};
  Seconds memory{};  // part of it in which device memory is read or written
  Seconds launch{};  // part of it in which it does nothing yet: the GPU starts it, or a processor dispatches it
};

/// t = kernel_overhead + max(FLOPs / (peak e), bytes / (bandwidth m)), e = e_max * matrix_efficiency * (winograd_gain
/// if 3x3, stride 1). e_max is relative to the peak at `precision_peak`; kernels that are not matrix-like are bound by
/// memory.
KernelTime kernel_time(const Operator& kernel, const Accelerator& accelerator, FlopsPerSecond precision_peak,
                       const GpuParameters& parameters);

/// Of a graph's TensorExchange.
struct PlannedExchange {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Bytes bytes{};
  SplitGroup among = SplitGroup::kTensor;
  PayloadOf of = PayloadOf::kAll;
  std::vector<int> read_by;  // vertices that wait for it
};

/// One kernel of a step, in dispatch order.
struct PlannedKernel {
  int vertex = 0;  // in the workload's graph
  KernelTime time;
  Seconds dispatch{};  // host time before the GPU may start it
  Seconds
      host_wait{};  // before that, since the GPU has run all kernels before, which the host waits for; 0: it does not
  std::vector<int> waits_for;                 // variables that must have arrived
  std::vector<int> completes;                 // variables whose gradient or moving average is ready afterwards
  std::optional<PlannedExchange> exchange{};  // instead of a kernel, of no time
  Seconds once{};                             // on the GPU in a step, whatever its micro-batches are
  double bytes = 0;                           // of device memory that it reads and writes
  double energy = 0;                          // J that the GPU draws for it, besides those at rest
};

/// What a host updates of a worker's variables, while the GPU updates the others.
struct HostUpdate {
  Seconds time{};
  double share = 0;                              // of the states
  int sharing_gpus = 1, sharing_of_experts = 1;  // of a unit's gradients a GPU copies share / sharing to the host
  double gradient_bytes = 1, value_bytes = 1;    // that go down and come back, by those of gradients as they are sent
};

/// The kernels that a worker runs in one step: all but the optimizer's updates, which run where the variables live.
struct ComputePlan {
  std::vector<PlannedKernel> kernels;
  Seconds step_overhead{};   // of the host, before anything else
  Seconds host_copies{};     // part of it: variables that lie on the host, to the GPU, and their gradients back
  Bytes input{};             // one batch, copied to the GPU before the first kernel
  Seconds load{};            // of one batch, by the worker's loaders (input_pipeline.hpp)
  bool loads_ahead = false;  // while the step before computes
  Seconds gpu_time{};        // sum over kernels
  Seconds memory_time{};
  Seconds launch_time{};
  Seconds update{};  // of all variables, on a worker that does it itself when the gradients are reduced
  HostUpdate host_update{};
  std::vector<OffloadedLayer> offloaded{};
  Seconds update_dispatch{};  // part of update that lasts as long as its host's dispatch
  Seconds update_loop{};      // of the host, behind the dispatch of the last kernel; the update waits for it
  Seconds gather_copies{};    // of what a sharded optimizer gathers, once it is there
  double update_power = 0;    // W that the GPU draws during the update, besides those at rest

  /// The GPU's, and the host's beside it.
  Seconds all_update() const { return std::max(update, host_update.time); }
};

/// [vertices] that read each of the graph's exchanges; of other vertices none.
std::vector<std::vector<int>> readers_of_exchanges(const OperatorGraph& graph);
/// That of the vertex, dispatched like a kernel.
PlannedKernel plan_exchange(const OperatorGraph& graph, std::size_t vertex, std::vector<int> read_by, Seconds dispatch);

/// When kernels end on a GPU that a host dispatches one after another.
class KernelClock {
 public:
  /// Of the next kernel. No step is shorter than what the last one gives.
  Seconds add(Seconds dispatch, Seconds time) {
    dispatched_ += dispatch;
    end_ = std::max(end_, dispatched_) + time;
    return end_;
  }
  Seconds end() const { return end_; }

 private:
  Seconds dispatched_{}, end_{};
};

/// Share of the kernels' time that does not make a step longer, as the host is still dispatching then: that of the
/// kernels before the last one that the GPU has to wait for. `passes` of the plan follow one another.
double share_behind_dispatch(const ComputePlan& plan, int passes);

/// When the last kernel of the plan has ended on the GPU, if all its variables are there from the start.
Seconds end_of_kernels(const ComputePlan& plan);

/// An operator with a measured time takes that on the GPU, and no time to dispatch.
ComputePlan plan_compute(const Workload& workload, const Accelerator& accelerator, FlopsPerSecond precision_peak,
                         const Profile& profile);

}  // namespace rehearse
