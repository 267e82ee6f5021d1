#include "predictor/features.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "predictor/node_features.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/names.hpp"
#include "sim/base/random.hpp"
#include "sim/scenario/gradient_units.hpp"
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
constexpr double kMostReads = 1e6;      // of variables by operators of a graph, and pieces of them
constexpr double kMostParts = 4096;     // that a gradient is cut into
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

/// A kernel and a variable of a graph, as far as one step of one worker uses them.
struct StepKernel {
  std::int32_t kind = 0;
  double time = 0, memory = 0;  // seconds
  double end = 0;               // on the GPU, if all variables are there from the start
};
struct StepVariable {
  double bytes = 0;           // of its gradient, as kernels write it
  double pulled = 0;          // bytes that a worker receives of it
  double pushed = 0;          // bytes that a worker sends of its gradient
  int gradient = -1;          // kernel that completes it; -1: none
  int reader = -1;            // first kernel that reads it; -1: none
  int pieces = 1;             // in which it is sent
  std::vector<double> parts;  // [servers] share that each of them holds
};

/// The step that a sample's graph is, on its cluster.
struct Step {
  std::vector<StepKernel> kernels;
  std::vector<StepVariable> variables;
  NodeLinks flow, reads, writes;
  double flops = 0, input_bytes = 0;
  double end = 0, other_end = 0;  // of the last kernel, on the chief's GPU and on one of another kind
};

Step step_of(const DatasetGraph& graph, const DescribedCluster& cluster) {
  const std::size_t nodes = graph.nodes(kNodeFeatures.size());
  const auto node = [&](std::size_t i) { return read_node(graph.features.data() + i * kNodeFeatures.size()); };
  Step step;
  step.input_bytes = nodes > 0 ? node(0).input_bytes : 0;
  std::vector<int> kernel_of(nodes, -1), updated(nodes, -1);
  const auto variable = [&](double number) -> StepVariable& {
    const auto v = static_cast<std::size_t>(number);
    if (v >= step.variables.size()) step.variables.resize(v + 1);
    return step.variables[v];
  };
  KernelClock clock, other_clock;
  for (std::size_t i = 0; i < nodes; ++i) {
    const NodeFeatures x = node(i);
    check_node(x, graph);
    if (is_update(x)) {  // reads one copy more than it writes
      updated[i] = static_cast<int>(x.variable);
      StepVariable& of = variable(x.variable);
      // Sparse tables go to servers by the rows that are used; collectives reduce all of them.
      of.pulled = of.bytes = cluster.is_all_reduce() ? x.parameters : std::max(0.0F, x.read - x.written);
      continue;
    }
    const auto k = static_cast<std::int32_t>(step.kernels.size());
    kernel_of[i] = k;
    const KernelTime time = cluster.time_of(x);
    step.kernels.push_back(
        {static_cast<std::int32_t>(static_cast<std::size_t>(x.kind) * kPhases + static_cast<std::size_t>(x.phase)),
         time.total.value(), time.memory.value(), clock.add(Seconds{cluster.values().dispatch}, time.total).value()});
    step.end = clock.end().value();
    if (cluster.has_others())
      step.other_end =
          other_clock.add(Seconds{cluster.values().other_dispatch}, cluster.time_on_others(x).total).value();
    step.flops += x.flops;
    if (static_cast<double>(step.reads.size()) + x.variables > kMostReads)
      throw InputError{"the dataset's graph " + in_quotes(graph.name) + " has operators that read too many variables"};
    for (int n = 0; n < static_cast<int>(x.variables); ++n) {
      StepVariable& of = variable(x.variable + static_cast<float>(n));
      if (of.reader < 0) of.reader = k;
      step.reads.emplace_back(static_cast<std::int32_t>(x.variable) + n, k);
    }
    for (int n = 0; n < static_cast<int>(x.statistics); ++n) {
      StepVariable& of = variable(x.statistic + static_cast<float>(n));
      of.bytes = x.statistic_bytes / x.statistics;
      of.gradient = k;
    }
  }
  if (cluster.values().other_batch_workers == cluster.values().other_workers && cluster.values().other_batch_ratio > 0)
    step.other_end *= cluster.values().other_batch_ratio;  // they are the same (undescribed.hpp)
  for (const GraphEdge& edge : graph.edges) {
    const int from = kernel_of[static_cast<std::size_t>(edge.from)], to = kernel_of[static_cast<std::size_t>(edge.to)];
    if (from >= 0 && to >= 0) step.flow.emplace_back(from, to);
    if (const int v = updated[static_cast<std::size_t>(edge.to)]; v >= 0 && from >= 0)
      step.variables[static_cast<std::size_t>(v)].gradient =
          std::max(step.variables[static_cast<std::size_t>(v)].gradient, from);
  }
  std::vector<Bytes> sizes;  // of pieces
  for (StepVariable& of : step.variables) {
    of.pushed = of.bytes * cluster.values().gradient_ratio;
    of.pieces = cluster.pieces_of(of.pushed);
    if (static_cast<double>(sizes.size()) + of.pieces > kMostReads)
      throw InputError{"the dataset's graph " + in_quotes(graph.name) + " has variables in too many pieces"};
    sizes.insert(sizes.end(), static_cast<std::size_t>(of.pieces),
                 Bytes{static_cast<std::int64_t>(of.pushed / of.pieces)});
  }
  const std::vector<int> placed = cluster.place(sizes);
  std::size_t piece = 0;
  for (std::size_t v = 0; v < step.variables.size(); ++v) {
    StepVariable& of = step.variables[v];
    of.parts.assign(static_cast<std::size_t>(std::max(1, cluster.servers())), 0);
    for (int i = 0; i < of.pieces; ++i) of.parts[static_cast<std::size_t>(placed[piece++])] += 1.0 / of.pieces;
    if (of.gradient >= 0) step.writes.emplace_back(of.gradient, v);
  }
  return step;
}

