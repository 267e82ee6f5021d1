#pragma once
// The collectives by which workers keep up copies of the same variables, or of parts of them.

#include <cstddef>
#include <string>
#include <vector>

#include "sim/program/program.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/scenario/scenario.hpp"

namespace rehearse {

/// Groups of a worker's program besides that which shares states.
struct SharingGroups {
  int replicas = -1;        // of workers that have the same part of what is sharded; -1: there are none
  int sharing_workers = 1;  // that have the other parts
  int of_experts = -1;      // those that share the states of experts that are spread over GPUs
};

/// In a step of `passes` passes each unit is
///   added up                     at all workers, once; or by a reduce-scatter, of which each keeps its part: once with
///                                a sharded optimizer, else in every pass
///   gathered                     after the update, with a sharded optimizer or sharded gradients; in every pass before
///                                its forward kernels, with sharded parameters
///   gathered for backward        then before its backward kernels, too
///   added up among replicas      its part, after each reduce-scatter, where only some workers share what is sharded
/// with a label for each of them, as collectives of a group have (program.hpp). What is gathered after the update may be in units of
/// its own (GradientUnits::gathered).
class UnitExchange {
 public:
  struct Setting {
    int passes = 1, first_label = 0;
    SharingGroups groups{};
  };

  /// Adds operations in group 0, and in those of `setting`, to the builder's program, whose labels from
  /// `first_label` on are labels().
  /// `kernels` are those of a pass; or its forward or its backward ones, for one that gathers or adds up for them
  /// alone.
  UnitExchange(ProgramBuilder& builder, const std::vector<PlannedKernel>& kernels, const GradientUnits& units,
               const Strategy& strategy, const Setting& setting);

  /// Collectives of a step, and their labels: [units][collectives of a unit].
  static std::size_t count(const GradientUnits& units, const Strategy& strategy, int passes);
  static std::vector<std::string> labels(const GradientUnits& units, const Strategy& strategy, int passes);
  /// Whether units are gathered or added up in every pass, so that each has operations of its own.
  static bool exchanges_each_pass(const Strategy& strategy, int passes) {
    const Count count = count_of({}, strategy, passes);
    return count.reduced == passes || count.gathered_for_backward == passes;
  }
  /// Whether units are added up in every pass, or after the last one.
  static bool reduces_each_pass(const Strategy& strategy, int passes) {
    return count_of({}, strategy, passes).reduced == passes;
  }

  /// Adds what the kernels of a pass wait for, which follows `before`. With sharded parameters units are gathered some
  /// ahead; the last one of a forward pass is kept for its backward kernels, if those are among the kernels. With
  /// forward overlap those of the first pass wait for what was reduced in the step before.
  void wait_for_units(const std::vector<OperationIndex>& kernels, OperationIndex before, int pass);
  /// Adds up the units once the kernels of the pass, of which `last` is the last one, have completed them.
  std::vector<OperationIndex> reduce(const std::vector<OperationIndex>& kernels, OperationIndex last, int pass);
  /// The unit of one of the collectives.
  const GradientUnit& unit_of(OperationIndex collective) const;
  /// Adds copies of the host's share of the units' parts that are `reduced`, as the plan says; of gradients that are added up in
  /// every pass what the host has of those before comes back first, and the sums go down (DeepSpeed,
  /// runtime/zero/stage_1_and_2.py, async_accumulate_grad_in_cpu_via_gpu()). Returns the copies to the host; none if it has none.
  std::vector<OperationIndex> copy_to_host(const ComputePlan& plan, const std::vector<OperationIndex>& reduced);
  /// Adds what follows all of `reduced` and the last kernel: the plan's update, which waits for the host that has dispatched the
  /// kernels and for its loop, too; what is gathered then, and unpacked; the fence. With forward overlap the fence waits for the
  /// kernel alone. What the host updates goes back unit by unit, while it updates the next one.
  void end_step(const ComputePlan& plan, std::vector<OperationIndex> reduced, OperationIndex last);

 private:
  /// Kernels of a pass, from `begin` on, in which a unit is used.
  struct Use {
    std::size_t unit = 0;
    std::size_t begin = 0;
  };
  /// Collectives of a unit in a step, in the order of their labels.
  struct Count {
    int reduced = 0, gathered = 0, gathered_for_backward = 0, among_replicas = 0;
    int all() const { return reduced + gathered + gathered_for_backward + among_replicas; }
  };

  static Count count_of(const GradientUnits& units, const Strategy& strategy, int passes);
  void find_uses(const std::vector<PlannedKernel>& kernels);
  static std::vector<Use> completions(const std::vector<PlannedKernel>& kernels, const GradientUnits& units);
  bool runs_ahead() const { return exchange_.overlap == Overlap::kForward; }
  void gather(const std::vector<OperationIndex>& kernels, OperationIndex before, int pass);
  int label(std::size_t unit, int label_of_unit) const;
  /// Of a unit's values, as they come after the update.
  int label_of_values(std::size_t unit) const;
  int group_of(const GradientUnit& unit) const { return unit.is_of_experts ? groups_.of_experts : 0; }
  int priority(const GradientUnit& unit) const;
  OperationIndex add(CollectiveKind kind, std::size_t unit, int label_of_unit);
  OperationIndex gather_updated(std::size_t unit);
  /// Of the host's share of a unit, in values or gradients of so many bytes by those of gradients as they are sent.
  OperationIndex add_copy(const HostUpdate& update, const GradientUnit& unit, CopyDirection direction, int label);
  /// The host updates unit after unit, behind all of `earlier`: the copies by which their values go back.
  std::vector<OperationIndex> update_on_host(const HostUpdate& update, const std::vector<OperationIndex>& earlier);
  /// The values of the unit have come.
  void signal(OperationIndex arrival, std::size_t unit);

  ProgramBuilder& builder_;
  const GradientUnits& units_;
  const GradientUnits& fetched_;  // units in which values come
  const GradientExchange& exchange_;
  Sharding sharding_;
  bool scatters_gradients_;
  SharingGroups groups_;
  int prefetched_units_;
  int first_label_;
  int first_counter_;  // of the units, with forward overlap
  Count count_;
  std::vector<Use> forward_, backward_;  // in the order of the kernels
  std::vector<Use> completed_;           // units, and the kernels that complete their gradients
  std::vector<Use> updated_;             // the same of units in which values come
};

}  // namespace rehearse
