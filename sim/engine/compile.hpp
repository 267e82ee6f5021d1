#pragma once
// From strategies to programs: one file each.

#include <string>
#include <vector>

#include "sim/engine/gradient_units.hpp"
#include "sim/engine/program.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

/// Operations of the kernels of a step.
struct CompiledKernels {
  std::vector<OperationIndex> first;  // [kernels] in the first pass, which waits for variables
  std::vector<OperationIndex> last;   // [kernels] in the last one, which has gradients
};
/// Adds the kernels, `passes` times, to a stream.
CompiledKernels compile_kernels(ProgramBuilder& builder, const ComputePlan& plan, int passes, int stream);

/// A worker that adds up gradients with all others in every step (compile_data_parallel.cpp). Collectives are in group
/// 0, labelled by units.
Program compile_data_parallel(const ComputePlan& plan, int passes, const GradientUnits& units,
                              const GradientExchange& exchange);

/// The same where each of the workers keeps only its part of what the strategy says (compile_sharded.cpp).
/// `plan.update` is that of the part.
Program compile_sharded(const ComputePlan& plan, int passes, const GradientUnits& units,
                        const GradientExchange& exchange, const AllReduceStrategy& strategy);

/// What a worker does in a step of `passes` passes by the scenario's strategy, all-reduce (compile.cpp).
Program compile_step(const Scenario& scenario, const ComputePlan& plan, int passes, const GradientUnits& units);

/// The program of the first worker, as text. Throws InputError if the strategy is not compiled to programs,
/// NoResultError if the program is too long.
std::string program_text(const Scenario& scenario);

}  // namespace rehearse
