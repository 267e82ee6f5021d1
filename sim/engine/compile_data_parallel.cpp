// Synchronous data-parallel training by collectives. A worker's step:
//
//   host        step_overhead, the samples go to the GPU
//   compute     forward and backward
//   collective  of each unit of gradients (gradient_units.hpp), once the last of its gradients is there at all workers:
//               one at a time, in the order in which they become ready, or by priority; with a cycle time, what is
//               ready at the end of a cycle is fused
//   update      the optimizer, when every unit is reduced; then the next step begins
//
// With forward overlap a worker begins its next step as soon as its own kernels have run, and each kernel waits for the
// variables that it reads.

#include <cstddef>

#include "sim/engine/compile.hpp"

namespace rehearse {

Program compile_data_parallel(const ComputePlan& plan, int passes, const GradientUnits& units,
                              const GradientExchange& exchange) {
  ProgramBuilder builder;
  const bool is_forward = exchange.overlap == Overlap::kForward;
  const OperationIndex host = builder.add({.kind = OperationKind::kDelay, .time = plan.step_overhead});
  const OperationIndex input = builder.add({.kind = OperationKind::kCopy, .label = -1, .bytes = plan.input});
  const OperationIndex begin = builder.add({.kind = OperationKind::kBegin});
  builder.order(host, input);
  builder.order(input, begin);
  std::vector<OperationIndex> gates(units.units.size()), collectives(units.units.size());
  for (std::size_t u = 0; u < units.units.size(); ++u) {
    const GradientUnit& unit = units.units[u];
    builder.program().labels.push_back(unit.name);
    if (is_forward) {
      gates[u] = builder.add({.kind = OperationKind::kGate, .resource = builder.new_counter(), .lag = 1});
      builder.order(begin, gates[u]);
    }
    collectives[u] = builder.add({.kind = OperationKind::kCollective,
                                  .label = static_cast<int>(u),
                                  .priority = exchange.order == Order::kPriority ? unit.first_use : 0,
                                  .signals = is_forward ? static_cast<int>(u) : -1,
                                  .bytes = unit.gradient_bytes});
  }
  const CompiledKernels kernels = compile_kernels(builder, plan, passes, 0);
  if (!kernels.first.empty()) builder.order(begin, kernels.first.front());
  const OperationIndex last = kernels.last.empty() ? begin : kernels.last.back();
  std::vector<std::size_t> gradients_left, ready;
  for (const GradientUnit& unit : units.units) gradients_left.push_back(unit.variables.size());
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    if (is_forward)
      for (const int variable : plan.kernels[k].waits_for)
        for (const int unit : units.of_variable[static_cast<std::size_t>(variable)])
          builder.order(gates[static_cast<std::size_t>(unit)], kernels.first[k]);
    for (const int variable : plan.kernels[k].completes)
      for (const int unit : units.of_variable[static_cast<std::size_t>(variable)]) {
        const auto u = static_cast<std::size_t>(unit);
        if (--gradients_left[u] > 0) continue;
        ready.push_back(u);
        builder.order(exchange.overlap == Overlap::kNone ? last : kernels.last[k], collectives[u]);
      }
  }
  const OperationIndex update = builder.add({.kind = OperationKind::kUpdate});
  for (const std::size_t u : ready) builder.order(collectives[u], update);
  if (ready.empty()) builder.order(last, update);
  const OperationIndex fence = builder.add({.kind = OperationKind::kFence});
  if (is_forward) {
    builder.order(last, fence);
  } else {
    const OperationIndex optimizer = builder.add({.kind = OperationKind::kDelay, .time = plan.update});
    builder.order(last, optimizer);
    builder.order(update, optimizer);
    builder.order(optimizer, fence);
  }
  return builder.finish();
}

}  // namespace rehearse
