#include "sim/scenario/kernel_time.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/scenario/peak_speed.hpp"

namespace rehearse {

namespace {
constexpr double kTileRows = 128;
constexpr double kTileColumns = 32;
constexpr double kShortestSplit = 256;
}  // namespace

double matrix_efficiency(const MatrixShape& shape, int multiprocessors, double reduction_half) {
  const double processors = multiprocessors;
  const double row_tiles = std::ceil(shape.rows / kTileRows);
  const double column_tiles = std::ceil(shape.columns / kTileColumns);
  const double fill = shape.rows * shape.columns / (row_tiles * kTileRows * column_tiles * kTileColumns);
  double tiles = row_tiles * column_tiles * shape.products;
  if (tiles < processors) {
    const double splits = std::floor(std::min(processors / tiles, shape.reduction / kShortestSplit));
    tiles *= std::max(1.0, splits);
  }
  const double waves = tiles / (std::ceil(tiles / processors) * processors);
  return fill * waves * shape.reduction / (shape.reduction + reduction_half);
}

KernelTime kernel_time(const Operator& kernel, const Accelerator& accelerator, FlopsPerSecond precision_peak,
                       const GpuParameters& parameters) {
  const Bytes traffic = kernel.bytes_read + kernel.bytes_written;
  const Seconds memory = traffic / (accelerator.memory_bandwidth * parameters.memory_efficiency);
  Seconds arithmetic{};
  if (kernel.matrix.reduction > 0) {
    double efficiency = parameters.efficiency_for(accelerator.name) *
                        matrix_efficiency(kernel.matrix, accelerator.multiprocessors, parameters.reduction_half);
    if (kernel.is_3x3_stride_1) efficiency *= parameters.winograd_gain;
    arithmetic = kernel.flops / (precision_peak * efficiency);
    // Matrix-like kernels stream their operands once, at the full rate of the memory.
    const Seconds streaming = traffic / accelerator.memory_bandwidth;
    return {parameters.kernel_overhead + std::max(arithmetic, streaming),
            std::min(streaming, std::max(arithmetic, streaming)), parameters.kernel_overhead};
  }
  return {parameters.kernel_overhead + memory, memory, parameters.kernel_overhead};
}

std::vector<std::vector<int>> readers_of_exchanges(const OperatorGraph& graph) {
  std::vector<std::vector<int>> readers(graph.size());
  for (const OperatorEdge& edge : graph.edges())
    if (graph[edge.from]->exchange) readers[edge.from].push_back(static_cast<int>(edge.to));
  return readers;
}

PlannedKernel plan_exchange(const OperatorGraph& graph, std::size_t vertex, std::vector<int> read_by,
                            Seconds dispatch) {
  const TensorExchange& exchange = *graph[vertex]->exchange;
  PlannedExchange planned{exchange.kind, exchange.bytes, exchange.among, exchange.of, std::move(read_by)};
  return {.vertex = static_cast<int>(vertex),
          .time = {},
          .dispatch = dispatch,
          .waits_for = {},
          .completes = {},
          .exchange = std::move(planned)};
}

ComputePlan plan_compute(const Workload& workload, const Accelerator& accelerator, FlopsPerSecond precision_peak,
                         const Profile& profile) {
  ComputePlan plan{.kernels = {},
                   .step_overhead = workload.is_whole_step ? Seconds{} : profile.host.step_overhead,
                   .input = workload.input_bytes};
  std::vector<std::vector<int>> readers = readers_of_exchanges(workload.graph);
  for (std::size_t vertex = 0; vertex < workload.graph.size(); ++vertex) {
    const OperatorAt kernel = workload.graph[vertex];
    if (kernel->phase == Phase::kUpdate) continue;
    if (kernel->exchange) {
      plan.kernels.push_back(plan_exchange(workload.graph, vertex, std::move(readers[vertex]), profile.host.dispatch));
      continue;
    }
    const KernelTime time =
        kernel->measured_time
            ? KernelTime{.total = *kernel->measured_time, .memory = {}}
            : kernel_time(kernel.stored(), accelerator,
                          kernel->factor_bits > 0 ? peak_of_casts(accelerator, kernel->factor_bits) : precision_peak,
                          profile.gpu);
    plan.gpu_time += time.total;
    plan.memory_time += time.memory;
    plan.launch_time += time.launch;
    plan.kernels.push_back({.vertex = static_cast<int>(vertex),
                            .time = time,
                            .dispatch = kernel->measured_time ? Seconds{} : profile.host.dispatch,
                            .waits_for = kernel.reads_variables(),
                            .completes = kernel.produces_gradients()});
  }
  return plan;
}

double share_behind_dispatch(const ComputePlan& plan, int passes) {
  constexpr int kMostPasses = 3;  // what the host falls behind in one, it does in each
  Seconds dispatched{}, end{}, before{}, behind{};
  passes = std::min(passes, kMostPasses);
  for (int pass = 0; pass < passes; ++pass)
    for (const PlannedKernel& kernel : plan.kernels) {
      dispatched += kernel.dispatch;
      if (dispatched > end) behind = before;
      end = std::max(end, dispatched) + kernel.time.total;
      before += kernel.time.total;
    }
  return before > Seconds{} ? behind / before : 0;
}

Seconds end_of_kernels(const ComputePlan& plan) {
  KernelClock clock;
  for (const PlannedKernel& kernel : plan.kernels) clock.add(kernel.dispatch, kernel.time.total);
  return clock.end();
}

}  // namespace rehearse