/// Shuffles one end of each edge among all edges, the same for the same graph.
void shuffle_ends(NodeLinks& links, Rng& random) {
  for (std::size_t i = links.size(); i > 1; --i) std::swap(links[i - 1].first, links[random.below(i)].first);
}

void shuffle_edges(Step& step) {
  Rng random{step.kernels.size() * 1000003 + step.variables.size(), "edges"};
  for (NodeLinks* links : {&step.flow, &step.reads, &step.writes}) shuffle_ends(*links, random);
  std::vector<StepVariable>& variables = step.variables;
  for (auto& variable : variables) variable.gradient = variable.reader = -1;
  for (const auto& [kernel, v] : step.writes) variables[static_cast<std::size_t>(v)].gradient = kernel;
  for (const auto& [v, kernel] : step.reads) {
    int& reader = variables[static_cast<std::size_t>(v)].reader;
    reader = reader < 0 ? kernel : std::min(reader, kernel);
  }
  for (std::size_t i = variables.size(); i > 1; --i)
    std::swap(variables[i - 1].parts, variables[random.below(i)].parts);
}

/// The machine, from 0, of a server. Servers stand machine by machine, the first machines having one more if it does
/// not come out even (sim/scenario/site.hpp).
int machine_of_server(int server, int servers, int machines) {
  const int each = servers / machines, more = servers % machines;
  return server < more * (each + 1) ? server / (each + 1) : more + (server - more * (each + 1)) / std::max(1, each);
}

/// Who uses links and servers at the same time: a worker alone, which no step can be shorter than; or all of them.
enum class Use { kOne, kAll };

/// What a step asks of links and servers.
class Loads {
 public:
  Loads(const Step& step, const DescribedCluster& cluster) : step_{step}, cluster_{cluster}, values_{cluster.values()} {
    const ClusterValues& c = values_;
    rate_ = std::max(cluster.rate(), 1.0);
    link_rate_ = cluster.is_one_machine() ? std::max(c.pcie, 1.0) : rate_;
    machines_ = std::max(1.0, c.machines);
    const bool has_others = cluster.has_others() && c.other_machines < machines_;
    const double first_machines = machines_ - (has_others ? c.other_machines : 0);
    local_ = (c.workers - (has_others ? c.other_workers : 0)) / first_machines;
    other_local_ = has_others ? c.other_workers / c.other_machines : 0;
    has_servers_ = !cluster.is_all_reduce() && c.servers > 0;
    servers_ = has_servers_ ? cluster.servers() : 0;
    server_machines_ = has_servers_ ? std::min(kMostServerNodes, cluster.server_machines()) : 0;
    cores_ = std::max(1.0, c.cores);
    work_.assign(static_cast<std::size_t>(std::max(1, servers_)), 0);
    sent_ = work_;
    const int nodes = static_cast<int>(std::min<double>(kMostMachineNodes, std::max(machines_, 1.0)));
    first_server_machine_ = c.is_colocated > 0 ? 0 : nodes;
    const double others = std::round(nodes * c.other_machines / machines_);
    first_other_machine_ = has_others ? nodes - static_cast<int>(std::clamp(others, 1.0, nodes - 1.0)) : nodes;
    worker_machines_ = nodes;
    const int count =
        c.is_colocated > 0 || !has_servers_ ? std::max(nodes, server_machines_) : nodes + server_machines_;
    received_.assign(static_cast<std::size_t>(count), 0);
    transmitted_ = received_;
    add_up();
  }

  /// Kernels of a worker on machine `m`, all batches of a step, and the overhead.
  double compute_s(std::size_t m) const {
    if (!has_workers(m)) return 0;
    const double passes = std::max(1.0, values_.accumulation);
    return is_other(m) ? other_compute_s() : step_.end * passes + values_.step_overhead;
  }
  double other_compute_s() const {
    return step_.other_end * std::max(1.0, values_.accumulation) + values_.other_step_overhead;
  }
  /// Mean step of workers that do not wait for one another: as often as they finish one, all together.
  double mean_step(double first, double other) const {
    const double others = values_.other_workers, all = std::max(1.0, values_.workers);
    return all / ((all - others) / std::max(first, kTiny) + others / std::max(other, kTiny));
  }
  /// Of a piece of a variable on its way between a worker and its server: a core, then `bytes` over the link; for all
  /// workers one after another, as many at a time as there are cores.
  double alone_s(const StepVariable& v, double bytes, Use use) const {
    if (!has_servers_ || bytes == 0) return 0;
    const double rate =
        values_.flow > 0 && !cluster_.is_one_machine() ? std::min(values_.flow, link_rate_) : link_rate_;
    const double one = server_s(v) / v.pieces;
    if (use == Use::kOne) return one + (values_.is_colocated > 0 ? 0 : bytes / v.pieces / rate);
    return std::ceil(values_.workers / cores_) * one + asked_of_busiest(v).link_s_per_byte * bytes;
  }
  double transfer_s(const StepVariable& v) const {
    return cluster_.is_all_reduce() ? v.pushed * values_.all_reduce_per_byte : v.pushed / link_rate_;
  }
  double server_s(const StepVariable& v) const {
    return has_servers_ ? v.pieces * values_.per_variable + v.pushed * values_.per_byte : 0;
  }
  bool has_split_update(const StepVariable& v) const {
    return has_servers_ && v.bytes / v.pieces > values_.split_above;
  }
  int machine_of(int server) const {
    return first_server_machine_ + machine_of_server(server, servers_, std::max(1, server_machines_));
  }
  /// Bytes of the variable that the chief's machine receives or sends, before the kernels and after them.
  struct Ways {
    double pull_in = 0, pull_out = 0, push_in = 0, push_out = 0;
  };
  Ways ways_of(const StepVariable& v) const {
    const double remote = values_.workers - local_;
    const double copies = std::max(1.0, values_.gpus_per_worker);  // over PCIe
    if (cluster_.is_all_reduce()) return {.push_in = reduced_bytes(v), .push_out = reduced_bytes(v)};
    if (!has_servers_) return {};
    if (cluster_.is_one_machine())
      return {.pull_in = v.pulled * values_.workers * copies, .push_out = v.pushed * values_.workers * copies};
    const double here = part_on(v, 0);
    return {.pull_in = v.pulled * local_ * (1 - here),
            .pull_out = v.pulled * remote * here,
            .push_in = v.pushed * remote * here,
            .push_out = v.pushed * local_ * (1 - here)};
  }

