#include "calibration/row_facts.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

WorkerFacts worker_facts(const Scenario& scenario, const Group& group) {
  const Workload& workload = scenario.workload_of(group);
  const double passes = scenario.training.strategy.exchange.accumulation_steps;
  WorkerFacts facts{.gpu = group.accelerator->name,
                    .workers = static_cast<double>(group.workers()),
                    .gpus = static_cast<double>(group.gpus_per_worker),
                    .batch = group.batch * passes,
                    .flops = workload.training_flops().value() * passes,
                    .peak = scenario.peak_of(*group.accelerator).value(),
                    .bandwidth = group.accelerator->memory_bandwidth.value()};
  for (const OperatorAt op : workload.graph) facts.bytes += passes * as_double(op->bytes_read + op->bytes_written);
  return facts;
}

/// Means over the workers.
template <class Value>
double mean_of(const std::vector<WorkerFacts>& workers, Value value) {
  double sum = 0, count = 0;
  for (const WorkerFacts& worker : workers) {
    sum += worker.workers * value(worker);
    count += worker.workers;
  }
  return count > 0 ? sum / count : 0;
}

/// How a cluster's machines are connected, as its scenario states it.
struct StatedLinks {
  double machines = 0, gpus_per_machine = 0;  // of workers
  double nic = 0;                             // of the slowest worker's machine, B/s
  double server_nic = 0;                      // of all servers together
  double inside = 0;                          // of one GPU to others of its machine
  double latency = 0;                         // the longest between two regions, or inside one, s
};

double inside_rate(const Interconnect& inside, int gpus) {
  if (inside.nvswitch) return inside.nvswitch->value();
  if (!inside.nvlinks.empty() && gpus > 1) {
    double links = 0;
    for (const NvlinkPair& pair : inside.nvlinks) links += pair.a == 0 || pair.b == 0 ? pair.count : 0;
    return links * inside.nvlink_rate.value();
  }
  return inside.pcie.value();
}

StatedLinks links_of(const Scenario& scenario) {
  StatedLinks links{.nic = INFINITY, .inside = INFINITY};
  for (const Group& group : scenario.groups) {
    const double nic = group.instance.nic.value() * group.instance.nics;
    if (group.role == Role::kParameterServer) {
      const double own = group.colocated_with < 0
                             ? nic
                             : scenario.groups[static_cast<std::size_t>(group.colocated_with)].instance.nic.value();
      links.server_nic += own * group.count;
      continue;
    }
    links.machines += group.count;
    links.gpus_per_machine =
        std::max(links.gpus_per_machine, static_cast<double>(group.workers_per_machine() * group.gpus_per_worker));
    links.nic = std::min(links.nic, nic);
    links.inside = std::min(links.inside, inside_rate(group.interconnect, group.instance.accelerators));
  }
  for (const RegionLink& link : scenario.links) links.latency = std::max(links.latency, link.latency.value());
  return links;
}

/// Samples of the whole training, if it has an end: the target's, or those in which the updates reach its loss. A
/// worker's share of the updates follows from the profile's step times, or else from the roofline.
double samples_of_training(const Scenario& scenario, const RowFacts& facts) {
  const std::optional<TrainingTarget>& target = scenario.training.target;
  if (!target) return static_cast<double>(scenario.training.samples);
  if (target->samples) return *target->samples;
  std::vector<double> speeds;
  double samples = 0, updates = 0;  // in a second
  for (const WorkerFacts& worker : facts.workers) {
    const double time = stated_step_time(scenario.profile, facts, worker).value_or(worker.roofline());
    for (int i = 0; i < static_cast<int>(worker.workers); ++i) speeds.push_back(worker.batch / time);
    samples += worker.workers * worker.batch / time;
    updates += worker.workers / time;
  }
  const ConvergenceCluster cluster{
      .workers = static_cast<int>(speeds.size()), .weighted_batch = samples / updates, .spread = speed_spread(speeds)};
  return updates_to_loss(*scenario.convergence, cluster, *target->loss) * cluster.weighted_batch;
}

