#include "predictor/labels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "predictor/dataset.hpp"
#include "predictor/run_labels.hpp"
#include "predictor/undescribed.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/named.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/job/simulate.hpp"
#include "sim/record/repeated_steps.hpp"
#include "sim/record/resource_profile.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/site.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/collective_time.hpp"

namespace rehearse {

namespace {

/// Steps after the warm-up; longer runs record only as much as a resource profile takes.
constexpr std::int64_t kMostExtended = 21;

constexpr Bytes kMuch{std::int64_t{64} << 20U};  // of gradients, for the rate of an all-reduce

MachineIndex chief_of(const Site& site) { return site.workers.front().front().machine; }

/// Those of some groups, which are alike in what the descriptor says of them (undescribed.hpp).
struct OtherWorkers {
  template <class Is>
  OtherWorkers(const Scenario& scenario, const Is& is) {
    for (const Group& group : scenario.groups) {
      if (group.role != Role::kWorker || !is(group)) continue;
      if (first == nullptr) first = &group;
      count += group.workers();
    }
  }
  const Group* first = nullptr;
  double count = 0;
};

RunRecord record_of(const Scenario& scenario, const SimulateOptions& options) {
  const Training& training = scenario.training;
  const std::int64_t cycle = scenario.count(Role::kWorker);
  const std::int64_t after_two = training.steps - std::max<std::int64_t>(1, training.warmup_steps) - 2 * cycle;
  if (may_repeat(scenario) && cycle <= kLongestCycle && after_two >= cycle &&
      training.steps - training.warmup_steps <= kMostExtended) {
    const std::int64_t more = after_two / cycle * cycle;
    Scenario shorter = scenario;
    set_steps(shorter, training.steps - more);
    if (auto record = extend_steps(simulate(shorter, options), more, cycle)) return *std::move(record);
  }
  return simulate(scenario, options);
}

/// From the chief's host to a server's, or else to another machine.
Path way_from(const Site& site) {
  const MachineIndex chief = chief_of(site);
  MachineIndex other = chief;
  for (std::size_t m = 0; m < site.machines.size(); ++m)
    if (static_cast<MachineIndex>(m) != chief && (other == chief || site.machines[m].servers > 0))
      other = static_cast<MachineIndex>(m);
  if (other == chief) return {};
  return site.topology.path({chief, Endpoint::kHost}, {other, Endpoint::kHost});
}

/// Steps of each worker after the warm-up.
double window_steps_of(const Scenario& scenario) {
  const Training& training = scenario.training;
  const double sharing = training.strategy.is_synchronous() ? 1 : scenario.count(Role::kWorker);
  return std::max(1.0, static_cast<double>(training.steps - training.warmup_steps) / sharing);
}

double flag(bool condition) { return condition ? 1 : 0; }

/// What makes the kernels of a worker of the group as long as its step has them, if each takes what kernel_time() says.
double stretch_of(const Scenario& scenario, const Group& group) {
  if (!scenario.profile.kernels) return step_time_factor(scenario, group).value_or(1);
  const double plain = end_of_kernels(plan_compute(scenario.workload_of(group), *group.accelerator,
                                                   scenario.peak_of(*group.accelerator), scenario.profile))
                           .value();
  const double planned = end_of_kernels(plan_step(scenario, group)).value();
  return plain > 0 && planned > 0 ? planned / plain : 1;
}

/// Workers on machines of one kind.
class WorkerKind {
 public:
  WorkerKind(const Scenario& scenario, const Group& group, const Machine& machine)
      : scenario_{scenario},
        group_{group},
        machine_{machine},
        stretch_{stretch_of(scenario, group)},
        step_{plan_step(scenario, group)} {}

  double peak() const { return scenario_.peak_of(gpu()).value() / stretch_; }
  double memory_bandwidth() const { return gpu().memory_bandwidth.value() / stretch_; }
  double memory() const { return as_double(gpu().memory); }
  double multiprocessors() const { return gpu().multiprocessors; }
  double peak_efficiency() const { return scenario_.profile.gpu.efficiency_for(gpu().name); }
  double kernel_overhead() const { return scenario_.profile.gpu.kernel_overhead.value() * stretch_; }
  double dispatch() const { return scenario_.profile.host.dispatch.value() * stretch_; }
  double step_overhead() const { return (step_.step_overhead + step_.update).value(); }
  double nic() const { return machine_.nic.value() * machine_.nics; }
  double pcie() const { return group_.interconnect.pcie.value(); }

