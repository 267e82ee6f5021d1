// Synchronous data-parallel training by collectives. A worker's step:
//
//   host        step_overhead, the samples go to the GPU
//   compute     forward and backward, in each pass
//   collective  of each unit of gradients (gradient_units.hpp), once the last of its gradients is there at all workers:
//               one at a time, in the order in which they become ready, or by priority; with a cycle time, what is
//               ready at the end of a cycle is fused
//   update      the optimizer, when every unit is reduced; then the next step begins
//
// Where workers compute each layer together (tensor and context parallelism), kernels wait for the sums and gatherings among them,
// which are operators of the graph; behind all other reductions they add up the gradients of which each has a part.
//
// With forward overlap a worker begins its next step as soon as its own kernels have run, and each kernel waits for the
// variables that it reads.
//
// Of n sharded workers each keeps only its part of the optimizer's slots, of the gradients, or of the variables
// (scenario.hpp, Sharding):
//
//   gather          with sharded variables, before the forward kernels that read a unit and again before its backward
//                   kernels, some units ahead; the last one of the forward pass is kept for the backward pass
//   reduce-scatter  of a unit, once its gradients are there; with sharded gradients in each pass
//   update          of the worker's part, 1 / n of the time
//   gather          of each unit, where variables are not sharded
//
// Where only groups of them share the states, each adds up its part with its likes in other groups, behind the reduce-scatter
// (Zhang et al., MiCS, VLDB 2022; hybrid sharding of Zhao et al.).
//
// Each sends and receives, of S bytes of variables, (n - 1) / n S in each gathering and each reduction: in all 2 of
// them, or 3 with sharded variables. Source: Rajbhandari et al., ZeRO, SC 2020, section 7; Zhao et al., PyTorch FSDP,
// VLDB 2023.

#include <algorithm>
#include <cstddef>

#include "sim/base/errors.hpp"
#include "sim/training/strategy_compiler.hpp"
#include "sim/training/unit_exchange.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostOperations = 20'000'000;

/// Copies of activations to the host and back, in a pass whose kernels these are; labels from `first_label` on.
void add_offloaded(ProgramBuilder& builder, const ComputePlan& plan, const std::vector<OperationIndex>& kernels,
                   int first_label) {
  const auto kernel = [&](int vertex) {
    return kernels[static_cast<std::size_t>(std::ranges::lower_bound(plan.kernels, vertex, {}, &PlannedKernel::vertex) -
                                            plan.kernels.begin())];
  };
  int label = first_label;
  for (const OffloadedLayer& layer : plan.offloaded) {
    const auto copy = [&](CopyDirection direction, int after, int awaited_by) {
      const OperationIndex added = builder.add(Copy{.direction = direction, .label = label, .bytes = layer.bytes});
      builder.order(kernel(after), added);
      if (awaited_by >= 0) builder.order(added, kernel(awaited_by));
      return added;
    };
    const OperationIndex down = copy(CopyDirection::kFromGpu, layer.last_forward, layer.awaited_by);
    builder.order(down, copy(CopyDirection::kToGpu, layer.backward_before, layer.first_backward));
    ++label;
  }
}

}  // namespace

