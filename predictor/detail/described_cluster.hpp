#pragma once
// A cluster as the descriptor of a dataset's setting has it, for features.cpp.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "predictor/features.hpp"
#include "predictor/node_features.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/scenario/placement.hpp"

namespace rehearse {

inline constexpr double kMostPieces = 1e6;     // machines and the like that a file may speak of
inline constexpr double kMostParts = 4096;     // that a gradient is cut into
inline constexpr double kLargestValue = 1e18;  // of any other value

/// What costs and bounds are made from, out of the descriptor of a setting (descriptor_names()).
struct ClusterValues {
  double peak = 0, memory_rate = 0, multiprocessors = 0;
  double peak_efficiency = 0, memory_efficiency = 0, kernel_overhead = 0, reduction_half = 0, winograd_gain = 0;
  double dispatch = 0, step_overhead = 0;
  double workers = 0, machines = 0, gpus = 0, servers = 0, is_colocated = 0, cores = 0;
  double nic = 0, pcie = 0, latency = 0, flow = 0, server_nic = 0;
  double per_variable = 0, per_byte = 0, per_update = 0, per_split_update = 0, split_above = 0;
  double is_synchronous = 0, is_round_robin = 0, is_greedy = 0;
  double period = 0, window = 0;
  double is_all_reduce = 0, all_reduce_latency = 0, all_reduce_per_byte = 0, bucket = 0, cycle = 0, overlaps = 0;
  double all_reduce_sent = 0, gradient_ratio = 0, partition = 0, first_bucket = 0, is_by_priority = 0;
  double overlaps_forward = 0, accumulation = 0, staleness = 0, backups = 0, is_stale = 0, is_sharded = 0;
  double other_batch_workers = 0, other_batch_ratio = 0, joining = 0, joins_at = 0, leaving = 0, leaves_at = 0;
  double server_machines = 0, gpus_per_worker = 0, fabric_load = 0, is_pairwise = 0;
  double other_workers = 0, other_machines = 0, other_gpus = 0, other_peak = 0, other_memory_rate = 0;
  double other_multiprocessors = 0, other_peak_efficiency = 0, other_kernel_overhead = 0, other_dispatch = 0;
  double other_step_overhead = 0, other_nic = 0;
};

/// How a value is checked, and whether a dataset may lack it, which older ones do: then it is `absent`.
enum class ValueKind { kAny, kCount, kOptional };
struct ClusterValue {
  const char* name;
  double ClusterValues::*value;
  ValueKind kind = ValueKind::kAny;
  double absent = 0;
};
inline constexpr std::array kClusterValues{
    ClusterValue{"gpu_peak_flops", &ClusterValues::peak},
    ClusterValue{"gpu_memory_bandwidth_Bps", &ClusterValues::memory_rate},
    ClusterValue{"multiprocessors", &ClusterValues::multiprocessors, ValueKind::kCount},
    ClusterValue{"peak_efficiency", &ClusterValues::peak_efficiency},
    ClusterValue{"memory_efficiency", &ClusterValues::memory_efficiency},
    ClusterValue{"kernel_overhead_s", &ClusterValues::kernel_overhead},
    ClusterValue{"reduction_half", &ClusterValues::reduction_half},
    ClusterValue{"winograd_gain", &ClusterValues::winograd_gain},
    ClusterValue{"dispatch_s", &ClusterValues::dispatch},
    ClusterValue{"step_overhead_s", &ClusterValues::step_overhead},
    ClusterValue{"workers", &ClusterValues::workers, ValueKind::kCount},
    ClusterValue{"worker_machines", &ClusterValues::machines, ValueKind::kCount},
    ClusterValue{"gpus_per_machine", &ClusterValues::gpus, ValueKind::kCount},
    ClusterValue{"servers", &ClusterValues::servers, ValueKind::kCount},
    ClusterValue{"is_colocated", &ClusterValues::is_colocated},
    ClusterValue{"server_cores", &ClusterValues::cores, ValueKind::kCount},
    ClusterValue{"nic_Bps", &ClusterValues::nic},
    ClusterValue{"pcie_Bps", &ClusterValues::pcie},
    ClusterValue{"latency_s", &ClusterValues::latency},
    ClusterValue{"flow_Bps", &ClusterValues::flow},
    ClusterValue{"server_time_per_variable_s", &ClusterValues::per_variable},
    ClusterValue{"server_time_per_byte_s", &ClusterValues::per_byte},
    ClusterValue{"server_time_per_update_s", &ClusterValues::per_update},
    ClusterValue{"server_time_per_split_update_s", &ClusterValues::per_split_update},
    ClusterValue{"server_split_update_threshold_B", &ClusterValues::split_above},
    ClusterValue{"is_synchronous", &ClusterValues::is_synchronous},
    ClusterValue{"is_round_robin", &ClusterValues::is_round_robin},
    ClusterValue{"is_greedy_by_bytes", &ClusterValues::is_greedy},
    ClusterValue{"sampling_period_s", &ClusterValues::period},
    ClusterValue{"window_steps", &ClusterValues::window},
    ClusterValue{"is_all_reduce", &ClusterValues::is_all_reduce},
    ClusterValue{"all_reduce_latency_s", &ClusterValues::all_reduce_latency, ValueKind::kOptional},
    ClusterValue{"all_reduce_s_per_byte", &ClusterValues::all_reduce_per_byte, ValueKind::kOptional},
    ClusterValue{"bucket_B", &ClusterValues::bucket, ValueKind::kOptional},
    ClusterValue{"cycle_s", &ClusterValues::cycle, ValueKind::kOptional},
    ClusterValue{"overlaps_backward", &ClusterValues::overlaps, ValueKind::kOptional},
    ClusterValue{"server_nic_Bps", &ClusterValues::server_nic, ValueKind::kOptional},
    ClusterValue{"all_reduce_sent_ratio", &ClusterValues::all_reduce_sent, ValueKind::kOptional},
    ClusterValue{"gradient_bytes_ratio", &ClusterValues::gradient_ratio, ValueKind::kOptional, 1},
    ClusterValue{"partition_B", &ClusterValues::partition, ValueKind::kOptional},
    ClusterValue{"first_bucket_B", &ClusterValues::first_bucket, ValueKind::kOptional},
    ClusterValue{"is_by_priority", &ClusterValues::is_by_priority, ValueKind::kOptional},
    ClusterValue{"overlaps_forward", &ClusterValues::overlaps_forward, ValueKind::kOptional},
    ClusterValue{"accumulation_steps", &ClusterValues::accumulation, ValueKind::kOptional, 1},
    ClusterValue{"staleness_bound", &ClusterValues::staleness, ValueKind::kOptional},
    ClusterValue{"backup_workers", &ClusterValues::backups, ValueKind::kOptional},
    ClusterValue{"is_stale_synchronous", &ClusterValues::is_stale, ValueKind::kOptional},
    ClusterValue{"is_sharded", &ClusterValues::is_sharded, ValueKind::kOptional},
    ClusterValue{"other_batch_workers", &ClusterValues::other_batch_workers, ValueKind::kOptional},
    ClusterValue{"other_batch_ratio", &ClusterValues::other_batch_ratio, ValueKind::kOptional},
    ClusterValue{"joining_workers", &ClusterValues::joining, ValueKind::kOptional},
    ClusterValue{"joins_at_s", &ClusterValues::joins_at, ValueKind::kOptional},
    ClusterValue{"leaving_workers", &ClusterValues::leaving, ValueKind::kOptional},
    ClusterValue{"leaves_at_s", &ClusterValues::leaves_at, ValueKind::kOptional},
    ClusterValue{"server_machines", &ClusterValues::server_machines, ValueKind::kOptional},
    ClusterValue{"gpus_per_worker", &ClusterValues::gpus_per_worker, ValueKind::kOptional, 1},
    ClusterValue{"fabric_load_ratio", &ClusterValues::fabric_load, ValueKind::kOptional, 1},
    ClusterValue{"is_pairwise_averaging", &ClusterValues::is_pairwise, ValueKind::kOptional},
    ClusterValue{"other_workers", &ClusterValues::other_workers, ValueKind::kOptional},
    ClusterValue{"other_worker_machines", &ClusterValues::other_machines, ValueKind::kOptional},
    ClusterValue{"other_gpus_per_machine", &ClusterValues::other_gpus, ValueKind::kOptional},
    ClusterValue{"other_gpu_peak_flops", &ClusterValues::other_peak, ValueKind::kOptional},
    ClusterValue{"other_gpu_memory_bandwidth_Bps", &ClusterValues::other_memory_rate, ValueKind::kOptional},
    ClusterValue{"other_multiprocessors", &ClusterValues::other_multiprocessors, ValueKind::kOptional},
    ClusterValue{"other_peak_efficiency", &ClusterValues::other_peak_efficiency, ValueKind::kOptional},
    ClusterValue{"other_kernel_overhead_s", &ClusterValues::other_kernel_overhead, ValueKind::kOptional},
    ClusterValue{"other_dispatch_s", &ClusterValues::other_dispatch, ValueKind::kOptional},
    ClusterValue{"other_step_overhead_s", &ClusterValues::other_step_overhead, ValueKind::kOptional},
    ClusterValue{"other_nic_Bps", &ClusterValues::other_nic, ValueKind::kOptional}};

/// The kernel of a row of node features.
inline Operator operator_of(const NodeFeatures& x) {
  Operator kernel;
  kernel.kind = static_cast<OperatorKind>(static_cast<int>(x.kind));
  kernel.flops = Flops{x.flops};
  kernel.bytes_read = Bytes{static_cast<std::int64_t>(x.read)};
  kernel.bytes_written = Bytes{static_cast<std::int64_t>(x.written)};
  kernel.matrix = {.rows = x.rows, .columns = x.columns, .reduction = x.reduction, .products = x.products};
  kernel.is_3x3_stride_1 = x.is_3x3_stride_1 > 0;
  return kernel;
}

inline bool is_update(const NodeFeatures& x) {
  return static_cast<OperatorKind>(static_cast<int>(x.kind)) == OperatorKind::kUpdate;
}

inline constexpr auto kAbsent = static_cast<std::size_t>(-1);

/// Where the descriptor has the value; kAbsent if it may lack it and does.
inline std::size_t position(const std::vector<std::string>& names, const ClusterValue& value) {
  const auto found = std::find(names.begin(), names.end(), value.name);
  if (found == names.end() && value.kind == ValueKind::kOptional) return kAbsent;
  if (found == names.end()) throw InputError{"the dataset has no descriptor " + in_quotes(value.name)};
  return static_cast<std::size_t>(found - names.begin());
}

/// A cluster as far as costs depend on it.
class DescribedCluster {
 public:
  /// `positions` [kClusterValues] in the descriptor.
  DescribedCluster(const std::vector<double>& descriptor, const std::vector<std::size_t>& positions) {
    for (std::size_t i = 0; i < kClusterValues.size(); ++i) {
      const ClusterValue& known = kClusterValues[i];
      double& value = values_.*known.value;
      value = positions[i] == kAbsent ? known.absent : descriptor[positions[i]];
      if (!(value >= 0 && value <= (known.kind == ValueKind::kCount ? kMostPieces : kLargestValue)))
        throw InputError{"the dataset has a setting that is no cluster: " + in_quotes(known.name) + " is out of range"};
    }
    if (values_.other_workers > values_.workers || values_.other_machines > values_.machines ||
        values_.other_multiprocessors > kMostPieces)
      throw InputError{"the dataset has a setting that is no cluster: more workers of another kind than workers"};
    has_others_ = values_.other_workers > 0 && values_.other_machines > 0;
    gpu_ = gpu_of(values_.peak, values_.memory_rate, values_.multiprocessors, values_.peak_efficiency,
                  values_.kernel_overhead);
    if (has_others_)
      other_gpu_ = gpu_of(values_.other_peak, values_.other_memory_rate, values_.other_multiprocessors,
                          values_.other_peak_efficiency, values_.other_kernel_overhead);
  }
  const ClusterValues& values() const { return values_; }
  /// Whether there are workers on machines that are not like the chief's.
  bool has_others() const { return has_others_; }
  KernelTime time_of(const NodeFeatures& x) const { return time_on(gpu_, x); }
  KernelTime time_on_others(const NodeFeatures& x) const { return time_on(other_gpu_, x); }
  bool is_one_machine() const { return values_.machines == 1 && (values_.is_colocated > 0 || values_.servers == 0); }
  /// Of all GPUs of the chief's machine, or of its NICs. GPUs that reduce among themselves may have faster links than
  /// PCIe: a ring's rank sends, and receives, 2 (p - 1) / p of the gradients.
  double rate() const {
    if (!is_one_machine()) return values_.nic;
    const double rate = values_.pcie * values_.gpus, ranks = this->ranks();
    if (!is_all_reduce() || values_.all_reduce_per_byte == 0) return rate;
    return std::max(rate, values_.gpus * 2 * (ranks - 1) / ranks / values_.all_reduce_per_byte);
  }
  bool is_all_reduce() const { return values_.is_all_reduce > 0; }
  /// Of collectives: each GPU of a worker is one.
  double ranks() const { return std::max(1.0, values_.workers * std::max(1.0, values_.gpus_per_worker)); }
  int servers() const { return std::min(kMostServerNodes, static_cast<int>(values_.servers)); }
  /// Of machines that hold variables.
  int server_machines() const {
    const double machines = values_.server_machines > 0 ? values_.server_machines
                            : values_.is_colocated > 0  ? std::min(values_.machines, values_.servers)
                                                        : values_.servers;
    return static_cast<int>(std::clamp(machines, 1.0, kMostPieces));
  }
  /// Into how many pieces so many bytes are cut.
  double cuts_of(double bytes) const { return values_.partition > 0 ? std::ceil(bytes / values_.partition) : 1; }
  /// Pieces that a gradient of so many bytes is sent in.
  int pieces_of(double bytes) const {
    return static_cast<int>(
        std::clamp(std::max(cuts_of(bytes), values_.is_sharded > 0 ? values_.servers : 1), 1.0, kMostParts));
  }
  /// Server of each piece, by its creation number; `sizes` in bytes.
  std::vector<int> place(const std::vector<Bytes>& sizes) const {
    const Placement placement = values_.is_greedy > 0 ? Placement::kGreedyByBytes : Placement::kRoundRobin;
    return place_on_servers(sizes, std::max(1, servers()), placement);
  }

 private:
  struct Gpu {
    Accelerator accelerator;
    FlopsPerSecond peak;
    GpuParameters parameters;
  };
  Gpu gpu_of(double peak, double memory_rate, double multiprocessors, double efficiency, double overhead) const {
    Gpu gpu{.accelerator = {},
            .peak = FlopsPerSecond{peak},
            .parameters = {.kernel_overhead = Seconds{overhead},
                           .memory_efficiency = values_.memory_efficiency,
                           .reduction_half = values_.reduction_half,
                           .winograd_gain = values_.winograd_gain,
                           .default_peak_efficiency = efficiency}};
    gpu.accelerator.memory_bandwidth = BytesPerSecond{memory_rate};
    gpu.accelerator.multiprocessors = static_cast<int>(multiprocessors);
    return gpu;
  }
  static KernelTime time_on(const Gpu& gpu, const NodeFeatures& x) {
    return kernel_time(operator_of(x), gpu.accelerator, gpu.peak, gpu.parameters);
  }

  ClusterValues values_;
  bool has_others_ = false;
  Gpu gpu_, other_gpu_;
};

}  // namespace rehearse
