#include "sim/training/compile.hpp"

#include <map>
#include <utility>

#include "sim/scenario/strategy_words.hpp"
#include "sim/training/cluster_step.hpp"

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

namespace {

/// Workers that all do the same, and meet in collectives of all.
class DataParallel final : public StrategyCompiler {
 public:
  explicit DataParallel(const Site& site)
      : StrategyCompiler{site},
        units_{plan_gradient_units(scenario(), 0)},
        registered_as_{std::get<AllReduceStrategy>(scenario().training.strategy.kind).registered_as} {}

  std::vector<WorkerGroup> groups() const override { return {{"data", all_workers()}}; }

  Program compile(const WorkerStep& step, FirstVariables) const override {
    const Strategy& strategy = scenario().training.strategy;
    if (!registered_as_.empty())
      return strategies().at(registered_as_).compile(*step.plan, step.passes, units_, strategy.exchange);
    return compile_all_reduce(*step.plan, step.passes, units_, strategy);
  }

 private:
  GradientUnits units_;
  const std::string& registered_as_;
};

}  // namespace

std::unique_ptr<StrategyCompiler> all_reduce_compiler(const Site& site) { return std::make_unique<DataParallel>(site); }

std::unique_ptr<StrategyCompiler> strategy_compiler(const Site& site) {
  const Strategy& strategy = site.scenario.training.strategy;
  if (std::holds_alternative<ParameterServerStrategy>(strategy.kind)) return parameter_server_compiler(site);
  if (std::holds_alternative<PairwiseAveragingStrategy>(strategy.kind)) return pairwise_compiler(site);
  return strategy.pipeline() != nullptr ? pipeline_compiler(site) : all_reduce_compiler(site);
}

std::string program_text(const Scenario& scenario) try {
  const Site site{scenario};
  StepCompiler compiler{site};
  const ClusterStep step = compiler.step();
  return to_text(compiler.program(step.workers.front()), compiler.kernels(0));
} catch (const RunError& error) { throw scenario.no_result(error); }

}  // namespace rehearse