void set_unit(const Scenario& scenario, const std::string& metric, RowFacts& facts) {
  double samples = facts.samples_of_a_round();  // that an update uses
  if (const int late = backup_workers(scenario); late > 0)
    samples *= std::max(1.0, facts.all_workers() - late) / facts.all_workers();
  if (metric == "samples_per_s") {
    facts.unit = samples;
    facts.is_rate = true;
  } else if (metric == "steps_per_s") {
    facts.unit = scenario.training.strategy.is_synchronous() ? 1 : facts.all_workers();
    facts.is_rate = true;
  } else if (metric == "training_time_s") {
    facts.unit = samples_of_training(scenario, facts) / samples;
  }
}

std::string overlap_word(const GradientExchange& exchange) {
  std::string word = std::to_string(static_cast<int>(exchange.overlap));
  if (exchange.bucket_size) word += ", fused";
  if (exchange.cycle_time) word += ", in cycles";
  if (exchange.partition_size) word += ", cut";
  return word;
}

void set_speed(const Scenario& scenario, const StatedLinks& links, RowFacts& facts) {
  const auto& workers = facts.workers;
  facts.numbers = {mean_of(workers, [](const WorkerFacts& w) { return w.flops; }),
                   mean_of(workers, [](const WorkerFacts& w) { return w.bytes; }),
                   mean_of(workers, [](const WorkerFacts& w) { return w.batch / w.gpus; }),
                   mean_of(workers, [](const WorkerFacts& w) { return w.peak; }),
                   mean_of(workers, [](const WorkerFacts& w) { return w.bandwidth; }),
                   as_double(scenario.workload.parameter_bytes()),
                   static_cast<double>(scenario.workload.trainable_tensors()),
                   mean_of(workers, [](const WorkerFacts& w) { return w.gpus; }) * facts.all_workers(),
                   links.machines,
                   links.gpus_per_machine,
                   links.nic,
                   links.inside,
                   1 + static_cast<double>(scenario.count(Role::kParameterServer)),
                   links.latency};
  facts.words = {facts.model,
                 scenario.first_workers().accelerator->name,
                 facts.framework,
                 facts.precision,
                 describe_strategy(scenario.training.strategy),
                 overlap_word(scenario.training.strategy.exchange),
                 scenario.first_workers().instance.name};
}

}  // namespace

double WorkerFacts::roofline() const { return std::max(flops / peak, bytes / bandwidth); }

double RowFacts::samples_of_a_round() const {
  double samples = 0;
  for (const WorkerFacts& worker : workers) samples += worker.workers * worker.batch;
  return samples;
}

double RowFacts::all_workers() const {
  double count = 0;
  for (const WorkerFacts& worker : workers) count += worker.workers;
  return count;
}

std::vector<std::string> numbers_of(FactsOf kind) {
  switch (kind) {
    case FactsOf::kSpeed:
    case FactsOf::kOther:
      return {"flops",
              "bytes",
              "batch",
              "peak",
              "memory_bandwidth",
              "parameter_bytes",
              "tensors",
              "gpus",
              "machines",
              "gpus_per_machine",
              "nic",
              "inside",
              "servers",
              "latency"};
    case FactsOf::kCheckpoint:
      return {"checkpoint_bytes"};
    case FactsOf::kStartup:
      return {"probability", "tensors", "parameter_bytes"};
    case FactsOf::kCollective:
      return {"payload", "gpus", "machines", "nic", "inside"};
  }
  return {};
}

FactsOf facts_of(const std::string& metric) {
  static const std::map<std::string, FactsOf> kinds{{"samples_per_s", FactsOf::kSpeed},
                                                    {"steps_per_s", FactsOf::kSpeed},
                                                    {"iteration_time_s", FactsOf::kSpeed},
                                                    {"training_time_s", FactsOf::kSpeed},
                                                    {"collective_time_s", FactsOf::kCollective}};
  if (const auto known = kinds.find(metric); known != kinds.end()) return known->second;
  if (metric.starts_with("checkpoint_")) return FactsOf::kCheckpoint;
  return metric.starts_with("startup_") ? FactsOf::kStartup : FactsOf::kOther;
}

namespace {

/// RowFacts::limit.
std::optional<double> limit_of(const Scenario& scenario, const std::string& metric, const RowFacts& facts) {
  double limits = 0, gpus = 0, machines = 0;
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker || !group.is_there_from_the_start()) continue;
    const double count = group.count * group.instance.accelerators;
    limits += count * group.power_limit_w.value_or(group.accelerator->power_w);
    gpus += count;
    machines += group.count;
  }
  if (metric == "gpu_power_w") return limits / gpus;
  if (metric == "node_power_w") return limits / machines;
  if (metric != "gpu_energy_per_sample_j") return {};
  const double step = mean_of(facts.workers, [](const WorkerFacts& worker) { return worker.roofline(); });
  return limits * step / facts.samples_of_a_round();
}

}  // namespace

