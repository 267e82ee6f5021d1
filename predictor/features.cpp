#include "predictor/features.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "predictor/run_sketch.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/scenario/placement.hpp"

namespace rehearse {

namespace {

constexpr std::array kKinds{OperatorKind::kConvolution, OperatorKind::kDense,      OperatorKind::kProduct,
                            OperatorKind::kRecurrent,   OperatorKind::kEmbedding,  OperatorKind::kBatchNorm,
                            OperatorKind::kLayerNorm,   OperatorKind::kActivation, OperatorKind::kElementwise,
                            OperatorKind::kDropout,     OperatorKind::kPooling,    OperatorKind::kSoftmaxLoss,
                            OperatorKind::kUpdate};
constexpr std::size_t kPhases = 5;
constexpr double kTiny = 1e-12;  // seconds
const std::string kGuessPrefix = "ln guess of ";

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
  kWinograd,
  kVariables,
  kVariable,
  kStatistics,
  kStatistic,
  kStatisticBytes,
  kInput
};

// Positions of SampleFeatures::costs.
enum Cost { kKernelCost, kMemoryCost, kHostCost, kTransferCost, kServerCost, kOwnCost, kBusiestCost };

/// Columns of the descriptor that costs and bounds are made from.
enum Needed {
  kPeak,
  kMemoryRate,
  kMultiprocessors,
  kPeakEfficiency,
  kMemoryEfficiency,
  kKernelOverhead,
  kReductionHalf,
  kWinogradGain,
  kDispatch,
  kStepOverhead,
  kWorkers,
  kMachines,
  kGpus,
  kServers,
  kIsColocated,
  kCores,
  kNic,
  kPcie,
  kLatency,
  kFlow,
  kPerVariable,
  kPerByte,
  kPerUpdate,
  kPerSplitUpdate,
  kSplitAbove,
  kIsSynchronous,
  kIsRoundRobin,
  kIsGreedy,
  kPeriod,
  kWindow,
  kIsAllReduce,
  kAllReduceLatency,
  kAllReducePerByte,
  kBucket,
  kCycle,
  kOverlaps,
  kServerNic,
  kNeeded
};
constexpr std::array<const char*, kNeeded> kNeededNames{"gpu_peak_flops",
                                                        "gpu_memory_bandwidth_Bps",
                                                        "multiprocessors",
                                                        "peak_efficiency",
                                                        "memory_efficiency",
                                                        "kernel_overhead_s",
                                                        "reduction_half",
                                                        "winograd_gain",
                                                        "dispatch_s",
                                                        "step_overhead_s",
                                                        "workers",
                                                        "worker_machines",
                                                        "gpus_per_machine",
                                                        "servers",
                                                        "is_colocated",
                                                        "server_cores",
                                                        "nic_Bps",
                                                        "pcie_Bps",
                                                        "latency_s",
                                                        "flow_Bps",
                                                        "server_time_per_variable_s",
                                                        "server_time_per_byte_s",
                                                        "server_time_per_update_s",
                                                        "server_time_per_split_update_s",
                                                        "server_split_update_threshold_B",
                                                        "is_synchronous",
                                                        "is_round_robin",
                                                        "is_greedy_by_bytes",
                                                        "sampling_period_s",
                                                        "window_steps",
                                                        "is_all_reduce",
                                                        "all_reduce_latency_s",
                                                        "all_reduce_s_per_byte",
                                                        "bucket_B",
                                                        "cycle_s",
                                                        "overlaps_backward",
                                                        "server_nic_Bps"};

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

bool is_update(const float* x) {
  return static_cast<OperatorKind>(static_cast<int>(x[kKind])) == OperatorKind::kUpdate;
}

constexpr double kMostPieces = 1e6;     // machines and the like that a file may speak of
constexpr double kMostVariables = 1e5;  // the same
constexpr int kMostServers = 64;        // that are told apart: further ones are the first ones again
constexpr int kMostCores = 1024;
constexpr double kLargest = 1e18;  // of any other value

/// Throws InputError unless row `x` of a graph can be that of an operator.
void check_row(const float* x, const DatasetGraph& graph) {
  const auto is_within = [&](Column column, double low, double high) { return x[column] >= low && x[column] <= high; };
  bool fits = is_within(kKind, 0, static_cast<double>(kKinds.size() - 1)) && is_within(kPhase, 0, kPhases - 1.0) &&
              is_within(kVariables, 0, kMostVariables) && is_within(kVariable, -1, kMostVariables) &&
              is_within(kStatistics, 0, kMostVariables) && is_within(kStatistic, -1, kMostVariables) &&
              is_within(kStatisticBytes, 0, kLargest) && is_within(kInput, 0, kLargest);
  for (int column = kFlops; column <= kWinograd; ++column) fits = fits && is_within(Column(column), 0, kLargest);
  if (!fits || (x[kVariable] < 0) != (x[kVariables] == 0) || (x[kStatistic] < 0) != (x[kStatistics] == 0) ||
      (is_update(x) && x[kVariables] != 1))
    throw InputError{"the dataset's graph " + in_quotes(graph.name) + " has a node that is no operator"};
}

constexpr auto kAbsent = static_cast<std::size_t>(-1);

/// Of a name; kAbsent for those of all-reduce, without which a dataset has none, and of servers' NICs, without which
/// they are those of workers.
std::size_t position(const std::vector<std::string>& names, Needed needed) {
  const std::string name = kNeededNames[needed];
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end() && needed >= kAllReduceLatency) return kAbsent;
  if (found == names.end()) throw InputError{"the dataset has no descriptor " + in_quotes(name)};
  return static_cast<std::size_t>(found - names.begin());
}