  StepBounds bounds() const {
    StepBounds bounds{.compute = compute_s(0)};
    if (cluster_.has_others())
      bounds.compute =
          waits_for_all() ? std::max(bounds.compute, other_compute_s()) : mean_step(bounds.compute, other_compute_s());
    if (cluster_.is_all_reduce()) {
      for (const Reduction& reduction : reductions()) bounds.link += reduction.time;
    } else if (has_servers_) {
      // Workers beside servers may step more often than others, which the sum over all does not allow for.
      const bool some_are_near = values_.is_colocated > 0 && !cluster_.is_one_machine() && !waits_for_all();
      for (std::size_t m = 0; m < received_.size() && !some_are_near; ++m)
        bounds.link = std::max({bounds.link, received_[m] / rate_of(m), transmitted_[m] / rate_of(m)});
      bounds.link *= std::max(1.0, values_.fabric_load);
      std::vector<double> work_of(received_.size());  // its cores are those of all servers of a machine
      for (int s = 0; s < servers_; ++s) work_of[static_cast<std::size_t>(machine_of(s))] += work(s);
      bounds.core = *std::max_element(work_of.begin(), work_of.end()) / cores_;
    }
    return bounds;
  }

  /// A collective of the gradients of some variables.
  struct Reduction {
    std::size_t last = 0;  // variable that is ready last
    double time = 0;       // seconds
  };
  /// All-reduces of a step in the order in which they can begin: of buckets that close when their bytes reach bucket_B
  /// (gradient_units.hpp), or of each variable. With a cycle time what is ready is fused in the run: nothing is known of
  /// their number, and their latency is left out.
  std::vector<Reduction> reductions() const {
    std::vector<Reduction> found;
    if (!cluster_.is_all_reduce()) return found;
    std::vector<std::size_t> order(step_.variables.size());
    for (std::size_t v = 0; v < order.size(); ++v) order[v] = v;
    const auto ready = [&](std::size_t v) {
      const int gradient = step_.variables[v].gradient;
      return gradient < 0 ? static_cast<int>(step_.kernels.size()) : gradient;
    };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return ready(a) < ready(b); });
    std::erase_if(order, [&](std::size_t v) { return step_.variables[v].pulled == 0; });  // moving averages stay
    std::vector<double> bytes;
    for (const std::size_t v : order) bytes.push_back(step_.variables[v].bytes);
    const bool is_fused_later = values_.cycle > 0;
    const double full = is_fused_later ? 0 : values_.bucket;
    std::size_t begin = 0;
    for (const std::size_t end :
         bucket_ends(bytes, full > 0 && values_.first_bucket > 0 ? values_.first_bucket : full, full)) {
      double pushed = 0;
      for (; begin < end; ++begin) pushed += step_.variables[order[begin]].pushed;
      if (pushed == 0) continue;
      const double latencies = is_fused_later ? 0 : cluster_.cuts_of(pushed) * values_.all_reduce_latency;
      found.push_back({order[end - 1], pushed * values_.all_reduce_per_byte + latencies});
    }
    return found;
  }

  double rate() const { return rate_; }
  double cores() const { return cores_; }
  int servers() const { return servers_; }
  double work(int server) const { return work_[static_cast<std::size_t>(server)]; }
  double sent(int server) const { return sent_[static_cast<std::size_t>(server)]; }
  std::size_t machines() const { return received_.size(); }
  double received_s(std::size_t m) const { return received_[m] / rate_of(m); }
  double transmitted_s(std::size_t m) const { return transmitted_[m] / rate_of(m); }
  double local_workers(std::size_t m) const { return !has_workers(m) ? 0 : is_other(m) ? other_local_ : local_; }
  double gpus(std::size_t m) const { return !has_workers(m) ? 0 : is_other(m) ? values_.other_gpus : values_.gpus; }
  /// Whether no worker is ahead of another one.
  bool waits_for_all() const { return cluster_.is_all_reduce() || values_.is_synchronous > 0; }
  /// What the machine of the busiest server is asked for of a variable in a step: how often for all of it, and seconds a
  /// byte of it on the machine's links, which none of its own workers needs.
  struct Asked {
    double times = 0, link_s_per_byte = 0;
  };
  Asked asked_of_busiest(const StepVariable& v) const {
    const int busiest = static_cast<int>(std::max_element(work_.begin(), work_.end()) - work_.begin());
    const int machine = machine_of(busiest);
    const double part = part_on(v, machine);
    const auto m = static_cast<std::size_t>(machine);
    if (cluster_.is_one_machine()) return {part * values_.workers, part * values_.workers / rate_};
    return {part * values_.workers, part * (values_.workers - local_workers(m)) / rate_of(m)};
  }
  /// Of the chief's machine in a step.
  double received_bytes = 0, transmitted_bytes = 0;

 private:
  /// What the chief's machine sends of a variable in an all-reduce, or its GPUs do if they are all.
  double reduced_bytes(const StepVariable& v) const {
    if (!cluster_.is_one_machine() && values_.all_reduce_sent > 0) return v.pushed * values_.all_reduce_sent;
    const double ranks = cluster_.ranks();
    return 2 * (ranks - 1) / ranks * v.pushed * (cluster_.is_one_machine() ? values_.gpus : 1);
  }
  /// The part of a variable that servers of machine `m` hold.
  double part_on(const StepVariable& v, int m) const {
    double part = 0;
    for (int s = 0; s < servers_; ++s)
      if (machine_of(s) == m) part += v.parts[static_cast<std::size_t>(s)];
    return part;
  }
  bool has_workers(std::size_t m) const { return m < static_cast<std::size_t>(worker_machines_); }
  bool is_other(std::size_t m) const { return has_workers(m) && m >= static_cast<std::size_t>(first_other_machine_); }
  double rate_of(std::size_t m) const {
    if (cluster_.is_one_machine()) return rate_;
    if (is_other(m)) return std::max(1.0, values_.other_nic);
    return has_workers(m) || values_.server_nic <= 0 ? rate_ : values_.server_nic;
  }
  void add_up() {
    double pulled = 0, pushed = 0;
    std::vector<double> pulled_of(received_.size()), pushed_of(received_.size());
    for (const StepVariable& v : step_.variables) {
      const Ways ways = ways_of(v);
      received_bytes += ways.pull_in + ways.push_in;
      transmitted_bytes += ways.pull_out + ways.push_out;
      if (!has_servers_) continue;
      for (int s = 0; s < servers_; ++s) {
        const double part = v.parts[static_cast<std::size_t>(s)];
        if (part == 0) continue;
        work_[static_cast<std::size_t>(s)] += part * server_s(v) * values_.workers;
        sent_[static_cast<std::size_t>(s)] += part * v.pulled * values_.workers;
        const auto m = static_cast<std::size_t>(machine_of(s));
        pulled_of[m] += part * v.pulled;
        pushed_of[m] += part * v.pushed;
      }
      pulled += v.pulled;
      pushed += v.pushed;
    }
    if (cluster_.is_one_machine()) {
      received_bytes += step_.input_bytes * cluster_.ranks();
      received_[0] = received_bytes;
      transmitted_[0] = transmitted_bytes;
      return;
    }
    for (std::size_t m = 0; m < received_.size(); ++m) {
      const double local = local_workers(m), remote = values_.workers - local;
      received_[m] = pushed_of[m] * remote + (pulled - pulled_of[m]) * local;
      transmitted_[m] = pulled_of[m] * remote + (pushed - pushed_of[m]) * local;
    }
    if (cluster_.is_all_reduce()) {
      received_[0] = received_bytes;
      transmitted_[0] = transmitted_bytes;
    }
  }

  const Step& step_;
  const DescribedCluster& cluster_;
  const ClusterValues& values_;
  double rate_ = 0, link_rate_ = 0, machines_ = 0, local_ = 0, other_local_ = 0, cores_ = 0;
  bool has_servers_ = false;
  int servers_ = 0, server_machines_ = 0;
  // Nodes of machines: those like the chief's, other ones with workers, those with servers alone.
  int first_other_machine_ = 0, worker_machines_ = 0, first_server_machine_ = 0;
  std::vector<double> work_, sent_;             // [servers] seconds of one core; bytes
  std::vector<double> received_, transmitted_;  // [machines] bytes
};

