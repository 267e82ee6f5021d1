// Synchronous training by pipelines of p workers, each of which is a stage of the model (pipeline_stages.hpp), and data
// parallel outside: the same stage of all pipelines adds up its gradients. A step of stage s takes m micro-batches:
//
//   forward     after the activations of the part before have come; its own go to the next one
//   backward    after the gradients of the next part's input have come; those of its own input go to the one before
//   collective  of each unit of the stage's gradients, once the last micro-batch has completed it; then, of variables
//               that several stages hold (tied embeddings), among these
//   update      of the stage's variables; the step ends when all stages have updated theirs
//
// With sharding those that have the same stage keep only their parts of it, and exchange as in compile_all_reduce.cpp,
// each micro-batch being a pass. Of copies in several stages each adds up what it keeps of their gradients: all, unless gradients
// are sharded. So do Megatron-LM's distributed optimizer, DeepSpeed's ZeRO 1 and nanotron, whose buffers are whole.
//
// Where workers hold each layer together (tensor parallelism), each of them is a stage of a pipeline of its own, and sends to its
// like. Kernels wait for what they exchange, which are operators of the graph.
//
// The GPUs of a worker share each micro-batch, and add up their gradients with those of the other pipelines.
//
// Where the schedule splits the backward pass, products that give gradients of weights run in passes of their own, and collectives
// begin with the last of these.
//
// Kernels run in the order of the schedule (pipeline_schedule.hpp). With v chunks a stage has v parts of the model, and the last
// stage sends to the first one what the next chunk reads. Sending does not hold kernels up. Or messages block, as in Megatron-LM,
// whose sends and receives wait for each other on the stream of kernels (core/pipeline_parallel/schedules.py): passes then wait
// until all that was sent before them has arrived, and until all has come that they and those joined to them receive. A message
// goes as soon as it is computed, though, where NCCL's waits for its receiver; both are the same where two stages exchange.
//
// With equal stages of time F and B and a network that takes no time m micro-batches take m + p - 1 times F + B, or
// m + (p - 1) / v times with v chunks if p divides m. A message of time x adds to each micro-batch of 1F1B on p > 2 stages
//   overlapped   2 x (p - 1) / p     p micro-batches go round together, over p - 1 messages each way
//   blocking     2 x                 m of them: 2 (m + p - 2) - 1 in all, or 2 (p - 1) of one alone

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "sim/base/errors.hpp"
#include "sim/scenario/kept_memory.hpp"
#include "sim/scenario/pipeline_schedule.hpp"
#include "sim/scenario/rank_grid.hpp"
#include "sim/scenario/work.hpp"
#include "sim/training/strategy_compiler.hpp"
#include "sim/training/unit_exchange.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMostOfPipeline = 20'000'000;  // kernels, messages and collectives of a pipeline

