#include "sim/training/compile.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/training/cluster_step.hpp"

namespace rehearse {

namespace {

/// Adds kernels and exchanges, one after the other.
class KernelWriter {
 public:
  KernelWriter(ProgramBuilder& builder, int stream, const GroupNumbers& groups, std::int64_t repeat = 1)
      : builder_{builder}, stream_{stream}, groups_{groups}, repeat_{repeat}, stretch_{builder.next()} {}

  OperationIndex exchange(const PlannedKernel& kernel, int label) {
    wait_on_host(kernel);
    end_stretch();
    const OperationIndex added = builder_.add(Collective{.kind = kernel.exchange->kind,
                                                         .group = groups_.of(kernel.exchange->among),
                                                         .label = label,
                                                         .bytes = kernel.exchange->bytes,
                                                         .of = kernel.exchange->of});
    stretch_ = builder_.next();
    host_ += kernel.dispatch;
    if (kernel_before_ >= 0) builder_.order(kernel_before_, added);
    wait_for_exchanges(kernel.vertex, added);
    for (const int vertex : kernel.exchange->read_by) awaited_[vertex].push_back(added);
    return added;
  }

  OperationIndex kernel(const PlannedKernel& kernel) {
    wait_on_host(kernel);
    kernel_before_ = builder_.add(Compute{.stream = stream_,
                                          .is_dispatched_ahead = awaited_.contains(kernel.vertex),
                                          .label = kernel.vertex,
                                          .host = std::exchange(host_, {}) + kernel.dispatch,
                                          .time = kernel.time.total,
                                          .memory = kernel.time.memory});
    wait_for_exchanges(kernel.vertex, kernel_before_);
    return kernel_before_;
  }

  void end_stretch() {
    if (builder_.next() > stretch_) builder_.add_stretch(stream_, stretch_, repeat_);
  }

 private:
  /// A kernel of no time, which is dispatched when the GPU has run what is before it.
  void wait_on_host(const PlannedKernel& kernel) {
    if (kernel.host_wait == Seconds{}) return;
    const OperationIndex waited = builder_.add(
        Compute{.stream = stream_, .label = kernel.vertex, .host = std::exchange(host_, {}) + kernel.host_wait});
    if (kernel_before_ >= 0) builder_.order(kernel_before_, waited);
    kernel_before_ = waited;
  }

  void wait_for_exchanges(int vertex, OperationIndex waiting) {
    const auto its = awaited_.find(vertex);
    if (its == awaited_.end()) return;
    for (const OperationIndex exchange : its->second) builder_.order(exchange, waiting);
  }