float scaled_log(double x) { return static_cast<float>(std::log(std::max(x, 0.0) + 1e-6) / 3 + 2); }

/// A step without compute has no places: the first part.
std::int32_t part_at(double place) {
  const auto bins = static_cast<std::int32_t>(kTimelineBins);
  return place > 0 ? static_cast<std::int32_t>(std::min(place * bins, bins - 1.0)) : 0;
}

/// The loads of each part of the compute bound, in units of `unit` seconds:
///   0-3   bytes over the rate of the chief's links: received and sent for variables that are first read in it,
///         received and sent for gradients that are complete in it
///   4, 5  cores of servers: of the former for one worker, of the latter for all
///   6-8   of the machine of the busiest server: sent to others, received from others, work
///   9, 10 GPU; its memory
///   11    the part's own length
///   12    all-reduces that can begin in it
using Timeline = std::array<std::array<double, kTimelineInputs>, kTimelineBins>;  // seconds

Timeline timeline_of(const Step& step, const Loads& loads, const SampleFeatures& parts, double workers) {
  Timeline rows{};
  const auto add = [&](std::int32_t part, std::size_t column, double seconds) {
    rows[static_cast<std::size_t>(part)][column] += seconds;
  };
  for (std::size_t v = 0; v < step.variables.size(); ++v) {
    const StepVariable& variable = step.variables[v];
    const Loads::Ways ways = loads.ways_of(variable);
    const std::int32_t needed = parts.needed[v], ready = parts.ready[v];
    add(needed, 0, ways.pull_in / loads.rate());
    add(needed, 1, ways.pull_out / loads.rate());
    add(ready, 2, ways.push_in / loads.rate());
    add(ready, 3, ways.push_out / loads.rate());
    if (loads.servers() == 0) continue;
    const double work = loads.server_s(variable) / loads.cores();
    add(needed, 4, work);
    add(ready, 5, work * workers);
    const auto [asked, link_time] = loads.asked_of_busiest(variable);
    add(needed, 6, variable.pulled * link_time);
    add(ready, 7, variable.pushed * link_time);
    add(ready, 8, asked * work);
  }
  for (std::size_t k = 0; k < step.kernels.size(); ++k) {
    add(parts.part[k], 9, step.kernels[k].time);
    add(parts.part[k], 10, step.kernels[k].memory);
  }
  const double length = step.end / static_cast<double>(kTimelineBins);
  for (std::size_t part = 0; part < kTimelineBins; ++part) add(static_cast<std::int32_t>(part), 11, length);
  for (const Loads::Reduction& reduction : loads.reductions()) add(parts.ready[reduction.last], 12, reduction.time);
  return rows;
}

