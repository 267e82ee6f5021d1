#include "predictor/features.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "predictor/node_features.hpp"
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
};

/// How a value is checked, and whether a dataset may lack it: those of all-reduce, without which it has none, and of
/// servers' NICs, without which they are those of workers.
enum class ValueKind { kAny, kCount, kOptional };
struct ClusterValue {
  const char* name;
  double ClusterValues::*value;
  ValueKind kind = ValueKind::kAny;
};
constexpr std::array kClusterValues{
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
    ClusterValue{"server_nic_Bps", &ClusterValues::server_nic, ValueKind::kOptional}};

/// What an operator takes: the columns of SampleFeatures::costs.
struct OperatorCosts {
  double kernel = 0, memory = 0, host = 0;
  double transfer = 0, server = 0, own = 0, busiest = 0;
};
struct OperatorCost {
  const char* name;
  double OperatorCosts::*seconds;
};
constexpr std::array kOperatorCosts{
    OperatorCost{"kernel", &OperatorCosts::kernel},  OperatorCost{"memory", &OperatorCosts::memory},
    OperatorCost{"host", &OperatorCosts::host},      OperatorCost{"transfer", &OperatorCosts::transfer},
    OperatorCost{"server", &OperatorCosts::server},  OperatorCost{"own", &OperatorCosts::own},
    OperatorCost{"busiest", &OperatorCosts::busiest}};
static_assert(kOperatorCosts.size() == kCosts);

/// The features of an operator that its inputs hold the logarithms of.
constexpr std::array kSizes{
    &NodeFeatures::flops,    &NodeFeatures::read,      &NodeFeatures::written,         &NodeFeatures::parameters,
    &NodeFeatures::elements, &NodeFeatures::rows,      &NodeFeatures::columns,         &NodeFeatures::reduction,
    &NodeFeatures::products, &NodeFeatures::variables, &NodeFeatures::statistic_bytes, &NodeFeatures::input_bytes};

/// The kernel of a row of node features.
Operator operator_of(const NodeFeatures& x) {
  Operator kernel;
  kernel.kind = static_cast<OperatorKind>(static_cast<int>(x.kind));
  kernel.flops = Flops{x.flops};
  kernel.bytes_read = Bytes{static_cast<std::int64_t>(x.read)};
  kernel.bytes_written = Bytes{static_cast<std::int64_t>(x.written)};
  kernel.matrix = {.rows = x.rows, .columns = x.columns, .reduction = x.reduction, .products = x.products};
  kernel.is_3x3_stride_1 = x.is_3x3_stride_1 > 0;
  return kernel;
}

bool is_update(const NodeFeatures& x) {
  return static_cast<OperatorKind>(static_cast<int>(x.kind)) == OperatorKind::kUpdate;
}

constexpr double kMostPieces = 1e6;     // machines and the like that a file may speak of
constexpr double kMostVariables = 1e5;  // the same
constexpr int kMostServers = 64;        // that are told apart: further ones are the first ones again
constexpr int kMostCores = 1024;
constexpr double kLargestValue = 1e18;  // of any other value

/// Throws InputError unless `x`, of a graph, can be an operator.
void check_node(const NodeFeatures& x, const DatasetGraph& graph) {
  const auto is_within = [](double value, double low, double high) { return value >= low && value <= high; };
  bool fits = is_within(x.kind, 0, static_cast<double>(kKinds.size() - 1)) && is_within(x.phase, 0, kPhases - 1.0) &&
              is_within(x.variables, 0, kMostVariables) && is_within(x.variable, -1, kMostVariables) &&
              is_within(x.statistics, 0, kMostVariables) && is_within(x.statistic, -1, kMostVariables) &&
              is_within(x.is_3x3_stride_1, 0, kLargestValue);
  for (const auto size : kSizes) fits = fits && is_within(x.*size, 0, kLargestValue);
  if (!fits || (x.variable < 0) != (x.variables == 0) || (x.statistic < 0) != (x.statistics == 0) ||
      (is_update(x) && x.variables != 1))
    throw InputError{"the dataset's graph " + in_quotes(graph.name) + " has a node that is no operator"};
}

