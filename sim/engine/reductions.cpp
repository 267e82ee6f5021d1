#include "sim/engine/reductions.hpp"

#include <algorithm>

namespace rehearse {

namespace {

bool is_one_machine(const Scenario& scenario) {
  int machines = 0;
  for (const Group& group : scenario.groups) machines += group.role == Role::kWorker ? group.count : 0;
  return machines == 1;
}

}  // namespace

Reductions plan_reductions(const Scenario& scenario, bool is_exact, bool keeps_activity) {
  const Training& training = scenario.training;
  Reductions reductions;
  reductions.fuses_kernels = !is_exact && training.step_time_variation == 0 && !keeps_activity;
  const GradientExchange& exchange = training.strategy.exchange;
  const bool is_forward = exchange.overlap == Overlap::kForward;
  // Nothing depends on a date.
  const bool is_regular = training.step_time_variation == 0 && !training.checkpoint && !exchange.cycle_time;
  // Where all servers' workers wait for one another at the end of a step, nothing of it is under way any more.
  if (const auto* servers = std::get_if<ParameterServerStrategy>(&training.strategy.kind))
    reductions.skips_steady_state = !is_exact && is_regular && training.strategy.is_synchronous() && !is_forward &&
                                    servers->backup_workers == 0 && !servers->pushes_back_each_variable;
  if (!std::holds_alternative<AllReduceStrategy>(training.strategy.kind)) return reductions;
  reductions.copies_are_alone = !is_forward || !is_one_machine(scenario);
  if (is_exact) return reductions;
  // Where GPUs share the way to the host, or their link, their samples are flows, which may meet collectives.
  const bool copies_are_flows = !reductions.copies_are_alone ||
                                std::any_of(scenario.groups.begin(), scenario.groups.end(), [](const Group& group) {
                                  return group.role == Role::kWorker && group.interconnect.pcie_root;
                                });
  // What stages of a pipeline send one another meets their collectives, and each does something else.
  // Samples are copied at the beginning of a step. Without forward overlap all copies have ended before any worker's
  // gradients are ready everywhere.
  const bool has_pipeline = training.strategy.pipeline() != nullptr;
  reductions.times_collectives = !has_pipeline && (!is_forward || !copies_are_flows);
  // Workers of a group do the same at the same time if nothing tells them apart.
  const bool are_alike = training.step_time_variation == 0 && training.start_interval == Seconds{} &&
                         !training.checkpoint && !copies_are_flows;
  reductions.folds_workers = are_alike && !keeps_activity && !scenario.has_revocations() && !has_pipeline;
  // All workers wait for one another at the end of a step.
  reductions.skips_steady_state = is_regular && !is_forward;
  return reductions;
}

}  // namespace rehearse
