// Decentralized training: in each step a worker computes its gradients and, at the same time, fetches the model of a
// random other worker; when it has both it averages the two models, applies its gradients, and goes on. Nobody waits.
//
//   host     step_overhead, the samples go to the GPU
//   fetch    request (L), then the whole model from GPU to GPU (+ L), one model at a time between each two workers
//   compute  forward and backward; several GPUs of a worker add up their gradients, and share what is fetched
//   end      the later of the two, and the optimizer
//
// Source: Lian et al., Asynchronous Decentralized Parallel Stochastic Gradient Descent, ICML 2018.

#include "sim/training/strategy_compiler.hpp"

namespace rehearse {

namespace {

/// Connections are those from the first of several GPUs to the others, and group 0 are all of them.
Program compile_pairwise(const ComputePlan& plan, int passes, Bytes model, int gpus) {
  ProgramBuilder builder;
  builder.program().labels = {"model", "gradients"};
  const OperationIndex host = builder.add(Delay{.time = plan.step_overhead});
  const OperationIndex fetch = builder.add(Fetch{.bytes = model});
  const OperationIndex input = add_samples(builder, plan, passes, host);
  const OperationIndex begin = builder.add(BeginKernels{});
  const OperationIndex update = builder.add(Delay{.time = plan.update});
  const OperationIndex fence = builder.add(Fence{});
  const OperationIndex next = builder.add(NextStep{});
  const CompiledKernels kernels = compile_kernels(builder, plan, passes, 0);
  builder.program().has_variables = update;
  builder.order(host, fetch);
  builder.order(input, begin);
  if (!kernels.first.empty()) builder.order(begin, kernels.first.front());
  builder.order(kernels.last.empty() ? begin : kernels.last.back(), update);
  builder.order(fetch, update);
  for (int other = 1; other < gpus; ++other) {
    const OperationIndex sent = builder.add(Send{.connection = other - 1, .bytes = model});
    builder.order(fetch, sent);
    builder.order(sent, update);
  }
  if (gpus > 1) {
    const OperationIndex added = builder.add(Collective{.label = 1, .bytes = model});
    builder.order(kernels.last.empty() ? begin : kernels.last.back(), added);
    builder.order(added, update);
  }
  builder.order(update, fence);
  builder.order(fence, next);
  return builder.finish();
}

class PairwiseCompiler final : public StrategyCompiler {
 public:
  using StrategyCompiler::StrategyCompiler;

  int alike(int worker) const override { return static_cast<int>(gpus(worker).size()); }

  Program compile(const WorkerStep& step, FirstVariables) const override {
    return compile_pairwise(*step.plan, step.passes, scenario().workload.parameter_bytes(), alike(step.worker));
  }

  std::vector<Wire> wires(int worker) const override {
    std::vector<Wire> wires;
    for (std::size_t i = 1; i < gpus(worker).size(); ++i)
      wires.push_back({worker, worker, gpus(worker).front(), gpus(worker)[i]});
    return wires;
  }

  std::vector<WorkerGroup> groups() const override {
    std::vector<WorkerGroup> groups;
    for (int worker = 0; worker < workers(); ++worker)
      if (gpus(worker).size() > 1) groups.push_back({"GPUs of a worker", {worker}});
    return groups;
  }

  /// Models come meanwhile.
  bool copies_are_alone(int worker) const override { return workers() == 1 && gpus(worker).size() == 1; }
};

}  // namespace

std::unique_ptr<StrategyCompiler> pairwise_compiler(const Site& site) {
  return std::make_unique<PairwiseCompiler>(site);
}

}  // namespace rehearse
