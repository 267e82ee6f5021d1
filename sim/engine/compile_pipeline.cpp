// Synchronous training by pipelines of p workers, each of which is a stage of the model (pipeline_stages.hpp), and data
// parallel outside: the same stage of all pipelines adds up its gradients. A step of stage s takes m micro-batches:
//
//   forward     after the activations of the stage before have come; its own go to the next one
//   backward    after the gradients of the next stage's input have come; those of its own input go to the one before
//   collective  of each unit of the stage's gradients, once the last micro-batch has completed it; then, of variables
//               that several stages hold (tied embeddings), among these
//   update      of the stage's variables; the step ends when all stages have updated theirs
//
// The GPUs of a worker share each micro-batch, and add up their gradients with those of the other pipelines.
//
// Kernels run in the order of the schedule: all m forward passes and then the backward ones (GPipe), or p - 1 - s
// forward passes and then a forward and a backward one in turns (1F1B). Sending does not hold them up. With equal
// stages and a network that takes no time both take m + p - 1 times as long as a micro-batch on a stage, of which it
// works m times. Sources: Huang et al., GPipe, NeurIPS 2019; Narayanan et al., PipeDream-2BW, ICML 2021, and SC 2021,
// section 2.2.

#include <algorithm>
#include <cstddef>

#include "sim/base/errors.hpp"
#include "sim/engine/compile.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostOperations = 5'000'000;  // kernels and messages of a pipeline

class PipelineCompiler {
 public:
  PipelineCompiler(const Scenario& scenario, const ComputePlan& plan, const PipelineStages& stages,
                   const PipelineExchange& exchange, int stage)
      : plan_{plan},
        rules_{scenario.training.strategy.exchange},
        pipeline_{*scenario.training.strategy.pipeline()},
        stages_{stages},
        exchange_{exchange},
        stage_{stage},
        microbatches_{rules_.accumulation_steps},
        gpus_{scenario.first_workers().gpus_per_worker},
        is_last_{stage + 1 == pipeline_.stages} {
    const OperatorGraph& graph = scenario.workload.graph;
    const std::size_t each = graph.size() + 4 * static_cast<std::size_t>(pipeline_.stages);
    if (static_cast<std::size_t>(microbatches_) * each > kMostOperations)
      throw RunError{"/training/strategy/pipeline/microbatches",
                     "a step of more than 5000000 kernels and messages of a pipeline"};
    for (const PlannedKernel& kernel : plan.kernels)
      (graph[static_cast<std::size_t>(kernel.vertex)].phase == Phase::kForward ? forward_ : backward_)
          .kernels.push_back(kernel);
    builder_.program().labels = exchange.labels;
  }

  Program compile() {
    begin();
    const int first = pipeline_.schedule == PipelineSchedule::kGpipe
                          ? microbatches_
                          : std::min(microbatches_, pipeline_.stages - 1 - stage_);
    for (int i = 0; i < first; ++i) run_forward(i);
    for (int i = first; i < microbatches_; ++i) {
      run_forward(i);
      run_backward(i - first);
    }
    for (int i = microbatches_ - first; i < microbatches_; ++i) run_backward(i);
    finish(reduce());
    return builder_.finish();
  }

 private:
  void begin() {
    last_ = builder_.add({.kind = OperationKind::kDelay, .time = plan_.step_overhead});
    if (stage_ == 0)
      last_ = after(last_, builder_.add({.kind = OperationKind::kCopy, .label = -1, .bytes = plan_.input}));
    begin_ = last_ = after(last_, builder_.add({.kind = OperationKind::kBegin}));
  }

  OperationIndex after(OperationIndex earlier, OperationIndex later) {
    builder_.order(earlier, later);
    return later;
  }

  /// Of the team: one for each message of a step.
  int counter_of(int cut, bool is_gradient, int microbatch) const {
    return (2 * cut + (is_gradient ? 1 : 0)) * microbatches_ + microbatch;
  }

  void run_forward(int microbatch) {
    run(forward_, stage_ > 0 ? counter_of(stage_ - 1, false, microbatch) : -1);
    if (!is_last_) send(stage_, false, microbatch, stage_ > 0 ? 1 : 0);
  }

  void run_backward(int microbatch) {
    run(backward_, is_last_ ? -1 : counter_of(stage_, true, microbatch));
    if (stage_ > 0) send(stage_ - 1, true, microbatch, 0);
  }

  /// The kernels of a pass, once a message has come.
  void run(const ComputePlan& pass, int counter) {
    OperationIndex before = last_ == begin_ ? begin_ : -1;
    if (counter >= 0)
      before =
          after(begin_,
                builder_.add(
                    {.kind = OperationKind::kGate, .scope = CounterScope::kTeam, .resource = counter, .each = gpus_}));
    latest_ = compile_kernels(builder_, pass, 1, 0).first;
    if (before >= 0 && !latest_.empty()) builder_.order(before, latest_.front());
    if (!latest_.empty())
      last_ = latest_.back();
    else if (counter >= 0)
      last_ = after(last_, before);
  }

  /// What has just been computed: each GPU sends its part to its like.
  void send(int cut, bool is_gradient, int microbatch, int connection) {
    for (int gpu = 0; gpu < gpus_; ++gpu)
      after(last_, builder_.add({.kind = OperationKind::kSend,
                                 .signal_scope = CounterScope::kTeam,
                                 .resource = connection * gpus_ + gpu,
                                 .label = 2 * cut + (is_gradient ? 1 : 0),
                                 .signals = counter_of(cut, is_gradient, microbatch),
                                 .bytes = stages_.passed[static_cast<std::size_t>(cut)]}));
  }

