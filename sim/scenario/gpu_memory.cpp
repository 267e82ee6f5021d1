#include "sim/scenario/gpu_memory.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "platforms/kernels/gpu.hpp"
#include "sim/base/names.hpp"
#include "sim/base/parse_quantity.hpp"
#include "sim/scenario/gradient_units.hpp"
#include "sim/scenario/pipeline_schedule.hpp"
#include "sim/scenario/scenario_readers.hpp"
#include "sim/scenario/work.hpp"
#include "workloads/expert_loads.hpp"

namespace rehearse {

namespace {

constexpr int kMostBatch = 65536;
constexpr int kMostTried = 1024;  // batches, one after another

/// Slots on the GPUs: servers have them where there are servers.
int slots_of(const Scenario& scenario) {
  return scenario.count(Role::kParameterServer) > 0 ? 0 : optimizer_slots(scenario.optimizer);
}

/// Servers keep master weights, too.
States states_of(const Scenario& scenario) {
  States states = scenario.states;
  if (scenario.count(Role::kParameterServer) > 0) states.master_weights.reset();
  return states;
}

/// Bytes of the states of so many parameters, of which `gpus` share those that are sharded. The sum of what is sharded is
/// rounded up once; its parts are differences of sums that are rounded so.
void add_states(GpuMemory& memory, std::int64_t parameters, const States& states, int slots,
                const DividedStates& divided, std::int64_t gpus) {
  std::int64_t sharded_bytes = 0, so_far = 0;
  const auto add = [&](Bytes& part, int bytes, bool is_sharded) {
    if (!is_sharded) {
      part += Bytes{parameters * bytes};
      return;
    }
    sharded_bytes += bytes;
    // Of a share of parameters and of a rest below 1 / gpus, so that products stay below 2^63.
    const std::int64_t rest = parameters % gpus * sharded_bytes;
    const std::int64_t until = parameters / gpus * sharded_bytes + (rest + gpus - 1) / gpus;
    part += Bytes{until - so_far};
    so_far = until;
  };
  add(memory.optimizer, optimizer_bytes(states, slots), divided.optimizer);
  add(memory.gradients, gradient_bytes(states), divided.gradients);
  add(memory.weights, weight_bytes(states), divided.weights);
}

/// The same of those whose optimizer's states, and whose gradients if they are sharded, hosts keep.
void add_offloaded(GpuMemory& memory, std::int64_t parameters, const States& states, int slots,
                   const DividedStates& divided, std::int64_t gpus) {
  GpuMemory own;
  add_states(own, parameters, states, slots, divided, gpus);
  memory.on_host += own.optimizer + (divided.gradients ? own.gradients : Bytes{});
  memory.weights += own.weights;
  if (!divided.gradients) memory.gradients += own.gradients;
}

/// Those of so many parameters that are trained, and of so many that are frozen, of which GPUs keep parts as the strategy says. Of
/// weights that are stored in more bytes than kernels compute with, their copies are there from the forward pass to the
/// backward pass (torch.autocast's cache); of sharded ones these are what is gathered.
void add_states(GpuMemory& memory, const Scenario& scenario, std::int64_t parameters, std::int64_t frozen,
                int sharing) {
  const StrategyKind& kind = *scenario.training.strategy.kind;
  const States states = states_of(scenario);
  const auto on_host = static_cast<std::int64_t>(static_cast<double>(parameters) * kind.offload().optimizer);
  add_states(memory, parameters - on_host, states, slots_of(scenario), kind.divided_states(), sharing);
  if (on_host > 0) add_offloaded(memory, on_host, states, slots_of(scenario), kind.divided_states(), sharing);
  const bool is_divided = kind.divided_states().weights;
  const int gpus = is_divided ? sharing : 1;
  memory.weights += Bytes{(frozen + gpus - 1) / gpus * weight_bytes(scenario.states)};
  const int computed = bytes_per_scalar(scenario.precision);
  if (!is_divided && weight_bytes(scenario.states) > computed)
    memory.weights += Bytes{(parameters + frozen) * computed};
}

/// Copies in 8 or 4 bits, one for each layout, which stay from a step's first micro-batch to its last one; of weights that are gathered
/// they go with these.
void add_casts(GpuMemory& memory, const Scenario& scenario, const Accelerator& gpu, const HeldParameters& held) {
  if (scenario.training.strategy.kind->divided_states().weights) return;
  const bool has_both = casts_each_way(scenario.model.fp8) || kernels::wants_transposed(gpu.architecture);
  memory.weights += Bytes{held.cast * bits_of(scenario.model.fp8) / 8 * (has_both ? 2 : 1)};
}

void add_states(GpuMemory& memory, const Scenario& scenario, const Accelerator& gpu, const HeldParameters& held) {
  add_states(memory, scenario, held.trained, held.frozen, sharing_gpus(scenario));
  add_casts(memory, scenario, gpu, held);
  if (scenario.model.expert_split.degree > 0)
    add_states(memory, scenario, held.trained_of_experts, held.frozen_of_experts, sharing_gpus_of_experts(scenario));
}

/// What is gathered of the units, and what is sent of them from buffers of its own.
void add_units(GpuMemory& memory, const Scenario& scenario, const std::vector<GradientUnit>& units) {
  const CollectiveRules* collectives = scenario.training.strategy.kind->collectives();
  if (collectives == nullptr || sharing_gpus(scenario) == 1) return;
  const GradientExchange& exchange = scenario.training.strategy.exchange;
  const DividedStates divided = scenario.training.strategy.kind->divided_states();
  Bytes root{}, largest{}, all{}, largest_gradient{}, all_gradients{};
  for (const GradientUnit& unit : units) {
    all += unit.stored_bytes;
    all_gradients += unit.gradient_bytes;
    largest_gradient = std::max(largest_gradient, unit.gradient_bytes);
    if (unit.is_root)
      root += unit.stored_bytes;
    else
      largest = std::max(largest, unit.stored_bytes);
  }
  if (divided.weights) memory.gathered_units = std::min(all, root + (collectives->prefetched_units + 1) * largest);
  if (!divided.gradients && exchange.bucket_size && !exchange.cycle_time && !exchange.by_blocks)
    memory.uncounted.bucket_copies = all_gradients;
  memory.uncounted.nccl_buffers = kNcclChannels * kNcclChannelBuffers;
  const bool converts = sent_gradients(scenario) != scenario.states.gradients;
  if (divided.gradients || converts) memory.communication_buffers = largest_gradient;
  if (exchange.cycle_time)
    memory.communication_buffers = std::max(
        memory.communication_buffers, exchange.bucket_size ? std::min(*exchange.bucket_size, all) : largest_gradient);
}

void add_kept(GpuMemory& memory, const OperatorGraph& graph, const KeptChanges& changes,
              const std::vector<PipelineSlot>& slots, const PassOperators& operators) {
  const FullestMoment fullest = fullest_moment(changes, slots, operators);
  memory.activations = fullest.kept.activations;
  memory.logits = fullest.kept.logits;
  if (fullest.vertex < 0) return;
  memory.moment = {.phase = slots[fullest.slot].phase,
                   .microbatch = slots[fullest.slot].microbatch,
                   .op = graph[static_cast<std::size_t>(fullest.vertex)].name()};
}

const char* phase_word(PassPhase phase) {
  constexpr std::array<const char*, kPassPhases> kWords{"forward", "backward", "weights"};
  return kWords[static_cast<std::size_t>(phase)];
}

/// Of a worker with the whole model: passes that are accumulated keep nothing of one another.
const std::vector<PipelineSlot> kWholeModel{{.phase = PassPhase::kForward}, {.phase = PassPhase::kBackward}};

}  // namespace

Bytes GpuMemory::total() const {
  Bytes sum{};
  for (const auto& [name, part] : kGpuMemoryParts) sum += this->*part.bytes;
  return sum;
}

GpuMemory gpu_memory(const Workload& workload, const Accelerator& gpu, const States& states, int slots) {
  GpuMemory memory{.context = gpu.memory_reserved, .input = workload.input_bytes};
  const PassOperators operators = pass_operators(workload.graph);
  add_kept(memory, workload.graph, kept_changes(workload, operators), kWholeModel, operators);
  add_states(memory, workload.parameters(), states, slots, {}, 1);
  return memory;
}

namespace {

/// What the framework keeps in a step of the scenario.
FrameworkMemory memory_of(const Scenario& scenario) {
  FrameworkMemory memory = scenario.profile.framework(scenario.framework).memory;
  if (scenario.model.again != Recomputation{}) memory.kept_gathered = 0;
  if (!scenario.model.has_fused_loss) memory.loss_in_place = false;
  return memory;
}

}  // namespace

std::vector<OffloadedLayer> offloaded_layers(const Scenario& scenario, const Workload& workload) {
  const double share = scenario.training.strategy.kind->offload().activations;
  if (share == 0) return {};
  return offloaded_layers(workload, share, memory_of(scenario), scenario.model.split.degree);
}

WorkerMemory::WorkerMemory(const Scenario& scenario, const Group& group)
    : scenario_{scenario},
      group_{group},
      workload_{scenario.workload_of(group)},
      framework_{memory_of(scenario)},
      offloaded_{offloaded_layers(scenario, workload_)} {
  if (scenario.training.strategy.kind->pipeline() != nullptr) stages_ = cut_into_stages(scenario);
}

PassOperators WorkerMemory::operators(int stage) const {
  PassOperators all = pass_operators(workload_.graph);
  if (!stages_) return all;
  PassOperators its(stages_->parts() / stages_->stages());
  const std::vector<bool> are_split = splits_backward(*scenario_.training.strategy.kind->pipeline())
                                          ? are_of_weights(workload_.graph)
                                          : std::vector<bool>(workload_.graph.size());
  for (std::size_t phase = 0; phase < 2; ++phase)
    for (const int v : all[0][phase])
      if (const int part = stages_->part_on(stage, static_cast<std::size_t>(v)); part >= 0)
        its[static_cast<std::size_t>(part / stages_->stages())][are_split[static_cast<std::size_t>(v)] ? 2 : phase]
            .push_back(v);
  return its;
}

GpuMemory WorkerMemory::of(int stage) const {
  const StrategyKind& kind = *scenario_.training.strategy.kind;
  GpuMemory memory{.context = group_.accelerator->memory_reserved + framework_.held};
  const PassOperators own = operators(stage);
  add_kept(memory, workload_.graph, kept_changes(workload_, own, framework_, scenario_.model.split.degree, offloaded_),
           stages_ ? pipeline_slots(*kind.pipeline(), scenario_.training.strategy.exchange.accumulation_steps, stage)
                   : kWholeModel,
           own);
  for (const OffloadedLayer& layer : offloaded_) memory.on_host += layer.bytes;
  if (stages_ ? stages_->has_samples(stage) : stage == 0) memory.input = workload_.input_bytes;
  memory.gradients += gradient_buffers(workload_, own, framework_.gradient_buffers);
  if (stages_) {
    if (!memory.moment.op.empty()) memory.moment.stage = stage;
    add_states(memory, scenario_, *group_.accelerator, stages_->parameters[static_cast<std::size_t>(stage)]);
    add_units(memory, scenario_, plan_stage_units(scenario_, *stages_, stage).units);
    return memory;
  }
  HeldParameters held;
  for (std::size_t v = 0; v < workload_.variables.size(); ++v)
    held.add(workload_.variables[v], kind.parts_of(scenario_, v));
  add_states(memory, scenario_, *group_.accelerator, held);
  if (kind.collectives() != nullptr) add_units(memory, scenario_, plan_gradient_units(scenario_, 0).units);
  return memory;
}

namespace {

/// Of GPUs that have other loads of experts each, the one with the most rows in the layers of the stage.
int fullest_expert_gpu(const Scenario& scenario, const OperatorGraph& graph, const PassOperators& operators) {
  const auto& net = std::get<Transformer>(scenario.model.structure);
  std::vector<double> rows(static_cast<std::size_t>(scenario.model.expert_split.degree));
  for (const auto& chunk : operators)
    for (const int v : chunk[0]) {
      const auto& exchange = graph[static_cast<std::size_t>(v)]->exchange;
      if (!exchange || exchange->of != PayloadOf::kReceiver || exchange->among != SplitGroup::kExperts) continue;
      const ExpertLoads loads{scenario.model.expert_split, {net.experts.count, net.experts.per_token, exchange->layer}};
      for (std::size_t gpu = 0; gpu < rows.size(); ++gpu) rows[gpu] += loads.of_gpus[gpu];
    }
  return static_cast<int>(std::ranges::max_element(rows) - rows.begin());
}

/// Of the fullest of those that are this stage.
GpuMemory memory_of_stage(const Scenario& scenario, const Group& group, const WorkerMemory& memory, int stage) {
  if (!scenario.model.expert_split.has_own_loads()) return memory.of(stage);
  const int fullest = fullest_expert_gpu(scenario, scenario.workload_of(group).graph, memory.operators(stage));
  const Group own = with_expert_gpu(scenario, group, fullest);
  return WorkerMemory{scenario, own}.of(stage);
}

}  // namespace

GpuMemory gpu_memory(const Scenario& scenario, const Group& group) {
  const WorkerMemory memory{scenario, group};
  const Pipeline* pipeline = scenario.training.strategy.kind->pipeline();
  if (pipeline == nullptr) return memory_of_stage(scenario, group, memory, 0);
  const RankGrid grid = rank_grid(scenario);
  int first = 0;  // of its workers
  for (const Group* other = scenario.groups.data(); other != &group && other->place != group.place; ++other)
    first += other->workers();
  std::optional<GpuMemory> most;
  std::vector<bool> is_known(static_cast<std::size_t>(pipeline->stages));
  for (int i = 0; i < group.workers(); ++i) {
    const int stage = grid.coordinate(first + i, Axis::kPipeline);
    if (is_known[static_cast<std::size_t>(stage)]) continue;
    is_known[static_cast<std::size_t>(stage)] = true;
    const GpuMemory its = memory_of_stage(scenario, group, memory, stage);
    if (!most || its.total() > most->total()) most = its;
  }
  return most.value_or(GpuMemory{});
}

Bytes gpu_memory_needed(const Scenario& scenario, const Group& group) { return gpu_memory(scenario, group).total(); }

const Group& fullest_group(const Scenario& scenario) {
  const Group* fullest = &scenario.first_workers();
  double most = 0;
  for (const Group& group : scenario.groups) {
    if (group.role != Role::kWorker) continue;
    const double share = as_double(gpu_memory_needed(scenario, group)) / as_double(group.accelerator->memory);
    if (share <= most) continue;
    most = share;
    fullest = &group;
  }
  return *fullest;
}

void add_gpu_memory(const Scenario& scenario, Json& json) {
  const Group& group = fullest_group(scenario);
  json["gpu_memory_available_B"] = group.accelerator->memory.value();
  json["gpu_memory_group"] = group.name;
  add_gpu_memory(gpu_memory(scenario, group), json);
}

void add_gpu_memory(const GpuMemory& memory, Json& json) {
  json["gpu_memory_needed_B"] = memory.total().value();
  if (memory.on_host > Bytes{}) json["gpu_memory_on_host_B"] = memory.on_host.value();
  Json& parts = json["gpu_memory_parts_B"];
  for (const auto& [name, part] : kGpuMemoryParts) parts[name] = (memory.*part.bytes).value();
  if (memory.moment.op.empty()) return;
  Json& peak = json["gpu_memory_peak"];
  if (memory.moment.stage) peak["stage"] = *memory.moment.stage + 1;
  peak["pass"] = phase_word(memory.moment.phase);
  peak["microbatch"] = memory.moment.microbatch + 1;
  peak["operator"] = memory.moment.op;
}

std::string describe_moment(const GpuMemory& memory) {
  const GpuMemory::Moment& moment = memory.moment;
  if (moment.op.empty()) return {};
  std::string text = std::string{"in the "} + phase_word(moment.phase) + " pass";
  if (moment.stage)
    text +=
        " of micro-batch " + std::to_string(moment.microbatch + 1) + " of stage " + std::to_string(*moment.stage + 1);
  return text + ", as " + moment.op + " begins";
}

std::string describe_parts(const GpuMemory& memory) {
  constexpr Bytes kLeast{std::int64_t{10} << 20};  // 0.01 GiB
  std::vector<GpuMemoryPart> parts;
  for (const auto& [name, part] : kGpuMemoryParts)
    if (memory.*part.bytes >= kLeast) parts.push_back(part);
  std::stable_sort(parts.begin(), parts.end(),
                   [&](const auto& a, const auto& b) { return memory.*a.bytes > memory.*b.bytes; });
  std::string text;
  for (const GpuMemoryPart& part : parts)
    text += (text.empty() ? "" : ", ") + gibibytes(memory.*part.bytes) + " " + part.words;
  return text;
}

namespace {

/// Remedies that are tried on copies of a scenario.
class Remedies {
 public:
  Remedies(const Scenario& scenario, const Group& group) : scenario_{scenario}, group_{group} {}

