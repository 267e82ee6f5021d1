#include "sim/scenario/training_facts.hpp"

#include <algorithm>

#include "sim/scenario/collective_protocols.hpp"

namespace rehearse {

namespace {

/// "PCIe", "NVLinks, NVLink 2", "an NVSwitch, NVLink 3".
std::string links_text(const Interconnect& inside) {
  const LinkKind kind = kind_of(inside);
  return kind == LinkKind::kPcie || inside.generation.empty() ? name_of(kind)
                                                              : name_of(kind) + ", " + inside.generation;
}

/// Whether anything but an update takes time.
bool has_work(const Workload& workload) {
  return has_kernels(workload) || std::ranges::any_of(workload.graph, [](const OperatorAt kernel) {
           return kernel->phase != Phase::kUpdate && kernel->measured_time && *kernel->measured_time > Seconds{};
         });
}

}  // namespace

bool has_kernels(const Workload& workload) {
  for (const OperatorAt kernel : workload.graph) {
    if (kernel->phase == Phase::kUpdate || kernel->measured_time) continue;
    if (kernel->flops > Flops{} || kernel->bytes_read + kernel->bytes_written > Bytes{}) return true;
  }
  return false;
}

TrainingFacts facts_of(const Scenario& scenario) {
  TrainingFacts facts{.gpus = {},
                      .model = scenario.model.name,
                      .precision = computed_in(scenario),
                      .framework = scenario.framework,
                      .batch = scenario.batch,
                      .workers = scenario.count(Role::kWorker),
                      .servers = scenario.count(Role::kParameterServer),
                      .strategy = scenario.training.strategy.word,
                      .links = {},
                      .nic = {},
                      .computes = has_kernels(scenario.workload),
                      .takes_checkpoint = scenario.training.checkpoint && !scenario.training.checkpoint->stage};
  if (!has_work(scenario.workload)) {
    const auto* timed = std::get_if<TimedLayers>(&scenario.model.structure);
    const auto operation = timed != nullptr ? timed->operation : CollectiveKind::kAllReduce;
    facts.collective = kCollectiveKindWords[static_cast<std::size_t>(operation)];
    facts.payload = scenario.workload.parameter_bytes();
  }
  int machines = 0;
  for (const Group& group : scenario.groups) {
    machines += group.colocated_with < 0 ? group.count : 0;
    if (group.role != Role::kWorker) continue;
    facts.gpus.push_back(*group.accelerator);
    if (group.workers_per_machine() > 1) facts.links = links_text(group.interconnect);
  }
  if (machines > 1) {
    const Instance& instance = scenario.first_workers().instance;
    facts.nic = instance.all_nics();
    facts.is_over_tcp = instance.transport == NetworkTransport::kTcp;
  }
  return facts;
}

}  // namespace rehearse