  OperationIndex collective(int group, int label, int priority, Bytes bytes) {
    return builder_.add({.kind = OperationKind::kCollective,
                         .resource = group,
                         .label = label,
                         .priority = rules_.order == Order::kPriority ? priority : 0,
                         .bytes = bytes});
  }

  /// Of all gradients of the stage. `latest_` are the kernels of the last micro-batch's backward pass.
  std::vector<OperationIndex> reduce() {
    int label = 2 * (pipeline_.stages - 1);
    for (int s = 0; s < stage_; ++s)
      label += static_cast<int>(exchange_.units[static_cast<std::size_t>(s)].units.size());
    const GradientUnits& units = exchange_.units[static_cast<std::size_t>(stage_)];
    std::vector<OperationIndex> ready(units.units.size(), last_), reduced;
    std::vector<std::size_t> gradients_left;
    for (const GradientUnit& unit : units.units) gradients_left.push_back(unit.variables.size());
    for (std::size_t k = 0; rules_.overlap != Overlap::kNone && k < latest_.size(); ++k)
      for (const int variable : backward_.kernels[k].completes)
        for (const int unit : units.of_variable[static_cast<std::size_t>(variable)])
          if (const auto u = static_cast<std::size_t>(unit); --gradients_left[u] == 0) ready[u] = latest_[k];
    for (std::size_t u = 0; u < units.units.size(); ++u)
      reduced.push_back(
          after(ready[u], collective(0, label++, units.units[u].first_use, units.units[u].gradient_bytes)));
    label = 2 * (pipeline_.stages - 1);
    for (const GradientUnits& of_stage : exchange_.units) label += static_cast<int>(of_stage.units.size());
    const std::size_t own = reduced.size();
    int group = 1;
    for (const PipelineExchange::Copies& copies : exchange_.copies) {
      const int its_label = label++;
      if (std::find(copies.stages.begin(), copies.stages.end(), stage_) == copies.stages.end()) continue;
      reduced.push_back(collective(group++, its_label, 0, copies.gradient_bytes));
      for (std::size_t u = 0; u < own; ++u)
        if (const std::vector<int>& in = units.units[u].variables;
            std::find_first_of(in.begin(), in.end(), copies.variables.begin(), copies.variables.end()) != in.end())
          builder_.order(reduced[u], reduced.back());
    }
    return reduced;
  }

  void finish(const std::vector<OperationIndex>& reduced) {
    const OperationIndex update = after(last_, builder_.add({.kind = OperationKind::kUpdate}));
    for (const OperationIndex unit : reduced) builder_.order(unit, update);
    const OperationIndex optimizer = after(update, builder_.add({.kind = OperationKind::kDelay, .time = plan_.update}));
    (void)after(optimizer, builder_.add({.kind = OperationKind::kFence}));
  }

  const ComputePlan& plan_;
  const GradientExchange& rules_;
  const Pipeline& pipeline_;
  const PipelineStages& stages_;
  const PipelineExchange& exchange_;
  int stage_, microbatches_, gpus_;
  bool is_last_;
  ComputePlan forward_, backward_;
  ProgramBuilder builder_;
  OperationIndex begin_ = 0, last_ = 0;  // the latest operation besides messages
  std::vector<OperationIndex> latest_;   // kernels of the latest pass
};

}  // namespace

PipelineExchange plan_pipeline_exchange(const Scenario& scenario, const PipelineStages& stages) {
  const std::vector<Variable>& variables = scenario.workload.variables;
  PipelineExchange exchange;
  const std::size_t count = stages.variables.size();
  for (std::size_t s = 0; s + 1 < count; ++s) {
    const std::string after = " after stage " + std::to_string(s + 1);
    exchange.labels.push_back("activations" + after);
    exchange.labels.push_back("gradients" + after);
  }
  for (std::size_t s = 0; s < count; ++s) {
    std::vector<bool> chosen(variables.size());
    for (std::size_t v = 0; v < variables.size(); ++v) {
      const std::vector<int>& holders = stages.of_variable[v];
      chosen[v] = std::find(holders.begin(), holders.end(), static_cast<int>(s)) != holders.end();
    }
    exchange.units.push_back(plan_gradient_units(scenario, chosen));
    for (const GradientUnit& unit : exchange.units.back().units) exchange.labels.push_back(unit.name);
  }
  for (std::size_t v = 0; v < variables.size(); ++v) {
    const std::vector<int>& holders = stages.of_variable[v];
    if (!variables[v].is_trainable || holders.size() < 2) continue;
    const auto known = std::find_if(exchange.copies.begin(), exchange.copies.end(),
                                    [&](const PipelineExchange::Copies& copies) { return copies.stages == holders; });
    PipelineExchange::Copies& copies = known != exchange.copies.end()
                                           ? *known
                                           : exchange.copies.emplace_back(PipelineExchange::Copies{holders, {}, {}});
    copies.variables.push_back(static_cast<int>(v));
    std::vector<bool> chosen(variables.size());
    chosen[v] = true;
    for (const GradientUnit& unit : plan_gradient_units(scenario, chosen).units)
      copies.gradient_bytes += unit.gradient_bytes;
  }
  for (const PipelineExchange::Copies& copies : exchange.copies)
    exchange.labels.push_back(
        "copies of " + variables[static_cast<std::size_t>(copies.variables.front())].name +
        (copies.variables.size() > 1 ? " and " + std::to_string(copies.variables.size() - 1) + " more" : ""));
  return exchange;
}

Program compile_pipeline(const Scenario& scenario, const ComputePlan& plan, const PipelineStages& stages,
                         const PipelineExchange& exchange, int stage) {
  return PipelineCompiler{scenario, plan, stages, exchange, stage}.compile();
}

}  // namespace rehearse