 private:
  const Accelerator& gpu() const { return *group_.accelerator; }

  const Scenario& scenario_;
  const Group& group_;
  const Machine& machine_;
  double stretch_;
  ComputePlan step_;
};

/// A scenario as the descriptor sees it.
struct Described {
  explicit Described(const Scenario& of)
      : scenario{of},
        first{of.first_workers()},
        site{of},
        chief{site.machine(chief_of(site))},
        first_kind{of, first, chief},
        way{way_from(site)},
        servers{of.training.strategy.kind->servers()},
        is_all_reduce{of.training.strategy.kind->collectives() != nullptr},
        of_nothing{is_all_reduce ? collective_time(of, Bytes{}) : Seconds{}},
        of_much{is_all_reduce ? collective_time(of, kMuch) : Seconds{}},
        with_other_batch{of, [&](const Group& g) { return g.batch != first.batch; }},
        joining{of, [](const Group& g) { return g.joins_at > Seconds{}; }},
        leaving{of, [](const Group& g) { return g.leaves_at.has_value(); }},
        of_other_kind{of, [&](const Group& g) { return !are_alike(g, first); }} {
    for (std::size_t m = 0; m < site.machines.size(); ++m) {
      const Machine& machine = site.machines[m];
      if (machine.workers > 0) ++worker_machines;
      if (machine.servers > 0) ++server_machines;
      if (machine.servers > 0 && server == nullptr) server = &machine;
      if (machine.workers > 0 && !are_alike(site.group(static_cast<MachineIndex>(m)), first)) {
        ++other_machines;
        other_gpus += machine.gpus;
        if (!other_kind) other_kind.emplace(of, site.group(static_cast<MachineIndex>(m)), machine);
      }
    }
    for (const Group& group : of.groups) is_colocated = is_colocated || group.colocated_with >= 0;
  }
  const GradientExchange& exchange() const { return scenario.training.strategy.exchange; }
  double synchronizes(Synchronization how) const { return flag(servers && servers->synchronization == how); }
  double places(Placement how) const { return flag(servers && servers->placement == how); }

