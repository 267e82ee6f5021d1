#include "sim/training/compile.hpp"

#include "sim/training/cluster_step.hpp"

namespace rehearse {

CompiledKernels compile_kernels(ProgramBuilder& builder, const ComputePlan& plan, int passes, int stream) {
  CompiledKernels compiled;
  const auto add_pass = [&](std::int64_t repeat) {
    std::vector<OperationIndex> added;
    const OperationIndex begin = builder.next();
    for (const PlannedKernel& kernel : plan.kernels)
      added.push_back(builder.add(Compute{.stream = stream,
                                          .label = kernel.vertex,
                                          .host = kernel.dispatch,
                                          .time = kernel.time.total,
                                          .memory = kernel.time.memory}));
    builder.add_stretch(stream, begin, repeat);
    return added;
  };
  compiled.first = add_pass(1);
  if (passes > 2) (void)add_pass(passes - 2);
  compiled.last = passes > 1 ? add_pass(1) : compiled.first;
  return compiled;
}

std::string program_text(const Scenario& scenario) try {
  const Site site{scenario};
  StepCompiler compiler{site};
  const ClusterStep step = compiler.step();
  return to_text(compiler.program(step.workers.front()), compiler.kernels(0));
} catch (const RunError& error) { throw scenario.no_result(error); }

}  // namespace rehearse