  std::string text() {
    smaller_batch();
    fused_loss();
    recomputation();
    smaller_strategy();
    more_machines();
    return text_;
  }

 private:
  /// Of the change that fits() has tried last. Without a stated global batch a step may then have other samples.
  void add(const std::string& remedy) {
    text_ += (text_.empty() ? "" : ", or ") + remedy;
    const double before = samples_per_update(scenario_);
    if (samples_ != before && scenario_.training.strategy.exchange.global_batch == 0)
      text_ += " (" + to_text(samples_) + " samples a step instead of " + to_text(before) + ")";
  }

  static Group& like(Scenario& scenario, const Group& group) {
    return *std::find_if(scenario.groups.begin(), scenario.groups.end(),
                         [&](const Group& other) { return other.place == group.place; });
  }

  /// A stated global batch stays what it is, and says how many batches a step has. Whether that can be.
  static bool keeps_global_batch(Scenario& scenario) {
    GradientExchange& exchange = scenario.training.strategy.exchange;
    if (exchange.global_batch == 0) return true;
    const std::int64_t once = samples_of_pass(scenario, workers_per_model(scenario));
    if (exchange.global_batch % once != 0 || exchange.global_batch / once > kMaxPasses) return false;
    exchange.accumulation_steps = static_cast<int>(exchange.global_batch / once);
    const Pipeline* pipeline = scenario.training.strategy.kind->pipeline();
    return pipeline == nullptr || can_have_microbatches(*pipeline, exchange.accumulation_steps);
  }

