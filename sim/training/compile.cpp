#include "sim/training/compile.hpp"

#include <map>
#include <utility>

#include "sim/scenario/strategy_words.hpp"
#include "sim/training/step_programs.hpp"

namespace rehearse {

namespace {

std::map<std::string, LockstepStrategy>& strategies() {
  static std::map<std::string, LockstepStrategy> all;
  return all;
}

}  // namespace

void register_strategy(const std::string& word, LockstepStrategy strategy) {
  add_strategy_word(word, strategy.title);
  strategies().emplace(word, std::move(strategy));
}

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

Program compile_step(const Scenario& scenario, const ComputePlan& plan, int passes, const GradientUnits& units) {
  const auto& strategy = std::get<AllReduceStrategy>(scenario.training.strategy.kind);
  if (!strategy.registered_as.empty())
    return strategies().at(strategy.registered_as).compile(plan, passes, units, scenario.training.strategy.exchange);
  return compile_all_reduce(plan, passes, units, scenario.training.strategy);
}

Program compile_step(const Scenario& scenario, const ComputePlan& plan, int passes, const GradientUnits& units,
                     const TeamPlace& place, FirstVariables first) {
  return std::holds_alternative<ParameterServerStrategy>(scenario.training.strategy.kind)
             ? compile_parameter_server(scenario, plan, passes, units, place, first)
             : compile_pairwise(plan, passes, scenario.workload.parameter_bytes(), place.gpus);
}

std::string program_text(const Scenario& scenario) try {
  StepPrograms programs{scenario};
  return to_text(programs.program(0), programs.kernels(0));
} catch (const RunError& error) { throw scenario.no_result(error); }

}  // namespace rehearse