float log1(double x) { return static_cast<float>(std::log1p(std::max(x, 0.0))); }
float log_time(double seconds) { return static_cast<float>(std::log(seconds + kTiny)); }

/// A cluster as far as costs depend on it.
class Site {
 public:
  Site(const std::vector<double>& descriptor, const std::vector<std::size_t>& positions) {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const bool is_count =
          i == kMultiprocessors || i == kWorkers || i == kMachines || i == kGpus || i == kServers || i == kCores;
      values_[i] = positions[i] == kAbsent ? 0 : descriptor[positions[i]];
      if (!(values_[i] >= 0 && values_[i] <= (is_count ? kMostPieces : kLargest)))
        throw InputError{"the dataset has a setting that is no cluster: " + in_quotes(kNeededNames[i]) +
                         " is out of range"};
    }
    gpu_.memory_bandwidth = BytesPerSecond{values_[kMemoryRate]};
    gpu_.multiprocessors = static_cast<int>(values_[kMultiprocessors]);
    parameters_ = {.kernel_overhead = Seconds{values_[kKernelOverhead]},
                   .memory_efficiency = values_[kMemoryEfficiency],
                   .reduction_half = values_[kReductionHalf],
                   .winograd_gain = values_[kWinogradGain],
                   .default_peak_efficiency = values_[kPeakEfficiency]};
  }
  double operator[](Needed which) const { return values_[which]; }
  KernelTime time_of(const float* x) const {
    return kernel_time(operator_of(x), gpu_, FlopsPerSecond{values_[kPeak]}, parameters_);
  }
  bool is_one_machine() const {
    return values_[kMachines] == 1 && (values_[kIsColocated] > 0 || values_[kServers] == 0);
  }
  /// Of all GPUs of the chief's machine, or of its NICs. GPUs that reduce among themselves may have faster links than
  /// PCIe: a ring's rank sends, and receives, 2 (p - 1) / p of the gradients.
  double rate() const {
    if (!is_one_machine()) return values_[kNic];
    const double rate = values_[kPcie] * values_[kGpus], ranks = std::max(1.0, values_[kWorkers]);
    if (!is_all_reduce() || values_[kAllReducePerByte] == 0) return rate;
    return std::max(rate, values_[kGpus] * 2 * (ranks - 1) / ranks / values_[kAllReducePerByte]);
  }
  bool is_all_reduce() const { return values_[kIsAllReduce] > 0; }
  int servers() const { return std::min(kMostServers, static_cast<int>(values_[kServers])); }
  /// Of machines that hold variables.
  int server_machines() const {
    const double machines =
        values_[kIsColocated] > 0 ? std::min(values_[kMachines], values_[kServers]) : values_[kServers];
    return std::max(1, static_cast<int>(machines));
  }
  /// Whether variables of machine 0 are on the chief's.
  bool chief_has_server() const { return values_[kIsColocated] > 0 && values_[kServers] > 0; }
  double remote_workers() const {
    return values_[kWorkers] - (chief_has_server() ? values_[kWorkers] / std::max(1.0, values_[kMachines]) : 0);
  }
  /// Server of each variable, by its creation number; `sizes` in bytes.
  std::vector<int> place(const std::vector<Bytes>& sizes) const {
    const Placement placement = values_[kIsGreedy] > 0 ? Placement::kGreedyByBytes : Placement::kRoundRobin;
    return place_on_servers(sizes, std::max(1, servers()), placement);
  }

  SketchedCluster sketched(double input_bytes) const {
    return {.dispatch_s = values_[kDispatch],
            .overhead_s = values_[kStepOverhead],
            .input_bytes = input_bytes,
            .machines = count(kMachines),
            .workers = count(kWorkers),
            .servers = servers(),
            .is_colocated = values_[kIsColocated] > 0,
            .cores = std::min(kMostCores, count(kCores)),
            .nic_Bps = values_[kNic],
            .server_nic_Bps = values_[kServerNic] > 0 ? values_[kServerNic] : values_[kNic],
            .flow_Bps = values_[kFlow] > 0 ? values_[kFlow] : values_[kNic],
            .gpu_link_Bps = values_[kPcie],
            .latency_s = values_[kLatency],
            .variable_s = values_[kPerVariable],
            .byte_s = values_[kPerByte],
            .update_s = values_[kPerUpdate],
            .split_update_s = values_[kPerSplitUpdate],
            .split_above_B = values_[kSplitAbove],
            .is_synchronous = values_[kIsSynchronous] > 0,
            .period_s = values_[kPeriod],
            .window_steps = values_[kWindow],
            .ring = {.latency_s = values_[kAllReduceLatency],
                     .byte_s = values_[kAllReducePerByte],
                     .bucket_B = values_[kBucket],
                     .cycle_s = values_[kCycle],
                     .waits_for_backward = is_all_reduce() && values_[kOverlaps] == 0}};
  }

 private:
  int count(Needed which) const { return std::max(1, static_cast<int>(values_[which])); }

  std::array<double, kNeeded> values_{};
  Accelerator gpu_;
  GpuParameters parameters_;
};

