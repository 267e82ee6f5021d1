#include "sim/training/compile.hpp"

#include <map>
#include <utility>

#include "sim/scenario/step_time.hpp"
#include "sim/scenario/strategy_words.hpp"

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
  const Group& group = scenario.first_workers();
  const ComputePlan plan = plan_step(scenario, group);
  const int passes = scenario.training.strategy.exchange.accumulation_steps;
  std::vector<std::string> kernels;
  for (const Operator& kernel : scenario.workload_of(group).graph) kernels.push_back(kernel.name);
  if (scenario.training.strategy.pipeline() != nullptr) {
    const PipelineStages stages = cut_into_stages(scenario);
    return to_text(compile_pipeline(scenario, plan_stage(plan, stages, 0, scenario.workload), stages,
                                    plan_pipeline_exchange(scenario, stages), 0),
                   kernels);
  }
  if (std::holds_alternative<AllReduceStrategy>(scenario.training.strategy.kind))
    return to_text(compile_step(scenario, plan, passes, plan_gradient_units(scenario, 0)), kernels);
  const Site site{scenario};
  const GradientUnits units = plan_gradient_units(scenario, static_cast<int>(site.servers.size()));
  const MachineIndex first = site.workers.front().front().machine;
  return to_text(
      compile_step(scenario, plan, passes, units, team_places(site, first, units).front(), FirstVariables::kPushed),
      kernels);
} catch (const RunError& error) { throw scenario.no_result(error); }

}  // namespace rehearse