/// What must follow one another in a step.
class Chains {
 public:
  Chains(const Step& step, const Loads& loads, const ClusterValues& cluster, const SampleFeatures& parts,
         const Timeline& timeline)
      : step_{step},
        loads_{loads},
        cluster_{cluster},
        parts_{parts},
        timeline_{timeline},
        stretch_{step.end > 0 ? step.other_end / step.end : 0} {}

  /// Sets StepBounds::chain and at_once. Workers that wait for all wait for the slowest one; others take the mean of both
  /// kinds.
  void add_to(StepBounds& bounds) const {
    bounds.at_once = longest(Use::kAll, Use::kAll);
    if (loads_.waits_for_all())
      bounds.chain = std::max(longest(Use::kAll, Use::kOne), longest(Use::kOne, Use::kAll));
    else if (stretch_ > 0)
      bounds.chain = loads_.mean_step(on_first(Use::kOne, Use::kOne), on_others(Use::kOne, Use::kOne));
    else
      bounds.chain = on_first(Use::kOne, Use::kOne);
  }

 private:
  double on_first(Use comes, Use goes) const { return loads_.compute_s(0) - step_.end + seconds(1, comes, goes); }
  double on_others(Use comes, Use goes) const {
    return loads_.other_compute_s() - step_.other_end + seconds(stretch_, comes, goes);
  }
  double longest(Use comes, Use goes) const {
    return stretch_ > 0 ? std::max(on_first(comes, goes), on_others(comes, goes)) : on_first(comes, goes);
  }

  /// Of the longest chain of a worker whose kernels take `stretch` times as long as the chief's:
  ///   what comes for parts up to a, the parts between a and b, what goes for parts from b on      a <= b
  /// of whatever link or server is busiest with what comes, and with what goes; or of a single variable on its way
  /// through a core of its server and the link. Without overlap everything goes last, with forward overlap in the next
  /// step.
  double seconds(double stretch, Use comes, Use goes) const {
    // Columns of the timeline, and what of them one worker has.
    const double of_chief = 1 / std::max(1.0, loads_.local_workers(0)), of_all = 1 / std::max(1.0, cluster_.workers);
    struct Column {
      std::size_t column;
      double of_one;
    };
    const std::array come{Column{0, of_chief}, Column{1, 0}, Column{6, of_all}};
    const std::array go{Column{2, 0}, Column{3, of_chief}, Column{7, of_all}, Column{8, of_all}, Column{12, 1}};
    const bool is_reduced = cluster_.is_all_reduce > 0;  // column 12 says all of it
    const auto share = [](const Column& of, Use use) { return use == Use::kAll ? 1 : of.of_one; };

    std::array<double, kTimelineBins> comes_alone{}, goes_alone{};  // the longest of a variable
    for (std::size_t v = 0; v < step_.variables.size(); ++v) {
      const StepVariable& variable = step_.variables[v];
      const auto needed = static_cast<std::size_t>(parts_.needed[v]), ready = static_cast<std::size_t>(parts_.ready[v]);
      comes_alone[needed] = std::max(comes_alone[needed], loads_.alone_s(variable, variable.pulled, comes));
      goes_alone[ready] = std::max(goes_alone[ready], loads_.alone_s(variable, variable.pushed, goes));
    }

    std::array<double, go.size()> left{};
    if (cluster_.overlaps_forward == 0)
      for (std::size_t i = 0; i < go.size(); ++i)
        for (const auto& row : timeline_)
          if (!is_reduced || go[i].column == 12) left[i] += row[go[i].column] * share(go[i], goes);
    const double all_left = *std::max_element(left.begin(), left.end());
    const bool overlaps = !is_reduced || cluster_.overlaps > 0;
    std::array<double, come.size()> came{};
    double longest = 0, done = 0;  // of the kernels, at the earliest, before a part
    for (std::size_t part = 0; part < kTimelineBins; ++part) {
      const auto& row = timeline_[part];
      for (std::size_t i = 0; i < come.size(); ++i) came[i] += row[come[i].column] * share(come[i], comes);
      if (overlaps && cluster_.overlaps_forward == 0)
        longest = std::max({longest, done + *std::max_element(left.begin(), left.end()), done + goes_alone[part]});
      done = std::max({done + row[11] * stretch, *std::max_element(came.begin(), came.end()), comes_alone[part]});
      for (std::size_t i = 0; i < go.size(); ++i)
        left[i] = std::max(0.0, left[i] - row[go[i].column] * share(go[i], goes));
    }
    return std::max(longest, overlaps ? done : done + all_left);
  }

  const Step& step_;
  const Loads& loads_;
  const ClusterValues& cluster_;
  const SampleFeatures& parts_;
  const Timeline& timeline_;
  double stretch_;  // of kernels on machines of another kind; 0: there are none
};

