#include "sim/training/compile.hpp"

#include "sim/training/step_programs.hpp"

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
  return compile_step(scenario, plan, passes, units, TeamPlace{}, FirstVariables::kPushed);
}

Program compile_step(const Scenario& scenario, const ComputePlan& plan, int passes, const GradientUnits& units,
                     const TeamPlace& place, FirstVariables first) {
  return scenario.training.strategy.kind->compile({scenario, plan, passes, units, place, first});
}

std::string program_text(const Scenario& scenario) try {
  StepPrograms programs{scenario};
  return to_text(programs.program(0), programs.kernels(0));
} catch (const RunError& error) { throw scenario.no_result(error); }

}  // namespace rehearse
