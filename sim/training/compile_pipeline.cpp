// Synchronous training by pipelines of p workers, each of which is a stage of the model (pipeline_stages.hpp), and data
// parallel outside: the same stage of all pipelines adds up its gradients. A step of stage s takes m micro-batches:
//
//   forward     after the activations of the stage before have come; its own go to the next one
//   backward    after the gradients of the next stage's input have come; those of its own input go to the one before
//   collective  of each unit of the stage's gradients, once the last micro-batch has completed it; then, of variables
//               that several stages hold (tied embeddings), among these
//   update      of the stage's variables; the step ends when all stages have updated theirs
//
// With sharding those that have the same stage keep only their parts of it, and exchange as in compile_all_reduce.cpp,
// each micro-batch being a pass; of copies in several stages each adds up its part.
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
#include <optional>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/strategy_compiler.hpp"
#include "sim/training/unit_exchange.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostOfPipeline = 5'000'000;  // kernels, messages and collectives of a pipeline

class PipelineCompiler {
 public:
  PipelineCompiler(const Scenario& scenario, const ComputePlan& plan, const PipelineStages& stages,
                   const PipelineExchange& exchange, int stage)
      : plan_{plan},
        strategy_{scenario.training.strategy},
        pipeline_{*strategy_.kind->pipeline()},
        stages_{stages},
        exchange_{exchange},
        stage_{stage},
        microbatches_{strategy_.exchange.accumulation_steps},
        gpus_{scenario.first_workers().gpus_per_worker},
        is_last_{stage + 1 == pipeline_.stages} {
    const OperatorGraph& graph = scenario.workload.graph;
    for (const PlannedKernel& kernel : plan.kernels)
      (graph[static_cast<std::size_t>(kernel.vertex)].is_of_forward_pass() ? forward_ : backward_)
          .kernels.push_back(kernel);
    builder_.program().labels = exchange.labels;
  }

  Program compile() {
    const GradientUnits& units = exchange_.units[static_cast<std::size_t>(stage_)];
    for (const auto& [part, kernels] : {std::pair{&of_forward_, &forward_}, std::pair{&of_backward_, &backward_}})
      part->emplace(builder_, kernels->kernels, units, strategy_, microbatches_,
                    exchange_.first_label[static_cast<std::size_t>(stage_)]);
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
    add_up_copies();
    of_backward_->end_step(plan_.update, reduced_, last_);
    return builder_.finish();
  }

 private:
  void begin() {
    last_ = builder_.add(Delay{.time = plan_.step_overhead});
    if (stage_ == 0) last_ = after(last_, builder_.add(Copy{.label = Copy::kSamples, .bytes = plan_.input}));
    begin_ = last_ = after(last_, builder_.add(BeginKernels{}));
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
    run(forward_, *of_forward_, stage_ > 0 ? counter_of(stage_ - 1, false, microbatch) : -1, microbatch);
    if (!is_last_) send(stage_, false, microbatch, stage_ > 0 ? 1 : 0);
  }

  void run_backward(int microbatch) {
    const std::vector<OperationIndex> kernels =
        run(backward_, *of_backward_, is_last_ ? -1 : counter_of(stage_, true, microbatch), microbatch);
    if (stage_ > 0) send(stage_ - 1, true, microbatch, 0);
    if (!UnitExchange::reduces_each_pass(strategy_, microbatches_) && microbatch + 1 < microbatches_) return;
    const std::vector<OperationIndex> of_pass = of_backward_->reduce(kernels, last_, microbatch);
    reduced_.insert(reduced_.end(), of_pass.begin(), of_pass.end());
  }

  /// The kernels of a pass, once a message has come.
  std::vector<OperationIndex> run(const ComputePlan& pass, UnitExchange& exchange, int counter, int microbatch) {
    const OperationIndex pass_before = last_;
    OperationIndex before = last_ == begin_ ? begin_ : -1;
    if (counter >= 0)
      before = after(begin_, builder_.add(Gate{.scope = CounterScope::kTeam, .counter = counter, .each = gpus_}));
    std::vector<OperationIndex> kernels = compile_kernels(builder_, pass, 1, 0).first;
    if (before >= 0 && !kernels.empty()) builder_.order(before, kernels.front());
    exchange.wait_for_units(kernels, pass_before, microbatch);
    if (!kernels.empty())
      last_ = kernels.back();
    else if (counter >= 0)
      last_ = after(last_, before);
    return kernels;
  }

  /// What has just been computed: each GPU sends its part to its like.
  void send(int cut, bool is_gradient, int microbatch, int connection) {
    for (int gpu = 0; gpu < gpus_; ++gpu)
      after(last_, builder_.add(Send{.connection = connection * gpus_ + gpu,
                                     .label = 2 * cut + (is_gradient ? 1 : 0),
                                     .bytes = stages_.passed[static_cast<std::size_t>(cut)]},
                                Signal{CounterScope::kTeam, counter_of(cut, is_gradient, microbatch)}));
  }