/// Whether the last stage sends to the first one, where parts go on.
bool is_ring(const Pipeline& pipeline) { return pipeline.chunks > 1 && !pipeline.is_folded(); }
/// Whether a stage sends to the one before it.
bool has_stage_before(const Pipeline& pipeline, int stage) { return stage > 0 || is_ring(pipeline); }
bool has_stage_after(const Pipeline& pipeline, int stage) { return stage + 1 < pipeline.stages || is_ring(pipeline); }

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
        microbatches_{passes_of_part(scenario)},
        gpus_{scenario.first_workers().gpus_per_worker},
        split_{scenario.model.split.degree},
        forward_(static_cast<std::size_t>(pipeline_.parts_of_stage())),
        backward_(forward_.size()),
        weights_(forward_.size()) {
    const OperatorGraph& graph = scenario.workload.graph;
    const std::vector<bool> are_split =
        splits_backward(pipeline_) ? are_of_weights(graph) : std::vector<bool>(graph.size());
    for (const PlannedKernel& kernel : plan.kernels) {
      const auto vertex = static_cast<std::size_t>(kernel.vertex);
      const auto chunk = static_cast<std::size_t>(pipeline_.chunk_of(stages.part_on(stage, vertex)));
      const bool is_forward = graph[vertex]->is_of_forward_pass();
      (is_forward ? forward_ : are_split[vertex] ? weights_ : backward_)[chunk].kernels.kernels.push_back(kernel);
      if (!is_forward) of_backward_.push_back(kernel);
    }
    for (std::size_t chunk = 0; chunk < weights_.size(); ++chunk) complete_with_weights(chunk);
    for (std::vector<Pass>* passes : {&forward_, &backward_, &weights_})
      for (Pass& pass : *passes) {
        pass.first_exchange = exchanges_;
        exchanges_ += count_exchanges(pass.kernels);
      }
    builder_.program().labels = exchange.labels;
  }

  Program compile() {
    const GradientUnits& units = exchange_.units[static_cast<std::size_t>(stage_)];
    const UnitExchange::Setting setting{microbatches_, exchange_.first_label[static_cast<std::size_t>(stage_)],
                                        sharing_groups()};
    builder_.reserve(plan_.kernels.size() * static_cast<std::size_t>(microbatches_));
    for (std::vector<Pass>* passes : {&forward_, &backward_, &weights_})
      for (Pass& pass : *passes) pass.exchange.emplace(builder_, pass.kernels.kernels, units, strategy_, setting);
    begin();
    const std::vector<PipelineSlot> slots = pipeline_slots(pipeline_, strategy_.exchange.accumulation_steps, stage_);
    for (auto slot = slots.begin(); slot != slots.end();) {
      const auto end =
          std::find_if_not(slot + 1, slots.end(), [](const PipelineSlot& after) { return after.is_merged; });
      const bool has_all = slot->phase == PassPhase::kWeights;  // gradients of weights wait for no message
      if (!blocks()) {
        std::for_each(slot, end, [this](const PipelineSlot& of_pass) { receive(of_pass); });
      } else if (!slot->is_joined && !has_all) {
        awaited_ = std::exchange(sent_, {});
        const auto joined =
            std::find_if_not(end, slots.end(), [](const PipelineSlot& after) { return after.is_joined; });
        std::for_each(slot, joined, [this](const PipelineSlot& of_pass) { receive(of_pass); });
      }
      run({slot, end});
      slot = end;
    }
    UnitExchange of_step{builder_, of_backward_, units, strategy_, setting};
    const std::vector<OperationIndex> on_host = of_step.copy_to_host(plan_, reduced_);
    add_up_copies(of_step);
    add_up_partial_gradients();
    add_up_norm();
    for (const std::vector<OperationIndex>& besides : {on_host, sent_})
      reduced_.insert(reduced_.end(), besides.begin(), besides.end());
    of_step.end_step(plan_, reduced_, last_);
    return builder_.finish();
  }

 private:
  /// What a micro-batch does in a chunk, forward or backward.
  struct Pass {
    ComputePlan kernels{};
    int first_exchange = 0;                  // of those that a micro-batch has in all passes
    std::optional<UnitExchange> exchange{};  // what its kernels gather and add up
  };

  /// Gradients of what has no product, such as norms, go with those of weights, if there are any.
  void complete_with_weights(std::size_t chunk) {
    std::vector<PlannedKernel>& of_weights = weights_[chunk].kernels.kernels;
    const auto last = std::ranges::find_if(of_weights.rbegin(), of_weights.rend(),
                                           [](const PlannedKernel& kernel) { return !kernel.exchange; });
    if (last == of_weights.rend()) return;
    for (PlannedKernel& kernel : backward_[chunk].kernels.kernels) {
      last->completes.insert(last->completes.end(), kernel.completes.begin(), kernel.completes.end());
      kernel.completes.clear();
    }
  }

  bool blocks() const { return pipeline_.messages == PipelineMessages::kBlocking; }

  void begin() {
    last_ = builder_.add(Delay{.time = plan_.step_overhead});
    if (stages_.has_samples(stage_))
      last_ = after(last_, builder_.add(Copy{.label = Copy::kSamples, .bytes = plan_.input}));
    begin_ = last_ = after(last_, builder_.add(BeginKernels{}));
  }

  OperationIndex after(OperationIndex earlier, OperationIndex later) {
    builder_.order(earlier, later);
    return later;
  }

  int part_of(const PipelineSlot& slot) const { return pipeline_.part_of(stage_, slot.chunk); }
  /// Whether what part `cut` gives passes to another stage.
  bool is_sent(int cut) const {
    return pipeline_.is_read_after(cut) && stages_.stage_of(cut) != stages_.stage_of(cut + 1);
  }
  /// Of the team: one for each message of a step.
  int counter_of(int cut, bool is_gradient, int microbatch) const {
    return (2 * cut + (is_gradient ? 1 : 0)) * microbatches_ + microbatch;
  }

  /// The next pass that has kernels waits for what it receives.
  void receive(const PipelineSlot& slot) {
    const bool is_gradient = slot.phase != PassPhase::kForward;
    const int cut = is_gradient ? part_of(slot) : part_of(slot) - 1;
    if (slot.phase == PassPhase::kWeights || !is_sent(cut)) return;
    const int counter = counter_of(cut, is_gradient, slot.microbatch);
    const OperationIndex arrival =
        after(begin_, builder_.add(Gate{.scope = CounterScope::kTeam, .counter = counter, .each = gpus_}));
    awaited_.push_back(stages_.gathers_passed ? gather(arrival, slot, cut) : arrival);
  }

  /// What has come in parts to those that hold the layers together, behind the kernels before.
  OperationIndex gather(OperationIndex arrival, const PipelineSlot& slot, int cut) {
    const int of_pass = 2 * slot.chunk + (slot.phase != PassPhase::kForward ? 1 : 0);
    const OperationIndex gathered =
        builder_.add(Collective{.kind = CollectiveKind::kAllGather,
                                .group = exchange_.groups.of(SplitGroup::kTensor),
                                .label = exchange_.first_gathered + of_pass * microbatches_ + slot.microbatch,
                                .bytes = stages_.passed[static_cast<std::size_t>(cut)] * split_});
    builder_.order(arrival, gathered);
    return after(last_, gathered);
  }

  /// Slots that are one pass.
  void run(std::span<const PipelineSlot> slots) {
    std::vector<std::vector<OperationIndex>> kernels;
    const std::span<const PipelineSlot> in_turns = slots.first(
        slots.size() > 1 && slots[0].phase == PassPhase::kForward && slots[1].phase == PassPhase::kBackward ? 2 : 1);
    for (std::vector<OperationIndex>& its : run_kernels(in_turns)) kernels.push_back(std::move(its));
    for (std::size_t i = in_turns.size(); i < slots.size(); ++i)
      kernels.push_back(std::move(run_kernels(slots.subspan(i, 1)).front()));
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const PipelineSlot& slot = slots[i];
      const bool is_gradient = slot.phase == PassPhase::kBackward;
      const int part = part_of(slot), cut = is_gradient ? part - 1 : part;
      if (slot.phase != PassPhase::kWeights && is_sent(cut)) {
        const bool goes_back = is_gradient != (pipeline_.is_folded() && slot.chunk == 1);
        send(cut, is_gradient, slot.microbatch, goes_back || !has_stage_before(pipeline_, stage_) ? 0 : 1);
      }
      if (slot.phase != PassPhase::kForward) reduce(pass_of(slot), slot.microbatch, kernels[i]);
    }
  }

  Pass& pass_of(const PipelineSlot& slot) { return passes_of(slot.phase)[static_cast<std::size_t>(slot.chunk)]; }
  std::vector<Pass>& passes_of(PassPhase phase) {
    return phase == PassPhase::kForward ? forward_ : phase == PassPhase::kBackward ? backward_ : weights_;
  }

  /// The gradients that the pass has completed, once they are all there.
  void reduce(Pass& pass, int microbatch, const std::vector<OperationIndex>& kernels) {
    if (!UnitExchange::reduces_each_pass(strategy_, microbatches_) && microbatch + 1 < microbatches_) return;
    const std::vector<OperationIndex> of_pass = pass.exchange->reduce(kernels, last_, microbatch);
    reduced_.insert(reduced_.end(), of_pass.begin(), of_pass.end());
  }

  /// The kernels of slots in turns, once all that is awaited has come: [slots][kernels].
  std::vector<std::vector<OperationIndex>> run_kernels(std::span<const PipelineSlot> slots) {
    const OperationIndex pass_before = last_;
    std::vector<OperationIndex> awaited = std::exchange(awaited_, {});
    std::vector<PassKernels> passes;
    for (const PipelineSlot& slot : slots)
      passes.push_back({&pass_of(slot).kernels, exchange_.first_exchange + slot.microbatch * exchange_.exchanges +
                                                    pass_of(slot).first_exchange});
    std::vector<std::vector<OperationIndex>> kernels = compile_in_turns(builder_, passes, 0, exchange_.groups);
    OperationIndex first = -1;
    for (const std::vector<OperationIndex>& of_pass : kernels) {
      if (of_pass.empty()) continue;
      first = first < 0 ? of_pass.front() : std::min(first, of_pass.front());
      last_ = std::max(last_, of_pass.back());
    }
    if (first >= 0) {
      for (const OperationIndex before : awaited.empty() && pass_before == begin_ ? std::vector{begin_} : awaited)
        builder_.order(before, first);
    } else {
      for (const OperationIndex before : awaited) last_ = after(last_, before);
    }
    for (std::size_t i = 0; i < slots.size(); ++i)
      pass_of(slots[i]).exchange->wait_for_units(kernels[i], pass_before, slots[i].microbatch);
    return kernels;
  }

  /// What has just been computed: each GPU sends its part to its like.
  void send(int cut, bool is_gradient, int microbatch, int connection) {
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      const OperationIndex sent =
          after(last_, builder_.add(Send{.connection = connection * gpus_ + gpu,
                                         .label = 2 * cut + (is_gradient ? 1 : 0),
                                         .bytes = stages_.passed[static_cast<std::size_t>(cut)]},
                                    Signal{CounterScope::kTeam, counter_of(cut, is_gradient, microbatch)}));
      if (blocks()) sent_.push_back(sent);
    }
  }

  /// Once the gradients of those variables are added up in all pipelines.
  void add_up_copies(const UnitExchange& of_step) {
    int group = exchange_.groups.own, label = exchange_.first_label.back();
    const std::vector<OperationIndex> reduced = reduced_;
    for (const PipelineExchange::Copies& copies : exchange_.copies) {
      const int its_label = label++;
      if (std::find(copies.stages.begin(), copies.stages.end(), stage_) == copies.stages.end()) continue;
      reduced_.push_back(
          builder_.add(Collective{.group = group++, .label = its_label, .bytes = copies.gradient_bytes}));
      for (const OperationIndex before : reduced)
        if (const std::vector<int>& in = of_step.unit_of(before).variables;
            std::find_first_of(in.begin(), in.end(), copies.variables.begin(), copies.variables.end()) != in.end())
          builder_.order(before, reduced_.back());
    }
  }

  SharingGroups sharing_groups() const {
    return {.replicas = exchange_.groups.replicas,
            .sharing_workers = exchange_.sharing_workers,
            .of_experts = exchange_.groups.of_experts};
  }

  void add_up_norm() {
    const CollectiveRules& rules = *strategy_.kind->collectives();
    if (!rules.has_gradient_norm) return;
    const auto copies = std::ranges::count_if(exchange_.copies, [&](const PipelineExchange::Copies& of) {
      return std::ranges::find(of.stages, stage_) != of.stages.end();
    });
    std::vector<int> groups;
    for (const SplitGroup parts : {SplitGroup::kTensor, SplitGroup::kExperts, SplitGroup::kExpertMachines})
      if (exchange_.groups.has(parts)) groups.push_back(exchange_.groups.of(parts));
    if (!pipeline_.validates_afterwards) groups.push_back(exchange_.groups.own + static_cast<int>(copies));
    if (rules.sharding != Sharding::kNone) groups.push_back(0);
    reduced_ = add_gradient_norm(builder_, groups, exchange_.first_norm, reduced_, last_);
    if (pipeline_.validates_afterwards) pass_norm_on();
  }

  /// The stage adds its own to what the stages before have, and sends the sum on.
  void pass_norm_on() {
    const int counter = counter_of(static_cast<int>(stages_.passed.size()), false, 0);  // behind those of messages
    if (stage_ > 0) {
      reduced_.push_back(builder_.add(Gate{.scope = CounterScope::kTeam, .counter = counter + stage_ - 1}));
      builder_.order(begin_, reduced_.back());
    }
    if (stage_ + 1 == pipeline_.stages) return;
    const int connection = has_stage_before(pipeline_, stage_) ? gpus_ : 0;
    const OperationIndex sent =
        builder_.add(Send{.connection = connection, .label = exchange_.first_norm, .bytes = kSquares},
                     Signal{CounterScope::kTeam, counter + stage_});
    for (const OperationIndex before : reduced_) builder_.order(before, sent);
    builder_.order(last_, sent);
  }

  void add_up_partial_gradients() {
    const Bytes bytes = exchange_.partial_gradients[static_cast<std::size_t>(stage_)];
    if (bytes == Bytes{}) return;
    const int label = exchange_.first_exchange + microbatches_ * exchange_.exchanges;
    reduced_ = add_behind(builder_, {.group = exchange_.groups.of(SplitGroup::kTensor), .label = label, .bytes = bytes},
                          reduced_, last_);
  }

  const ComputePlan& plan_;
  const Strategy& strategy_;
  const Pipeline& pipeline_;
  const PipelineStages& stages_;
  const PipelineExchange& exchange_;
  int stage_, microbatches_, gpus_, split_;
  std::vector<Pass> forward_, backward_, weights_;  // [chunks]
  std::vector<PlannedKernel> of_backward_;
  int exchanges_ = 0;  // among the workers that hold each layer together, of a micro-batch
  ProgramBuilder builder_;
  OperationIndex begin_ = 0, last_ = 0;  // the latest operation besides messages
  std::vector<OperationIndex> awaited_,
      sent_;                             // by the next kernels; with messages that block, since the latest exchange
  std::vector<OperationIndex> reduced_;  // collectives before the update
};

}  // namespace