/// What a step moves of each variable, by creation number.
std::vector<SketchedVariable> variables_of(const DatasetGraph& graph, std::size_t columns, const Site& site) {
  const std::size_t operators = graph.nodes(columns);
  const auto row = [&](std::size_t i) { return graph.features.data() + i * columns; };
  std::vector<SketchedVariable> variables;
  std::vector<int> kernel_of(operators, -1);  // in dispatch order
  int kernels = 0;
  for (std::size_t i = 0; i < operators; ++i) {
    const float* x = row(i);
    check_row(x, graph);
    const auto end =
        static_cast<std::size_t>(std::max({0.0F, x[kVariable] + x[kVariables], x[kStatistic] + x[kStatistics]}));
    if (end > variables.size()) variables.resize(end);
    if (is_update(x)) {  // reads one copy more than it writes
      SketchedVariable& variable = variables[static_cast<std::size_t>(x[kVariable])];
      variable.pulled_bytes = variable.pushed_bytes = std::max(0.0F, x[kRead] - x[kWritten]);
      continue;
    }
    kernel_of[i] = kernels++;
    for (int k = 0; k < static_cast<int>(x[kStatistics]); ++k) {
      SketchedVariable& average = variables[static_cast<std::size_t>(x[kStatistic]) + static_cast<std::size_t>(k)];
      average.pushed_bytes = x[kStatisticBytes] / x[kStatistics];
      average.gradient = kernel_of[i];
    }
  }
  for (const GraphEdge& edge : graph.edges)
    if (const float* to = row(static_cast<std::size_t>(edge.to)); is_update(to)) {
      int& gradient = variables[static_cast<std::size_t>(to[kVariable])].gradient;
      gradient = std::max(gradient, kernel_of[static_cast<std::size_t>(edge.from)]);
    }
  std::vector<Bytes> sizes;
  for (const SketchedVariable& variable : variables)
    sizes.push_back(Bytes{static_cast<std::int64_t>(variable.pushed_bytes)});
  const std::vector<int> placed = site.place(sizes);
  for (std::size_t v = 0; v < variables.size(); ++v) variables[v].server = placed[v];
  return variables;
}

}  // namespace

