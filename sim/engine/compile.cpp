#include "sim/engine/compile.hpp"

#include "sim/base/errors.hpp"
#include "sim/engine/step_time.hpp"

namespace rehearse {

CompiledKernels compile_kernels(ProgramBuilder& builder, const ComputePlan& plan, int passes, int stream) {
  CompiledKernels compiled;
  const auto add_pass = [&](std::int64_t repeat) {
    std::vector<OperationIndex> added;
    const auto begin = static_cast<OperationIndex>(builder.program().operations.size());
    for (const PlannedKernel& kernel : plan.kernels)
      added.push_back(builder.add({.kind = OperationKind::kCompute,
                                   .resource = stream,
                                   .label = kernel.vertex,
                                   .host = kernel.dispatch,
                                   .time = kernel.time.total,
                                   .critical = kernel.dispatch + kernel.time.total,
                                   .memory = kernel.time.memory}));
    builder.add_stretch(stream, begin, repeat);
    return added;
  };
  compiled.first = add_pass(1);
  if (passes > 2) (void)add_pass(passes - 2);
  compiled.last = passes > 1 ? add_pass(1) : compiled.first;
  return compiled;
}

Program compile_step(const Scenario& scenario, const ComputePlan& plan, int passes, const GradientUnits& units) {
  const auto& strategy = std::get<AllReduceStrategy>(scenario.training.strategy.kind);
  const GradientExchange& exchange = scenario.training.strategy.exchange;
  return strategy.sharding == Sharding::kNone ? compile_data_parallel(plan, passes, units, exchange)
                                              : compile_sharded(plan, passes, units, exchange, strategy);
}

std::string program_text(const Scenario& scenario) try {
  const Strategy& strategy = scenario.training.strategy;
  if (!std::holds_alternative<AllReduceStrategy>(strategy.kind))
    throw InputError{scenario.file_name +
                     ": /training/strategy/kind: expected \"all_reduce\" to print a program; found " +
                     describe_strategy(strategy)};
  const Group& group = scenario.first_workers();
  const Program program = compile_step(scenario, plan_step(scenario, group), strategy.exchange.accumulation_steps,
                                       plan_gradient_units(scenario, 0));
  std::vector<std::string> kernels;
  for (const Operator& kernel : scenario.workload_of(group).graph) kernels.push_back(kernel.name);
  return to_text(program, kernels);
} catch (const RunError& error) { throw scenario.no_result(error); }

}  // namespace rehearse