namespace {

/// What the workers exchange that hold each layer of a stage together. Stages have the same labels, as none is in a group with
/// another one.
void add_exchanges(const Scenario& scenario, const PipelineStages& stages, PipelineExchange& exchange) {
  std::vector<int> count(static_cast<std::size_t>(stages.stages()));
  const OperatorGraph& graph = scenario.workload.graph;
  for (std::size_t v = 0; v < graph.size(); ++v)
    for (int stage = 0; graph[v]->exchange && stage < stages.stages(); ++stage)
      count[static_cast<std::size_t>(stage)] += stages.part_on(stage, v) < 0 ? 0 : 1;
  exchange.exchanges = *std::ranges::max_element(count);
  for (int stage = 0; stage < stages.stages(); ++stage) {
    std::vector<bool> held;
    for (const std::vector<int>& holders : stages.of_variable)
      held.push_back(std::ranges::binary_search(holders, stage));
    exchange.partial_gradients.push_back(partial_gradients(scenario, held));
  }
  if (exchange.exchanges == 0) return;
  exchange.first_exchange = static_cast<int>(exchange.labels.size());
  for (int m = 0; m < passes_of_part(scenario); ++m)
    for (int i = 0; i < exchange.exchanges; ++i)
      exchange.labels.push_back("exchange " + std::to_string(i + 1) + " of split layers, micro-batch " +
                                std::to_string(m + 1));
  exchange.labels.emplace_back("gradients of what is not split");
  if (!stages.gathers_passed) return;
  exchange.first_gathered = static_cast<int>(exchange.labels.size());
  for (int chunk = 0; chunk < stages.parts() / stages.stages(); ++chunk)
    for (const char* what : {"activations", "gradients"})
      for (int m = 0; m < passes_of_part(scenario); ++m)
        exchange.labels.push_back(std::string{what} + " that have come, of micro-batch " + std::to_string(m + 1) +
                                  (chunk > 0 ? " and chunk " + std::to_string(chunk + 1) : ""));
}

}  // namespace