  ProgramBuilder& builder_;
  int stream_;
  const GroupNumbers& groups_;
  std::int64_t repeat_;
  OperationIndex stretch_, kernel_before_ = -1;
  std::map<int, std::vector<OperationIndex>> awaited_;  // by vertex, by which it waits for them
  Seconds host_{};
};

constexpr std::array kAxes{Axis::kTensor, Axis::kHeads, Axis::kPositions, Axis::kExperts,
                           Axis::kExpertMachines};  // by SplitGroup

}  // namespace

Axis axis_of(SplitGroup group) { return kAxes[static_cast<std::size_t>(group)]; }

GroupNumbers group_numbers(const Scenario& scenario) {
  const RankGrid grid = rank_grid(scenario), of_experts = expert_grid(scenario);
  const ExpertSplit& experts = scenario.model.expert_split;
  GroupNumbers numbers;
  for (std::size_t group = 0; group < kSplitGroups; ++group) {
    const bool is_of_experts = kAxes[group] == Axis::kExperts || kAxes[group] == Axis::kExpertMachines;
    if ((is_of_experts ? of_experts : grid).degree(kAxes[group]) > 1) numbers.split[group] = numbers.own++;
  }
  if (grid.degree(Axis::kReplica) > 1) numbers.replicas = numbers.own++;
  if (experts.degree > 0) numbers.of_experts = numbers.own++;
  return numbers;
}

int count_exchanges(const ComputePlan& plan) {
  return static_cast<int>(
      std::ranges::count_if(plan.kernels, [](const PlannedKernel& kernel) { return kernel.exchange.has_value(); }));
}

std::vector<std::string> exchange_labels(const ComputePlan& plan, const OperatorGraph& graph, int passes) {
  std::vector<std::string> labels;
  for (int pass = 0; pass < passes; ++pass)
    for (const PlannedKernel& kernel : plan.kernels)
      if (kernel.exchange)
        labels.push_back(graph[at(kernel.vertex)].name() + (pass > 0 ? ", pass " + std::to_string(pass + 1) : ""));
  return labels;
}

OperationIndex add_samples(ProgramBuilder& builder, const ComputePlan& plan, int passes, OperationIndex begin,
                           int priority) {
  const OperationIndex copy = builder.add(Copy{.label = Copy::kSamples, .priority = priority, .bytes = plan.input});
  if (plan.load == Seconds{}) {
    builder.order(begin, copy);
    return copy;
  }
  const OperationIndex load = builder.add(Delay{.time = plan.load * static_cast<double>(passes)});
  OperationIndex await = load;
  if (plan.loads_ahead) {
    const int loaded = builder.new_counter();
    builder.signal(load, {.counter = loaded});
    await = builder.add(Gate{.counter = loaded, .lag = 1});
    builder.order(await, load);
  }
  builder.order(begin, await);
  builder.order(await, copy);
  builder.program().awaits_samples = await;
  builder.program().copies_samples = copy;
  return copy;
}

Bytes partial_gradients(const Scenario& scenario, const std::vector<bool>& chosen) {
  std::int64_t scalars = 0;
  for (std::size_t v = 0; v < chosen.size(); ++v) {
    const Variable& variable = scenario.workload.variables[v];
    if (chosen[v] && variable.is_trainable && variable.has_partial_gradient) scalars += variable.scalars();
  }
  return Bytes{scalars * gradient_bytes(scenario.states)};
}

std::vector<OperationIndex> add_behind(ProgramBuilder& builder, const Collective& collective,
                                       std::vector<OperationIndex> reduced, OperationIndex last) {
  const OperationIndex added = builder.add(collective);
  reduced.push_back(last);
  for (const OperationIndex before : reduced) builder.order(before, added);
  return {added};
}

std::vector<OperationIndex> add_gradient_norm(ProgramBuilder& builder, const std::vector<int>& groups, int label,
                                              std::vector<OperationIndex> reduced, OperationIndex last) {
  for (const int group : groups)
    reduced = add_behind(builder, {.group = group, .label = label++, .bytes = kSquares}, std::move(reduced), last);
  return reduced;
}

std::vector<std::vector<OperationIndex>> compile_in_turns(ProgramBuilder& builder,
                                                          const std::vector<PassKernels>& passes, int stream,
                                                          const GroupNumbers& groups, std::int64_t repeat) {
  KernelWriter writer{builder, stream, groups, repeat};
  std::vector<std::vector<OperationIndex>> added(passes.size());
  std::vector<int> labels;
  for (const PassKernels& pass : passes) labels.push_back(pass.first_label);
  /// Those up to the next exchanges, with them; whether any are left.
  const auto go_on = [&](std::size_t p) {
    const std::vector<PlannedKernel>& kernels = passes[p].plan->kernels;
    for (bool has_exchanged = false; added[p].size() < kernels.size();) {
      const PlannedKernel& next = kernels[added[p].size()];
      if (has_exchanged && !next.exchange) return true;
      has_exchanged = next.exchange.has_value();
      added[p].push_back(has_exchanged ? writer.exchange(next, labels[p]++) : writer.kernel(next));
    }
    return false;
  };
  for (bool is_left = true; std::exchange(is_left, false);)
    for (std::size_t p = 0; p < passes.size(); ++p) is_left = go_on(p) || is_left;
  writer.end_stretch();
  return added;
}

namespace {

std::vector<OperationIndex> compile_pass(ProgramBuilder& builder, const ComputePlan& plan, int stream,
                                         const GroupNumbers& groups, int first_label, std::int64_t repeat = 1) {
  if (plan.kernels.empty()) builder.add_stretch(stream, builder.next(), repeat);
  return std::move(compile_in_turns(builder, {{&plan, first_label}}, stream, groups, repeat).front());
}

}  // namespace

CompiledKernels compile_kernels(ProgramBuilder& builder, const ComputePlan& plan, int passes, int stream,
                                const GroupNumbers& groups, int first_label) {
  CompiledKernels compiled;
  if (const int exchanges = count_exchanges(plan); exchanges > 0) {
    for (int pass = 0; pass < passes; ++pass) {
      const std::vector<OperationIndex> before =
          std::exchange(compiled.last, compile_pass(builder, plan, stream, groups, first_label + pass * exchanges));
      if (pass == 0)
        compiled.first = compiled.last;
      else
        builder.order(before.back(), compiled.last.front());
    }
    return compiled;
  }
  compiled.first = compile_pass(builder, plan, stream, groups, first_label);
  if (passes > 2) (void)compile_pass(builder, plan, stream, groups, first_label, passes - 2);
  compiled.last = passes > 1 ? compile_pass(builder, plan, stream, groups, first_label) : compiled.first;
  return compiled;
}

std::string program_text(const Scenario& scenario) try {
  const Site site{scenario};
  StepCompiler compiler{site};
  const ClusterStep step = compiler.step();
  return to_text(compiler.program(step.workers.front()), compiler.kernels(0));
} catch (const RunError& error) { throw scenario.no_result(error); }

}  // namespace rehearse