  /// Whether the group fits after `change`(scenario, group) of a copy.
  template <class Change>
  bool fits(const Change& change) {
    Scenario other = scenario_;
    Group& group = like(other, group_);
    try {
      change(other, group);
      if (!has_whole_grid(other) || !keeps_global_batch(other)) return false;
      samples_ = samples_per_update(other);
      return gpu_memory_needed(other, group) <= group.accelerator->memory;
    } catch (const std::exception&) { return false; }  // a model that cannot be built so, stages that cannot be cut
  }

  void smaller_batch() {
    const int own = group_.batch / group_.gpus_per_worker;
    const bool has_global_batch = scenario_.training.strategy.exchange.global_batch > 0;
    const auto fits_batch = [&](int batch) {
      return fits([&](Scenario& other, Group& group) {
        const bool is_of_all =
            other.training.strategy.kind->workers_per_model() > 1;  // which have the same micro-batches
        for (Group& any : other.groups)
          if (any.role == Role::kWorker && (is_of_all || &any == &group)) any.batch = batch * any.gpus_per_worker;
        if (!keeps_global_batch(other)) throw std::invalid_argument{"a global batch that is not whole"};
        auto workload = std::make_shared<const Workload>(
            build_workload(scenario_.model, batch, scenario_.precision, "a smaller batch"));
        for (Group& any : other.groups)
          if (any.role == Role::kWorker && (is_of_all || &any == &group)) any.workload = workload;
      });
    };
    if (own <= 1 || own > kMostBatch) return;
    int found = 0;
    if (has_global_batch) {  // of micro-batches that are smaller a step has more
      for (int batch = std::min(own - 1, kMostTried); batch >= 1 && found == 0; --batch)
        if (fits_batch(batch)) found = batch;
    } else if (fits_batch(1)) {
      int high = own;  // does not fit, found does
      for (found = 1; high - found > 1;) {
        const int middle = found + (high - found) / 2;
        (fits_batch(middle) ? found : high) = middle;
      }
    }
    if (found == 0 || !fits_batch(found)) return;
    add("batch_per_worker " + std::to_string(found * group_.gpus_per_worker) + " instead of " +
        std::to_string(group_.batch));
  }

