#pragma once
// From strategies to programs: one file each.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/program.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/kernel_time.hpp"
#include "sim/scenario/pipeline_stages.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

/// Operations of the kernels of a step, and of the exchanges between them.
struct CompiledKernels {
  std::vector<OperationIndex> first;  // [kernels] in the first pass, which waits for variables
  std::vector<OperationIndex> last;   // [kernels] in the last one, which has gradients
};
/// How a worker's program numbers the groups that it is in, in the order of StrategyCompiler::groups(): from 0 on those that
/// share states, of each kind that computes layers together, of replicas of what is shared, those that share states of experts, and
/// the strategy's own.
struct GroupNumbers {
  std::array<int, kSplitGroups> split{-1, -1, -1, -1, -1};  // by SplitGroup; -1: layers are not split so
  int replicas = -1;                                        // -1: there are none
  int of_experts = -1;                                      // that share states of experts; -1: experts are not spread
  int own = 1;                                              // the first of the strategy's own

  int of(SplitGroup group) const { return split[static_cast<std::size_t>(group)]; }
  bool has(SplitGroup group) const { return of(group) >= 0; }
};
GroupNumbers group_numbers(const Scenario& scenario);
/// The axis along which workers of the group differ, of rank_grid(), or of experts of expert_grid().
Axis axis_of(SplitGroup group);

/// Adds the kernels, `passes` times, to a stream. Exchanges of the plan are collectives of the worker's groups, with
/// labels from `first_label` on, each once: one is ready to begin with the end of the kernel before it, and the first of the
/// operators that read it waits for its end.
CompiledKernels compile_kernels(ProgramBuilder& builder, const ComputePlan& plan, int passes, int stream,
                                const GroupNumbers& groups = {}, int first_label = 0);

/// A pass among others.
struct PassKernels {
  const ComputePlan* plan = nullptr;
  int first_label = 0;  // of its exchanges
};
/// Adds the kernels of a pass as compile_kernels() does; of several in turns: one goes on where another exchanges. None reads what
/// another one computes. Without exchanges they stand for as many as `repeat`. Returns [passes][kernels].
std::vector<std::vector<OperationIndex>> compile_in_turns(ProgramBuilder& builder,
                                                          const std::vector<PassKernels>& passes, int stream,
                                                          const GroupNumbers& groups, std::int64_t repeat = 1);

/// Adds what brings the samples of a step, `passes` batches, to the GPU behind `begin`, and returns the copy. Loaders that work
/// ahead begin with the next batches once the step has taken its own; those of the first step are there.
OperationIndex add_samples(ProgramBuilder& builder, const ComputePlan& plan, int passes, OperationIndex begin,
                           int priority = 0);

/// Exchanges of a pass.
int count_exchanges(const ComputePlan& plan);
/// Labels of those of so many passes, in the order of compile_kernels().
std::vector<std::string> exchange_labels(const ComputePlan& plan, const OperatorGraph& graph, int passes);

/// Bytes of the gradients of which the workers that hold a layer together each have a part (Variable::has_partial_gradient),
/// as they are held.
Bytes partial_gradients(const Scenario& scenario, const std::vector<bool>& chosen);

/// Adds the collective behind all of `reduced` and the `last` kernel, and returns what comes behind it: itself.
std::vector<OperationIndex> add_behind(ProgramBuilder& builder, const Collective& collective,
                                       std::vector<OperationIndex> reduced, OperationIndex last);

/// Of a sum of squares, which gradients' norm is made of.
inline constexpr Bytes kSquares{4};

/// Adds what the update waits for where gradients are clipped by their norm, once they are `reduced` and the `last` kernel has run:
/// a sum of 4 bytes in each of the worker's groups whose members have other parts of them, one after another, with labels from
/// `label` on. Kernels that read and scale gradients are not modelled. Returns what the update waits for.
std::vector<OperationIndex> add_gradient_norm(ProgramBuilder& builder, const std::vector<int>& groups, int label,
                                              std::vector<OperationIndex> reduced, OperationIndex last);

/// What workers exchange that compute layers together.
struct SplitLayers {
  GroupNumbers groups{};
  std::vector<std::string>
      labels{};               // of the exchanges of a step, and of its partial gradients; none: no layer is split
  Bytes partial_gradients{};  // added up at the end of a step
};

/// A worker that adds up gradients with all others in every step, and may keep only its part of what they share
/// (compile_all_reduce.cpp). Collectives are in group 0, of `sharing_workers`. `plan.update` is that of the part.
Program compile_all_reduce(const ComputePlan& plan, int passes, const GradientUnits& units, const Strategy& strategy,
                           const SplitLayers& split = {}, int sharing_workers = 1);

/// What the stages of a pipeline exchange.
struct PipelineExchange {
  /// Stages that hold the same variables, and the bytes of their gradients.
  struct Copies {
    std::vector<int> stages;
    std::vector<int> variables;
    Bytes gradient_bytes{};
  };
  std::vector<GradientUnits> units;  // [stages]
  std::vector<Copies> copies;
  std::vector<std::string> labels;  // of all programs: activations and gradients after each part; units; copies
  std::vector<int> first_label;     // [stages + 1] of the stage's units, and of copies
  /// Of workers that hold each layer of a stage together: a label for each of `exchanges` of a micro-batch, the most that a
  /// stage has, and one for its partial gradients.
  int exchanges = 0, first_exchange = 0;
  /// Where they gather what has come in parts: a label for each, of the first chunk's micro-batches forward, backward, of the next.
  int first_gathered = 0;
  std::vector<Bytes> partial_gradients;  // [stages]
  GroupNumbers groups{};
  int first_norm = 0;       // label of the sums of the gradients' norm
  int sharing_workers = 1;  // of a stage, that share states
};
/// Throws RunError if a step is too long.
PipelineExchange plan_pipeline_exchange(const Scenario& scenario, const PipelineStages& stages);

/// A worker that is a stage of a pipeline (compile_pipeline.cpp); `plan` is the stage's. It is in a team with the
/// others of its pipeline. Its connections are those to the stage before, unless it is the first, and those to the
/// next, unless it is the last, from each of its GPUs to its like; with several chunks the first and the last are next to each
/// other, too. Collectives are in group 0, with the same stage of other pipelines; the strategy's own groups are the stages of
/// its pipeline that have the i-th copies.
Program compile_pipeline(const Scenario& scenario, const ComputePlan& plan, const PipelineStages& stages,
                         const PipelineExchange& exchange, int stage);

/// Where the variables of a worker's step come from that are pushed back after each: from the step before, or, as for
/// those that join, from the servers.
enum class FirstVariables : std::uint8_t { kPushed, kPulled };

/// The program of the first worker, as text. Throws NoResultError if it is too long.
std::string program_text(const Scenario& scenario);

}  // namespace rehearse