  /// Once the gradients of those variables are added up in all pipelines.
  void add_up_copies() {
    int group = 1, label = exchange_.first_label.back();
    const std::vector<OperationIndex> reduced = reduced_;
    for (const PipelineExchange::Copies& copies : exchange_.copies) {
      const int its_label = label++;
      if (std::find(copies.stages.begin(), copies.stages.end(), stage_) == copies.stages.end()) continue;
      reduced_.push_back(
          builder_.add(Collective{.group = group++, .label = its_label, .bytes = copies.gradient_bytes}));
      for (const OperationIndex before : reduced)
        if (const std::vector<int>& in = of_backward_->unit_of(before).variables;
            std::find_first_of(in.begin(), in.end(), copies.variables.begin(), copies.variables.end()) != in.end())
          builder_.order(before, reduced_.back());
    }
  }

  const ComputePlan& plan_;
  const Strategy& strategy_;
  const Pipeline& pipeline_;
  const PipelineStages& stages_;
  const PipelineExchange& exchange_;
  int stage_, microbatches_, gpus_;
  bool is_last_;
  ComputePlan forward_, backward_;
  ProgramBuilder builder_;
  std::optional<UnitExchange> of_forward_, of_backward_;  // what kernels of the two gather and add up
  OperationIndex begin_ = 0, last_ = 0;                   // the latest operation besides messages
  std::vector<OperationIndex> reduced_;                   // collectives before the update
};

}  // namespace

PipelineExchange plan_pipeline_exchange(const Scenario& scenario, const PipelineStages& stages) {
  const std::vector<Variable>& variables = scenario.workload.variables;
  const Strategy& strategy = scenario.training.strategy;
  PipelineExchange exchange;
  const std::size_t count = stages.variables.size();
  const int passes = strategy.exchange.accumulation_steps;
  std::size_t operations = static_cast<std::size_t>(passes) * (scenario.workload.graph.size() + 4 * count);
  for (std::size_t s = 0; s < count; ++s) {
    exchange.units.push_back(plan_stage_units(scenario, stages, static_cast<int>(s)));
    operations += UnitExchange::count(exchange.units.back(), strategy, passes);
  }
  if (operations > kMostOfPipeline)
    throw RunError{"/training/strategy/pipeline/microbatches",
                   "a step of more than 5000000 kernels, messages and collectives of a pipeline"};
  for (std::size_t s = 0; s + 1 < count; ++s) {
    const std::string after = " after stage " + std::to_string(s + 1);
    exchange.labels.push_back("activations" + after);
    exchange.labels.push_back("gradients" + after);
  }
  for (const GradientUnits& units : exchange.units) {
    exchange.first_label.push_back(static_cast<int>(exchange.labels.size()));
    const std::vector<std::string> labels = UnitExchange::labels(units, strategy, passes);
    exchange.labels.insert(exchange.labels.end(), labels.begin(), labels.end());
  }
  exchange.first_label.push_back(static_cast<int>(exchange.labels.size()));
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
  if (strategy.kind->divided_states().optimizer)
    for (PipelineExchange::Copies& copies : exchange.copies)
      copies.gradient_bytes = Bytes{copies.gradient_bytes.value() / sharing_gpus(scenario)};
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

namespace {

class StageCompiler final : public StrategyCompiler {
 public:
  explicit StageCompiler(const Site& site)
      : StrategyCompiler{site},
        stages_{cut_into_stages(scenario())},
        exchange_{plan_pipeline_exchange(scenario(), stages_)} {}

  int alike(int worker) const override { return grid().coordinate(worker, Axis::kPipeline); }
  ComputePlan share(const ComputePlan& whole, int worker) const override {
    return plan_stage(whole, stages_, alike(worker), scenario().workload);
  }
  Program compile(const WorkerStep& step, FirstVariables) const override {
    return compile_pipeline(scenario(), *step.plan, stages_, exchange_, alike(step.worker));
  }

  std::vector<Wire> wires(int worker) const override {
    std::vector<Wire> wires;
    const auto connect = [&](int stage) {
      const int other = grid().moved(worker, Axis::kPipeline, stage);
      for (std::size_t i = 0; i < gpus(worker).size(); ++i)
        wires.push_back({worker, other, gpus(worker)[i], gpus(other)[i]});
    };
    const int stage = alike(worker);
    if (stage > 0) connect(stage - 1);
    if (stage + 1 < grid().degree(Axis::kPipeline)) connect(stage + 1);
    return wires;
  }

  std::vector<WorkerGroup> groups() const override {
    std::vector<WorkerGroup> groups;
    for (const int first : grid().along(Axis::kPipeline, 0))
      groups.push_back({"stage " + std::to_string(first + 1), grid().along(Axis::kData, first)});
    for (std::size_t c = 0; c < exchange_.copies.size(); ++c)
      for (const int first : grid().along(Axis::kData, 0)) {
        groups.push_back({exchange_.labels[at(exchange_.first_label.back()) + c], {}});
        for (const int stage : exchange_.copies[c].stages)
          groups.back().workers.push_back(grid().moved(first, Axis::kPipeline, stage));
      }
    return groups;
  }

  std::vector<int> team(int worker) const override { return grid().along(Axis::kPipeline, worker); }

 private:
  PipelineStages stages_;
  PipelineExchange exchange_;
};

}  // namespace

std::unique_ptr<StrategyCompiler> pipeline_compiler(const Site& site) { return std::make_unique<StageCompiler>(site); }

}  // namespace rehearse