constexpr auto kAbsent = static_cast<std::size_t>(-1);

/// Where the descriptor has the value; kAbsent if it may lack it and does.
std::size_t position(const std::vector<std::string>& names, const ClusterValue& value) {
  const auto found = std::find(names.begin(), names.end(), value.name);
  if (found == names.end() && value.kind == ValueKind::kOptional) return kAbsent;
  if (found == names.end()) throw InputError{"the dataset has no descriptor " + in_quotes(value.name)};
  return static_cast<std::size_t>(found - names.begin());
}

float log1(double x) { return static_cast<float>(std::log1p(std::max(x, 0.0))); }
float log_time(double seconds) { return static_cast<float>(std::log(seconds + kTiny)); }

/// A cluster as far as costs depend on it.
class DescribedCluster {
 public:
  /// `positions` [kClusterValues] in the descriptor.
  DescribedCluster(const std::vector<double>& descriptor, const std::vector<std::size_t>& positions) {
    for (std::size_t i = 0; i < kClusterValues.size(); ++i) {
      const ClusterValue& known = kClusterValues[i];
      double& value = values_.*known.value;
      value = positions[i] == kAbsent ? 0 : descriptor[positions[i]];
      if (!(value >= 0 && value <= (known.kind == ValueKind::kCount ? kMostPieces : kLargestValue)))
        throw InputError{"the dataset has a setting that is no cluster: " + in_quotes(known.name) + " is out of range"};
    }
    gpu_.memory_bandwidth = BytesPerSecond{values_.memory_rate};
    gpu_.multiprocessors = static_cast<int>(values_.multiprocessors);
    parameters_ = {.kernel_overhead = Seconds{values_.kernel_overhead},
                   .memory_efficiency = values_.memory_efficiency,
                   .reduction_half = values_.reduction_half,
                   .winograd_gain = values_.winograd_gain,
                   .default_peak_efficiency = values_.peak_efficiency};
  }
  const ClusterValues& values() const { return values_; }
  KernelTime time_of(const NodeFeatures& x) const {
    return kernel_time(operator_of(x), gpu_, FlopsPerSecond{values_.peak}, parameters_);
  }
  bool is_one_machine() const { return values_.machines == 1 && (values_.is_colocated > 0 || values_.servers == 0); }
  /// Of all GPUs of the chief's machine, or of its NICs. GPUs that reduce among themselves may have faster links than
  /// PCIe: a ring's rank sends, and receives, 2 (p - 1) / p of the gradients.
  double rate() const {
    if (!is_one_machine()) return values_.nic;
    const double rate = values_.pcie * values_.gpus, ranks = std::max(1.0, values_.workers);
    if (!is_all_reduce() || values_.all_reduce_per_byte == 0) return rate;
    return std::max(rate, values_.gpus * 2 * (ranks - 1) / ranks / values_.all_reduce_per_byte);
  }
  bool is_all_reduce() const { return values_.is_all_reduce > 0; }
  int servers() const { return std::min(kMostServers, static_cast<int>(values_.servers)); }
  /// Of machines that hold variables.
  int server_machines() const {
    const double machines = values_.is_colocated > 0 ? std::min(values_.machines, values_.servers) : values_.servers;
    return std::max(1, static_cast<int>(machines));
  }
  /// Whether variables of machine 0 are on the chief's.
  bool chief_has_server() const { return values_.is_colocated > 0 && values_.servers > 0; }
  double remote_workers() const {
    return values_.workers - (chief_has_server() ? values_.workers / std::max(1.0, values_.machines) : 0);
  }
  /// Server of each variable, by its creation number; `sizes` in bytes.
  std::vector<int> place(const std::vector<Bytes>& sizes) const {
    const Placement placement = values_.is_greedy > 0 ? Placement::kGreedyByBytes : Placement::kRoundRobin;
    return place_on_servers(sizes, std::max(1, servers()), placement);
  }

