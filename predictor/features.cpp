#include "predictor/features.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/engine/kernel_time.hpp"

namespace rehearse {

namespace {

constexpr std::array kKinds{OperatorKind::kConvolution, OperatorKind::kDense,      OperatorKind::kProduct,
                            OperatorKind::kRecurrent,   OperatorKind::kEmbedding,  OperatorKind::kBatchNorm,
                            OperatorKind::kLayerNorm,   OperatorKind::kActivation, OperatorKind::kElementwise,
                            OperatorKind::kDropout,     OperatorKind::kPooling,    OperatorKind::kSoftmaxLoss,
                            OperatorKind::kUpdate};
constexpr std::size_t kPhases = 5;
constexpr double kTiny = 1e-12;  // seconds

// Positions of node_feature_names().
enum Column {
  kKind,
  kPhase,
  kFlops,
  kRead,
  kWritten,
  kParameters,
  kElements,
  kRows,
  kColumns,
  kReduction,
  kProducts,
  kWinograd
};

/// Columns of the descriptor that costs and bounds are made from.
constexpr std::array kNeeded{"gpu_peak_flops",
                             "gpu_memory_bandwidth_Bps",
                             "multiprocessors",
                             "peak_efficiency",
                             "memory_efficiency",
                             "kernel_overhead_s",
                             "reduction_half",
                             "winograd_gain",
                             "dispatch_s",
                             "worker_machines",
                             "gpus_per_machine",
                             "is_colocated",
                             "nic_Bps",
                             "pcie_Bps",
                             "server_time_per_variable_s",
                             "server_time_per_byte_s"};
enum Needed {
  kPeak,
  kMemory,
  kMultiprocessors,
  kPeakEfficiency,
  kMemoryEfficiency,
  kKernelOverhead,
  kReductionHalf,
  kWinogradGain,
  kDispatch,
  kMachines,
  kGpus,
  kIsColocated,
  kNic,
  kPcie,
  kPerVariable,
  kPerByte
};

/// The kernel of a row of node features.
Operator operator_of(const float* x) {
  Operator kernel;
  kernel.kind = static_cast<OperatorKind>(static_cast<int>(x[kKind]));
  kernel.flops = Flops{x[kFlops]};
  kernel.bytes_read = Bytes{static_cast<std::int64_t>(x[kRead])};
  kernel.bytes_written = Bytes{static_cast<std::int64_t>(x[kWritten])};
  kernel.matrix = {.rows = x[kRows], .columns = x[kColumns], .reduction = x[kReduction], .products = x[kProducts]};
  kernel.is_3x3_stride_1 = x[kWinograd] > 0;
  return kernel;
}

std::size_t position(const std::vector<std::string>& names, const std::string& name, const std::string& what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw InputError{"the dataset has no " + what + " " + in_quotes(name)};
  return static_cast<std::size_t>(found - names.begin());
}

float log1(double x) { return static_cast<float>(std::log1p(std::max(x, 0.0))); }
float log_time(double seconds) { return static_cast<float>(std::log(seconds + kTiny)); }

}  // namespace

FeatureReader::FeatureReader(const Dataset& dataset) {
  if (dataset.node_features != node_feature_names())
    throw InputError{"the dataset's node features are not those of this program"};
  for (std::size_t i = 0; i < kNeeded.size(); ++i)
    needed_.push_back(position(dataset.descriptors, kNeeded[i], "descriptor"));
  for (const char* name : {"kernel", "memory", "host", "transfer", "server"})
    total_names_.push_back(std::string{"ln "} + name + "_s");
  for (const char* name : {"flops", "bytes", "parameter_bytes", "kernels", "variables"})
    total_names_.push_back(std::string{"ln "} + name);
  for (const std::string& name : dataset.descriptors) {
    total_names_.push_back(name);
    total_names_.push_back("ln " + name);
  }
  for (const std::string& label : dataset.labels) {
    const bool is_share = label.ends_with("_peak") && (label.starts_with("mem") || label.starts_with("gpu"));
    const bool is_rate = label.ends_with("_Bps") || (label.ends_with("_peak") && !is_share);
    bounds_.push_back(is_share ? Bound::kOne : is_rate ? Bound::kLink : Bound::kNone);
  }
}

std::size_t FeatureReader::node_inputs() const { return kKinds.size() + kPhases + 10 + kCosts; }

SampleFeatures FeatureReader::read(const Dataset& dataset, const Sample& sample) const {
  const DatasetGraph& graph = dataset.graphs[static_cast<std::size_t>(sample.graph)];
  const std::vector<double>& descriptor = dataset.settings[static_cast<std::size_t>(sample.setting)].descriptor;
  const auto value = [&](Needed which) { return descriptor[needed_[which]]; };
  Accelerator gpu;
  gpu.memory_bandwidth = BytesPerSecond{value(kMemory)};
  gpu.multiprocessors = static_cast<int>(value(kMultiprocessors));
  const GpuParameters parameters{.kernel_overhead = Seconds{value(kKernelOverhead)},
                                 .memory_efficiency = value(kMemoryEfficiency),
                                 .reduction_half = value(kReductionHalf),
                                 .winograd_gain = value(kWinogradGain),
                                 .default_peak_efficiency = value(kPeakEfficiency)};
  const FlopsPerSecond peak{value(kPeak)};
  const bool is_one_machine = value(kMachines) == 1 && value(kIsColocated) > 0;
  const double link = is_one_machine ? value(kPcie) * value(kGpus) : value(kNic);
  const std::size_t columns = dataset.node_features.size();
  const std::size_t operators = graph.nodes(columns);
  SampleFeatures features;
  features.nodes.reserve(operators * node_inputs());
  features.costs.reserve(operators * kCosts);
  std::array<double, kCosts> cost_sums{};
  double flops = 0, bytes = 0, variable_bytes = 0, kernels = 0, variables = 0;
  for (std::size_t i = 0; i < operators; ++i) {
    const float* x = graph.features.data() + i * columns;
    const bool is_update = static_cast<OperatorKind>(static_cast<int>(x[kKind])) == OperatorKind::kUpdate;
    for (const OperatorKind kind : kKinds)
      features.nodes.push_back(static_cast<int>(x[kKind]) == static_cast<int>(kind) ? 1 : 0);
    for (std::size_t phase = 0; phase < kPhases; ++phase)
      features.nodes.push_back(static_cast<std::size_t>(x[kPhase]) == phase ? 1 : 0);
    for (const Column column :
         {kFlops, kRead, kWritten, kParameters, kElements, kRows, kColumns, kReduction, kProducts})
      features.nodes.push_back(log1(x[column]));
    features.nodes.push_back(x[kWinograd]);
    const double moved = static_cast<double>(x[kRead]) + x[kWritten];
    std::array<double, kCosts> costs{};
    if (is_update) {
      costs[3] = x[kParameters] / link;
      costs[4] = value(kPerVariable) + x[kParameters] * value(kPerByte);
      variable_bytes += x[kParameters];
      variables += 1;
    } else {
      const KernelTime time = kernel_time(operator_of(x), gpu, peak, parameters);
      costs[0] = time.total.value();
      costs[1] = time.memory.value();
      costs[2] = std::max(costs[0], value(kDispatch));
      flops += x[kFlops];
      bytes += moved;
      kernels += 1;
    }
    for (std::size_t k = 0; k < kCosts; ++k) {
      features.costs.push_back(static_cast<float>(costs[k]));
      features.nodes.push_back(log_time(costs[k]));
      cost_sums[k] += costs[k];
    }
  }
  for (const double sum : cost_sums) features.totals.push_back(log_time(sum));
  for (const double total : {flops, bytes, variable_bytes, kernels, variables}) features.totals.push_back(log1(total));
  for (const double d : descriptor) {
    features.totals.push_back(static_cast<float>(d));
    features.totals.push_back(static_cast<float>(std::log(std::max(d, kTiny))));
  }
  for (const Bound bound : bounds_)
    features.bounds.push_back(bound == Bound::kOne ? 1.0 : bound == Bound::kLink ? link : 0.0);
  return features;
}

std::vector<double> FeatureReader::read_totals(const Dataset& dataset, const Sample& sample) const {
  const std::vector<float> totals = read(dataset, sample).totals;
  return {totals.begin(), totals.end()};
}

}  // namespace rehearse
