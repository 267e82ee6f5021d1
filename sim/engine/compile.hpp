#pragma once
// From strategies to programs: one file each.

#include "sim/engine/gradient_units.hpp"
#include "sim/engine/program.hpp"
#include "sim/engine/scenario.hpp"

namespace rehearse {

/// The kernels of a step on one stream, `passes` times.
struct CompiledKernels {
  std::vector<OperationIndex> first;  // [kernels] in the first pass, which waits for variables
  std::vector<OperationIndex> last;   // [kernels] in the last one, which has gradients
};
CompiledKernels compile_kernels(ProgramBuilder& builder, const ComputePlan& plan, int passes, int stream);

/// A worker that adds up gradients with all others in every step (compile_data_parallel.cpp). Collectives are in group
/// 0, labelled by units.
Program compile_data_parallel(const ComputePlan& plan, int passes, const GradientUnits& units,
                              const GradientExchange& exchange);

/// The same where each of the workers keeps only its part of what the strategy says (compile_sharded.cpp).
/// `plan.update` is that of the part.
Program compile_sharded(const ComputePlan& plan, int passes, const GradientUnits& units,
                        const GradientExchange& exchange, const AllReduceStrategy& strategy);

}  // namespace rehearse