  SketchedCluster sketched(double input_bytes) const {
    return {.dispatch_s = values_.dispatch,
            .overhead_s = values_.step_overhead,
            .input_bytes = input_bytes,
            .machines = at_least_one(values_.machines),
            .workers = at_least_one(values_.workers),
            .servers = servers(),
            .is_colocated = values_.is_colocated > 0,
            .cores = std::min(kMostCores, at_least_one(values_.cores)),
            .nic_bytes_per_s = values_.nic,
            .server_nic_bytes_per_s = values_.server_nic > 0 ? values_.server_nic : values_.nic,
            .flow_bytes_per_s = values_.flow > 0 ? values_.flow : values_.nic,
            .gpu_link_bytes_per_s = values_.pcie,
            .latency_s = values_.latency,
            .variable_s = values_.per_variable,
            .byte_s = values_.per_byte,
            .update_s = values_.per_update,
            .split_update_s = values_.per_split_update,
            .split_above_bytes = values_.split_above,
            .is_synchronous = values_.is_synchronous > 0,
            .period_s = values_.period,
            .window_steps = values_.window,
            .ring = {.latency_s = values_.all_reduce_latency,
                     .byte_s = values_.all_reduce_per_byte,
                     .bucket_bytes = values_.bucket,
                     .cycle_s = values_.cycle,
                     .waits_for_backward = is_all_reduce() && values_.overlaps == 0}};
  }

 private:
  static int at_least_one(double count) { return std::max(1, static_cast<int>(count)); }

  ClusterValues values_;
  Accelerator gpu_;
  GpuParameters parameters_;
};

/// The operators of a sample's graph.
class Nodes {
 public:
  explicit Nodes(const DatasetGraph& graph) : graph_{graph} {}
  std::size_t size() const { return graph_.nodes(kNodeFeatures.size()); }
  NodeFeatures operator[](std::size_t i) const { return read_node(graph_.features.data() + i * kNodeFeatures.size()); }

 private:
  const DatasetGraph& graph_;
};

/// What a step moves of each variable, by creation number.
std::vector<SketchedVariable> variables_of(const DatasetGraph& graph, const DescribedCluster& cluster) {
  const Nodes nodes{graph};
  std::vector<SketchedVariable> variables;
  std::vector<int> kernel_of(nodes.size(), -1);  // in dispatch order
  int kernels = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeFeatures x = nodes[i];
    check_node(x, graph);
    const auto end = static_cast<std::size_t>(std::max({0.0F, x.variable + x.variables, x.statistic + x.statistics}));
    if (end > variables.size()) variables.resize(end);
    if (is_update(x)) {  // reads one copy more than it writes
      SketchedVariable& variable = variables[static_cast<std::size_t>(x.variable)];
      variable.pulled_bytes = variable.pushed_bytes = std::max(0.0F, x.read - x.written);
      continue;
    }
    kernel_of[i] = kernels++;
    for (int k = 0; k < static_cast<int>(x.statistics); ++k) {
      SketchedVariable& average = variables[static_cast<std::size_t>(x.statistic) + static_cast<std::size_t>(k)];
      average.pushed_bytes = x.statistic_bytes / x.statistics;
      average.gradient = kernel_of[i];
    }
  }
  for (const GraphEdge& edge : graph.edges)
    if (const NodeFeatures to = nodes[static_cast<std::size_t>(edge.to)]; is_update(to)) {
      int& gradient = variables[static_cast<std::size_t>(to.variable)].gradient;
      gradient = std::max(gradient, kernel_of[static_cast<std::size_t>(edge.from)]);
    }
  std::vector<Bytes> sizes;
  for (const SketchedVariable& variable : variables)
    sizes.emplace_back(static_cast<std::int64_t>(variable.pushed_bytes));
  const std::vector<int> placed = cluster.place(sizes);
  for (std::size_t v = 0; v < variables.size(); ++v) variables[v].server = placed[v];
  return variables;
}