Program compile_all_reduce(const ComputePlan& plan, int passes, const GradientUnits& units, const Strategy& strategy,
                           const SplitLayers& split, int sharing_workers) {
  const int separate = UnitExchange::exchanges_each_pass(strategy, passes) || !plan.offloaded.empty()
                           ? passes
                           : 1;  // the others are one of several
  const int written = count_exchanges(plan) > 0 ? passes : separate;
  if (UnitExchange::count(units, strategy, passes) + static_cast<std::size_t>(written) * plan.kernels.size() >
      kMostOperations)
    throw RunError{"/training/strategy/accumulation_steps",
                   "a step of more than 20000000 operations, as every pass exchanges what is sharded, or split"};
  ProgramBuilder builder;
  builder.program().labels = UnitExchange::labels(units, strategy, passes);
  const int first_offloaded = static_cast<int>(builder.program().labels.size());
  for (const OffloadedLayer& layer : plan.offloaded) builder.program().labels.push_back("activations of " + layer.name);
  const int exchanges = count_exchanges(plan), first_exchange = static_cast<int>(builder.program().labels.size());
  builder.program().labels.insert(builder.program().labels.end(), split.labels.begin(), split.labels.end());
  UnitExchange exchange{builder,
                        plan.kernels,
                        units,
                        strategy,
                        {.passes = passes,
                         .groups = {.replicas = split.groups.replicas,
                                    .sharing_workers = sharing_workers,
                                    .of_experts = split.groups.of_experts}}};
  const OperationIndex host = builder.add(Delay{.time = plan.step_overhead});
  const OperationIndex input = add_samples(builder, plan, passes, host);
  const OperationIndex begin = builder.add(BeginKernels{});
  builder.order(input, begin);
  OperationIndex last = begin;
  std::vector<OperationIndex> reduced, of_pass;
  for (int pass = 0; pass < separate; ++pass) {
    const CompiledKernels kernels =
        compile_kernels(builder, plan, passes / separate, 0, split.groups, first_exchange + pass * exchanges);
    if (!kernels.first.empty()) {
      builder.order(last, kernels.first.front());
      if (strategy.exchange.overlap == Overlap::kNone)
        for (const OperationIndex before : of_pass) builder.order(before, kernels.first.front());
    }
    exchange.wait_for_units(kernels.first, last, pass);
    add_offloaded(builder, plan, kernels.first, first_offloaded);
    if (!kernels.last.empty()) last = kernels.last.back();
    if (!UnitExchange::reduces_each_pass(strategy, passes) && pass + 1 < separate) continue;
    of_pass = exchange.reduce(kernels.last, last, pass);
    reduced.insert(reduced.end(), of_pass.begin(), of_pass.end());
  }
  const std::vector<OperationIndex> on_host = exchange.copy_to_host(plan, reduced);
  if (split.partial_gradients > Bytes{})
    reduced = add_behind(builder,
                         {.group = split.groups.of(SplitGroup::kTensor),
                          .label = static_cast<int>(builder.program().labels.size()) - 1,
                          .bytes = split.partial_gradients},
                         reduced, last);
  if (const CollectiveRules& rules = *strategy.kind->collectives(); rules.has_gradient_norm) {
    std::vector<int> groups;
    for (const SplitGroup parts : {SplitGroup::kTensor, SplitGroup::kExperts, SplitGroup::kExpertMachines})
      if (split.groups.has(parts)) groups.push_back(split.groups.of(parts));
    if (rules.sharding != Sharding::kNone) groups.push_back(0);
    const int label = static_cast<int>(builder.program().labels.size());
    builder.program().labels.resize(builder.program().labels.size() + groups.size(), "norm of gradients");
    reduced = add_gradient_norm(builder, groups, label, reduced, last);
  }
  reduced.insert(reduced.end(), on_host.begin(), on_host.end());
  exchange.end_step(plan, reduced, last);
  return builder.finish();
}

namespace {

class AllReduceCompiler final : public StrategyCompiler {
 public:
  explicit AllReduceCompiler(const Site& site) : StrategyCompiler{site}, units_{plan_gradient_units(scenario(), 0)} {}

  Program compile(const WorkerStep& step, FirstVariables) const override {
    SplitLayers split{.groups = group_numbers(scenario())};
    if (count_exchanges(*step.plan) > 0) {
      split.labels = exchange_labels(*step.plan, scenario().workload.graph, step.passes);
      split.labels.emplace_back("gradients of what is not split");
      split.partial_gradients =
          partial_gradients(scenario(), std::vector<bool>(scenario().workload.variables.size(), true));
    }
    return compile_all_reduce(*step.plan, step.passes, units_, scenario().training.strategy, split,
                              grid().degree(kSharingAxes));
  }

 private:
  GradientUnits units_;
};

}  // namespace

std::unique_ptr<StrategyCompiler> all_reduce_compiler(const Site& site) {
  return std::make_unique<AllReduceCompiler>(site);
}

}  // namespace rehearse