  const Scenario& scenario;
  const Group& first;
  Site site;
  const Machine& chief;
  WorkerKind first_kind;
  std::optional<WorkerKind> other_kind;
  const Machine* server = nullptr;  // the first machine with servers; null: none
  int worker_machines = 0, server_machines = 0, other_machines = 0, other_gpus = 0;
  bool is_colocated = false;
  Path way;
  const ServerRules* servers;
  bool is_all_reduce;
  Seconds of_nothing, of_much;  // times of all-reduces
  OtherWorkers with_other_batch, joining, leaving, of_other_kind;
};

/// A value of the first workers' kind; of the other kind, 0 if there is none.
template <double (WorkerKind::*value)() const>
double of_first(const Described& d) {
  return (d.first_kind.*value)();
}
template <double (WorkerKind::*value)() const>
double of_other(const Described& d) {
  return d.other_kind ? ((*d.other_kind).*value)() : 0.0;
}

/// How much busier than the busiest NIC a link between switches is, if servers send each machine with workers, for each of
/// them, as much as they are sent by it; 1 at least.
double fabric_load_ratio(const Site& site) {
  if (std::holds_alternative<Star>(site.scenario.fabric)) return 1;
  const std::vector<TopologyLink>& links = site.topology.links();
  std::vector<double> loads(links.size());
  const auto add = [&](std::size_t from, std::size_t to, double bytes) {
    const Path path = site.topology.path({static_cast<MachineIndex>(from), Endpoint::kHost},
                                         {static_cast<MachineIndex>(to), Endpoint::kHost});
    for (const int link : path.links) loads[static_cast<std::size_t>(link)] += bytes;
  };
  for (std::size_t s = 0; s < site.machines.size(); ++s) {
    const double servers = site.machines[s].servers;
    for (std::size_t w = 0; w < site.machines.size() && servers > 0; ++w) {
      const double workers = site.machines[w].workers;
      if (workers == 0 || s == w) continue;
      add(s, w, servers * workers);
      add(w, s, servers * workers);
    }
  }
  double of_fabric = 0, of_machines = 0;
  for (std::size_t l = 0; l < links.size(); ++l) {
    double& busiest = links[l].machine < 0 ? of_fabric : of_machines;
    busiest = std::max(busiest, loads[l] / links[l].rate.value());
  }
  return of_machines > 0 ? std::max(1.0, of_fabric / of_machines) : 1;
}

struct DescriptorValue {
  const char* name;
  double (*value)(const Described&);
};
constexpr std::array kDescriptor{
    DescriptorValue{"gpu_peak_flops", of_first<&WorkerKind::peak>},
    DescriptorValue{"gpu_memory_bandwidth_Bps", of_first<&WorkerKind::memory_bandwidth>},
    DescriptorValue{"gpu_memory_B", of_first<&WorkerKind::memory>},
    DescriptorValue{"multiprocessors", of_first<&WorkerKind::multiprocessors>},
    DescriptorValue{"peak_efficiency", of_first<&WorkerKind::peak_efficiency>},
    DescriptorValue{"memory_efficiency", [](const Described& d) { return d.scenario.profile.gpu.memory_efficiency; }},
    DescriptorValue{"kernel_overhead_s", of_first<&WorkerKind::kernel_overhead>},
    DescriptorValue{"reduction_half", [](const Described& d) { return d.scenario.profile.gpu.reduction_half; }},
    DescriptorValue{"winograd_gain", [](const Described& d) { return d.scenario.profile.gpu.winograd_gain; }},
    DescriptorValue{"dispatch_s", of_first<&WorkerKind::dispatch>},
    DescriptorValue{"step_overhead_s", of_first<&WorkerKind::step_overhead>},
    DescriptorValue{"workers", [](const Described& d) { return static_cast<double>(d.scenario.count(Role::kWorker)); }},
    DescriptorValue{"worker_machines", [](const Described& d) { return static_cast<double>(d.worker_machines); }},
    DescriptorValue{"gpus_per_machine", [](const Described& d) { return static_cast<double>(d.chief.gpus); }},
    DescriptorValue{"servers",
                    [](const Described& d) { return static_cast<double>(d.scenario.count(Role::kParameterServer)); }},
    DescriptorValue{"is_colocated", [](const Described& d) { return flag(d.is_colocated); }},
    DescriptorValue{"server_cores",
                    [](const Described& d) { return d.server ? static_cast<double>(d.server->threads) : 0.0; }},
    DescriptorValue{"nic_Bps", of_first<&WorkerKind::nic>},
    DescriptorValue{"server_nic_Bps",
                    [](const Described& d) { return d.server ? d.server->nic.value() * d.server->nics : 0.0; }},
    DescriptorValue{"pcie_Bps", of_first<&WorkerKind::pcie>},
    DescriptorValue{"latency_s", [](const Described& d) { return d.way.latency.value(); }},
    DescriptorValue{"flow_Bps", [](const Described& d) { return d.way.per_flow_rate.value_or(d.chief.nic).value(); }},
    DescriptorValue{"server_time_per_variable_s",
                    [](const Described& d) { return d.scenario.profile.servers.time_per_variable.value(); }},
    DescriptorValue{"server_time_per_byte_s",
                    [](const Described& d) { return d.scenario.profile.servers.time_per_byte.value(); }},
    DescriptorValue{"server_time_per_update_s",
                    [](const Described& d) { return d.scenario.profile.servers.time_per_update.value(); }},
    DescriptorValue{"server_time_per_split_update_s",
                    [](const Described& d) { return d.scenario.profile.servers.time_per_split_update.value(); }},
    DescriptorValue{"server_split_update_threshold_B",
                    [](const Described& d) { return as_double(d.scenario.profile.servers.split_update_threshold); }},
    DescriptorValue{"is_asynchronous",
                    [](const Described& d) { return d.synchronizes(Synchronization::kAsynchronous); }},
    DescriptorValue{"is_synchronous", [](const Described& d) { return d.synchronizes(Synchronization::kSynchronous); }},
    DescriptorValue{"is_stale_synchronous",
                    [](const Described& d) { return d.synchronizes(Synchronization::kStaleSynchronous); }},
    DescriptorValue{"is_all_reduce", [](const Described& d) { return flag(d.is_all_reduce); }},
    DescriptorValue{"is_pairwise_averaging",
                    [](const Described& d) {
                      return flag(d.scenario.training.strategy.kind->exchanges_models());
                    }},
    DescriptorValue{"is_round_robin", [](const Described& d) { return d.places(Placement::kRoundRobin); }},
    DescriptorValue{"is_greedy_by_bytes", [](const Described& d) { return d.places(Placement::kGreedyByBytes); }},
    DescriptorValue{"is_sharded", [](const Described& d) { return d.places(Placement::kSharded); }},
    DescriptorValue{"sampling_period_s", [](const Described& d) { return d.scenario.output.sampling_period.value(); }},
    DescriptorValue{"window_steps", [](const Described& d) { return window_steps_of(d.scenario); }},
    DescriptorValue{"all_reduce_latency_s", [](const Described& d) { return d.of_nothing.value(); }},
    DescriptorValue{"all_reduce_s_per_byte",
                    [](const Described& d) { return (d.of_much - d.of_nothing).value() / as_double(kMuch); }},
    DescriptorValue{"bucket_B",
                    [](const Described& d) { return as_double(d.exchange().bucket_size.value_or(Bytes{})); }},
    DescriptorValue{"cycle_s", [](const Described& d) { return d.exchange().cycle_time.value_or(Seconds{}).value(); }},
    DescriptorValue{"overlaps_backward",
                    [](const Described& d) { return flag(d.exchange().overlap != Overlap::kNone); }},
    DescriptorValue{"other_batch_workers", [](const Described& d) { return d.with_other_batch.count; }},
    DescriptorValue{"other_batch_ratio",
                    [](const Described& d) {
                      const Group* other = d.with_other_batch.first;
                      return other ? static_cast<double>(other->batch) / d.first.batch : 1.0;
                    }},
    DescriptorValue{"joining_workers", [](const Described& d) { return d.joining.count; }},
    DescriptorValue{"joins_at_s",
                    [](const Described& d) { return d.joining.first ? d.joining.first->joins_at.value() : 0.0; }},
    DescriptorValue{"leaving_workers", [](const Described& d) { return d.leaving.count; }},
    DescriptorValue{"leaves_at_s",
                    [](const Described& d) { return d.leaving.first ? d.leaving.first->leaves_at->value() : 0.0; }},
    DescriptorValue{"all_reduce_sent_ratio",
                    [](const Described& d) {
                      return d.is_all_reduce ? as_double(bytes_leaving_first_machine(d.scenario, kMuch)) / as_double(kMuch)
                                             : 0.0;
                    }},
    DescriptorValue{"gradient_bytes_ratio",
                    [](const Described& d) {
                      const Precision own = d.scenario.precision;
                      return static_cast<double>(bytes_per_scalar(sent_gradients(d.scenario))) /
                             static_cast<double>(bytes_per_scalar(own));
                    }},
    DescriptorValue{"partition_B",
                    [](const Described& d) { return as_double(d.exchange().partition_size.value_or(Bytes{})); }},
    DescriptorValue{"first_bucket_B",
                    [](const Described& d) { return as_double(d.exchange().first_bucket_size.value_or(Bytes{})); }},
    DescriptorValue{"is_by_priority", [](const Described& d) { return flag(d.exchange().order == Order::kPriority); }},
    DescriptorValue{"overlaps_forward",
                    [](const Described& d) { return flag(d.exchange().overlap == Overlap::kForward); }},
    DescriptorValue{"accumulation_steps",
                    [](const Described& d) { return static_cast<double>(d.exchange().accumulation_steps); }},
    DescriptorValue{"staleness_bound",
                    [](const Described& d) {
                      return d.servers ? static_cast<double>(d.servers->staleness_bound.value_or(0)) : 0.0;
                    }},
    DescriptorValue{"backup_workers",
                    [](const Described& d) { return d.servers ? static_cast<double>(d.servers->backup_workers) : 0.0; }},
    DescriptorValue{"server_machines", [](const Described& d) { return static_cast<double>(d.server_machines); }},
    DescriptorValue{"gpus_per_worker", [](const Described& d) { return static_cast<double>(d.first.gpus_per_worker); }},
    DescriptorValue{"fabric_load_ratio", [](const Described& d) { return fabric_load_ratio(d.site); }},
    DescriptorValue{"other_workers", [](const Described& d) { return d.of_other_kind.count; }},
    DescriptorValue{"other_worker_machines", [](const Described& d) { return static_cast<double>(d.other_machines); }},
    DescriptorValue{"other_gpus_per_machine",
                    [](const Described& d) {
                      return d.other_machines > 0 ? static_cast<double>(d.other_gpus) / d.other_machines : 0.0;
                    }},
    DescriptorValue{"other_gpu_peak_flops", of_other<&WorkerKind::peak>},
    DescriptorValue{"other_gpu_memory_bandwidth_Bps", of_other<&WorkerKind::memory_bandwidth>},
    DescriptorValue{"other_multiprocessors", of_other<&WorkerKind::multiprocessors>},
    DescriptorValue{"other_peak_efficiency", of_other<&WorkerKind::peak_efficiency>},
    DescriptorValue{"other_kernel_overhead_s", of_other<&WorkerKind::kernel_overhead>},
    DescriptorValue{"other_dispatch_s", of_other<&WorkerKind::dispatch>},
    DescriptorValue{"other_step_overhead_s", of_other<&WorkerKind::step_overhead>},
    DescriptorValue{"other_nic_Bps", of_other<&WorkerKind::nic>},
    DescriptorValue{"other_pcie_Bps", of_other<&WorkerKind::pcie>},
    DescriptorValue{"is_described", [](const Described& d) { return flag(!undescribed(d.scenario)); }}};

}  // namespace

const std::vector<std::string>& descriptor_names() {
  static const std::vector<std::string> names = names_in(kDescriptor);
  return names;
}

std::vector<double> descriptor_of(const Scenario& scenario) {
  const Described described{scenario};
  std::vector<double> values;
  for (const DescriptorValue& entry : kDescriptor) values.push_back(entry.value(described));
  return values;
}

std::vector<float> node_features_of(const Scenario& scenario) {
  std::vector<float> features =
      node_features_of(scenario.workload_of(scenario.first_workers()), scenario.optimizer, scenario.states);
  // The column is the last one, of the first operator.
  features.at(node_feature_names().size() - 1) =
      static_cast<float>(as_double(plan_step(scenario, scenario.first_workers()).input));
  return features;
}

std::vector<double> simulate_labels(const Scenario& scenario) {
  const Site site{scenario};
  const TrafficOf traffic = site.machines.size() == 1 ? TrafficOf::kGpus : TrafficOf::kNics;
  SimulateOptions options{.keeps_activity = true, .records_gpu_links = traffic == TrafficOf::kGpus};
  options.scope.machines.assign(site.machines.size(), false);
  options.scope.machines[static_cast<std::size_t>(chief_of(site))] = true;
  const RunRecord record = record_of(scenario, options);
  const ResourceProfile profile = resource_profile(scenario, record, traffic);
  const BurstMetrics& bursts = profile.bursts.front();
  if (bursts.gpu.gaps + bursts.gpu.bursts == 0)
    throw NoResultError{"no sample of " + to_text(scenario.output.sampling_period) +
                        " lies within the steps: a shorter sampling_period, or more steps"};
  const auto labels_of = [](const Bursts& of) { return BurstLabels{of.idle.value(), of.active.value(), of.peak}; };
  return values_of({.memory = labels_of(bursts.memory),
                    .gpu = labels_of(bursts.gpu),
                    .receive = labels_of(bursts.receive),
                    .transmit = labels_of(bursts.transmit),
                    .step_time_s = summarize(scenario, record).iteration_time.value(),
                    .receive_mean_bytes_per_s = bursts.receive.mean,
                    .transmit_mean_bytes_per_s = bursts.transmit.mean});
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): all verbs have this signature
const Verb kLabels{"labels", [](Scenario scenario, const JsonReader& options) {
                     options.reject_unknown_keys();
                     return Json(simulate_labels(scenario)).dump();
                   }};

}  // namespace rehearse