/// A step of a sample: what its operators cost, one after another, and what all of them come to.
class CostedStep {
 public:
  CostedStep(const DatasetGraph& graph, const DescribedCluster& cluster)
      : cluster_{cluster}, variables_{variables_of(graph, cluster)} {
    std::vector<double> held(static_cast<std::size_t>(cluster.server_machines()));
    for (const SketchedVariable& variable : variables_)
      held[static_cast<std::size_t>(machine_of(variable))] += variable.pushed_bytes;
    busiest_ = static_cast<int>(std::max_element(held.begin(), held.end()) - held.begin());
  }

  /// The costs of the next operator.
  OperatorCosts add(const NodeFeatures& x) {
    const OperatorCosts costs = is_update(x) ? costs_of_update(x) : costs_of_kernel(x);
    for (const OperatorCost& cost : kOperatorCosts) sums_.*cost.seconds += costs.*cost.seconds;
    return costs;
  }

  /// In the order of FeatureReader::total_names(), as far as operators go.
  void append_totals(std::vector<float>& totals) const {
    const ClusterValues& values = cluster_.values();
    // What a step would take if nothing overlapped: a first guess for the network to correct.
    const double compute = sums_.host + values.step_overhead;
    const double serving = sums_.server * values.workers / std::max(1.0, values.servers * values.cores);
    const double exchange = 2 * std::max({sums_.transfer + sums_.own, sums_.busiest, serving});
    for (const OperatorCost& cost : kOperatorCosts) totals.push_back(log_time(sums_.*cost.seconds));
    for (const double time : {compute, exchange, compute + exchange}) totals.push_back(log_time(time));
    for (const double total : {flops_, bytes_, variable_bytes_, static_cast<double>(kernels_.size()),
                               static_cast<double>(variables_.size())})
      totals.push_back(log1(total));
  }

  SketchedMetrics sketch(double input_bytes) const {
    return sketch_metrics(kernels_, variables_, cluster_.sketched(input_bytes));
  }

 private:
  int machine_of(const SketchedVariable& variable) const {
    return machine_of_server(variable.server, cluster_.servers(), cluster_.server_machines());
  }

  OperatorCosts costs_of_update(const NodeFeatures& x) {
    const ClusterValues& values = cluster_.values();
    if (cluster_.is_all_reduce()) {
      variable_bytes_ += x.parameters;
      return {.transfer = x.parameters * values.all_reduce_per_byte / 2};
    }
    const SketchedVariable& variable = variables_[static_cast<std::size_t>(x.variable)];
    const int machine = machine_of(variable);
    const double sent = variable.pushed_bytes;
    const double seconds = sent / cluster_.rate();
    const bool is_own = cluster_.chief_has_server() && machine == 0;
    variable_bytes_ += sent;
    return {.transfer = cluster_.is_one_machine() || !is_own ? seconds : 0,
            .server = values.per_variable + sent * values.per_byte,
            .own = is_own ? seconds * cluster_.remote_workers() : 0,
            .busiest = machine == busiest_ ? seconds * cluster_.remote_workers() : 0};
  }

  OperatorCosts costs_of_kernel(const NodeFeatures& x) {
    const KernelTime time = cluster_.time_of(x);
    flops_ += x.flops;
    bytes_ += static_cast<double>(x.read) + x.written;
    kernels_.push_back({.time_s = time.total.value(),
                        .memory_s = time.memory.value(),
                        .first_variable = static_cast<int>(x.variable),
                        .variables = static_cast<int>(x.variables)});
    return {.kernel = time.total.value(),
            .memory = time.memory.value(),
            .host = std::max(time.total.value(), cluster_.values().dispatch)};
  }