  void fused_loss() {
    if (scenario_.model.has_fused_loss) return;
    if (fits([](Scenario& other, Group&) {
          other.model.has_fused_loss = true;
          other.model.has_composed_loss = false;
          rebuild_workloads(other, "a fused loss");
        }))
      add("\"fused_loss\": true in the workload");
  }

  void recomputation() {
    const auto* net = std::get_if<Transformer>(&scenario_.model.structure);
    if (net == nullptr || scenario_.model.again.layers) return;
    if (fits([](Scenario& other, Group&) {
          other.model.again = {.layers = true};
          rebuild_workloads(other, "recomputation");
        }))
      add("\"recompute\": \"full\" in the workload");
  }

  /// The least of each kind: of sharding, of layers that are split, of experts that are spread, and of what hosts keep.
  void smaller_strategy() {
    bool has_sharding = false, has_split = false, has_experts = false, has_host = false;
    for (const SmallerStrategy& smaller : scenario_.training.strategy.kind->smaller(scenario_)) {
      bool& has_one = smaller.split        ? has_split
                      : smaller.experts    ? has_experts
                      : smaller.is_on_host ? has_host
                                           : has_sharding;
      if (has_one) continue;
      has_one = fits([&](Scenario& other, Group&) {
        other.training.strategy = smaller.strategy;
        if (!smaller.split && !smaller.experts) return;
        if (smaller.split) other.model.split = *smaller.split;
        if (smaller.experts) other.model.expert_split = *smaller.experts;
        rebuild_workloads(other, "a split");
      });
      if (has_one) add(smaller.change);
    }
  }

  /// Of what is sharded each keeps less, the more share it.
  void more_machines() {
    if (scenario_.training.strategy.kind->divided_states() == DividedStates{}) return;
    for (int count = 2 * group_.count; count <= std::min(kMostMachinesOfScenario, 1024 * group_.count); count *= 2) {
      if (!fits([count](Scenario&, Group& group) { group.count = count; })) continue;
      add("count " + std::to_string(count) + " instead of " + std::to_string(group_.count) + " machines of " +
          in_quotes(group_.name));
      return;
    }
  }

  const Scenario& scenario_;
  const Group& group_;
  double samples_ = 0;  // of a step, of what was tried last
  std::string text_;
};

}  // namespace

std::string what_would_fit(const Scenario& scenario, const Group& group) { return Remedies{scenario, group}.text(); }

}  // namespace rehearse
