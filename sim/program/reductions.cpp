#include "sim/program/reductions.hpp"

#include <algorithm>
#include <numeric>

#include "sim/scenario/rank_grid.hpp"
#include "sim/scenario/work.hpp"

namespace rehearse {

namespace {

/// Blocks of the fewest machines that hold what there are likes of: the whole model, or all that share its states where groups of them
/// do; or a stage of it, if all workers of a stage come before those of the next. Where leaf switches may hold up what their
/// machines send, a block is of whole leaves, unless a circle is within one. None if not all machines can be counted in such
/// blocks, or if there is one, or if not all ways between machines are alike.
MachineFold blocks_of_likes(const Scenario& scenario) {
  const auto* tree = std::get_if<FatTree>(&scenario.fabric);
  const bool may_fold = is_nonblocking(scenario.fabric) || tree || std::holds_alternative<Rail>(scenario.fabric);
  if (scenario.groups.size() != 1 || scenario.has_changing_membership() || !may_fold || scenario.hop_latency) return {};
  const Group& group = scenario.groups.front();
  if (group.machines_per_domain > 1) return {};
  const RankGrid grid = rank_grid(scenario);
  const int on_machine = group.workers_per_machine();
  const bool is_by_stages = scenario.training.strategy.kind->rank_order().back() == Axis::kPipeline;
  const int stages = is_by_stages ? grid.degree(Axis::kPipeline) : 1;  // of which each has a block of its own
  const int of_model = workers_per_model(scenario) / stages;
  const int sharing = of_model * grid.degree(Axis::kData);
  const int replicas = grid.degree(Axis::kReplica);
  const ExpertSplit& experts = scenario.model.expert_split;
  const int with_experts =
      experts.degree > 0 ? experts.degree * experts.tensor * grid.degree(Axis::kPipeline) / stages : 1;
  const int likes = std::lcm(replicas > 1 ? sharing : of_model, with_experts);
  const int workers = sharing * replicas;  // of a circle
  if (workers % on_machine != 0) return {};
  MachineFold fold{likes / std::gcd(likes, on_machine), workers / on_machine};
  if (tree && !is_nonblocking(scenario.fabric) && tree->machines_per_leaf % fold.span != 0)
    fold.block = std::lcm(fold.block, std::lcm(tree->machines_per_leaf, tree->uplinks));
  return fold.span % fold.block == 0 && fold.span > fold.block ? fold : MachineFold{};
}

}  // namespace

Reductions plan_reductions(const Scenario& scenario, bool is_exact, bool keeps_activity) {
  const Training& training = scenario.training;
  Reductions reductions;
  reductions.fuses_kernels = !is_exact && training.step_time_variation == 0 && !keeps_activity;
  const bool overlaps = training.strategy.overlaps_steps();
  const bool has_memory = scenario.has_links_with_memory();
  const bool is_regular = has_regular_steps(scenario);
  // Where all workers wait for one another at the end of a step, nothing of it is under way any more.
  const ServerRules& servers = training.strategy.server_rules();
  reductions.skips_steady_state = !is_exact && is_regular && training.strategy.is_synchronous() && !overlaps &&
                                  servers.backup_workers == 0 && !servers.pushes_back_each_variable;
  if (!training.strategy.kind->is_in_lockstep()) return reductions;
  const bool is_offloading = training.strategy.kind->offload() != Offload{};
  reductions.copies_are_alone = !is_offloading && (!overlaps || scenario.worker_machines() != 1);
  if (is_exact) return reductions;
  // Where GPUs share the way to the host, or their link, their samples are flows, which may meet collectives.
  const bool copies_are_flows = !reductions.copies_are_alone ||
                                std::any_of(scenario.groups.begin(), scenario.groups.end(), [](const Group& group) {
                                  return group.role == Role::kWorker && group.interconnect.pcie_root;
                                });
  // Samples are copied at the beginning of a step. Where steps do not overlap all copies have ended before any worker's
  // gradients are ready everywhere. What hosts keep is copied meanwhile: StepCompiler::groups_with_own_links().
  // Rates of messages of unequal sizes are known of flows alone.
  const bool records_unequal = keeps_activity && scenario.model.expert_split.has_own_loads();
  reductions.joins_rounds = !keeps_activity;
  reductions.times_collectives = (!overlaps || !copies_are_flows) && !has_memory && !records_unequal;
  // Workers of a group do the same at the same time if nothing tells them apart; with a pipeline those of a stage.
  const bool are_alike = training.step_time_variation == 0 && training.start_interval == Seconds{} &&
                         !training.checkpoint && !keeps_activity && !scenario.has_revocations() && !has_memory;
  const bool has_one_group = workers_per_model(scenario) == 1 && scenario.model.expert_split.degree == 0 &&
                             rank_grid(scenario).degree(Axis::kReplica) == 1;
  reductions.folds_workers = are_alike && !copies_are_flows && has_one_group;
  reductions.folds_machines = are_alike && copies_are_flows && has_one_group && reductions.times_collectives;
  reductions.folds_split = are_alike && !copies_are_flows && scenario.model.split.degree > 1;
  const bool has_all_to_alls = scenario.model.expert_split.degree > 1 || scenario.model.context.heads > 1;
  reductions.joins_gpus = are_alike && !copies_are_flows && has_all_to_alls && scenario.groups.size() == 1 &&
                          !scenario.has_changing_membership() && scenario.first_workers().gpus_per_worker == 1 &&
                          scenario.first_workers().machines_per_domain <= 1;
  if (are_alike && !reductions.folds_workers) reductions.fold = blocks_of_likes(scenario);
  return reductions;
}

bool recording_changes_events(const Scenario& scenario, bool is_exact) {
  const Reductions without = plan_reductions(scenario, is_exact, false);
  return without.skips_steady_state || without != plan_reductions(scenario, is_exact, true);
}

}  // namespace rehearse