  const DescribedCluster& cluster_;
  std::vector<SketchedVariable> variables_;
  int busiest_ = 0;  // machine whose servers hold the most bytes
  std::vector<SketchedKernel> kernels_;
  OperatorCosts sums_;
  double flops_ = 0, bytes_ = 0, variable_bytes_ = 0;
};

/// The inputs of an operator: FeatureReader::node_inputs() of them.
void append_inputs(const NodeFeatures& x, const OperatorCosts& costs, std::vector<float>& inputs) {
  for (const OperatorKind kind : kKinds) inputs.push_back(static_cast<int>(x.kind) == static_cast<int>(kind) ? 1 : 0);
  for (std::size_t phase = 0; phase < kPhases; ++phase)
    inputs.push_back(static_cast<std::size_t>(x.phase) == phase ? 1 : 0);
  for (const auto size : kSizes) inputs.push_back(log1(x.*size));
  inputs.push_back(x.is_3x3_stride_1);
  for (const OperatorCost& cost : kOperatorCosts) inputs.push_back(log_time(costs.*cost.seconds));
}

}  // namespace

bool is_of_sketch(const std::string& total_name) { return total_name.starts_with(kGuessPrefix); }

FeatureReader::FeatureReader(const Dataset& dataset) {
  if (dataset.node_features != node_feature_names())
    throw InputError{"the dataset's node features are not those of this program"};
  for (const ClusterValue& value : kClusterValues) needed_.push_back(position(dataset.descriptors, value));
  for (const OperatorCost& cost : kOperatorCosts) total_names_.push_back(std::string{"ln "} + cost.name + "_s");
  for (const char* name : {"compute", "exchange", "step"}) total_names_.push_back(std::string{"ln "} + name + "_s");
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

std::size_t FeatureReader::node_inputs() const {
  return kKinds.size() + kPhases + kSizes.size() + 1 + kOperatorCosts.size();
}

void FeatureReader::check(const Dataset& dataset) const {
  for (const DatasetGraph& graph : dataset.graphs) {
    const Nodes nodes{graph};
    for (std::size_t i = 0; i < nodes.size(); ++i) check_node(nodes[i], graph);
  }
  for (const DatasetSetting& setting : dataset.settings) (void)DescribedCluster{setting.descriptor, needed_};
}

SampleFeatures FeatureReader::read(const Dataset& dataset, const Sample& sample) const {
  const DatasetGraph& graph = dataset.graphs[static_cast<std::size_t>(sample.graph)];
  const std::vector<double>& descriptor = dataset.settings[static_cast<std::size_t>(sample.setting)].descriptor;
  const DescribedCluster cluster{descriptor, needed_};
  const Nodes nodes{graph};
  CostedStep step{graph, cluster};

  SampleFeatures features;
  features.nodes.reserve(nodes.size() * node_inputs());
  features.costs.reserve(nodes.size() * kCosts);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeFeatures x = nodes[i];
    const OperatorCosts costs = step.add(x);
    for (const OperatorCost& cost : kOperatorCosts) features.costs.push_back(static_cast<float>(costs.*cost.seconds));
    append_inputs(x, costs, features.nodes);
  }
  step.append_totals(features.totals);
  SketchedMetrics sketch = step.sketch(nodes[0].input_bytes);
  features.guess = std::move(sketch.labels);
  features.window_s = sketch.window_s;
  for (const double guess : features.guess) features.totals.push_back(log_time(guess));
  for (const double d : descriptor) {
    features.totals.push_back(static_cast<float>(d));
    features.totals.push_back(static_cast<float>(std::log(std::max(d, kTiny))));
  }
  for (const Bound bound : bounds_)
    features.bounds.push_back(bound == Bound::kOne ? 1.0 : bound == Bound::kLink ? cluster.rate() : 0.0);
  return features;
}

}  // namespace rehearse