bool is_of_sketch(const std::string& total_name) { return total_name.starts_with(kGuessPrefix); }

FeatureReader::FeatureReader(const Dataset& dataset) {
  if (dataset.node_features != node_feature_names())
    throw InputError{"the dataset's node features are not those of this program"};
  for (int i = 0; i < kNeeded; ++i) needed_.push_back(position(dataset.descriptors, static_cast<Needed>(i)));
  for (const char* name :
       {"kernel", "memory", "host", "transfer", "server", "own", "busiest", "compute", "exchange", "step"})
    total_names_.push_back(std::string{"ln "} + name + "_s");
  for (const char* name : {"flops", "bytes", "parameter_bytes", "kernels", "variables"})
    total_names_.push_back(std::string{"ln "} + name);
  for (const std::string& label : label_names()) total_names_.push_back(kGuessPrefix + label);
  for (const std::string& name : dataset.descriptors) {
    total_names_.push_back(name);
    total_names_.push_back("ln " + name);
  }
  for (const std::string& label : dataset.labels) {
    const bool is_share = label == "memory_peak" || label == "gpu_peak";
    bounds_.push_back(is_share ? Bound::kOne : label.ends_with("_Bps") ? Bound::kLink : Bound::kNone);
  }
}

std::size_t FeatureReader::node_inputs() const { return kKinds.size() + kPhases + 13 + kCosts; }

void FeatureReader::check(const Dataset& dataset) const {
  const std::size_t columns = dataset.node_features.size();
  for (const DatasetGraph& graph : dataset.graphs)
    for (std::size_t i = 0; i < graph.nodes(columns); ++i) check_row(graph.features.data() + i * columns, graph);
  for (const DatasetSetting& setting : dataset.settings) (void)Site{setting.descriptor, needed_};
}