RowFacts read_facts(const Scenario& scenario, const std::string& metric, std::optional<double> probability) {
  RowFacts facts{.kind = facts_of(metric),
                 .model = scenario.model.name,
                 .framework = scenario.framework,
                 .precision = computed_in(scenario)};
  for (const Group& group : scenario.groups)
    if (group.role == Role::kWorker && group.is_there_from_the_start())
      facts.workers.push_back(worker_facts(scenario, group));
  const StatedLinks links = links_of(scenario);
  const Group& first = scenario.first_workers();
  facts.checkpoint_bytes = as_double(checkpoint_bytes(scenario));
  switch (facts.kind) {
    case FactsOf::kSpeed:
    case FactsOf::kOther:
      set_speed(scenario, links, facts);
      break;
    case FactsOf::kCheckpoint:
      facts.numbers = {facts.checkpoint_bytes};
      break;
    case FactsOf::kStartup:
      facts.numbers = {probability.value_or(0.5), static_cast<double>(scenario.workload.trainable_tensors()),
                       as_double(scenario.workload.parameter_bytes())};
      facts.words = {first.accelerator->name, first.region, first.market == Market::kSpot ? "spot" : "on demand"};
      break;
    case FactsOf::kCollective:
      facts.numbers = {as_double(scenario.workload.parameter_bytes()), facts.all_workers(), links.machines, links.nic,
                       links.inside};
      facts.words = {first.accelerator->name, first.interconnect.name, first.instance.name};
      break;
  }
  for (double& number : facts.numbers)
    if (!std::isfinite(number) || number <= 0) number = 1e-12;  // its logarithm is taken; what is not there is far off
  if (facts.kind == FactsOf::kSpeed) set_unit(scenario, metric, facts);
  facts.bound = roofline_time(scenario, facts);
  facts.limit = limit_of(scenario, metric, facts);
  return facts;
}

std::optional<double> roofline_time(const Scenario& scenario, const RowFacts& facts) {
  if (facts.kind != FactsOf::kSpeed && facts.kind != FactsOf::kCollective) return {};
  const StatedLinks links = links_of(scenario);
  const double payload = as_double(scenario.workload.parameter_bytes());
  double bound = 0;
  if (facts.kind == FactsOf::kSpeed) {
    double speed = 0;  // samples/s
    for (const WorkerFacts& worker : facts.workers) {
      if (!(worker.roofline() > 0)) return {};
      speed += worker.workers * worker.batch / worker.roofline();
    }
    bound = facts.samples_of_a_round() / speed;
  }
  if (scenario.count(Role::kParameterServer) > 0) {
    const bool is_together = scenario.training.strategy.server_rules().aggregation != Aggregation::kNone;
    const double senders = is_together ? links.machines : facts.all_workers();
    if (links.machines > 1 || links.gpus_per_machine <= 1)
      bound = std::max(bound, payload * std::ceil(senders / links.machines) / links.nic);
    if (links.server_nic > 0) bound = std::max(bound, payload * senders / links.server_nic);
  } else {
    const auto part = [](double ranks) { return ranks > 1 ? 2 * (ranks - 1) / ranks : 0; };
    bound = std::max(
        {bound, part(links.machines) * payload / links.nic, part(links.gpus_per_machine) * payload / links.inside});
  }
  return bound > 0 ? std::optional{bound} : std::nullopt;
}

std::optional<double> stated_step_time(const Profile& profile, const RowFacts& facts, const WorkerFacts& worker) {
  const StepTime* nearest = nullptr;
  const auto distance = [&](const StepTime& step) {
    return std::abs(std::log(step.batch / static_cast<double>(step.gpus) / (worker.batch / worker.gpus)));
  };
  for (const StepTime& step : profile.step_times)
    if (step.model == facts.model && step.accelerator == worker.gpu && step.precision == facts.precision &&
        step.framework == facts.framework && (nearest == nullptr || distance(step) < distance(*nearest)))
      nearest = &step;
  if (nearest == nullptr) return {};
  return nearest->time.value() * (worker.batch / worker.gpus) / (nearest->batch / static_cast<double>(nearest->gpus));
}

}  // namespace rehearse
