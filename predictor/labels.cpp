#include "predictor/labels.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "predictor/dataset.hpp"
#include "sim/job/simulate.hpp"
#include "sim/record/repeated_steps.hpp"
#include "sim/record/resource_profile.hpp"
#include "sim/record/summary.hpp"
#include "sim/scenario/site.hpp"
#include "sim/scenario/step_time.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/collective_time.hpp"

namespace rehearse {

namespace {

/// Steps after the warm-up; longer runs record only as much as a profile takes.
constexpr std::int64_t kMostExtended = 21;

constexpr Bytes kMuch{64 * 1024 * 1024};  // of gradients, for the rate of an all-reduce

constexpr std::int64_t kLongestCycle = 4;  // of more workers the first two cycles hardly ever do the same

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

}  // namespace

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

/// Of each worker, after the warm-up.
double window_steps_of(const Scenario& scenario) {
  const Training& training = scenario.training;
  const double sharing = training.strategy.is_synchronous() ? 1 : scenario.count(Role::kWorker);
  return std::max(1.0, static_cast<double>(training.steps - training.warmup_steps) / sharing);
}

const std::vector<std::string>& descriptor_names() {
  static const std::vector<std::string> names{"gpu_peak_flops",
                                              "gpu_memory_bandwidth_Bps",
                                              "gpu_memory_B",
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
                                              "server_nic_Bps",
                                              "pcie_Bps",
                                              "latency_s",
                                              "flow_Bps",
                                              "server_time_per_variable_s",
                                              "server_time_per_byte_s",
                                              "server_time_per_update_s",
                                              "server_time_per_split_update_s",
                                              "server_split_update_threshold_B",
                                              "is_asynchronous",
                                              "is_synchronous",
                                              "is_stale_synchronous",
                                              "is_all_reduce",
                                              "is_pairwise_averaging",
                                              "is_round_robin",
                                              "is_greedy_by_bytes",
                                              "is_sharded",
                                              "sampling_period_s",
                                              "window_steps",
                                              "all_reduce_latency_s",
                                              "all_reduce_s_per_byte",
                                              "bucket_B",
                                              "cycle_s",
                                              "overlaps_backward",
                                              "other_batch_workers",
                                              "other_batch_ratio",
                                              "joining_workers",
                                              "joins_at_s",
                                              "leaving_workers",
                                              "leaves_at_s"};
  return names;
}

std::vector<double> descriptor_of(const Scenario& scenario) {
  const Group& group = scenario.first_workers();
  const Accelerator& gpu = *group.accelerator;
  const Profile& profile = scenario.profile;
  const double stretch = step_time_factor(scenario, group).value_or(1);
  const ComputePlan step = plan_step(scenario, group);
  const Site site{scenario};
  const std::vector<Machine>& machines = site.machines;
  const Machine& chief = site.machine(chief_of(site));
  const auto is_colocated = [](const Group& g) { return g.colocated_with >= 0; };
  const auto server = std::find_if(machines.begin(), machines.end(), [](const Machine& m) { return m.servers > 0; });
  const Path way = way_from(site);
  const auto* servers = std::get_if<ParameterServerStrategy>(&scenario.training.strategy.kind);
  const auto is = [](bool condition) { return condition ? 1.0 : 0.0; };
  const bool is_all_reduce = std::holds_alternative<AllReduceStrategy>(scenario.training.strategy.kind);
  const GradientExchange& exchange = scenario.training.strategy.exchange;
  const Seconds of_nothing = is_all_reduce ? collective_time(scenario, Bytes{}) : Seconds{};
  const Seconds of_much = is_all_reduce ? collective_time(scenario, kMuch) : Seconds{};
  const auto synchronizes = [&](Synchronization how) {
    return is(servers != nullptr && servers->synchronization == how);
  };
  const auto places = [&](Placement how) { return is(servers != nullptr && servers->placement == how); };
  const OtherWorkers with_other_batch{scenario, [&](const Group& g) { return g.batch != group.batch; }};
  const OtherWorkers joining{scenario, [](const Group& g) { return g.joins_at > Seconds{}; }};
  const OtherWorkers leaving{scenario, [](const Group& g) { return g.leaves_at.has_value(); }};
  return {scenario.peak_of(gpu).value() / stretch,
          gpu.memory_bandwidth.value() / stretch,
          as_double(gpu.memory),
          static_cast<double>(gpu.multiprocessors),
          profile.gpu.efficiency_for(gpu.name),
          profile.gpu.memory_efficiency,
          profile.gpu.kernel_overhead.value() * stretch,
          profile.gpu.reduction_half,
          profile.gpu.winograd_gain,
          profile.host.dispatch.value() * stretch,
          (step.step_overhead + step.update).value(),
          static_cast<double>(scenario.count(Role::kWorker)),
          static_cast<double>(
              std::count_if(machines.begin(), machines.end(), [](const Machine& m) { return m.workers > 0; })),
          static_cast<double>(chief.gpus),
          static_cast<double>(scenario.count(Role::kParameterServer)),
          is(std::any_of(scenario.groups.begin(), scenario.groups.end(), is_colocated)),
          server == machines.end() ? 0.0 : static_cast<double>(server->cores),
          chief.nic.value() * chief.nics,
          server == machines.end() ? 0.0 : server->nic.value() * server->nics,
          group.interconnect.pcie.value(),
          way.latency.value(),
          way.per_flow_rate.value_or(chief.nic).value(),
          profile.servers.time_per_variable.value(),
          profile.servers.time_per_byte.value(),
          profile.servers.time_per_update.value(),
          profile.servers.time_per_split_update.value(),
          as_double(profile.servers.split_update_threshold),
          synchronizes(Synchronization::kAsynchronous),
          synchronizes(Synchronization::kSynchronous),
          synchronizes(Synchronization::kStaleSynchronous),
          is(is_all_reduce),
          is(std::holds_alternative<PairwiseAveragingStrategy>(scenario.training.strategy.kind)),
          places(Placement::kRoundRobin),
          places(Placement::kGreedyByBytes),
          places(Placement::kSharded),
          scenario.output.sampling_period.value(),
          window_steps_of(scenario),
          of_nothing.value(),
          (of_much - of_nothing).value() / as_double(kMuch),
          as_double(exchange.bucket_size.value_or(Bytes{})),
          exchange.cycle_time.value_or(Seconds{}).value(),
          is(exchange.overlap != Overlap::kNone),
          with_other_batch.count,
          with_other_batch.first != nullptr ? static_cast<double>(with_other_batch.first->batch) / group.batch : 1.0,
          joining.count,
          joining.first != nullptr ? joining.first->joins_at.value() : 0.0,
          leaving.count,
          leaving.first != nullptr ? leaving.first->leaves_at->value() : 0.0};
}

std::vector<float> node_features_of(const Scenario& scenario) {
  std::vector<float> features = node_features_of(scenario.workload, scenario.optimizer);
  // The column is the last one, of the first operator.
  features.at(node_feature_names().size() - 1) =
      static_cast<float>(as_double(plan_step(scenario, scenario.first_workers()).input));
  return features;
}

std::vector<double> simulate_labels(const Scenario& scenario) {
  const Site site{scenario};
  const TrafficOf traffic = site.machines.size() == 1 ? TrafficOf::kGpus : TrafficOf::kNics;
  SimulateOptions options{.keeps_activity = true, .records_gpu_links = traffic == TrafficOf::kGpus, .is_plain = true};
  options.scope.machines.assign(site.machines.size(), false);
  options.scope.machines[static_cast<std::size_t>(chief_of(site))] = true;
  const RunRecord record = record_of(scenario, options);
  const ResourceProfile profile = resource_profile(scenario, record, traffic);
  const BurstMetrics& bursts = profile.bursts.front();
  std::vector<double> labels;
  for (const Bursts* metric : {&bursts.memory, &bursts.gpu, &bursts.receive, &bursts.transmit})
    labels.insert(labels.end(), {metric->idle.value(), metric->active.value(), metric->peak});
  labels.push_back(summarize(scenario, record).iteration_time.value());
  const auto first = static_cast<std::ptrdiff_t>(profile.covered.start / profile.period + 0.5);
  const auto last = static_cast<std::ptrdiff_t>(profile.covered.end / profile.period + 0.5);
  for (const auto* series : {&profile.series.front().receive, &profile.series.front().transmit})
    labels.push_back(std::accumulate(series->begin() + first, series->begin() + last, 0.0) /
                     static_cast<double>(std::max<std::ptrdiff_t>(1, last - first)));
  return labels;
}

const Verb kLabels{"labels", [](Scenario scenario, const JsonReader& options) {
                     options.reject_unknown_keys();
                     return Json(simulate_labels(scenario)).dump();
                   }};

}  // namespace rehearse