SampleFeatures FeatureReader::read(const Dataset& dataset, const Sample& sample) const {
  const DatasetGraph& graph = dataset.graphs[static_cast<std::size_t>(sample.graph)];
  const std::vector<double>& descriptor = dataset.settings[static_cast<std::size_t>(sample.setting)].descriptor;
  const Site site{descriptor, needed_};
  const std::size_t columns = dataset.node_features.size();
  const std::size_t operators = graph.nodes(columns);
  const auto row = [&](std::size_t i) { return graph.features.data() + i * columns; };

  const std::vector<SketchedVariable> variables = variables_of(graph, columns, site);
  std::vector<double> held(static_cast<std::size_t>(site.server_machines()));
  const auto machine_of = [&](std::size_t variable) {
    return machine_of_server(variables[variable].server, site.servers(), site.server_machines());
  };
  for (std::size_t v = 0; v < variables.size(); ++v)
    held[static_cast<std::size_t>(machine_of(v))] += variables[v].pushed_bytes;
  const auto busiest = static_cast<int>(std::max_element(held.begin(), held.end()) - held.begin());

  SampleFeatures features;
  features.nodes.reserve(operators * node_inputs());
  features.costs.reserve(operators * kCosts);
  std::array<double, kCosts> sums{};
  double flops = 0, bytes = 0, variable_bytes = 0, kernels = 0;
  std::vector<SketchedKernel> sketched_kernels;
  for (std::size_t i = 0; i < operators; ++i) {
    const float* x = row(i);
    std::array<double, kCosts> costs{};
    if (is_update(x) && site.is_all_reduce()) {
      costs[kTransferCost] = x[kParameters] * site[kAllReducePerByte] / 2;
      variable_bytes += x[kParameters];
    } else if (is_update(x)) {
      const auto v = static_cast<std::size_t>(x[kVariable]);
      const int machine = machine_of(v);
      const double sent = variables[v].pushed_bytes;
      const double seconds = sent / site.rate();
      const bool is_own = site.chief_has_server() && machine == 0;
      costs[kTransferCost] = site.is_one_machine() || !is_own ? seconds : 0;
      costs[kServerCost] = site[kPerVariable] + sent * site[kPerByte];
      costs[kOwnCost] = is_own ? seconds * site.remote_workers() : 0;
      costs[kBusiestCost] = machine == busiest ? seconds * site.remote_workers() : 0;
      variable_bytes += sent;
    } else {
      const KernelTime time = site.time_of(x);
      costs[kKernelCost] = time.total.value();
      costs[kMemoryCost] = time.memory.value();
      costs[kHostCost] = std::max(costs[kKernelCost], site[kDispatch]);
      flops += x[kFlops];
      bytes += static_cast<double>(x[kRead]) + x[kWritten];
      kernels += 1;
      sketched_kernels.push_back({.time_s = time.total.value(),
                                  .memory_s = time.memory.value(),
                                  .first_variable = static_cast<int>(x[kVariable]),
                                  .variables = static_cast<int>(x[kVariables])});
    }
    for (const OperatorKind kind : kKinds)
      features.nodes.push_back(static_cast<int>(x[kKind]) == static_cast<int>(kind) ? 1 : 0);
    for (std::size_t phase = 0; phase < kPhases; ++phase)
      features.nodes.push_back(static_cast<std::size_t>(x[kPhase]) == phase ? 1 : 0);
    for (const Column column : {kFlops, kRead, kWritten, kParameters, kElements, kRows, kColumns, kReduction, kProducts,
                                kVariables, kStatisticBytes, kInput})
      features.nodes.push_back(log1(x[column]));
    features.nodes.push_back(x[kWinograd]);
    for (std::size_t k = 0; k < kCosts; ++k) {
      features.costs.push_back(static_cast<float>(costs[k]));
      features.nodes.push_back(log_time(costs[k]));
      sums[k] += costs[k];
    }
  }
  // What a step would take if nothing overlapped: a first guess for the network to correct.
  const double compute = sums[kHostCost] + site[kStepOverhead];
  const double serving = sums[kServerCost] * site[kWorkers] / std::max(1.0, site[kServers] * site[kCores]);
  const double exchange = 2 * std::max({sums[kTransferCost] + sums[kOwnCost], sums[kBusiestCost], serving});
  for (const double sum : sums) features.totals.push_back(log_time(sum));
  for (const double time : {compute, exchange, compute + exchange}) features.totals.push_back(log_time(time));
  for (const double total : {flops, bytes, variable_bytes, kernels, static_cast<double>(variables.size())})
    features.totals.push_back(log1(total));
  SketchedProfile sketch = sketch_profile(sketched_kernels, variables, site.sketched(row(0)[kInput]));
  features.guess = std::move(sketch.labels);
  features.window_s = sketch.window_s;
  for (const double guess : features.guess) features.totals.push_back(log_time(guess));
  for (const double d : descriptor) {
    features.totals.push_back(static_cast<float>(d));
    features.totals.push_back(static_cast<float>(std::log(std::max(d, kTiny))));
  }
  for (const Bound bound : bounds_)
    features.bounds.push_back(bound == Bound::kOne ? 1.0 : bound == Bound::kLink ? site.rate() : 0.0);
  return features;
}

}  // namespace rehearse