PipelineExchange plan_pipeline_exchange(const Scenario& scenario, const PipelineStages& stages) {
  const std::vector<Variable>& variables = scenario.workload.variables;
  const Strategy& strategy = scenario.training.strategy;
  PipelineExchange exchange;
  const std::size_t count = stages.variables.size();
  const int passes = passes_of_part(scenario);
  std::size_t operations = static_cast<std::size_t>(passes) * static_cast<std::size_t>(stages.copies) *
                           (scenario.workload.graph.size() + 4 * stages.kept.size());
  for (std::size_t s = 0; s < count; ++s) {
    exchange.units.push_back(plan_stage_units(scenario, stages, static_cast<int>(s)));
    operations += UnitExchange::count(exchange.units.back(), strategy, passes);
  }
  if (operations > kMostOfPipeline)
    throw RunError{"/training/strategy/pipeline/microbatches",
                   "a step of more than 20000000 kernels, messages and collectives of a pipeline"};
  const std::size_t of_copy = stages.kept.size() / static_cast<std::size_t>(stages.copies);
  const char* const part = of_copy > count ? " after part " : " after stage ";
  for (std::size_t p = 0; p < stages.passed.size(); ++p) {
    const std::string after = part + std::to_string(p % of_copy + 1) + (p < of_copy ? "" : " of the second copy");
    exchange.labels.push_back("activations" + after);
    exchange.labels.push_back("gradients" + after);
  }
  for (const GradientUnits& units : exchange.units) {
    exchange.first_label.push_back(static_cast<int>(exchange.labels.size()));
    const std::vector<std::string> labels = UnitExchange::labels(units, strategy, passes);
    exchange.labels.insert(exchange.labels.end(), labels.begin(), labels.end());
  }
  const RankGrid grid = rank_grid(scenario);
  exchange.groups = group_numbers(scenario);
  exchange.sharing_workers = grid.degree(kSharingAxes);
  add_exchanges(scenario, stages, exchange);
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
  if (strategy.kind->collectives()->sharding >= Sharding::kGradients)
    for (PipelineExchange::Copies& copies : exchange.copies)
      copies.gradient_bytes = Bytes{copies.gradient_bytes.value() / sharing_gpus(scenario)};
  for (const PipelineExchange::Copies& copies : exchange.copies)
    exchange.labels.push_back(
        "copies of " + variables[static_cast<std::size_t>(copies.variables.front())].name +
        (copies.variables.size() > 1 ? " and " + std::to_string(copies.variables.size() - 1) + " more" : ""));
  exchange.first_norm = static_cast<int>(exchange.labels.size());
  constexpr std::size_t kMostNorms = 5;  // among layers' parts, experts, stages and data-parallel workers
  if (strategy.kind->collectives()->has_gradient_norm)
    exchange.labels.resize(exchange.labels.size() + kMostNorms, "norm of gradients");
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

  int alike(int worker) const override {
    return stage_of(worker) + std::max(expert_gpu(worker), 0) * grid().degree(Axis::kPipeline);
  }
  ComputePlan share(const ComputePlan& whole, int worker) const override {
    return plan_stage(whole, stages_, stage_of(worker), scenario().workload);
  }
  Program compile(const WorkerStep& step, FirstVariables) const override {
    return compile_pipeline(scenario(), *step.plan, stages_, exchange_, stage_of(step.worker));
  }

  std::vector<Wire> wires(int worker) const override {
    std::vector<Wire> wires;
    const auto connect = [&](int stage) {
      const int other = grid().moved(worker, Axis::kPipeline, stage);
      for (std::size_t i = 0; i < gpus(worker).size(); ++i)
        wires.push_back({worker, other, gpus(worker)[i], gpus(other)[i]});
    };
    const Pipeline& pipeline = *scenario().training.strategy.kind->pipeline();
    const int stage = stage_of(worker);
    if (has_stage_before(pipeline, stage)) connect((stage + pipeline.stages - 1) % pipeline.stages);
    if (has_stage_after(pipeline, stage)) connect((stage + 1) % pipeline.stages);
    return wires;
  }

  std::vector<WorkerGroup> groups() const override {
    std::vector<WorkerGroup> groups;
    for (int first = 0; first < workers(); ++first)
      if (grid().is_first(kSharingAxes, first))
        groups.push_back({"stage " + std::to_string(stage_of(first) + 1), grid().along(kSharingAxes, first)});
    add_split_groups(groups);
    add_replica_groups(groups);
    add_expert_groups(groups);
    for (std::size_t c = 0; c < exchange_.copies.size(); ++c)
      for (int first = 0; first < workers(); ++first) {
        if (stage_of(first) != 0) continue;
        groups.push_back({exchange_.labels[at(exchange_.first_label.back()) + c], {}});
        for (const int stage : exchange_.copies[c].stages)
          groups.back().workers.push_back(grid().moved(first, Axis::kPipeline, stage));
      }
    const StrategyKind& kind = *scenario().training.strategy.kind;
    if (kind.collectives()->has_gradient_norm && !kind.pipeline()->validates_afterwards)
      add_groups_along(Axis::kPipeline, "pipeline", groups);
    return groups;
  }

  std::vector<int> team(int worker) const override { return grid().along(Axis::kPipeline, worker); }

 private:
  int stage_of(int worker) const { return grid().coordinate(worker, Axis::kPipeline); }

  PipelineStages stages_;
  PipelineExchange exchange_;
};

}  // namespace

std::unique_ptr<StrategyCompiler> pipeline_compiler(const Site& site) { return std::make_unique<StageCompiler>(site); }

}  // namespace rehearse