/// What totals are made from.
struct TotalsOf {
  const Step& step;
  const Loads& loads;
  const ClusterValues& cluster;
  StepBounds bounds;
  double unit = 1;  // seconds
  double gpu = 0, memory = 0, bytes = 0, pieces = 0, largest = 0, server = 0, splits = 0;
  bool is_one_machine = false;

  double time(double seconds) const { return std::log(seconds / unit + 1e-5); }
};

struct Total {
  const char* name;
  double (*value)(const TotalsOf&);
  enum class Kind {
    kAny,
    kBound,     // left out without bounds
    kMechanism  // 0 of jobs that do without it: where it always was, nothing is known of others
  } kind = Kind::kAny;
};
constexpr std::array kTotals{
    Total{"ln compute", [](const TotalsOf& t) { return t.time(t.bounds.compute); }, Total::Kind::kBound},
    Total{"ln link", [](const TotalsOf& t) { return t.time(t.bounds.link); }, Total::Kind::kBound},
    Total{"ln core", [](const TotalsOf& t) { return t.time(t.bounds.core); }, Total::Kind::kBound},
    Total{"ln chain", [](const TotalsOf& t) { return t.time(t.bounds.chain); }, Total::Kind::kBound},
    Total{"ln chain at once", [](const TotalsOf& t) { return t.time(t.bounds.at_once); }, Total::Kind::kBound},
    Total{"ln bound_s", [](const TotalsOf& t) { return std::log(t.bounds.all()); }, Total::Kind::kBound},
    Total{"ln received", [](const TotalsOf& t) { return t.time(t.loads.received_bytes / t.loads.rate()); }},
    Total{"ln transmitted", [](const TotalsOf& t) { return t.time(t.loads.transmitted_bytes / t.loads.rate()); }},
    Total{"ln gpu", [](const TotalsOf& t) { return t.time(t.gpu); }},
    Total{"ln memory", [](const TotalsOf& t) { return t.time(t.memory); }},
    Total{"ln flops", [](const TotalsOf& t) { return std::log1p(t.step.flops); }},
    Total{"ln variable_bytes", [](const TotalsOf& t) { return std::log1p(t.bytes); }},
    Total{"ln kernels", [](const TotalsOf& t) { return std::log1p(static_cast<double>(t.step.kernels.size())); }},
    Total{"ln variables", [](const TotalsOf& t) { return std::log1p(static_cast<double>(t.step.variables.size())); }},
    Total{"ln overhead", [](const TotalsOf& t) { return t.time(t.cluster.step_overhead); }},
    Total{"ln dispatches",
          [](const TotalsOf& t) { return t.time(t.cluster.dispatch * static_cast<double>(t.step.kernels.size())); }},
    Total{"ln largest transfer", [](const TotalsOf& t) { return t.time(t.largest / t.loads.rate()); }},
    Total{"ln largest server work", [](const TotalsOf& t) { return t.time(t.server); }},
    Total{"ln split updates", [](const TotalsOf& t) { return t.time(t.splits * t.cluster.per_split_update); }},
    Total{"ln split update", [](const TotalsOf& t) { return t.time(t.cluster.per_split_update); }},
    Total{
        "ln update",
        [](const TotalsOf& t) { return t.time(t.cluster.per_update * static_cast<double>(t.step.variables.size())); }},
    Total{"ln input copy",
          [](const TotalsOf& t) { return t.time(t.step.input_bytes / std::max(t.cluster.pcie, 1.0)); }},
    Total{"ln variables over the GPU's link",
          [](const TotalsOf& t) { return t.time(t.bytes / std::max(t.cluster.pcie, 1.0)); }},
    Total{"ln transfer over one connection",
          [](const TotalsOf& t) { return t.time(t.bytes / (t.cluster.flow > 0 ? t.cluster.flow : t.loads.rate())); }},
    Total{"ln latency", [](const TotalsOf& t) { return t.time(t.cluster.latency); }},
    Total{"ln sampling_period", [](const TotalsOf& t) { return t.time(t.cluster.period); }},
    Total{"ln bytes a sample", [](const TotalsOf& t) { return std::log1p(t.cluster.period * t.loads.rate()); }},
    Total{"ln workers", [](const TotalsOf& t) { return std::log1p(t.cluster.workers); }},
    Total{"ln worker_machines", [](const TotalsOf& t) { return std::log1p(t.cluster.machines); }},
    Total{"ln gpus_per_machine", [](const TotalsOf& t) { return std::log1p(t.cluster.gpus); }},
    Total{"ln servers", [](const TotalsOf& t) { return std::log1p(t.cluster.servers); }},
    Total{"ln server_cores", [](const TotalsOf& t) { return std::log1p(t.cluster.cores); }},
    Total{"is_one_machine", [](const TotalsOf& t) { return t.is_one_machine ? 1.0 : 0.0; }},
    Total{"is_colocated", [](const TotalsOf& t) { return t.cluster.is_colocated; }},
    Total{"is_synchronous", [](const TotalsOf& t) { return t.cluster.is_synchronous; }},
    Total{"is_round_robin", [](const TotalsOf& t) { return t.cluster.is_round_robin; }},
    Total{"is_all_reduce", [](const TotalsOf& t) { return t.cluster.is_all_reduce; }, Total::Kind::kMechanism},
    Total{"overlaps_backward", [](const TotalsOf& t) { return t.cluster.overlaps; }, Total::Kind::kMechanism},
    Total{"ln all_reduce_latency", [](const TotalsOf& t) { return t.time(t.cluster.all_reduce_latency); }},
    Total{"ln buckets",
          [](const TotalsOf& t) { return t.cluster.bucket > 0 ? std::log1p(t.bytes / t.cluster.bucket) : 0.0; },
          Total::Kind::kMechanism},
    Total{"ln cycle", [](const TotalsOf& t) { return t.time(t.cluster.cycle); }},
    Total{"ln first bucket", [](const TotalsOf& t) { return std::log1p(t.cluster.first_bucket); },
          Total::Kind::kMechanism},
    Total{"ln pieces of a variable",
          [](const TotalsOf& t) {
            return std::log(std::max(1.0, t.pieces) /
                            std::max<double>(1, static_cast<double>(t.step.variables.size())));
          },
          Total::Kind::kMechanism},
    Total{"ln gradient_bytes_ratio",
          [](const TotalsOf& t) { return std::log(std::max(1e-3, t.cluster.gradient_ratio)); },
          Total::Kind::kMechanism},
    Total{"is_by_priority", [](const TotalsOf& t) { return t.cluster.is_by_priority; }, Total::Kind::kMechanism},
    Total{"overlaps_forward", [](const TotalsOf& t) { return t.cluster.overlaps_forward; }, Total::Kind::kMechanism},
    Total{"ln accumulation_steps", [](const TotalsOf& t) { return std::log(std::max(1.0, t.cluster.accumulation)); },
          Total::Kind::kMechanism},
    Total{"is_stale_synchronous", [](const TotalsOf& t) { return t.cluster.is_stale; }, Total::Kind::kMechanism},
    Total{"ln staleness_bound", [](const TotalsOf& t) { return std::log1p(t.cluster.staleness); },
          Total::Kind::kMechanism},
    Total{"ln backup_workers", [](const TotalsOf& t) { return std::log1p(t.cluster.backups); },
          Total::Kind::kMechanism},
    Total{"ln other_batch_workers", [](const TotalsOf& t) { return std::log1p(t.cluster.other_batch_workers); },
          Total::Kind::kMechanism},
    Total{"other_batch_ratio", [](const TotalsOf& t) { return t.cluster.other_batch_ratio; }},
    Total{"ln joining_workers", [](const TotalsOf& t) { return std::log1p(t.cluster.joining); },
          Total::Kind::kMechanism},
    Total{"ln joins_at", [](const TotalsOf& t) { return t.time(t.cluster.joins_at); }},
    Total{"ln leaving_workers", [](const TotalsOf& t) { return std::log1p(t.cluster.leaving); },
          Total::Kind::kMechanism},
    Total{"ln leaves_at", [](const TotalsOf& t) { return t.time(t.cluster.leaves_at); }},
    Total{"is_pairwise_averaging", [](const TotalsOf& t) { return t.cluster.is_pairwise; }, Total::Kind::kMechanism},
    Total{"ln gpus_per_worker", [](const TotalsOf& t) { return std::log(std::max(1.0, t.cluster.gpus_per_worker)); },
          Total::Kind::kMechanism},
    Total{"ln fabric_load_ratio", [](const TotalsOf& t) { return std::log(std::max(1.0, t.cluster.fabric_load)); },
          Total::Kind::kMechanism},
    Total{"ln other_workers", [](const TotalsOf& t) { return std::log1p(t.cluster.other_workers); },
          Total::Kind::kMechanism},
    Total{"ln compute of others",
          [](const TotalsOf& t) {
            return t.step.other_end > 0 ? std::log(t.step.other_end / std::max(t.step.end, kTiny)) : 0.0;
          }},
    Total{"ln nic of others",
          [](const TotalsOf& t) {
            return t.cluster.other_nic > 0 && t.cluster.nic > 0 ? std::log(t.cluster.other_nic / t.cluster.nic) : 0.0;
          }}};

