#pragma once
// From strategies to programs: one file each.

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/program.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/pipeline_stages.hpp"
#include "sim/scenario/site.hpp"

namespace rehearse {

/// Operations of the kernels of a step.
struct CompiledKernels {
  std::vector<OperationIndex> first;  // [kernels] in the first pass, which waits for variables
  std::vector<OperationIndex> last;   // [kernels] in the last one, which has gradients
};
/// Adds the kernels, `passes` times, to a stream.
CompiledKernels compile_kernels(ProgramBuilder& builder, const ComputePlan& plan, int passes, int stream);

/// A worker that adds up gradients with all others in every step, and may keep only its part of what they share
/// (compile_all_reduce.cpp). Collectives are in group 0. `plan.update` is that of the part.
Program compile_all_reduce(const ComputePlan& plan, int passes, const GradientUnits& units, const Strategy& strategy);

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
  std::vector<std::string> labels;  // of all programs: activations and gradients after each stage; units; copies
  std::vector<int> first_label;     // [stages + 1] of the stage's units, and of copies
};
/// Throws RunError if a step is too long.
PipelineExchange plan_pipeline_exchange(const Scenario& scenario, const PipelineStages& stages);

/// A worker that is a stage of a pipeline (compile_pipeline.cpp); `plan` is the stage's. It is in a team with the
/// others of its pipeline. Its connections are those to the stage before, unless it is the first, and those to the
/// next, unless it is the last, from each of its GPUs to its like. Collectives are in group 0, with the same stage of
/// other pipelines, and in 1 + i, with the stages of its pipeline that have the i-th copies.
Program compile_pipeline(const Scenario& scenario, const ComputePlan& plan, const PipelineStages& stages,
                         const PipelineExchange& exchange, int stage);

/// Where a worker stands among those that exchange with the servers as one: its team.
struct TeamPlace {
  int member = 0, members = 1;
  int gpus = 1;                        // of the worker
  int cores = 1;                       // of its machine
  std::vector<bool> shares_machine{};  // [servers] with the team, where that changes what they do
  std::vector<int> adder{};            // [units] member on whose GPU gradients are added up; empty: in host memory

  auto operator<=>(const TeamPlace&) const = default;
};
/// Where the variables of a worker's step come from that are pushed back after each: from the step before, or, as for
/// those that join, from the servers.
enum class FirstVariables : std::uint8_t { kPushed, kPulled };

/// A worker that exchanges with parameter servers (compile_parameter_server.cpp). Its connections are, for each server
/// s, 2 s to it and 2 s + 1 from it, and then those from its GPU to that of each member.
Program compile_parameter_server(const Scenario& scenario, const ComputePlan& plan, int passes,
                                 const GradientUnits& units, const TeamPlace& place, FirstVariables first);

/// [workers of the machine] their places; `units` as planned for the servers.
std::vector<TeamPlace> team_places(const Site& site, MachineIndex machine, const GradientUnits& units);

/// A worker that averages its model with that of a random other one (compile_pairwise.cpp).
/// With `gpus` its connections are those from the first of them to the others, and its group 0 are all of them.
Program compile_pairwise(const ComputePlan& plan, int passes, Bytes model, int gpus);

/// What a strategy's program of a step depends on.
struct WorkerStep {
  const Scenario& scenario;
  const ComputePlan& plan;  // of the worker
  int passes;
  const GradientUnits& units;
  const TeamPlace& place;  // of workers that are not in lockstep
  FirstVariables first;    // of servers
};

/// What a worker does in a step of `passes` passes: StrategyKind::compile(). Where workers are in lockstep all have this
/// program, with collectives in group 0, in which all are, labelled by units; an update, to which all come; and a fence at the
/// end.
Program compile_step(const Scenario& scenario, const ComputePlan& plan, int passes, const GradientUnits& units);
Program compile_step(const Scenario& scenario, const ComputePlan& plan, int passes, const GradientUnits& units,
                     const TeamPlace& place, FirstVariables first);

/// The program of the first worker, as text. Throws NoResultError if it is too long.
std::string program_text(const Scenario& scenario);

}  // namespace rehearse