std::vector<float> totals_of(const Step& step, const Loads& loads, const DescribedCluster& cluster,
                             const StepBounds& bounds, double unit, bool has_bounds) {
  TotalsOf of{.step = step,
              .loads = loads,
              .cluster = cluster.values(),
              .bounds = bounds,
              .unit = unit,
              .is_one_machine = cluster.is_one_machine()};
  for (const StepKernel& kernel : step.kernels) {
    of.gpu += kernel.time;
    of.memory += kernel.memory;
  }
  for (const StepVariable& variable : step.variables) {
    of.bytes += variable.pushed;
    of.pieces += variable.pieces;
    of.largest = std::max(of.largest, variable.pushed);
    of.server = std::max(of.server, loads.server_s(variable));
    of.splits += loads.has_split_update(variable) ? 1 : 0;
  }
  std::vector<float> totals;
  for (const Total& total : kTotals)
    totals.push_back(total.kind == Total::Kind::kBound && !has_bounds ? 0.0F : static_cast<float>(total.value(of)));
  return totals;
}

/// In which part of the timeline kernels end, and variables are needed and ready.
void add_parts(const Step& step, SampleFeatures& features) {
  const double last = std::max(step.end, kTiny);
  for (const StepKernel& kernel : step.kernels) features.part.push_back(part_at(kernel.end / last));
  const auto part_of = [&](int kernel) {
    return kernel < 0 ? part_at(1) : features.part[static_cast<std::size_t>(kernel)];
  };
  for (const StepVariable& v : step.variables) {
    features.needed.push_back(part_of(v.reader));
    features.ready.push_back(part_of(v.gradient));
  }
}

/// The nodes, with what they cost relative to `unit` seconds.
void add_nodes(const Step& step, const Loads& loads, const ClusterValues& cluster, double unit,
               SampleFeatures& features) {
  const double last = std::max(step.end, kTiny);
  for (const StepKernel& kernel : step.kernels) {
    const double place = kernel.end / last, angle = 6.2831853 * place;
    features.kinds.push_back(kernel.kind);
    features.operators.insert(features.operators.end(),
                              {scaled_log(kernel.time / unit), scaled_log(kernel.memory / unit),
                               static_cast<float>(place), static_cast<float>(std::sin(angle)),
                               static_cast<float>(std::cos(angle)), kernel.time < cluster.dispatch ? 1.0F : 0.0F});
  }
  for (const StepVariable& v : step.variables) {
    features.variables.insert(features.variables.end(),
                              {static_cast<float>(std::log1p(v.pushed) / 10), scaled_log(loads.transfer_s(v) / unit),
                               scaled_log(loads.server_s(v) / unit), loads.has_split_update(v) ? 1.0F : 0.0F,
                               v.pulled > 0 ? 0.0F : 1.0F, static_cast<float>(std::log(v.pieces))});
  }
  for (int s = 0; s < loads.servers(); ++s) {
    const int machine = loads.machine_of(s);
    features.servers.insert(
        features.servers.end(),
        {scaled_log(loads.work(s) / loads.cores() / unit), scaled_log(loads.sent(s) / loads.rate() / unit),
         machine == 0 ? 1.0F : 0.0F, static_cast<float>(std::log1p(loads.cores()) / 4)});
    features.hosted.emplace_back(s, machine);
  }
  for (std::size_t m = 0; m < loads.machines(); ++m) {
    const double here =
        static_cast<double>(std::count_if(features.hosted.begin(), features.hosted.end(), [&](const auto& link) {
          return static_cast<std::size_t>(link.second) == m;
        }));
    features.machines.insert(
        features.machines.end(),
        {scaled_log(loads.received_s(m) / unit), scaled_log(loads.transmitted_s(m) / unit),
         static_cast<float>(std::log1p(loads.gpus(m))), static_cast<float>(std::log1p(loads.local_workers(m))),
         static_cast<float>(std::log1p(here)), m == 0 ? 1.0F : 0.0F, scaled_log(loads.compute_s(m) / unit)});
  }
  for (std::size_t v = 0; v < step.variables.size(); ++v)
    for (int s = 0; s < loads.servers(); ++s)
      if (step.variables[v].parts[static_cast<std::size_t>(s)] > 0)
        features.placed.emplace_back(static_cast<std::int32_t>(v), s);
}

bool is_duration(const std::string& label) { return label.ends_with("_s"); }

}  // namespace

FeatureReader::FeatureReader(const Dataset& dataset, Ablation ablation) : ablation_{ablation}, labels_{dataset.labels} {
  if (dataset.node_features != node_feature_names())
    throw InputError{"the dataset's node features are not those of this program"};
  for (const ClusterValue& value : kClusterValues) needed_.push_back(position(dataset.descriptors, value));
}

std::size_t FeatureReader::kinds() { return kKinds.size() * kPhases; }

const std::vector<std::string>& FeatureReader::total_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made;
    for (const Total& total : kTotals) made.emplace_back(total.name);
    return made;
  }();
  return names;
}

bool FeatureReader::is_mechanism(std::size_t total) { return kTotals.at(total).kind == Total::Kind::kMechanism; }

void FeatureReader::check(const Dataset& dataset) const {
  for (const DatasetGraph& graph : dataset.graphs)
    for (std::size_t i = 0; i < dataset.nodes(graph); ++i)
      check_node(read_node(graph.features.data() + i * kNodeFeatures.size()), graph);
  for (const DatasetSetting& setting : dataset.settings) (void)DescribedCluster{setting.descriptor, needed_};
}

SampleFeatures FeatureReader::read(const Dataset& dataset, const Sample& sample) const {
  const DatasetGraph& graph = dataset.graphs[static_cast<std::size_t>(sample.graph)];
  const DescribedCluster cluster{dataset.settings[static_cast<std::size_t>(sample.setting)].descriptor, needed_};
  Step step = step_of(graph, cluster);
  SampleFeatures features;
  features.bounds = Loads{step, cluster}.bounds();
  if (ablation_ == Ablation::kEdges) shuffle_edges(step);
  const Loads loads{step, cluster};
  add_parts(step, features);
  const Timeline timeline = timeline_of(step, loads, features, cluster.values().workers);
  Chains{step, loads, cluster.values(), features, timeline}.add_to(features.bounds);
  const double bound = std::max(features.bounds.all(), kTiny);
  const bool has_bounds = ablation_ != Ablation::kBounds;
  const double unit = has_bounds ? bound : 1;
  add_nodes(step, loads, cluster.values(), unit, features);
  for (const auto& row : timeline)
    for (const double seconds : row) features.timeline.push_back(static_cast<float>(seconds / unit));
  features.totals = totals_of(step, loads, cluster, features.bounds, unit, has_bounds);
  features.window_steps = cluster.values().window;
  for (const std::string& label : labels_) {
    const double bytes = label == "receive_mean_Bps"    ? loads.received_bytes
                         : label == "transmit_mean_Bps" ? loads.transmitted_bytes
                                                        : 0;
    const bool is_rate = label.ends_with("_Bps");
    const bool is_share = label.ends_with("_peak");
    features.bases.push_back(is_duration(label) ? unit : bytes > 0 ? bytes / unit : 1);
    features.limits.push_back(is_share ? 1 : is_rate && bytes == 0 ? loads.rate() : 0);
  }
  features.flow = std::move(step.flow);
  features.reads = std::move(step.reads);
  features.writes = std::move(step.writes);
  return features;
}

}  // namespace rehearse
